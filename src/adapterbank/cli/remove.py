"""`adapterbank remove`: a task out of the bank; `gc`: what nobody needs any more off the disk."""

from __future__ import annotations

from typing import Annotated

import typer

from adapterbank.cli.options import BankOption, TaskName

LISTED = 20  # versions that gc names


def remove(
    task: TaskName,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete its bytes too: there is no way back.")
    ] = False,
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
        store.remove(task, purge=True)
        print(f"{task} is removed, and its bytes are deleted.")
        return
    current = store.find(task).version.version
    store.remove(task)
    print(f"{task} is removed. To bring it back: adapterbank rollback {task} {current}")


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
