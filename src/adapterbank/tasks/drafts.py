"""The rows of a source held until the kind of their labels is known; bad ones are counted."""

from __future__ import annotations

from array import array
from bisect import insort
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from adapterbank.errors import DataError
from adapterbank.tasks.cells import BadCell, Cell, counted, read_cell, read_text
from adapterbank.tasks.columns import Columns
from adapterbank.tasks.room import Room
from adapterbank.tasks.rows import Row, Rows
from adapterbank.tasks.task import Example, Label

SKIP = "Mend the data, or leave such rows out with --skip-bad (skip_bad=True)."


LISTED = 100  # bad rows of a source that are told of one by one


@dataclass
class BadRows:
    """The bad rows of one source: the first in full, some by their number, all counted."""

    first: BadCell | None = None
    number: int = 0
    where: str = ""
    sorts: Counter[str] = field(default_factory=Counter)
    listed: list[tuple[int, str]] = field(default_factory=list)
    """Numbers of the first of them, and what is wrong with each."""

    def add(self, number: int, where: str, problem: BadCell) -> None:
        """One more."""
        self.sorts[problem.sort] += 1
        if len(self.listed) < LISTED or number < self.listed[-1][0]:
            insort(self.listed, (number, str(problem)))
            del self.listed[LISTED:]
        if self.first is None or number < self.number:
            self.first, self.number, self.where = problem, number, where

    def settle(self, skip: bool) -> tuple[str, ...]:
        """A note on what is left out, or an error."""
        if self.first is None:
            return ()
        like, every = self.sorts[self.first.sort] - 1, self.sorts.total()
        others = every - like - 1
        said = f"{self.where}: {self.first}"
        if like:
            said += f", and {counted(like, 'more row')} like it"
        if others:
            said += f", and {counted(others, 'row')} with other problems"
        if skip:
            return (f"left out {counted(every, 'bad row')}: {said}",)
        raise DataError(f"{said}.", f"{self.first.hint} {SKIP}".strip())


@dataclass
class Draft:
    """The rows of one source before it is known what kind of label they have."""

    rows: Rows
    bad: BadRows = field(default_factory=BadRows)
    texts: list[str] = field(default_factory=list)
    pairs: list[str | None] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    numbers: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))


def read_draft(
    rows: Rows, columns: Columns, bad: BadRows | None = None, room: Room | None = None
) -> Draft:
    """All rows with their texts checked and their labels as they stand. `bad` takes the others;
    more than there is `room` for is an error."""
    draft = Draft(rows, bad or BadRows())
    for row in rows.with_unreadable():
        try:
            text, pair = read_texts(row, columns)
            cell = read_cell(row.values.get(columns.label))
        except BadCell as problem:
            draft.bad.add(row.number, rows.where(row), problem)
            continue
        if room is not None:
            room.take(text, pair, cell)
        draft.texts.append(text)
        draft.pairs.append(pair)
        draft.cells.append(cell)
        draft.numbers.append(row.number)
        draft.lines.append(row.line or 0)
    return draft


def read_texts(row: Row, columns: Columns) -> tuple[str, str | None]:
    """The text and the second text, None where there is none."""
    if row.problem:
        raise BadCell("unreadable", row.problem)
    text = read_text(row.values.get(columns.text))
    # Left by files that were written one after the other: it would be a class of its own.
    if text == columns.text and row.values.get(columns.label) == columns.label:
        raise BadCell("header", "the header stands here again")
    if not columns.pair:
        return text, None
    return text, read_text(row.values.get(columns.pair), "second text")


def finish(
    draft: Draft, reader: Callable[[Cell], Label], skip_bad: bool
) -> tuple[list[Example], tuple[str, ...]]:
    """The examples, and a note on what was left out."""
    examples = []
    for i, (text, pair, cell) in enumerate(zip(draft.texts, draft.pairs, draft.cells, strict=True)):
        try:
            examples.append(Example(text, reader(cell), pair))
        except BadCell as problem:
            row = Row(draft.numbers[i], draft.lines[i] or None, {})
            draft.bad.add(row.number, draft.rows.where(row), problem)
    return examples, draft.bad.settle(skip_bad)
