"""`adapterbank export` and `import`: packages out of a bank and into another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from adapterbank.cli.options import BankOption, BaseOption
from adapterbank.errors import ConfigError


def export(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task, or TASK@V.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A new folder, .tar.gz or .onnx.")],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="adapterbank; adapterhub for the adapters package; onnx with the base."
        ),
    ] = "adapterbank",
    with_layer_norms: Annotated[
        bool,
        typer.Option(
            "--with-layer-norms",
            help="adapterhub: write trained LayerNorms, which it cannot hold, beside.",
        ),
    ] = False,
    bank: BankOption = "bank",
    base: BaseOption = None,
) -> None:
    """Write a task to a folder or an archive.

    [bold]Examples[/bold]

      adapterbank export helpdesk helpdesk.tar.gz

      adapterbank export helpdesk@2 helpdesk-2/

      adapterbank export helpdesk hub/ --format adapterhub --with-layer-norms

      adapterbank export helpdesk helpdesk.onnx --format onnx
    """
    from adapterbank.bank import Bank

    if form not in ("adapterbank", "adapterhub", "onnx"):
        raise ConfigError(f"--format is {form!r}. Choose from: adapterbank, adapterhub, onnx.")
    home = Bank.open(bank, base, create=False)
    notes = home.export(task, path, form, layer_norms_beside=with_layer_norms)  # type: ignore[arg-type]
    for note in notes:
        print(note, file=sys.stderr)
    print(f"Written to {path}.")


def import_(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A package folder, a .tar.gz or an AdapterHub's.")
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="What it is to be called here; else as it was.")
    ] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="An AdapterHub task that reads pairs of texts.")
    ] = False,
    bank: BankOption = "bank",
    base: BaseOption = None,
) -> None:
    """Take a package into the bank, once every check of it has passed.

    A package is a task that has been learnt, as `export` writes it. Labelled rows are for `train`.

    [bold]Examples[/bold]

      adapterbank import helpdesk.tar.gz

      adapterbank import helpdesk-2/ --name shop/helpdesk

      adapterbank import hub/ --name sentiment
    """
    from adapterbank.bank import Bank, check_package

    check_package(path)  # before a bank is made for it
    entry, notes = Bank.open(bank, base).import_(path, name, pair=pair)
    for note in notes:
        print(note, file=sys.stderr)
    print(f"Kept as {entry}.")
