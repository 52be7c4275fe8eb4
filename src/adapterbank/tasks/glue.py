"""GLUE's own files: its tab-separated tables, its unlabelled test sets, and what its server takes.

A submission is a zip archive of eleven files, one for each test set, named as below.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from adapterbank.errors import DataError
from adapterbank.tasks.cells import BadCell, listing, read_text, shown
from adapterbank.tasks.entries import ENTRIES, Entry, Form
from adapterbank.tasks.rows import Row, Rows
from adapterbank.tasks.task import Example
from adapterbank.tasks.textfiles import read_lines

SUBMISSIONS = {
    "cola": "CoLA.tsv",
    "sst2": "SST-2.tsv",
    "mrpc": "MRPC.tsv",
    "stsb": "STS-B.tsv",
    "qqp": "QQP.tsv",
    "mnli": "MNLI-m.tsv",
    "mnli_mismatched": "MNLI-mm.tsv",
    "qnli": "QNLI.tsv",
    "rte": "RTE.tsv",
    "wnli": "WNLI.tsv",
    "ax": "AX.tsv",
}
# Test sets without a task of their own are answered by this one.
ANSWERED_BY = {"mnli_mismatched": "mnli", "ax": "mnli"}


def tsv_rows(path: Path, columns: Sequence[str] = ()) -> Rows:
    """A tab-separated table without quoting: a quote is a character like any other.

    `columns` names the columns of a file that has no header.
    """
    lines = enumerate(read_lines(path, "utf-8"), 1)
    cells = ((line, text.rstrip("\r\n").split("\t")) for line, text in lines if text.strip())
    if not columns:
        _, columns = next(cells, (0, [""]))
    return Rows(path.name, _rows(cells, columns), columns)


def glue_form(entry: Entry) -> Form:
    """How GLUE itself keeps this task."""
    for form in entry.forms:
        if form.format == "tsv":
            return form
    raise DataError(f"{entry.name} is not a GLUE task.", f"GLUE's: {', '.join(SUBMISSIONS)}.")


def read_glue_test(entry: Entry, path: str | Path) -> tuple[Example, ...]:
    """The texts of GLUE's unlabelled `test.tsv` in its order, for `write_submission`.

    All of these files have a header. MNLI reads its two test sets and the diagnostic one (AX).
    """
    rows = tsv_rows(Path(path))
    texts = glue_form(entry).texts
    check_columns(rows, texts)
    return tuple(_unlabelled(rows, row, texts) for row in rows)


def submission_name(task: str) -> str:
    """The file that the server expects for this test set."""
    if task not in SUBMISSIONS:
        raise DataError(
            f"GLUE has no test set {task!r}.", f"Its test sets: {listing(SUBMISSIONS, 11)}."
        )
    return SUBMISSIONS[task]


def write_submission(path: str | Path, task_name: str, predictions: Sequence[str | float]) -> None:
    """Predictions in the order of the test set, as the server reads them.

    Labels become what GLUE writes (0 and 1, or names); STS-B's values are cut to 0 … 5. The file
    appears whole or not at all.
    """
    submission_name(task_name)
    entry = ENTRIES[ANSWERED_BY.get(task_name, task_name)]
    lines = [f"{row}\t{_written(entry, row, value)}\n" for row, value in enumerate(predictions)]
    _write_whole(Path(path), "index\tprediction\n" + "".join(lines))


def check_columns(rows: Rows, needed: Sequence[str]) -> None:
    """An error that names the first column that is missing."""
    for column in needed:
        if column not in rows.columns:
            raise DataError(
                f"{rows.name} has no column {column!r}.",
                f"It has {listing([shown(each) for each in rows.columns])}.",
            )


def _rows(cells: Iterator[tuple[int, list[str]]], columns: Sequence[str]) -> Iterator[Row]:
    for number, (line, values) in enumerate(cells, 1):
        if len(values) == len(columns):
            yield Row(number, line, dict(zip(columns, values, strict=True)))
        else:
            problem = f"{len(values)} tab-separated cells, where {len(columns)} are expected"
            yield Row(number, line, {}, problem)


def _unlabelled(rows: Rows, row: Row, texts: Sequence[str]) -> Example:
    try:
        text, *pair = (read_text(row.values[column], column) for column in texts)
    except BadCell as bad:
        raise DataError(f"{rows.where(row)}: {bad}.", bad.hint) from None
    return Example(text, pair=pair[0] if pair else None)


def _written(entry: Entry, row: int, value: str | float) -> str:
    if entry.kind == "regression":
        if isinstance(value, str) or not math.isfinite(value):
            raise DataError(f"Prediction {row} of {entry.name} is {shown(value)}, not a number.")
        return f"{max(0.0, min(value, 5.0)):.3f}"
    if value not in entry.labels:
        raise DataError(
            f"Prediction {row} of {entry.name} is {shown(value)}.",
            f"Its labels: {', '.join(entry.labels)}.",
        )
    codes = {label: code for code, label in entry.label_names.items()}
    return codes.get(str(value), str(value))


def _write_whole(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_text(text, "utf-8", newline="\n")
        unfinished.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        unfinished.unlink(missing_ok=True)
