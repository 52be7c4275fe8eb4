"""Labelled rows of a new file for a task that has been learnt: its kind and labels are settled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from adapterbank.errors import DataError
from adapterbank.tasks.cells import BadCell, read_cell
from adapterbank.tasks.columns import Columns, find_columns
from adapterbank.tasks.drafts import BadRows, read_texts
from adapterbank.tasks.labels import LabelNames, label_reader, names_by_code
from adapterbank.tasks.rows import Rows
from adapterbank.tasks.sources import Source, local_file, open_rows
from adapterbank.tasks.squad import read_squad
from adapterbank.tasks.task import Example, Kind

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Labelled:
    """The rows that can be used, and what became of the others."""

    examples: list[Example] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Where each stands in its file, from 1."""
    left_out: int = 0
    notes: tuple[str, ...] = ()
    """On what was left out."""


def read_labelled(
    source: Source,
    kind: Kind,
    labels: Sequence[str] = (),
    *,
    pairs: bool = False,
    known: Mapping[str, str] = NOTHING,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    label_names: LabelNames | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
) -> Labelled:
    """All rows. Columns that are not given are the task's own (`known`, by role) where the file has
    them, else found as for training. Bad rows are an error, or left out by `skip_bad`."""
    if kind == "span":
        examples = list(read_squad(_squad_file(source)))
        return Labelled(examples, list(range(1, len(examples) + 1)))
    rows = open_rows(source, encoding)
    columns = find_columns(
        rows,
        text=text_column or if_there(known.get("text"), rows.columns),
        pair=pair_column or if_there(known.get("pair"), rows.columns),
        label=label_column or if_there(known.get("label"), rows.columns),
        pairs=pairs,
    )
    return _read(rows, columns, kind, tuple(labels), names_by_code(label_names, kind), skip_bad)


def if_there(column: str | None, columns: Collection[str]) -> str | None:
    """The column, if the file has it."""
    return column if column is not None and column in columns else None


def _read(
    rows: Rows,
    columns: Columns,
    kind: Kind,
    labels: tuple[str, ...],
    names: Mapping[str, str],
    skip_bad: bool,
) -> Labelled:
    reader = label_reader(kind, names, labels=labels)
    examples, numbers, bad = [], [], BadRows()
    for row in rows.with_unreadable():
        try:
            text, pair = read_texts(row, columns)
            label = reader(read_cell(row.values.get(columns.label)))
        except BadCell as problem:
            bad.add(row.number, rows.where(row), problem)
            continue
        examples.append(Example(text, label, pair))
        numbers.append(row.number)
    notes = bad.settle(skip_bad)
    if not examples:
        raise DataError(f"{rows.name}: no row is left. {notes[0]}.", "Mend some of them.")
    return Labelled(examples, numbers, bad.sorts.total(), notes)


def _squad_file(source: Source) -> Path:
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".json":
        return local_file(source)
    name = Path(source).name if isinstance(source, str | Path) else "the rows given"
    raise DataError(f"{name}: not a span task.", "Give SQuAD's form in a .json file.")
