"""Any source of labelled text as a file to send: a file as it is, other rows as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from adapterbank.errors import DataError
from adapterbank.tasks.rows import Row, Rows
from adapterbank.tasks.sources import Source, hub_name, local_file, open_rows


@contextmanager
def as_file(source: Source, *, skip_bad: bool = False) -> Iterator[tuple[str, IO[bytes]]]:
    """Its name and the file itself, open meanwhile. What is no row is an error; with `skip_bad`,
    whoever reads the file leaves it out and counts it."""
    if isinstance(source, str | Path) and not hub_name(source):
        path = local_file(source)
        with path.open("rb") as file:
            yield path.name, file
        return
    rows = open_rows(source)
    with TemporaryFile() as made:
        for row in rows.with_unreadable() if skip_bad else rows:
            made.write(_line(rows, row))
        made.seek(0)
        yield "rows.jsonl", made


def _line(rows: Rows, row: Row) -> bytes:
    """A row; what is none is a line that holds none."""
    try:
        text = json.dumps(None if row.problem else dict(row.values), default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"{rows.where(row)} cannot be sent: {error}.", "Give texts, numbers or lists of them."
        ) from None
    return f"{text}\n".encode("ascii")  # which reads the same whatever encoding others are in


def plain(value: Any) -> object:
    """What JSON has no form for, so that it reads as it would have here."""
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, Decimal):
        return str(value)
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return {type(value).__name__: str(value)}  # neither a text nor a label there, as here
