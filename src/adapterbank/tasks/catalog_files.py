"""A task of the catalogue found in a folder or on the hub, and its splits read into examples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from adapterbank.errors import DataError
from adapterbank.tasks.cells import (
    BadCell,
    missing_label,
    read_cell,
    read_number,
    read_text,
    shown,
)
from adapterbank.tasks.entries import Entry, Form
from adapterbank.tasks.glue import check_columns, tsv_rows
from adapterbank.tasks.rows import Row, Rows
from adapterbank.tasks.sources import open_rows
from adapterbank.tasks.squad import read_squad_file
from adapterbank.tasks.task import Answer, Example, Label

VARIABLE = "ADAPTERBANK_DATA"
HUB = "hub"
# Where unreadable rows are known to be: more of them than this share are an error after all.
MOST_PASSED_OVER = 0.01
SPAN_COLUMNS = ("id", "question", "context", "answers")


class Split(NamedTuple):
    """Rows of a task, with what had to be decided to read them."""

    examples: tuple[Example, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """A task's data in one form: in the folder of its files, or on the hub."""

    entry: Entry
    form: Form
    folder: Path | None

    @property
    def place(self) -> str:
        """For messages."""
        return f"hub:{self.form.folder}" if self.folder is None else str(self.folder)

    def has(self, split: str) -> bool:
        """Whether the split is there; one that every copy should have is an error if it is not."""
        if split not in self.form.files:
            return False
        there = bool(self._files(split)) if self.folder else self._labelled_on_hub(split)
        if not there and split not in self.form.may_lack:
            raise DataError(
                f"{self.entry.name}: there is no {self.form.files[split]} in {self.place}.",
                f"The data folder holds {layout(self.entry)}.",
            )
        return there

    def read(self, split: str) -> Split:
        """The rows of a split that is there, in their order."""
        parts = list(self._parts(split))
        return Split(
            tuple(example for part in parts for example in part.examples),
            tuple(note for part in parts for note in part.notes),
        )

    def _parts(self, split: str) -> Iterator[Split]:
        if self.folder is None:
            yield self._read_rows(open_rows(self._hub_split(split)))
        for path in self._files(split):
            if self.form.format == "squad":
                file = read_squad_file(path)
                yield Split(file.examples, file.notes)
            elif self.form.format == "tsv":
                yield self._read_rows(tsv_rows(path, self.form.columns))
            else:
                yield self._read_rows(open_rows(path))

    def _files(self, split: str) -> list[Path]:
        return _files(self.folder, self.form, split) if self.folder else []

    def _hub_split(self, split: str) -> str:
        return f"{self.place}:{self.form.files[split]}"

    def _labelled_on_hub(self, split: str) -> bool:
        """Test sets are on the hub without their labels, too."""
        if split not in self.form.may_lack:
            return True
        first = open_rows(self._hub_split(split)).head[0]
        return first.values.get(self.form.label) is not None

    def _read_rows(self, rows: Rows) -> Split:
        span = self.entry.kind == "span"
        check_columns(rows, SPAN_COLUMNS if span else (*self.form.texts, self.form.label))
        examples: list[Example] = []
        unreadable: list[tuple[Row, BadCell]] = []
        for row in rows.with_unreadable():
            try:
                examples.append(self._example(row))
            except BadCell as bad:
                unreadable.append((row, bad))
        most = MOST_PASSED_OVER * (len(examples) + len(unreadable)) if self.form.passes_over else 0
        if len(unreadable) > most:
            row, problem = unreadable[0]
            raise DataError(f"{self.entry.name}: {rows.where(row)}: {problem}.", problem.hint)
        return Split(tuple(examples), _passed_over_note(rows.name, [row for row, _ in unreadable]))

    def _example(self, row: Row) -> Example:
        if row.problem:
            raise BadCell("unreadable", row.problem)
        if self.entry.kind == "span":
            return _span(row.values)
        text, *pair = (read_text(row.values.get(column), column) for column in self.form.texts)
        label = read_label(self.entry, row.values.get(self.form.label))
        id = row.values.get("id", "")
        return Example(text, label, pair[0] if pair else None, str(id))


def locate(entry: Entry, folder: str | Path | None, split: str = "train") -> Found:
    """The task in this folder, on the hub if `folder` is "hub", or where ADAPTERBANK_DATA says.

    A form is taken if it has files of `split`.
    """
    if folder == HUB:
        if entry.hub is None:
            raise DataError(
                f"{entry.name} is not known to be on the hub.",
                f"Give a folder that holds {layout(entry)}.",
            )
        if split not in entry.hub.files:
            raise DataError(
                f"{entry.name} has no split {shown(split)} on the hub.",
                f"It has {', '.join(entry.hub.files)}.",
            )
        return Found(entry, entry.hub, None)
    root = folder or os.environ.get(VARIABLE)
    if not root:
        hub = f', or use folder="{HUB}" to download it' if entry.hub else ""
        raise DataError(
            f"There is no data for {entry.name}: no folder is given, and {VARIABLE} is not set.",
            f"Set {VARIABLE} to a folder that holds {layout(entry)}{hub}.",
        )
    for form in entry.forms:
        # A folder that is given may also be the task's own.
        for place in (Path(root) / form.folder, *([Path(root)] if folder else [])):
            if split in form.files and _files(place, form, split):
                return Found(entry, form, place)
    problem = f"has no {split} rows of {entry.name}" if Path(root).is_dir() else "is not a folder"
    raise DataError(f"{root} {problem}.", f"The data folder holds {layout(entry)}.")


def layout(entry: Entry) -> str:
    """Which files a data folder has for this task, in words."""
    ways = []
    for form in entry.forms:
        files = [f for split, f in form.files.items() if split not in form.may_lack]
        ways.append(f"{form.folder} with {', '.join(files)} ({_form_words(form)})")
    return ", or ".join(ways)


def read_label(entry: Entry, value: object) -> Label:
    """What a file writes as the label of a row, by name."""
    cell = read_cell(value)
    if cell is None:
        raise missing_label()
    if entry.kind == "regression":
        return read_number(cell)
    if isinstance(cell, tuple):
        raise BadCell("odd label", f"the label is a list: {shown(value)}")
    label = entry.label_names.get(cell, cell)
    if entry.labels and label not in entry.labels:
        known = (*entry.label_names, *entry.labels)
        raise BadCell("unknown", f"the label {shown(cell)} is none of {', '.join(known)}")
    return label


def _span(values: Mapping[str, Any]) -> Example:
    """A question as the hub keeps it: texts and starts of its answers in two lists."""
    answers = zip(values["answers"]["text"], values["answers"]["answer_start"], strict=True)
    return Example(
        values["question"],
        pair=values["context"],
        id=values["id"],
        answers=tuple(Answer(text, start) for text, start in answers),
    )


def _files(folder: Path, form: Form, split: str) -> list[Path]:
    return sorted(path for path in folder.glob(form.files[split]) if path.is_file())


def _form_words(form: Form) -> str:
    if form.format == "jsonl":
        return f"JSON lines of {', '.join((*form.texts, form.label))}"
    return {"tsv": "GLUE's own files", "squad": "SQuAD's JSON"}[form.format]


def _passed_over_note(name: str, rows: list[Row]) -> tuple[str, ...]:
    if not rows:
        return ()
    places = ", ".join(str(row.number) for row in rows[:10]) + (", …" if len(rows) > 10 else "")
    return (f"{name}: rows that cannot be read were passed over ({len(rows)}: {places})",)
