"""Answers beside what was asked: lines on standard output, or a file with columns added."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapterbank.cli.standard import forgive_output
from adapterbank.errors import AdapterBankError

if TYPE_CHECKING:
    from adapterbank.tasks.predictions import Prediction
    from adapterbank.tasks.task import Example, Kind

# What an answer's fields are called, here and over HTTP.
NAMES: dict[Kind, tuple[str, ...]] = {
    "classification": ("label", "probabilities"),
    "multi-label": ("labels", "probabilities"),
    "regression": ("value",),
    "span": ("answer", "start", "end", "score"),
}


class Row:
    """One input with what came in beside it, and in the end its answer."""

    def __init__(
        self,
        values: Mapping[str, Any],
        example: Example | AdapterBankError,
        asked: Sequence[object] = (),
    ) -> None:
        self.values, self.example = dict(values), example
        self.answer: Prediction | AdapterBankError | None = None
        self._asked = asked

    @property
    def error(self) -> AdapterBankError | None:
        """Why there is no answer."""
        found = (self.example, self.answer)
        return next((each for each in found if isinstance(each, AdapterBankError)), None)

    def shown(self) -> str:
        """The text, or both, on one line; of a row that cannot be read what stands there."""
        asked = self._asked
        if not isinstance(self.example, AdapterBankError):
            asked = [self.example.text, self.example.pair]
        texts = (" ".join(str(text).split()) for text in asked if text is not None)
        return " ⟂ ".join(texts)

    def fields(self) -> dict[str, Any]:
        """The answer for JSON."""
        if self.error is not None:
            return {"error": {"message": self.error.message, "hint": self.error.hint}}
        return self.answer.as_dict()  # type: ignore[union-attr]

    def in_short(self) -> tuple[str, str]:
        """The answer in a word, and how sure it is."""
        answer: Any = self.answer
        if answer.value is not None:
            return f"{answer.value:.4g}", ""
        if answer.answer is not None:
            return answer.answer, f"{answer.score:.3f}"
        if answer.labels is not None:
            return "|".join(answer.labels), ""
        return answer.label, f"{answer.probabilities[answer.label]:.3f}"


class Joined:
    """Rows with their answers as one object each. Names of the answer are the answer's: a column of
    the input that has one is kept with a mark, and that is said once."""

    def __init__(self, kind: Kind) -> None:
        self.names = (*NAMES[kind], "error")
        self._told: set[str] = set()

    def __call__(self, row: Row) -> dict[str, Any]:
        """One row."""
        kept = {}
        for name, value in row.values.items():
            free = _free(name, {*row.values, *self.names}) if name in self.names else name
            kept[free] = value
            if free != name and name not in self._told:
                self._told.add(name)
                print(f"The input's own {name!r} is kept as {free!r}.", file=sys.stderr)
        return kept | row.fields()


def _free(name: str, taken: Collection[str]) -> str:
    """The name, with marks until it is not taken."""
    while name in taken:
        name += "_"
    return name


def print_answers(rows: Iterator[Row], kind: Kind, as_json: bool) -> None:
    """One line a row on standard output."""
    forgive_output()
    joined = Joined(kind)
    for row in rows:
        if as_json:
            print(json.dumps(joined(row), ensure_ascii=False, default=str), flush=True)
        elif row.error is not None:
            print(f"error\t{row.error}\t{row.shown()}", flush=True)
        else:
            word, chance = row.in_short()
            parts = (word, chance, row.shown()) if chance else (word, row.shown())
            print(*parts, sep="\t", flush=True)


def write_answers(
    rows: Iterator[Row], kind: Kind, out: Path, columns: Callable[[], Sequence[str]]
) -> None:
    """Rows as they came, with columns added, into a file that appears when it is whole. `columns`
    says which there are over all rows; asked where the file written has them in its first line."""
    from adapterbank.cli.writing import table_writer

    to_fields = Joined(kind) if out.suffix.lower() == ".jsonl" else Widened(columns())
    count = bad = 0
    with table_writer(out) as write:
        for row in rows:
            write(to_fields(row))
            count += 1
            bad += row.error is not None
    unanswered = f"; {bad:,} of them could not be answered: see error" if bad else ""
    print(f"{count:,} row{'s'[: count != 1]} written to {out}{unanswered}.", file=sys.stderr)


class Widened:
    """Rows with cells added, under names that no row uses: every row has the same columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._empty = dict.fromkeys(columns, "")
        names = ("predicted", "probability", "error")
        self._added = [_free(name, columns) for name in names]
        for name, free in zip(names, self._added, strict=True):
            if free != name:
                told = f"The input has a column {name!r}: what is found now stands in {free!r}."
                print(told, file=sys.stderr)

    def __call__(self, row: Row) -> dict[str, Any]:
        """One row."""
        word, chance = ("", "") if row.error else row.in_short()
        told = row.error.message if row.error else ""
        answered = zip(self._added, (word, chance, told), strict=True)
        return self._empty | row.values | dict(answered)
