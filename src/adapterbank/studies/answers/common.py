"""What every kind of answer begins with, and words that they share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from adapterbank.studies.study import Study
from adapterbank.studies.table import Cell

FAMILIES = {
    "adapters": "adapters",
    "top-k": "top layers",
    "layer-norm": "LayerNorms only",
    "full": "full fine-tuning",
    "head": "head only",
}


def about(study: Study) -> dict[str, Any]:
    """Of the study itself, and of how far it has come."""
    needed = study.needed()
    done = [record for config in needed if (record := study.store.get(config)) is not None]
    return {
        "title": study.title,
        "figure": study.figure,
        "base": study.facts.base.name,
        "seeds": study.seeds,
        "products": study.products,
        "runs_done": len(done),
        "runs_known": len(needed),
        "hours": sum(record["seconds"] for record in done) / 3600,
        "tasks": [
            {"name": facts.rows.task, "metric": facts.metric, "train": facts.train,
             "dev": facts.dev, "test": facts.test}
            for facts in map(study.task, study.rows)
        ],
    }  # fmt: skip


def of_cell(cell: Cell) -> dict[str, Any]:
    """A cell as a plain record."""
    first = cell.records[0]
    return {
        "mean": cell.mean,
        "error": cell.error,
        "scores": list(cell.scores),
        "settings": cell.settings,
        "parameters": first.get("trained_parameters"),
    }


def progress_note(answer: dict[str, Any]) -> str:
    """What there is to know before one looks at figures."""
    tasks = answer["tasks"]
    rows = f"{max(task['train'] for task in tasks):,}"
    tested = sorted({task["test"] for task in tasks})
    of = f"{tested[0]:,}" + (f" to {tested[-1]:,}" if len(tested) > 1 else "")
    seeds = f", {answer['seeds']} seeds" if answer["seeds"] > 1 else ", one seed"
    half = ", products in bfloat16" if answer["products"] == "bf16" else ""
    note = f"`{Path(answer['base']).name}`, at most {rows} training rows a task, {of} test rows"
    note += seeds + half
    if answer["runs_done"] < answer["runs_known"]:
        note += f"; {answer['runs_done']} of at least {answer['runs_known']} runs are done"
    return f"{note}."


def line(cells: Iterable[object]) -> str:
    """One of a Markdown table."""
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


def lines(head: Iterable[object], rows: Iterable[Iterable[object]], *, words: bool = False) -> str:
    """A Markdown table; every column but the first holds figures, or `words`."""
    head = list(head)
    marks = ["---", *["---" if words else "--:"] * (len(head) - 1)]
    return "\n".join([line(head), line(marks), *map(line, rows)]) + "\n"


def plus_minus(mean: float | None, error: float | None, digits: int = 1) -> str:
    """A mean with its standard error; nothing where there is none."""
    if mean is None:
        return ""
    return f"{mean:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def mean_of(values: Iterable[float | None]) -> float | None:
    """Of those that are there."""
    found = [value for value in values if value is not None]
    return fmean(found) if found else None
