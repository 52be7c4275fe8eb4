"""Any source of labelled text as a file to send: a file as it is, other rows as JSON lines."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

from adapterbank.errors import DataError
from adapterbank.tasks.rows import Row, Rows
from adapterbank.tasks.sources import Source, hub_name, local_file, open_rows


@contextmanager
def as_file(
    source: Source, *, skip_bad: bool = False, encoding: str = "utf-8"
) -> Iterator[tuple[str, IO[bytes]]]:
    """Its name and the file itself, open meanwhile. What is no row is an error; with `skip_bad`,
    whoever reads the file leaves it out and counts it. Files are of that encoding already, since
    all that are sent together are read in one; other rows are written in it."""
    if isinstance(source, str | Path) and not hub_name(source):
        path = local_file(source)
        with _opened(path) as file:
            yield path.name, file
        return
    rows = open_rows(source)
    every = rows.with_unreadable() if skip_bad else rows
    with _made(rows.name, (_line(rows, row) for row in every), encoding) as file:
        yield "rows.jsonl", file


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}.") from error


def _made(name: str, lines: Iterable[str], encoding: str) -> IO[bytes]:
    """A file of these lines, from its beginning."""
    try:
        "".encode(encoding)  # unlike the next line, this refuses what is no encoding of texts
        encoder = codecs.getincrementalencoder(encoding)()  # a byte order mark stands once
    except (LookupError, ValueError):
        raise DataError(
            f"There is no text encoding {encoding!r}.", "Known are utf-8, cp1252, latin-1, …"
        ) from None
    try:
        with ExitStack() as undo:
            made = undo.enter_context(TemporaryFile())
            for line in lines:
                made.write(encoder.encode(line))
            made.seek(0)
            undo.pop_all()
    except OSError as error:
        raise DataError(
            f"{name} could not be written to a file to send: {error.strerror or error}.",
            f"Free some space in {gettempdir()}.",
        ) from error
    return made


def _line(rows: Rows, row: Row) -> str:
    """A row; what is none is a line that holds none."""
    try:
        text = json.dumps(None if row.problem else dict(row.values), default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"{rows.where(row)} cannot be sent: {error}.", "Give texts, numbers or lists of them."
        ) from None
    return f"{text}\n"


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
