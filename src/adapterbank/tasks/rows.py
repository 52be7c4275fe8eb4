"""Rows of a table, one at a time, with the words that say where each one stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple

from adapterbank.errors import DataError

MAX_COLUMNS = 1_000
# Read ahead to learn the columns of sources without a header, and what columns hold.
HEAD = 100


class Row(NamedTuple):
    """One record: its number from 1, the line it starts on if it has one, and its cells."""

    number: int
    line: int | None
    values: Mapping[str, object]
    problem: str = ""
    """Why the record could not be read, such as a cell too many; then `values` is empty."""


class Rows:
    """The rows of one source, streamed. Iterating stops with an error at one that is unreadable."""

    def __init__(
        self,
        name: str,
        rows: Iterable[Row],
        columns: Iterable[str] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        rest = iter(rows)
        self.name = name
        self.notes = notes
        """What had to be decided to read the source; for people."""
        self.head = tuple(islice(rest, HEAD))
        """The first rows, for a look at them: they come in the iteration too."""
        if not self.head:
            raise DataError(f"{name}: there are no rows.", "Give at least one, below the header.")
        if columns is None:
            columns = dict.fromkeys(key for row in self.head for key in row.values)
        self.columns = _checked(name, columns)
        self._rows = chain(self.head, rest)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = next(self._rows)
        if row.problem:
            raise DataError(f"{self.where(row)}: {row.problem}.")
        return row

    def with_unreadable(self) -> Iterator[Row]:
        """All rows; those that could not be read carry a `problem`."""
        return self._rows

    def where(self, row: Row) -> str:
        """For messages: `reviews.csv, row 17 (line 18)`."""
        line = "" if row.line is None else f" (line {row.line})"
        return f"{self.name}, row {row.number}{line}"


def _checked(name: str, columns: Iterable[str]) -> tuple[str, ...]:
    names = tuple(columns)
    if len(names) > MAX_COLUMNS:
        raise DataError(f"{name} has {len(names)} columns; {MAX_COLUMNS} at most are read.")
    for place, column in enumerate(names, 1):
        if not column:
            raise DataError(
                f"{name}: column {place} has no name.",
                "Name it in the header, or write the file without it "
                "(pandas: to_csv(…, index=False)).",
            )
        if column in names[: place - 1]:
            raise DataError(f"{name}: two columns are named {column!r}.", "Rename one of them.")
    return names
