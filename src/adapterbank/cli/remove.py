"""`adapterbank remove`: a task out of the bank; `gc`: what nobody needs any more off the disk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapterbank.cli.options import BankOption, StateOption, TaskName

if TYPE_CHECKING:
    from adapterbank.store.store import Store

LISTED = 20  # versions that gc names


def remove(
    task: TaskName,
    purge: Annotated[
        bool,
        typer.Option(
            "--purge", help="Delete its bytes and what a service keeps of it: no way back."
        ),
    ] = False,
    state: StateOption = None,
    bank: BankOption = "bank",
) -> None:
    """Take a task out of the bank. Without --purge, rollback brings it back.

    [bold]Examples[/bold]

      adapterbank remove helpdesk

      adapterbank remove helpdesk --purge
    """
    from adapterbank.store.store import Store

    store = Store.open(bank)
    if purge:
        _purge(store, task, state or store.local / ".service")
        print(f"{task} is removed, and its bytes are deleted.")
        return
    current = store.find(task).version.version
    store.remove(task)
    print(f"{task} is removed. To bring it back: adapterbank rollback {task} {current}")


def _purge(store: Store, task: str, state: Path) -> None:
    """Delete everything of a task that can be reached from here, and say what cannot."""
    from adapterbank.errors import BankError, TaskNotFound
    from adapterbank.store.names import split_name

    kept = False
    if state.is_dir():
        from adapterbank.service.kept import purge_kept

        try:
            kept = purge_kept(state, *split_name(task))
        except BankError as error:
            print(f"note: {error}", file=sys.stderr)
    try:
        store.remove(task, purge=True)
    except TaskNotFound:  # rows were sent, and nothing of them was published
        if not kept:
            raise
        store.forget_runs(task)


def gc(
    keep: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Keep the newest N versions of each task and its current one."
        ),
    ] = None,
    bank: BankOption = "bank",
) -> None:
    """Delete what interrupted publishes left behind and, with --keep, old versions.

    [bold]Examples[/bold]

      adapterbank gc

      adapterbank gc --keep 3
    """
    from adapterbank.store.store import Store
    from adapterbank.tasks.cells import listing

    store = Store.open(bank)
    before = store.kept() if keep else set()
    count = store.collect(keep=keep)
    gone = sorted(before - store.kept()) if keep else []
    if gone:
        print(f"Versions let go: {listing(gone, LISTED)}. Bytes go when they are an hour old.")
    print(f"{count} packages and unfinished pieces deleted.")
