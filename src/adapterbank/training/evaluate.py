"""Scores of a trained model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.metrics import (
    ClassRow,
    classification_scores,
    multi_label_scores,
    per_class,
    per_label,
    regression_scores,
    span_scores,
)
from adapterbank.tasks.predictions import Prediction, decode, decode_spans
from adapterbank.tasks.task import Example, Task
from adapterbank.training.rows import Rows

Scores = dict[str, float]


def logits_of(model: TaskModel, rows: Rows) -> NDArray[np.float32]:
    """Logits of every row, in the order given."""
    return model.logits(*rows.encoded.take(), rows.known)


def predictions_of(
    task: Task,
    rows: Rows,
    logits: NDArray[np.float32],
    *,
    temperature: float = 1.0,
    threshold: float | None = None,
) -> list[Prediction]:
    """The answers, one an example."""
    if rows.windows is not None:
        return decode_spans(rows.windows, logits, threshold)
    return decode(task.kind, task.labels, logits, temperature)


def scores_of(task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scores:
    """Every metric of the task's kind, as fractions."""
    match task.kind:
        case "classification":
            return classification_scores(
                [str(example.label) for example in examples],
                [str(prediction.label) for prediction in predictions],
                task.labels,
                task.positive,
            )
        case "multi-label":
            return multi_label_scores(
                [example.names for example in examples],
                [prediction.labels or () for prediction in predictions],
                task.labels,
            )
        case "regression":
            return regression_scores(
                [example.number for example in examples],
                [float(prediction.value or 0.0) for prediction in predictions],
            )
        case "span":
            answers = {
                example.id: prediction.answer or ""
                for example, prediction in zip(examples, predictions, strict=True)
            }
            return span_scores(examples, answers)


def classes_of(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> list[ClassRow]:
    """How each label fares; none where there are no labels."""
    if task.kind == "classification":
        gold = [str(example.label) for example in examples]
        return per_class(gold, [str(each.label) for each in predictions], task.labels)
    if task.kind == "multi-label":
        names = [example.names for example in examples]
        return per_label(names, [each.labels or () for each in predictions], task.labels)
    return []
