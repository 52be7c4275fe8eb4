"""An uploaded package goes into the bank once it has been checked, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from adapterbank.bank import Bank


def work(arguments: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Arguments: `bank`, `base`, `task`, and `file`, a .tar.gz."""
    del emit
    bank = Bank.open(arguments["bank"], arguments["base"], create=False)
    entry, _ = bank.import_(Path(arguments["file"]), arguments["task"])
    return {"task": entry.task, "version": entry.version.version}
