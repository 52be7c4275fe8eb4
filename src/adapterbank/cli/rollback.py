"""`adapterbank rollback`: another version becomes the current one."""

from __future__ import annotations

from typing import Annotated

import typer

from adapterbank.cli.options import BankOption, TaskName


def rollback(
    task: TaskName,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="The version to go to.")],
    bank: BankOption = "bank",
) -> None:
    """Make an earlier (or later) version the current one. A removed task comes back with it.

    [bold]Examples[/bold]

      adapterbank rollback helpdesk 2
    """
    from adapterbank.store.store import Store

    print(f"{Store.open(bank).rollback(task, version)} is the current version.")
