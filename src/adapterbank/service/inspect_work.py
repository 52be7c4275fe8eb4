"""A look at an uploaded file, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from adapterbank.service.apart import bounded_memory
from adapterbank.tasks.look import look

MEMORY = 2 * 2**30


def work(arguments: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Arguments: `file`, and `reading`, how it is to be read."""
    del emit
    with bounded_memory(MEMORY):
        return look(Path(arguments["file"]), **arguments["reading"])
