"""`adapterbank remove`: a task out of the bank; `gc`: what nobody needs any more off the disk."""

from __future__ import annotations

from typing import Annotated

import typer

from adapterbank.cli.options import BankOption, TaskName


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
    store.remove(task, purge=purge)
    if purge:
        print(f"{task} is removed, and its bytes are deleted.")
        return
    newest = store.record(task).versions[-1].version
    print(f"{task} is removed. To bring it back: adapterbank rollback {task} {newest}")


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

    count = Store.open(bank).collect(keep=keep)
    print(f"{count} packages and unfinished pieces deleted.")
