"""An uploaded package goes into the bank once it has been checked, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from adapterbank.service.apart import bounded_memory
from adapterbank.store.archive import read_archive

MEMORY = 4 * 2**30


def work(arguments: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Arguments: `bank`, `base`, `task`, and `file`, a .tar.gz."""
    del emit
    file = Path(arguments["file"])
    with bounded_memory(MEMORY):  # what is no package is refused here, before torch is loaded
        read_archive(file)
    from adapterbank.bank import Bank

    bank = Bank.open(arguments["bank"], arguments["base"], create=False)
    entry, _ = bank.import_(file, arguments["task"])
    return {"task": entry.task, "version": entry.version.version}
