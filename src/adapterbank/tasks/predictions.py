"""From a head's numbers to answers in words: labels, values, probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapterbank.errors import AdapterBankError
from adapterbank.tasks.spans import Windows, best_spans, choose
from adapterbank.tasks.task import Kind


@dataclass(frozen=True)
class Prediction:
    """What a task says of one input. Only the fields of its kind are set."""

    label: str | None = None
    labels: tuple[str, ...] | None = None
    probabilities: dict[str, float] | None = None
    value: float | None = None
    answer: str | None = None
    start: int | None = None
    end: int | None = None
    score: float | None = None
    embedding: tuple[float, ...] | None = None
    """Of an input without a task: the bare encoder's."""
    error: AdapterBankError | None = None
    """Why there is no answer."""

    def as_dict(self) -> dict[str, Any]:
        """The fields of its kind."""
        if self.error is not None:
            return {"error": {"message": self.error.message, "hint": self.error.hint}}
        spans = ("start", "end") if self.answer is not None else ()
        return {
            name: value
            for name, value in vars(self).items()
            if value is not None or name in spans  # an unanswered question stands nowhere
        }


def decode(
    kind: Kind, labels: Sequence[str], logits: NDArray[np.float32], temperature: float = 1.0
) -> list[Prediction]:
    """Answers of a classification, multi-label or regression head: logits [rows, outputs].

    Dividing by the temperature changes how sure the answers are, never which they are.
    """
    if kind == "regression":
        return [Prediction(value=float(value)) for value in logits[:, 0]]
    chances = probabilities(kind, logits, temperature)
    named = [dict(zip(labels, row, strict=True)) for row in chances.tolist()]
    if kind == "multi-label":
        return [
            Prediction(
                labels=tuple(label for label, p in row.items() if p > 0.5), probabilities=row
            )
            for row in named
        ]
    best = logits.argmax(-1)
    return [
        Prediction(label=labels[i], probabilities=row) for i, row in zip(best, named, strict=True)
    ]


def decode_spans(
    windows: Windows, logits: NDArray[np.float32], threshold: float | None = None
) -> list[Prediction]:
    """Answers of a span head: logits [tokens, 2]. `score` is the answer's probability."""
    starts, ends = logits[:, 0], logits[:, 1]
    found = best_spans(windows, starts, ends, unanswerable=threshold is not None)
    return [
        Prediction(
            answer=best[0].text, start=best[0].start, end=best[0].end, score=best[0].probability
        )
        if choose(best, threshold)
        else Prediction(answer="", score=1.0 - sum(each.probability for each in best))
        for best in found
    ]


def probabilities(
    kind: Kind, logits: NDArray[np.float32], temperature: float = 1.0
) -> NDArray[np.float64]:
    """Of each label: they add up to 1 over classes; of a multi-label task each stands alone."""
    scaled = logits.astype(np.float64) / temperature
    if kind == "multi-label":
        return np.exp(-np.logaddexp(0.0, -scaled))
    scaled -= scaled.max(-1, keepdims=True)
    chances = np.exp(scaled)
    out: NDArray[np.float64] = chances / chances.sum(-1, keepdims=True)
    return out
