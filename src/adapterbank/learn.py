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
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from pathlib import Path

from adapterbank.errors import BaseDamaged, ConfigError, NotBetter
from adapterbank.events import Compared, Event, Learnt, Plan, Resumed
from adapterbank.model.count import count, total
from adapterbank.model.encoder import Encoder, fingerprint
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.order import Earlier, Order
from adapterbank.store.entry import Entry
from adapterbank.store.manifest import (
    BaseRecord,
    Confusion,
    DataRecord,
    Manifest,
    MethodRecord,
    ParameterRecord,
    Precision,
)
from adapterbank.store.mount import method_of, mount
from adapterbank.store.record import now_text
from adapterbank.store.statistics import write_statistics
from adapterbank.store.store import Store
from adapterbank.tasks.batches import full_lengths
from adapterbank.tasks.report import DataReport, data_report
from adapterbank.tasks.task import METRICS_OF, Task
from adapterbank.training.baselines import FEATURE_ROWS, baselines_of
from adapterbank.training.checkpoint import Checkpoint
from adapterbank.training.evaluate import scores_of
from adapterbank.training.judge import (
    Judgement,
    balance,
    confusions,
    dev_answers,
    dev_scores,
    judge,
    round_if_it_holds,
    warning,
)
from adapterbank.training.loop import Epoch, Run, Step
from adapterbank.training.pace import Pace, fit_to_time, measure_pace
from adapterbank.training.recipe import Recipe
from adapterbank.training.rows import Rows, prepare
from adapterbank.training.start import seeded_model
from adapterbank.training.statistics import summarise
from adapterbank.verify import software, take_probes

LOOKED_AT = 5_000  # rows whose length is measured for the report
CONFUSIONS = 400  # a table of 20 labels
# What the modules above import when they need it.
LATE = (
    "scipy.optimize",
    "scipy.stats",
    "sklearn.linear_model",
    "sklearn.metrics",
    "transformers.models.bert.modeling_bert",
)


@dataclass
class Splits:
    """The task's rows, tokenised."""

    train: Rows
    dev: Rows
    test: Rows

    def remember(self, model: TaskModel) -> None:
        """Run what is frozen once for the rows that are read every epoch."""
        self.train, self.dev = self.train.remembered(model), self.dev.remembered(model)


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
    base = encoder
    order, task = going_on(order, task)
    if order.earlier is not None:
        encoder = encoder.pooled(order.earlier.package.manifest.pooling)
    recipe = order.recipe_for(task, encoder.units)
    yield _report(encoder, task, recipe)
    splits = Splits(
        *(
            prepare(encoder, task, examples, recipe.max_length)
            for examples in (task.train, task.dev, task.test)
        )
    )
    before = _earlier_score(encoder, task, splits.dev, order.earlier) if order.earlier else None
    place = _place(runs, encoder, task, order, recipe)
    pace = Speedometer()
    tensors = order.earlier.package.tensors if order.earlier else None
    with seeded_model(encoder, task, order.method, recipe, tensors) as model:
        run = Run(
            model, splits.train, recipe, lambda: dev_scores(model, task, splits.dev), task.metric
        )
        for event in _train(run, splits, order, place, resume, began):
            pace.see(event)
            yield event
        precision: Precision = "fp32"
        if order.precision == "fp16":
            rounded = round_if_it_holds(model, task, splits.dev)
            precision = rounded.precision
            yield rounded
        judgement = judge(model, task, splits.dev, splits.test)
        examples, rate = task.test or task.dev, recipe.learning_rate
        if (warned := warning(task, examples, judgement.predictions, rate)) is not None:
            yield warned
        probes = take_probes(encoder, model)
        tensors = {name: tensor.clone() for name, tensor in model.tensors().items()}
    compared = None
    if order.earlier is not None and before is not None:
        after = judgement.dev[task.metric]
        compared = Compared(order.earlier.reference, task.metric, before, after)
        yield compared
    baselines = []
    if order.baselines and task.kind != "span":
        for baseline in baselines_of(encoder, task, splits.train, splits.dev, splits.test):
            baselines.append(baseline)
            yield baseline
    summary = summarise(base, splits.train, splits.dev) if order.statistics else None
    manifest = replace(
        _manifest(encoder, task, order.method, run.recipe, judgement),
        note=order.note,
        precision=precision,
        probes=probes,
        statistics=None if summary is None else write_statistics(*summary),
        origin=order.earlier.reference if order.earlier else "",
        baselines={baseline.name: baseline.test or baseline.dev for baseline in baselines},
    )
    yield Learnt(
        manifest,
        tensors,
        examples,
        judgement.predictions,
        time.perf_counter() - began,
        pace.examples_per_second,
        compared,
        () if warned is None else (warned.message,),
    )
    if place is not None:  # the caller has kept the result by now
        place.remove()


def preload() -> None:
    """Import what learning imports late: for processes that are forked from this one."""
    for name in LATE:
        import_module(name)


def publish(
    store: Store, encoder: Encoder, name: str, learnt: Learnt, *, even_if_worse: bool = False
) -> Entry:
    """Put what was learnt into the bank as the task's next version."""
    compared = learnt.compared
    if compared is not None and compared.worse and not even_if_worse:
        raise NotBetter(
            f"{compared.reference} stays: its {compared.metric} on dev is {compared.before:.4f}, "
            f"and after going on {compared.after:.4f}.",
            "Publish it all the same with --even-if-worse, or go on with other rows or settings.",
        )
    if fingerprint(encoder.model, encoder.stored) != encoder.fingerprint:
        raise BaseDamaged(
            f"The base {encoder.name} has changed in memory since it was loaded.",
            "Nothing was published: load it again and repeat.",
        )
    return store.publish(name, learnt.manifest, learnt.tensors)


def going_on(order: Order, task: Task) -> tuple[Order, Task]:
    """Both as they are learnt: after an earlier version with its method, its labels first, and its
    metric, unless another was asked for or the task has one that is not the usual of its kind."""
    if order.earlier is None:
        return order, task
    earlier = order.earlier.package.manifest
    for what, before, now in (
        ("kind", earlier.kind, task.kind),
        ("texts a row", 1 + earlier.pair, 1 + task.pairs),
    ):
        if before != now:
            raise ConfigError(
                f"The earlier version has {what} {before}, and this data has {now}.",
                "Go on with data of the same form, or learn a task of another name.",
            )
    new = tuple(label for label in task.labels if label not in earlier.labels)
    # Two classes have a positive one; with a third there is none. Of more, it was chosen.
    positive, metric = earlier.positive, earlier.metric
    if new and positive and len(earlier.labels) == 2:
        positive, metric = "", "accuracy" if metric == "f1" else metric
    if order.earlier.metric:
        metric = order.earlier.metric
    elif task.metric != METRICS_OF[task.kind][0]:  # the catalogue's, or a Task's own
        metric = task.metric
    task = replace(task, labels=(*earlier.labels, *new), positive=positive, metric=metric)
    return replace(order, method=method_of(earlier)), task


def _earlier_score(encoder: Encoder, task: Task, dev: Rows, earlier: Earlier) -> float:
    """What the earlier version reaches on dev. It cannot name labels that came later."""
    with mount(encoder, earlier.package) as model:
        known = replace(task, labels=earlier.package.manifest.labels)
        answers = dev_answers(model, known, dev)
    return scores_of(task, dev.examples, answers)[task.metric]


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
        whole = order.minutes * 60
        left = whole - beside - (time.perf_counter() - began)
        # Many rows to score are no reason not to train: it has half of the time at least.
        run.recipe = fit_to_time(run.recipe, pace, train, dev, max(left, whole / 2))
        run.recipe = run.team.agree(run.recipe)
    share = (run.steps - run.step) / run.steps_an_epoch
    seconds = beside + pace.training(train, dev, share)
    trained = total(run.trained.values())
    size = (2 if order.precision == "fp16" else 4) * trained
    yield Plan(run.recipe, run.steps, seconds, trained, size)
    if resumed:
        yield Resumed(run.step, run.steps, list(run.history))
    if run.recipe.epochs > 1:
        splits.remember(run.model)
        run.rows = splits.train
    for event in run.events():
        if place is not None and run.team.first:
            place.save_if_due(run)
        yield event


def _beside(pace: Pace, order: Order, splits: Splits) -> float:
    """Seconds of everything but the training itself."""
    train, dev, test = (pace.reading(r.encoded) for r in (splits.train, splits.dev, splits.test))
    train *= min(1.0, FEATURE_ROWS / len(splits.train))
    return 2 * dev + test + (train + dev + test if order.baselines else 0.0)


def _report(encoder: Encoder, task: Task, recipe: Recipe) -> DataReport:
    limit = min(recipe.max_length, encoder.max_length)
    lengths = {
        name: full_lengths(encoder.tokenizer, list(examples[:LOOKED_AT]))
        for name, examples in (("train", task.train), ("dev", task.dev), ("test", task.test))
        if examples
    }
    return data_report(task, lengths, limit)


def _place(
    runs: Path | None, encoder: Encoder, task: Task, order: Order, recipe: Recipe
) -> Checkpoint | None:
    """Where this very run keeps its state: named by everything that its result depends on."""
    if runs is None:
        return None
    config = {
        "data": task.digest(),
        "positive": task.positive,
        "base": encoder.fingerprint,
        "method": repr(order.method),
        "recipe": recipe.as_dict(),
        "minutes": order.minutes,
        "earlier": order.earlier.package.manifest.weights_sha256 if order.earlier else None,
        "torch": metadata.version("torch"),
    }
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    return Checkpoint(runs / f"{digest[:16]}.safetensors")


def _manifest(
    encoder: Encoder, task: Task, method: Method, recipe: Recipe, judgement: Judgement
) -> Manifest:
    counted = count(
        encoder.model.config,
        method,
        labels=max(1, len(task.labels)),
        kind=task.kind,
        with_pooler=encoder.pooling == "pooler",
    )
    confused = confusions(task, task.test or task.dev, judgement.predictions)
    return Manifest(
        task=task.name,
        created=now_text(),
        kind=task.kind,
        labels=task.labels,
        pair=task.pairs,
        metric=task.metric,
        positive=task.positive,
        columns=task.columns,
        dev=judgement.dev,
        test=judgement.test,
        confusion=tuple(Confusion(*pair, rows) for pair, rows in confused.most_common(CONFUSIONS)),
        temperature=judgement.temperature,
        threshold=judgement.threshold,
        method=MethodRecord(method.name, method.top_k),
        adapter=method.adapter if method.name == "adapters" else None,
        pooling=encoder.pooling,
        max_length=min(recipe.max_length, encoder.max_length),
        recipe=recipe.as_dict(),
        data=DataRecord(
            {"train": len(task.train), "dev": len(task.dev), "test": len(task.test)},
            task.digest(),
            balance(task),
        ),
        base=BaseRecord(encoder.name, encoder.fingerprint),
        parameters=ParameterRecord(
            counted.trained, counted.percent_of_base, counted.percent_without_embeddings
        ),
        software=software(encoder),
    )
