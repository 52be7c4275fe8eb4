"""`adapterbank keys`: who may use the service."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from adapterbank.cli.options import BankOption, BaseOption
from adapterbank.cli.output import JSON_HELP, print_json, print_table
from adapterbank.errors import ConfigError

if TYPE_CHECKING:
    from adapterbank.store.store import Store

app = typer.Typer(no_args_is_help=True, short_help="Keys of the service: create, list, revoke.")


@app.callback()
def keys() -> None:
    """Keys of the service: create, list, revoke.

    [bold]Examples[/bold]

      adapterbank keys create acme

      adapterbank keys list
    """


@app.command()
def create(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose key it is.")],
    role: Annotated[
        str, typer.Option(help="read: ask; train: learn and change, too; admin: see metrics, too.")
    ] = "train",
    note: Annotated[str, typer.Option(metavar="TEXT", help="A word on it, for the list.")] = "",
    tasks: Annotated[int | None, typer.Option(min=0, help="Tasks at most.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows an upload.")] = None,
    megabytes: Annotated[int | None, typer.Option(min=1, help="Size of an upload.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Jobs at once.")] = None,
    requests: Annotated[float | None, typer.Option(min=0.001, help="Requests a second.")] = None,
    bank: BankOption = "bank",
    base: BaseOption = None,
) -> None:
    """Make a key and print it, this one time. A bank is made where there is none.

    [bold]Examples[/bold]

      adapterbank keys create acme

      adapterbank keys create acme --role read --requests 20 --note "the web shop"
    """
    from adapterbank.service.auth import ROLES, Keys, Quotas
    from adapterbank.store.names import check_tenant

    check_tenant(tenant)  # what cannot be is said before a bank is made for it
    if role not in ROLES:
        raise ConfigError(f"--role is {role!r}.", f"Choose from: {', '.join(ROLES)}.")
    given = {
        "tasks": tasks,
        "rows": rows,
        "upload_bytes": None if megabytes is None else megabytes * 2**20,
        "jobs": jobs,
        "requests_a_second": requests,
    }
    quotas = Quotas(**{name: each for name, each in given.items() if each is not None})  # type: ignore[arg-type]
    print(Keys(_store(bank, base)).create(tenant, role, note, quotas))
    print("Keep it: it cannot be shown again.", file=sys.stderr)


def _store(bank: str, base: str | None) -> Store:
    """The store of the bank. Torch, which takes seconds, is for one that is made or whose base is
    to be looked at."""
    from adapterbank.errors import BankNotFound
    from adapterbank.store.store import Store

    if base is None:
        with suppress(BankNotFound):
            return Store.open(bank)
    from adapterbank.bank import Bank

    return Bank.open(bank, base).store


@app.command("list")
def list_keys(
    bank: BankOption = "bank",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """List the keys of the bank by id.

    [bold]Example[/bold]

      adapterbank keys list --bank /srv/bank
    """
    from adapterbank.service.auth import Keys
    from adapterbank.store.store import Store

    found = [asdict(each) for each in Keys(Store.open(bank)).list()]
    for each in found:
        del each["sha256"]
    if as_json:
        print_json({"keys": found})
    elif found:
        columns = ("id", "tenant", "role", "created", "note")
        print_table(
            bank, columns, [tuple(each[name] for name in columns) for each in found], texts=5
        )
    else:
        print(f"{bank} has no keys: the service listens on its own machine alone.")


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `list` shows it.")],
    bank: BankOption = "bank",
) -> None:
    """Let a key be known no more; every service on the bank forgets it within five seconds.

    [bold]Example[/bold]

      adapterbank keys revoke 0123456789abcdef
    """
    from adapterbank.service.auth import Keys
    from adapterbank.store.store import Store

    Keys(Store.open(bank)).revoke(id)
    print(f"{id} is revoked.")
