"""What a person gets without adapters: n-grams without an encoder, and frozen features.

Both choose their settings on dev by the task's metric; test rows are only scored, at the end.
Span tasks have no such baselines.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapterbank.errors import ConfigError
from adapterbank.model.config import check_count
from adapterbank.model.encoder import Encoder
from adapterbank.tasks.metrics import LOWER_IS_BETTER
from adapterbank.tasks.predictions import Prediction, decode
from adapterbank.tasks.task import Example, Task
from adapterbank.training.evaluate import scores_of
from adapterbank.training.features import features_of
from adapterbank.training.linear import STRENGTHS, LinearMap, linear_path
from adapterbank.training.ngrams import Setting, Texts, draw_settings, fit
from adapterbank.training.rows import Rows, targets_of


class Limits(NamedTuple):
    """How much of a split is used. Counting costs by the character, fitting by row and label."""

    rows: int
    characters: int
    rows_times_labels: int


SEARCH = Limits(20_000, 3_000_000, 500_000)
FINAL = Limits(100_000, 20_000_000, 3_000_000)
FEATURE_ROWS = 20_000  # of train, for frozen features


@dataclass(frozen=True)
class Baseline:
    """A simpler method on the same rows."""

    name: str
    description: str
    dev: dict[str, float]
    test: dict[str, float]
    """Empty where there are no labelled test rows."""
    seconds: float


def baselines_of(
    encoder: Encoder, task: Task, train: Rows, dev: Rows, test: Rows
) -> Iterator[Baseline]:
    """Both, on a task whose rows are tokenised."""
    yield ngram_baseline(task)
    yield frozen_baseline(encoder, task, train, dev, test)


def frozen_baseline(encoder: Encoder, task: Task, train: Rows, dev: Rows, test: Rows) -> Baseline:
    """A linear model on what the frozen encoder makes of the rows."""
    if len(task.train) > FEATURE_ROWS:  # more would only cost time
        chosen = random.Random(0).sample(range(len(task.train)), FEATURE_ROWS)
        task = replace(task, train=[task.train[i] for i in chosen])
        train = train.take(chosen)
    of_train, of_dev, of_test = (features_of(encoder, r.encoded) for r in (train, dev, test))
    return feature_baseline(of_train, of_dev, of_test, task)


def ngram_baseline(
    task: Task, *, seed: int = 0, tries: int = 12, budget_seconds: float | None = None
) -> Baseline:
    """n-grams and a linear model, the best of some random settings.

    The same seed gives the same result, unless `budget_seconds` ends the search early: the first
    setting is always tried.
    """
    _refuse_spans(task)
    check_count("tries", tries)
    began = time.perf_counter()
    search = Texts(sample(task, task.train, SEARCH, seed), sample(task, task.dev, SEARCH, seed))
    tried: list[tuple[float, Setting]] = []
    for setting in draw_settings(task.kind, tries, seed):
        (scores,) = _ngram_scores(task, setting, search, seed)
        tried.append((rank(task, scores), setting))
        if budget_seconds is not None and time.perf_counter() - began > budget_seconds:
            break
    _, best = max(tried, key=lambda each: each[0])
    train = sample(task, task.train, FINAL, seed)
    final = Texts(train, task.dev, *([task.test] if labelled(task.test) else []))
    dev, *test = _ngram_scores(task, best, final, seed)
    description = f"{best}; best of {len(tried)} settings on dev"
    return Baseline("n-grams", description, dev, test[0] if test else {}, _since(began))


def _ngram_scores(task: Task, setting: Setting, texts: Texts, seed: int) -> list[dict[str, float]]:
    """Train on the first split, score the others."""
    train, *others = texts.matrices(setting)
    targets = targets_of(task, texts.splits[0]).numpy()
    model = fit(setting, task.kind, train, targets, seed)
    return [
        scores_of(task, examples, _answers(task, model.predict(matrix)))
        for examples, matrix in zip(texts.splits[1:], others, strict=True)
    ]


def _answers(task: Task, predicted: NDArray[Any]) -> list[Prediction]:
    match task.kind:
        case "multi-label":
            table = predicted.reshape(len(predicted), -1)  # one label: the library gives one row
            return [
                Prediction(labels=tuple(task.labels[i] for i in np.flatnonzero(row)))
                for row in table
            ]
        case "regression":
            return [Prediction(value=float(value)) for value in predicted]
        case _:
            return [Prediction(label=task.labels[i]) for i in predicted]


def feature_baseline(
    train_features: NDArray[np.float32],
    dev_features: NDArray[np.float32],
    test_features: NDArray[np.float32],
    task: Task,
) -> Baseline:
    """A linear model on the frozen encoder's features [rows, d] of the task's splits."""
    _refuse_spans(task)
    began = time.perf_counter()
    targets = targets_of(task, task.train).numpy()
    outputs = max(1, len(task.labels))

    def scored(found: LinearMap, features: NDArray[np.float32], rows: Sequence[Example]) -> Any:
        return scores_of(task, rows, decode(task.kind, task.labels, found(features)))

    tried = [
        (scored(found, dev_features, task.dev), strength, found)
        for strength, found in zip(
            STRENGTHS, linear_path(train_features, targets, task.kind, outputs), strict=True
        )
    ]
    dev, strength, best = max(tried, key=lambda each: rank(task, each[0]))
    test = scored(best, test_features, task.test) if labelled(task.test) else {}
    model = "ridge" if task.kind == "regression" else "logistic"
    description = f"{model} regression on the frozen encoder's features (C={strength:g})"
    return Baseline("frozen features", description, dev, test, _since(began))


def rank(task: Task, scores: dict[str, float]) -> float:
    """The score that selection goes by, as a number that is better when higher."""
    score = scores[task.metric]
    return -score if task.metric in LOWER_IS_BETTER else score


def sample(task: Task, examples: Sequence[Example], limits: Limits, seed: int) -> Sequence[Example]:
    """All examples, or as many random ones as keep within the limits."""
    characters = sum(len(example.text) + len(example.pair or "") for example in examples)
    rows = min(
        limits.rows,
        limits.characters * len(examples) // max(characters, 1),
        limits.rows_times_labels // max(len(task.labels), 1),
    )
    if rows >= len(examples):
        return examples
    chosen = sorted(random.Random(seed).sample(range(len(examples)), max(rows, 1)))
    return [examples[i] for i in chosen]


def labelled(examples: Sequence[Example]) -> bool:
    """Whether there are rows and all have labels."""
    return bool(examples) and all(example.label is not None for example in examples)


def _refuse_spans(task: Task) -> None:
    if task.kind == "span":
        raise ConfigError("There is no baseline for span tasks.", "Train them without.")


def _since(began: float) -> float:
    return time.perf_counter() - began
