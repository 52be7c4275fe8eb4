"""The data of a run: a task that is known by name, its splits cut to a number of rows."""

from __future__ import annotations

from functools import lru_cache

from adapterbank.learn import data_digest
from adapterbank.studies.runs import Rows
from adapterbank.tasks.known import known_task
from adapterbank.tasks.limit import limited
from adapterbank.tasks.task import Task


@lru_cache(maxsize=64)
def load(rows: Rows) -> Task:
    """The same rows for every method and seed."""
    return limited(known_task(rows.task), rows.train, rows.dev, rows.test)


@lru_cache(maxsize=64)
def digest_of(rows: Rows) -> str:
    """Of all that is in them."""
    return data_digest(load(rows))
