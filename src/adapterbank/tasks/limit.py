"""A task with fewer rows: to try something out, or to compare methods at a size."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adapterbank.errors import ConfigError
from adapterbank.tasks.splits import labels_in
from adapterbank.tasks.task import Example, Task


def limited(task: Task, train: int = 0, dev: int = 0, test: int = 0, seed: int = 0) -> Task:
    """At most so many rows of each split (0: all), drawn at random, in their order.

    Every label that train has keeps a row there.
    """
    most = {"train": train, "dev": dev, "test": test}
    for name, rows in most.items():
        if type(rows) is not int or rows < 0:
            raise ConfigError(f"{rows!r} rows of {name} can't be had.", "Give 1 or more.")
    for name, rows in most.items():
        every: Sequence[Example] = getattr(task, name)
        if rows and len(every) > rows:
            some = _drawn(every, rows, seed, keep_labels=name == "train")
            note = f"{name}: {len(some):,} of {len(every):,} rows, drawn with seed {seed}"
            changes: dict[str, Any] = {name: some, "notes": (*task.notes, note)}
            task = replace(task, **changes)
    return task


def _drawn(
    examples: Sequence[Example], most: int, seed: int, *, keep_labels: bool
) -> list[Example]:
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    if keep_labels:
        seen: set[str] = set()
        firsts: list[int] = []
        for row in order:
            new = set(labels_in(examples[row])) - seen
            if new:
                seen |= new
                firsts.append(row)
        order = list(dict.fromkeys([*firsts, *order]))
        most = max(most, len(firsts))
    return [examples[row] for row in sorted(order[:most])]
