"""`adapterbank show`: one task in detail, or its card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from adapterbank.cli.options import BankOption, BaseOption
from adapterbank.cli.output import JSON_HELP, print_facts, print_json, print_table

if TYPE_CHECKING:
    from adapterbank.store.entry import TaskInfo


def show(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task, or TASK@V.")],
    card: Annotated[
        bool, typer.Option("--card", help="The card: one HTML page on stdout, to keep or publish.")
    ] = False,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Which layers' adapters matter, and how wide.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="F",
            help="With --ablation: labelled rows to score; a sample or a task of the catalogue has "
            "its own.",
        ),
    ] = None,
    bank: BankOption = "bank",
    base: BaseOption = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Show one task: what it is, how good it is, where it comes from.

    [bold]Examples[/bold]

      adapterbank show helpdesk

      adapterbank show helpdesk@1 --json

      adapterbank show helpdesk --card > helpdesk.html

      adapterbank show helpdesk --ablation --data checked.csv
    """
    if data is not None and not ablation:
        raise typer.BadParameter("--data is of use with --ablation alone.")
    if card and (ablation or as_json):
        other = "--ablation" if ablation else "--json"
        raise typer.BadParameter(f"--card and {other} do not go together: give one of them.")
    from adapterbank.store.store import Store

    info = Store.open(bank).info(task)
    if ablation:
        from adapterbank.cli.ablation import show_ablation

        show_ablation(info, bank, base, data, as_json)
    elif card:
        from adapterbank.store.card import card as make_card

        print(make_card(info.manifest, reference=str(info), versions=info.versions))
    elif as_json:
        print_json(info.as_dict())
    else:
        _print(info)


def _print(info: TaskInfo) -> None:
    manifest = info.manifest
    labels = ", ".join(manifest.labels[:12]) + (" …" if len(manifest.labels) > 12 else "")
    size = f" {manifest.adapter.size}" if manifest.adapter else ""
    rows = ", ".join(f"{count:,} {split}" for split, count in manifest.data.rows.items())
    facts = {
        "note": manifest.note,
        "kind": f"{'pairs, ' if manifest.pair else ''}{manifest.kind}",
        "labels": labels,
        "method": f"{manifest.method.name}{size}, {manifest.precision}",
        "parameters": f"{manifest.parameters.trained:,} "
        f"({manifest.parameters.percent_of_base:.2f} % of the base)",
        "size": f"{info.version.bytes:,} bytes",
        "rows": rows,
        "went on from": manifest.origin,
        "base": f"{manifest.base.name} ({manifest.base.fingerprint[:12]})",
        "published": info.version.published,
        "versions": ", ".join(
            f"{each.version}{' (current)' if each.version == info.current else ''}"
            for each in info.versions
        ),
    }
    print_facts(str(info), facts)
    scores = {"test": manifest.test, "dev (selection saw it)": manifest.dev, **manifest.baselines}
    names = list(manifest.test or manifest.dev)
    if names:
        print_table(
            "scores",
            ("rows, or a simpler method", *names),
            [
                (who, *(f"{found[n]:.3f}" if n in found else "" for n in names))
                for who, found in scores.items()
                if found
            ],
        )
