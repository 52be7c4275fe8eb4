"""A task comes in, a package goes in, nothing else moves.

`learn` takes labelled text through the whole walk: tokenise, announce the time, train, calibrate,
score, and measure what simpler methods reach. It yields events; the last one, `Learnt`, holds
everything a package needs. The encoder is lent and given back as it was.

Who sees which rows: training sees train; the choice of the epoch, the temperature and the no-answer
threshold see dev; nothing sees test before the last score.
"""

from __future__ import annotations

import hashlib
import json
import platform
import random
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from adapterbank.model.count import count, total
from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.store.manifest import (
    BaseRecord,
    DataRecord,
    Manifest,
    MethodRecord,
    ParameterRecord,
)
from adapterbank.tasks.batches import full_lengths
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.report import DataReport, data_report
from adapterbank.tasks.spans import best_spans, best_threshold, null_margin
from adapterbank.tasks.task import Example, Task
from adapterbank.training.baselines import Baseline, feature_baseline, ngram_baseline
from adapterbank.training.calibration import fit_temperature
from adapterbank.training.checkpoint import Checkpoint
from adapterbank.training.evaluate import logits_of, predictions_of, scores_of
from adapterbank.training.features import features_of
from adapterbank.training.loop import Epoch, Run, Scores, Step
from adapterbank.training.pace import Pace, fit_to_time, measure_pace
from adapterbank.training.recipe import Recipe, RecipeName, make_recipe
from adapterbank.training.rows import Rows, prepare
from adapterbank.training.start import seeded_model

SOFTWARE = ("adapterbank", "torch", "transformers", "tokenizers")
FEATURE_ROWS = 20_000  # of train, for the baseline on frozen features
LOOKED_AT = 5_000  # rows whose length is measured for the report


@dataclass(frozen=True)
class Plan:
    """What is about to happen, and how long it is expected to take."""

    recipe: Recipe
    steps: int
    seconds: float
    """All of it: baselines, training, scoring."""
    trained_parameters: int
    package_bytes: int


@dataclass(frozen=True)
class Resumed:
    """The run goes on from a saved state."""

    step: int
    steps: int


@dataclass(frozen=True)
class Learnt:
    """The end: what the task learnt, and how good it is."""

    manifest: Manifest
    """Version 1, without digests: publishing fills them in."""
    tensors: dict[str, Tensor]
    examples: Sequence[Example]
    """The rows of the last score: test, or dev where there is none."""
    predictions: list[Prediction]
    seconds: float
    examples_per_second: float


Event = DataReport | Plan | Resumed | Baseline | Step | Epoch | Learnt


@dataclass(frozen=True)
class Order:
    """How a task is to be learnt."""

    method: Method = field(default_factory=Method)
    recipe: RecipeName = "default"
    settings: dict[str, Any] = field(default_factory=dict)
    """Single settings of the recipe that differ from it."""
    minutes: float | None = None
    """Fit the run to this time."""
    baselines: bool = True

    def recipe_for(self, task: Task) -> Recipe:
        """The recipe with all its numbers."""
        return make_recipe(
            self.recipe, self.method.name, len(task.train), task.kind, **self.settings
        )


@dataclass(frozen=True)
class Splits:
    """The task's rows, tokenised."""

    train: Rows
    dev: Rows
    test: Rows


def learn(
    encoder: Encoder,
    task: Task,
    order: Order | None = None,
    *,
    runs: Path | None = None,
    resume: bool = False,
) -> Generator[Event, None, None]:
    """Learn a task on a frozen encoder. `runs` is where the run's state is kept meanwhile."""
    order = order or Order()
    began = time.perf_counter()
    recipe = order.recipe_for(task)
    yield _report(encoder, task, recipe)
    splits = Splits(
        *(
            prepare(encoder, task, examples, recipe.max_length)
            for examples in (task.train, task.dev, task.test)
        )
    )
    place = _place(runs, encoder, task, order, recipe)
    pace = Speedometer()
    with seeded_model(encoder, task, order.method, recipe) as model:
        run = Run(
            model, splits.train, recipe, lambda: _dev_scores(model, task, splits.dev), task.metric
        )
        for event in _train(run, splits, order, place, resume, began):
            pace.see(event)
            yield event
        judgement = _judge(model, task, splits)
        tensors = {name: tensor.clone() for name, tensor in model.tensors().items()}
    baselines = []
    if order.baselines and task.kind != "span":
        for baseline in _baselines(encoder, task, splits):
            baselines.append(baseline)
            yield baseline
    manifest = replace(
        _manifest(encoder, task, order.method, run.recipe),
        dev=judgement.dev,
        test=judgement.test,
        temperature=judgement.temperature,
        threshold=judgement.threshold,
        baselines={baseline.name: baseline.test or baseline.dev for baseline in baselines},
    )
    yield Learnt(
        manifest,
        tensors,
        task.test or task.dev,
        judgement.predictions,
        time.perf_counter() - began,
        pace.examples_per_second,
    )
    if place is not None:  # the caller has kept the result by now
        place.remove()


class Speedometer:
    """Rows a second over all steps."""

    def __init__(self) -> None:
        self.rows, self.seconds = 0, 0.0

    def see(self, event: object) -> None:
        """Count a step in."""
        if isinstance(event, Step):
            self.rows += event.rows
            self.seconds += event.seconds

    @property
    def examples_per_second(self) -> float:
        """0 before the first step."""
        return self.rows / self.seconds if self.rows else 0.0


def _train(
    run: Run, splits: Splits, order: Order, place: Checkpoint | None, resume: bool, began: float
) -> Iterator[Plan | Resumed | Step | Epoch]:
    """Announce the run, then run it, keeping its state."""
    resumed = resume and place is not None and place.restore(run)
    pace = measure_pace(run)
    beside = _beside(pace, order, splits)
    train, dev = splits.train.encoded, splits.dev.encoded
    if order.minutes is not None and not resumed:
        left = order.minutes * 60 - beside - (time.perf_counter() - began)
        run.recipe = fit_to_time(run.recipe, pace, train, dev, left)
    share = (run.steps - run.step) / run.steps_an_epoch
    seconds = beside + pace.training(train, dev, share)
    trained = total(run.trained.values())
    yield Plan(run.recipe, run.steps, seconds, trained, 4 * trained)
    if resumed:
        yield Resumed(run.step, run.steps)
    for event in run.events():
        if place is not None:
            place.save_if_due(run)
        yield event


def _beside(pace: Pace, order: Order, splits: Splits) -> float:
    """Seconds of everything but the training itself."""
    train, dev, test = (pace.reading(r.encoded) for r in (splits.train, splits.dev, splits.test))
    train *= min(1.0, FEATURE_ROWS / len(splits.train))
    return 2 * dev + test + (train + dev + test if order.baselines else 0.0)


@dataclass(frozen=True)
class Judgement:
    """What dev settles, and the scores that follow."""

    temperature: float
    threshold: float | None
    dev: Scores
    test: Scores
    predictions: list[Prediction]
    """Of test; of dev where there is no test."""


def _judge(model: TaskModel, task: Task, splits: Splits) -> Judgement:
    logits = logits_of(model, splits.dev)
    temperature = 1.0
    if task.kind in ("classification", "multi-label"):
        temperature = fit_temperature(task.kind, logits, splits.dev.targets.numpy())
    threshold = _threshold(splits.dev, logits)

    def answers(rows: Rows, logits: NDArray[np.float32]) -> list[Prediction]:
        return predictions_of(task, rows, logits, temperature=temperature, threshold=threshold)

    predictions = answers(splits.dev, logits)
    dev, test = scores_of(task, task.dev, predictions), {}
    if task.test:
        predictions = answers(splits.test, logits_of(model, splits.test))
        test = scores_of(task, task.test, predictions)
    return Judgement(temperature, threshold, dev, test, predictions)


def _report(encoder: Encoder, task: Task, recipe: Recipe) -> DataReport:
    limit = min(recipe.max_length, encoder.max_length)
    lengths = {
        name: full_lengths(encoder.tokenizer, list(examples[:LOOKED_AT]))
        for name, examples in (("train", task.train), ("dev", task.dev), ("test", task.test))
        if examples
    }
    return data_report(task, lengths, limit)


def _dev_scores(model: TaskModel, task: Task, dev: Rows) -> Scores:
    logits = logits_of(model, dev)
    threshold = _threshold(dev, logits)
    predictions = predictions_of(task, dev, logits, threshold=threshold)
    return scores_of(task, dev.examples, predictions)


def _threshold(dev: Rows, logits: NDArray[np.float32]) -> float | None:
    """Of a span task with unanswerable questions: the one that dev likes best."""
    if dev.windows is None:
        return None
    answers = best_spans(dev.windows, logits[:, 0], logits[:, 1], n_best=1)
    margins = [null_margin(found) for found in answers]
    texts = [found[0].text if found else "" for found in answers]
    return best_threshold(dev.examples, margins, texts)


def _baselines(encoder: Encoder, task: Task, splits: Splits) -> Iterator[Baseline]:
    yield ngram_baseline(task)
    if len(task.train) > FEATURE_ROWS:  # more would only cost time
        chosen = random.Random(0).sample(range(len(task.train)), FEATURE_ROWS)
        task = replace(task, train=[task.train[i] for i in chosen])
        splits = replace(splits, train=splits.train.take(chosen))
    rows = (splits.train, splits.dev, splits.test)
    train, dev, test = (features_of(encoder, each.encoded) for each in rows)
    yield feature_baseline(train, dev, test, task)


def _place(
    runs: Path | None, encoder: Encoder, task: Task, order: Order, recipe: Recipe
) -> Checkpoint | None:
    """Where this very run keeps its state: named by everything that its result depends on."""
    if runs is None:
        return None
    config = {
        "data": data_digest(task),
        "base": encoder.fingerprint,
        "method": repr(order.method),
        "recipe": recipe.as_dict(),
        "minutes": order.minutes,
        "torch": metadata.version("torch"),
    }
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    return Checkpoint(runs / f"{digest[:16]}.safetensors")


def data_digest(task: Task) -> str:
    """A digest of the task's kind, labels and every row, in order."""
    digest = hashlib.sha256(json.dumps([task.kind, task.labels, task.metric]).encode())
    for examples in (task.train, task.dev, task.test):
        digest.update(f"{len(examples)}\n".encode())
        for example in examples:
            digest.update(json.dumps(example).encode())
    return digest.hexdigest()


def _manifest(encoder: Encoder, task: Task, method: Method, recipe: Recipe) -> Manifest:
    counted = count(
        encoder.model.config,
        method,
        labels=max(1, len(task.labels)),
        kind=task.kind,
        with_pooler=encoder.pooling == "pooler",
    )
    return Manifest(
        task=task.name,
        version=1,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        kind=task.kind,
        labels=task.labels,
        pair=task.pairs,
        metric=task.metric,
        positive=task.positive,
        columns=task.columns,
        dev={},
        method=MethodRecord(method.name, method.top_k),
        adapter=method.adapter if method.name == "adapters" else None,
        pooling=encoder.pooling,
        max_length=min(recipe.max_length, encoder.max_length),
        recipe=recipe.as_dict(),
        data=DataRecord(
            {"train": len(task.train), "dev": len(task.dev), "test": len(task.test)},
            data_digest(task),
        ),
        base=BaseRecord(encoder.name, encoder.fingerprint),
        parameters=ParameterRecord(
            counted.trained, counted.percent_of_base, counted.percent_without_embeddings
        ),
        software={name: metadata.version(name) for name in SOFTWARE}
        | {"python": platform.python_version()},
    )
