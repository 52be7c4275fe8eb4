"""`adapterbank route`: which task a text is meant for."""

from __future__ import annotations

from typing import Annotated

import typer

from adapterbank.cli.options import BankOption, BaseOption, DeviceOption, EncodingOption
from adapterbank.cli.standard import forgive_output, input_lines
from adapterbank.errors import AdapterBankError


def route(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="Else stdin, one a line.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Tasks to name at most.")] = 3,
    encoding: EncodingOption = "utf-8",
    bank: BankOption = "bank",
    base: BaseOption = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, one a text.")] = False,
) -> None:
    """Say which tasks of the bank a text is meant for, or that it is none of theirs.

    It goes by what each task's own texts look like to the bare encoder.

    [bold]Examples[/bold]

      adapterbank route "my card was charged twice"

      cat lines.txt | adapterbank route --most 1 --json
    """
    import json

    from adapterbank.serving.open import open_bank_engine
    from adapterbank.serving.which_task import Router

    forgive_output()
    lines = texts or list(input_lines(encoding))
    router = Router(open_bank_engine(bank, base, device))
    for text, found in zip(lines, router.route(lines, most=most), strict=True):
        if isinstance(found, AdapterBankError):
            record: dict[str, object] = {
                "text": text,
                "error": {"message": found.message, "hint": found.hint},
            }
            shown = f"error\t{found.message}"
        else:
            named = [{"task": each.task, "probability": each.probability} for each in found]
            record = {"text": text, "tasks": named}
            shown = ", ".join(f"{each.task} {each.probability:.2f}" for each in found) or "none"
        print(json.dumps(record, ensure_ascii=False) if as_json else f"{shown}\t{text}", flush=True)
