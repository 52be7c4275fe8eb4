"""A look at a file of labelled text before anything is learnt from it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from adapterbank.errors import AdapterBankError
from adapterbank.tasks.cells import shown
from adapterbank.tasks.drafts import BadRows
from adapterbank.tasks.load import load_task
from adapterbank.tasks.report import data_report
from adapterbank.tasks.rows import Rows
from adapterbank.tasks.sources import open_rows

PREVIEW = 20  # rows
CELL = 300  # characters of a cell
LABELS = 1_000


def look(path: Path, encoding: str = "utf-8", **reading: Any) -> dict[str, Any]:
    """What a file holds: columns, a preview, what would be learnt, problems by row, and the error
    if it cannot be learnt from as it is. `reading` says how, as for `load_task`."""
    table = path.suffix.lower() != ".json"
    rows = open_rows(path, encoding) if table else None
    bad = BadRows()
    found: dict[str, Any] = {
        "columns": list(rows.columns) if rows else [],
        "preview": _preview(rows) if rows else [],
        "kind": None,
        "text_column": None,
        "pair_column": None,
        "label_column": None,
        "rows": {},
        "labels": {},
        "values": None,
        "notes": [],
        "warnings": [],
        "error": None,
    }
    try:
        task = load_task("look", path, encoding=encoding, skip_bad=table, bad=bad, **reading)
    except AdapterBankError as error:
        # The file by its name: whoever sent it does not know where it lies.
        said = error.message.replace(f"{path.parent}/", "")
        found["error"] = {"message": said, "hint": error.hint}
    else:
        report = data_report(task, None, 0)
        found |= {f"{role}_column": column for role, column in task.columns.items()}
        found |= {
            "kind": task.kind,
            "rows": report.rows,
            "labels": dict(islice(report.classes.items(), LABELS)),
            "values": report.values,
            "notes": list(task.notes),
            "warnings": list(report.warnings),
        }
    return found | {
        "problems": [{"row": row, "message": said} for row, said in bad.listed],
        "bad_rows": bad.sorts.total(),
    }


def _preview(rows: Rows) -> list[dict[str, str]]:
    return [
        {column: _cell(row.values.get(column)) for column in rows.columns}
        for row in rows.head[:PREVIEW]
    ]


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else shown(value, CELL)
    return text if len(text) <= CELL else f"{text[:CELL]}…"
