"""`adapterbank tasks`: what is in the bank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.options import BankOption
from adapterbank.cli.output import JSON_HELP, print_json, print_table

if TYPE_CHECKING:
    from adapterbank.store.store import Store, TaskInfo


def tasks(
    tenant: Annotated[
        str | None, typer.Argument(metavar="[TENANT]", help="Only the tasks of this tenant.")
    ] = None,
    bank: BankOption = "bank",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """List the tasks of the bank: versions, kind, labels, score and size.

    [bold]Examples[/bold]

      adapterbank tasks

      adapterbank tasks --bank s3://models/bank --json
    """
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
                "tasks": [summary(info) for info in found],
                "damaged": damaged,
            }
        )
    else:
        _show(store, found, damaged, bank)


def summary(info: TaskInfo) -> dict[str, Any]:
    """One task in a few fields."""
    manifest = info.manifest
    return {
        "task": info.task,
        "version": info.version.version,
        "versions": [each.version for each in info.versions],
        "kind": manifest.kind,
        "labels": list(manifest.labels),
        "metric": manifest.metric,
        "dev": manifest.dev,
        "test": manifest.test,
        "method": manifest.method.name,
        "trained_parameters": manifest.parameters.trained,
        "percent_of_base": manifest.parameters.percent_of_base,
        "bytes": info.version.bytes,
        "published": info.version.published,
    }


def _show(store: Store, found: list[TaskInfo], damaged: dict[str, str], bank: str) -> None:
    if found:
        print_table(
            f"{bank}, on {store.base.name}",
            ("task", "kind", "labels", "score", "parameters", "MB", "published"),
            [
                (
                    str(info),
                    info.manifest.kind,
                    str(len(info.manifest.labels)),
                    score(info),
                    f"{info.manifest.parameters.trained:,}",
                    f"{info.version.bytes / 1e6:.1f}",
                    info.version.published[:10],
                )
                for info in found
            ],
            texts=2,
        )
    else:
        print(f"{bank} has no tasks yet. Learn one: adapterbank train --help")
    for name, problem in damaged.items():
        print(f"{name}: {problem}")


def score(info: TaskInfo) -> str:
    """The task's score in a word; a score that selection has seen is marked."""
    manifest = info.manifest
    scores = manifest.test or manifest.dev
    if manifest.metric not in scores:
        return ""
    seen = "" if manifest.test else " (dev)"
    return f"{manifest.metric} {scores[manifest.metric]:.3f}{seen}"
