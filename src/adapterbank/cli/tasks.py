"""`adapterbank tasks`: what is in the bank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.options import BankOption
from adapterbank.cli.output import JSON_HELP, print_json, print_table
from adapterbank.cli.remote import ServerOption, refuse_there

if TYPE_CHECKING:
    from adapterbank.store.entry import TaskInfo


def tasks(
    context: typer.Context,
    tenant: Annotated[
        str | None, typer.Argument(metavar="[TENANT]", help="Only the tasks of this tenant.")
    ] = None,
    bank: BankOption = "bank",
    server: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """List the tasks of the bank: versions, kind, labels, score and size.

    [bold]Examples[/bold]

      adapterbank tasks

      adapterbank tasks --bank s3://models/bank --json

      adapterbank tasks --server http://localhost:8000
    """
    if server is not None:
        refuse_there(context, "tenant")
        _show_remote(server, as_json)
        return
    from adapterbank.errors import AdapterBankError
    from adapterbank.store.store import Store

    store = Store.open(bank)
    found: list[TaskInfo] = []
    damaged: dict[str, str] = {}
    for name in store.tasks(tenant):
        try:
            found.append(store.info(name))
        except AdapterBankError as error:
            damaged[name] = error.message
    if as_json:
        print_json(
            {
                "bank": bank,
                "base": {"name": store.base.name, "fingerprint": store.base.fingerprint},
                "tasks": [info.summary() for info in found],
                "damaged": damaged,
            }
        )
    else:
        _show(f"{bank}, on {store.base.name}", bank, [info.summary() for info in found])
        for name, problem in damaged.items():
            print(f"{name}: {problem}")


def _show_remote(server: str, as_json: bool) -> None:
    """The tasks of a service's tenant."""
    from adapterbank.cli.remote import client_of

    with client_of(server) as client:
        found = client.tasks()
    if as_json:
        print_json({"server": server, "tasks": found})
    else:
        _show(server, server, found)


def _show(title: str, where: str, found: list[dict[str, Any]]) -> None:
    if not found:
        print(f"{where} has no tasks yet. Learn one: adapterbank train --help")
        return
    print_table(
        title,
        ("task", "kind", "labels", "score", "parameters", "MB", "published"),
        [
            (
                f"{each['task']}@{each['version']}",
                each["kind"],
                str(len(each["labels"])),
                _score(each["metric"], each["dev"], each["test"]),
                f"{each['trained_parameters']:,}",
                f"{each['bytes'] / 1e6:.1f}",
                each["published"][:10],
            )
            for each in found
        ],
        texts=2,
    )


def score(info: TaskInfo) -> str:
    """The task's score in a word; a score that selection has seen is marked."""
    return _score(info.manifest.metric, info.manifest.dev, info.manifest.test)


def _score(metric: str, dev: Mapping[str, float], test: Mapping[str, float]) -> str:
    scores = test or dev
    return f"{metric} {scores[metric]:.3f}{'' if test else ' (dev)'}" if metric in scores else ""
