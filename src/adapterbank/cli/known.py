"""Samples and tasks of the catalogue beside tasks of a bank that have the same name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from adapterbank.errors import BankError, DataError, PackageError
from adapterbank.tasks.samples import SAMPLES

if TYPE_CHECKING:
    from adapterbank.store.manifest import Manifest
    from adapterbank.tasks.task import Task


def asks_the_same(manifest: Manifest, task: Task) -> bool:
    """Whether a task of the bank and one that is known by name have the same labels."""
    known = (task.kind, task.pairs, set(task.labels))
    return (manifest.kind, manifest.pair, set(manifest.labels)) == known


def check_known(task: Task, bank: str) -> None:
    """Say that the rows are not the user's own, and refuse to follow a task that is."""
    from adapterbank.store.store import Store

    short = task.name.rpartition("/")[2]
    what = "a bundled sample" if short in SAMPLES else "a task of the catalogue"
    try:
        there = Store.open(bank).info(task.name)
    except (BankError, PackageError):  # nothing that it could be mistaken for
        there = None
    if there is not None and not asks_the_same(there.manifest, task):
        raise DataError(
            f"{task.name} is {what}, and the bank has a task of that name with other labels.",
            f"For your own rows: --train F. For the known ones another tenant's name will do: "
            f"known/{short}.",
        )
    print(f"{task.name} is {what}; for your own rows: --train F.", file=sys.stderr)
