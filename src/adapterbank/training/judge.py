"""What dev settles once a task is trained, and the scores that follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.metrics import LOWER_IS_BETTER
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.spans import best_spans, best_threshold, null_margin
from adapterbank.tasks.task import Example, Task
from adapterbank.training.calibration import fit_temperature
from adapterbank.training.evaluate import Scores, logits_of, predictions_of, scores_of
from adapterbank.training.rows import Rows

CHANGED = 0.005  # of dev's answers may change when numbers are rounded
LOST = 0.001  # of dev's score
FEW = 20  # rows whose answers may all be alike by chance

Confusions = Counter[tuple[str, str]]


@dataclass(frozen=True)
class Judgement:
    """What dev settles, and the scores that follow."""

    temperature: float
    threshold: float | None
    dev: Scores
    test: Scores
    predictions: list[Prediction]
    """Of test; of dev where there is no test."""


def judge(model: TaskModel, task: Task, dev: Rows, test: Rows) -> Judgement:
    """Calibrate on dev, then score."""
    logits = logits_of(model, dev)
    temperature = 1.0
    if task.kind in ("classification", "multi-label"):
        temperature = fit_temperature(task.kind, logits, dev.targets.numpy())
    threshold = _threshold(dev, logits)

    def answers(rows: Rows, logits: NDArray[np.float32]) -> list[Prediction]:
        return predictions_of(task, rows, logits, temperature=temperature, threshold=threshold)

    predictions = answers(dev, logits)
    on_dev, on_test = scores_of(task, task.dev, predictions), {}
    if task.test:
        predictions = answers(test, logits_of(model, test))
        on_test = scores_of(task, task.test, predictions)
    return Judgement(temperature, threshold, on_dev, on_test, predictions)


def dev_answers(model: TaskModel, task: Task, dev: Rows) -> list[Prediction]:
    """Answers for dev, with the no-answer threshold that dev likes best."""
    logits = logits_of(model, dev)
    return predictions_of(task, dev, logits, threshold=_threshold(dev, logits))


def dev_scores(model: TaskModel, task: Task, dev: Rows) -> Scores:
    """Their scores: what selection goes by."""
    return scores_of(task, dev.examples, dev_answers(model, task, dev))


def _threshold(dev: Rows, logits: NDArray[np.float32]) -> float | None:
    """Of a span task with unanswerable questions: the one that dev likes best."""
    if dev.windows is None:
        return None
    answers = best_spans(dev.windows, logits[:, 0], logits[:, 1], n_best=1)
    margins = [null_margin(found) for found in answers]
    texts = [found[0].text if found else "" for found in answers]
    return best_threshold(dev.examples, margins, texts)


@dataclass(frozen=True)
class Warned:
    """What the task's owner should know before it is used."""

    message: str


def warning(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], rate: float
) -> Warned | None:
    """That every row is answered alike, though their labels differ: training came to nothing."""
    given = {prediction.label for prediction in predictions}
    alike = len(given) == 1 and len({example.label for example in examples}) > 1
    if task.kind != "classification" or len(examples) < FEW or not alike:
        return None
    return Warned(
        f"All {len(examples)} rows that were scored are answered {given.pop()!r}: nothing was "
        f"learnt at a learning rate of {rate:g}. Try half of it, another seed, or more rows."
    )


@dataclass(frozen=True)
class Rounded:
    """What half precision would change, and whether it was taken."""

    precision: Literal["fp32", "fp16"]
    """What the task is kept in."""
    changed: int
    """Answers on dev that are others."""
    rows: int
    before: float
    """The score on dev."""
    after: float


def round_if_it_holds(model: TaskModel, task: Task, dev: Rows) -> Rounded:
    """Round the model's tensors to half precision if its answers on dev hold; else leave it."""
    exact = {name: tensor.clone() for name, tensor in model.tensors().items()}
    rounded = {name: tensor.half().float() for name, tensor in exact.items()}
    before = dev_answers(model, task, dev)
    if not all(tensor.isfinite().all() for tensor in rounded.values()):  # past half's range
        score = scores_of(task, dev.examples, before)[task.metric]
        return Rounded("fp32", 0, len(dev.examples), score, score)
    model.load_tensors(rounded)
    after = dev_answers(model, task, dev)
    changed = sum(
        (a.label, a.labels, a.answer) != (b.label, b.labels, b.answer)
        for a, b in zip(before, after, strict=True)
    )
    scores = [scores_of(task, dev.examples, found)[task.metric] for found in (before, after)]
    lost = (scores[1] - scores[0]) * (1 if task.metric in LOWER_IS_BETTER else -1)
    holds = changed <= CHANGED * len(dev.examples) and lost <= LOST
    if not holds:
        model.load_tensors(exact)
    return Rounded("fp16" if holds else "fp32", changed, len(dev.examples), *scores)


def balance(task: Task) -> dict[str, int]:
    """Rows of train by label, in the labels' order."""
    counts = Counter(name for example in task.train for name in _names(example))
    return {label: counts[label] for label in task.labels}


def _names(example: Example) -> Iterable[str]:
    return (example.label,) if isinstance(example.label, str) else example.names


def confusions(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> Confusions:
    """How many rows of each label were given each label (classification)."""
    if task.kind != "classification":
        return Counter()
    return Counter(
        (str(example.label), str(prediction.label))
        for example, prediction in zip(examples, predictions, strict=True)
    )
