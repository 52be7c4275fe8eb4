"""A task: labelled texts, their label space and their splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Example(NamedTuple):
    """One labelled text, or a pair of texts."""

    text: str
    label: str
    pair: str | None = None


@dataclass(frozen=True)
class Task:
    """Texts and labels. Labels are strings; their order gives the head's outputs."""

    name: str
    labels: tuple[str, ...]
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    test: tuple[Example, ...]

    def label_ids(self, examples: Sequence[Example]) -> list[int]:
        """The place of each example's label."""
        ids = {label: i for i, label in enumerate(self.labels)}
        return [ids[example.label] for example in examples]
