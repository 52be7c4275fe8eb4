"""A task: labelled texts, their label space and their splits.

Four kinds. Each may read one text or a pair; a span task reads a question and its context.

| kind           | an example's label            | the task's labels |
|----------------|-------------------------------|-------------------|
| classification | one string                    | two or more       |
| multi-label    | any number of strings         | one or more       |
| regression     | a number                      | none              |
| span           | `answers`; none: unanswerable | none              |
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from adapterbank.errors import ConfigError

Kind = Literal["classification", "multi-label", "regression", "span"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# What a task can be selected by. The first, unless the catalogue or the user says otherwise.
METRICS_OF: dict[Kind, tuple[str, ...]] = {
    "classification": ("accuracy", "macro_f1", "matthews", "f1"),
    "multi-label": ("micro_f1", "macro_f1", "exact_match"),
    "regression": ("pearson", "spearman", "mean_absolute_error"),
    "span": ("f1", "exact_match"),
}

Label = str | tuple[str, ...] | float | None


class Answer(NamedTuple):
    """A right answer of a span task: its text and where it starts in the context."""

    text: str
    start: int


class Example(NamedTuple):
    """One text, or a pair, with its label; None where it has none (to be predicted)."""

    text: str
    label: Label = None
    pair: str | None = None
    id: str = ""
    answers: tuple[Answer, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The label of a multi-label example."""
        return self.label if isinstance(self.label, tuple) else ()

    @property
    def number(self) -> float:
        """The label of a regression example."""
        return float(self.label) if isinstance(self.label, int | float) else math.nan


@dataclass(frozen=True)
class Task:
    """Texts and labels. Labels are strings; their order gives the head's outputs."""

    name: str
    labels: tuple[str, ...]
    train: Sequence[Example]
    dev: Sequence[Example]
    test: Sequence[Example] = ()
    kind: Kind = "classification"
    metric: str = ""
    """The score that selection goes by; by kind if not given."""
    positive: str = ""
    """The class whose F1 a two-class task reports: the last label if not given."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """How the task was read: columns, kind, splits; for people."""
    columns: dict[str, str] = field(default_factory=dict)
    """The data's columns by role: "text", "pair", "label"; empty where there were none."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"kind is {self.kind!r}. Choose from: {', '.join(KINDS)}.")
        if not self.positive and self.kind == "classification" and len(self.labels) == 2:
            object.__setattr__(self, "positive", self.labels[-1])
        metrics = [
            m for m in METRICS_OF[self.kind] if m != "f1" or self.positive or not self.labels
        ]
        if not self.metric:
            object.__setattr__(self, "metric", metrics[0])
        if self.metric not in metrics:
            raise ConfigError(
                f"metric is {self.metric!r}. This {self.kind} task has: {', '.join(metrics)}."
            )

    @property
    def pairs(self) -> bool:
        """Whether an example is a pair of texts."""
        return any(example.pair is not None for example in self.train[:1])

    def named(self, name: str) -> Task:
        """The same task under another name."""
        return replace(self, name=name)

    def label_ids(self, examples: Sequence[Example]) -> list[int]:
        """The place of each example's label (classification)."""
        ids = {label: i for i, label in enumerate(self.labels)}
        return [ids[str(example.label)] for example in examples]

    def digest(self) -> str:
        """Of its kind, its labels, its metric and every row, in order; of the class whose F1 the
        metric is, where that is not the last label's."""
        head = [self.kind, self.labels, self.metric]
        if self.metric == "f1" and self.positive not in ("", *self.labels[-1:]):
            head.append(self.positive)
        found = hashlib.sha256(json.dumps(head).encode())
        for examples in (self.train, self.dev, self.test):
            found.update(f"{len(examples)}\n".encode())
            for example in examples:
                found.update(json.dumps(example).encode())
        return found.hexdigest()
