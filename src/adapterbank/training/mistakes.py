"""The rows that a model gets wrong, worst first, and labels that are likely wrong themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adapterbank.tasks.metrics import answer_score
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.squad import has_unanswerable
from adapterbank.tasks.task import Example, Task


@dataclass(frozen=True)
class Mistake:
    """One row that the model gets wrong, or nearly."""

    row: int
    """From 1, in the order of the data."""
    text: str
    label: str
    predicted: str
    probability: float | None
    """Of the label given, where the kind of task has one."""
    distance: float | None
    """From the number given; of a regression task."""
    likely_wrong_label: bool


def mistakes(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], count: int
) -> list[Mistake]:
    """The `count` rows that fit their label worst; of a span task, wrong answers in order."""
    no_answer = has_unanswerable(examples)
    match task.kind:
        case "classification":
            found = _misfits(examples, predictions)
        case "multi-label":
            found = [
                Mistake(
                    row,
                    _shown(example),
                    ", ".join(example.names),
                    ", ".join(prediction.labels or ()),
                    _fit(example, prediction),
                    None,
                    False,
                )
                for row, (example, prediction) in _numbered(examples, predictions)
                if set(example.names) != set(prediction.labels or ())
            ]
        case "regression":
            found = [
                Mistake(
                    row,
                    _shown(example),
                    f"{example.label:g}",
                    f"{prediction.value:.3g}",
                    None,
                    abs((prediction.value or 0.0) - example.number),
                    False,
                )
                for row, (example, prediction) in _numbered(examples, predictions)
            ]
        case "span":
            found = [
                Mistake(
                    row,
                    _shown(example),
                    " | ".join(sorted({answer.text for answer in example.answers})),
                    prediction.answer or "",
                    None,
                    None,
                    False,
                )
                for row, (example, prediction) in _numbered(examples, predictions)
                if not answer_score(prediction.answer, example, no_answer).exact_match
            ]
    return sorted(found, key=lambda each: (each.probability or 0, -(each.distance or 0)))[:count]


def _misfits(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[Mistake]:
    """Wrong rows. A label is likely wrong when the model is as sure of another class as it is of
    that class's own rows on average, and less sure of the label given than of its rows."""
    chances = [prediction.probabilities or {} for prediction in predictions]
    usual = {
        label: float(
            np.mean([p[label] for p, e in zip(chances, examples, strict=True) if e.label == label])
        )
        for label in {str(example.label) for example in examples}
    }
    return [
        Mistake(
            row,
            _shown(example),
            str(example.label),
            str(prediction.label),
            chances[row - 1][str(example.label)],
            None,
            chances[row - 1][str(prediction.label)] >= usual.get(str(prediction.label), 1.0)
            and chances[row - 1][str(example.label)] < usual[str(example.label)] / 2,
        )
        for row, (example, prediction) in _numbered(examples, predictions)
        if example.label != prediction.label
    ]


def _numbered(
    examples: Sequence[Example], predictions: Sequence[Prediction]
) -> enumerate[tuple[Example, Prediction]]:
    return enumerate(zip(examples, predictions, strict=True), start=1)


def _fit(example: Example, prediction: Prediction) -> float:
    """The chance of exactly these labels."""
    chances = prediction.probabilities or {}
    given = set(example.names)
    return float(np.prod([p if label in given else 1 - p for label, p in chances.items()]))


def _shown(example: Example) -> str:
    return example.text if example.pair is None else f"{example.text} ⟂ {example.pair}"
