"""The data of a run: a task of the catalogue or of one's own files, its splits cut to a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapterbank.studies.runs import Rows
from adapterbank.tasks.limit import limited

if TYPE_CHECKING:
    from adapterbank.streams.arrivals import Arrival
    from adapterbank.tasks.task import Task


def load(rows: Rows, source: Arrival) -> Task:
    """The same rows for every method and seed."""
    return limited(source.read(), rows.train, rows.dev, rows.test)
