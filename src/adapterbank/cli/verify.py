"""`adapterbank verify`: the proof that nothing in the bank has changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from adapterbank.cli.options import BankOption, BaseOption
from adapterbank.cli.output import JSON_HELP, print_json


def verify(
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK]...", help="Only these; TASK or TASK@V.")
    ] = None,
    bank: BankOption = "bank",
    base: BaseOption = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Check every version of every task: digests, the base, and what it answers.

    Each package holds what it gave for a few fixed rows of tokens. They are run again: on the same
    software and processor every bit must be the same, elsewhere all but rounding. Exits with 1 if
    anything differs.

    [bold]Examples[/bold]

      adapterbank verify

      adapterbank verify helpdesk --json
    """
    from adapterbank.bank import Bank
    from adapterbank.cli.output import steps
    from adapterbank.verify import verify as check

    # Probes are the CPU's: a GPU rounds otherwise.
    home = Bank.open(bank, base, device="cpu", create=False)
    verdicts = list(steps(check(home.store, home.encoder, tasks or ()), "verified"))
    fine = all(verdict.ok for verdict in verdicts)
    if as_json:
        print_json({"ok": fine, "tasks": [asdict(verdict) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            if not verdict.ok:
                print(f"{verdict.task}@{verdict.version}: {verdict.problem}")
        exact = sum(verdict.exact for verdict in verdicts)
        bad = sum(not verdict.ok for verdict in verdicts)
        print(
            f"{len(verdicts) - bad} of {len(verdicts)} versions are as they were published"
            f"{'' if bad else ', '}"
            + ("" if bad else f"{exact} of them to the last bit of their answers")
            + "."
        )
    if not fine:
        raise typer.Exit(1)
