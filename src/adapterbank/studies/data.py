"""The data of a run: a task that is known by name, its splits cut to a number of rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from adapterbank.studies.runs import Rows
from adapterbank.tasks.known import known_task
from adapterbank.tasks.task import Example, Task


@lru_cache(maxsize=4)
def load(rows: Rows) -> Task:
    """The same rows for every method and seed."""
    task = known_task(rows.task)
    return replace(
        task,
        train=_some(task.train, rows.train),
        dev=_some(task.dev, rows.dev),
        test=_some(task.test, rows.test),
    )


def _some(examples: Sequence[Example], most: int) -> Sequence[Example]:
    """So many at random, in their order."""
    if not most or len(examples) <= most:
        return examples
    return [examples[i] for i in sorted(random.Random(0).sample(range(len(examples)), most))]
