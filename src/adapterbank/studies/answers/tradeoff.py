"""Figures 1 and 3: what is lost against full fine-tuning, by the number of trained parameters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from adapterbank.studies.answers.common import (
    FAMILIES,
    about,
    lines,
    mean_of,
    progress_note,
)
from adapterbank.studies.study import Study
from adapterbank.studies.table import Cell, Table, table_of

PERCENTILES = (20, 50, 80)  # the paper's


def compute(study: Study) -> dict[str, Any]:
    """For each arm the gaps over tasks: test score minus the reference's, on the same seeds."""
    table = table_of(study)
    groups = study.groups or {"all tasks": table.tasks}
    return {
        **about(study),
        "reference": study.reference,
        "reference_parameters": _trained(table.cells[study.reference].values()),
        "groups": {name: _points(table, tasks) for name, tasks in groups.items()},
    }


def _points(table: Table, tasks: list[str]) -> list[dict[str, Any]]:
    reference = table.cells[table.study.reference]
    found = []
    for arm in table.study.arms:
        cells = table.cells[arm.name]
        gaps = {
            task: cells[task].mean - reference[task].mean
            for task in tasks
            if task in cells and task in reference
        }
        if arm.name == table.study.reference or not gaps:
            continue
        found.append(
            {
                "name": arm.name,
                "family": FAMILIES[arm.fixed.get("method", "adapters")],
                "parameters": _trained(cells[task] for task in gaps),
                "gaps": gaps,
                "percentiles": [float(p) for p in np.percentile([*gaps.values()], PERCENTILES)],
            }
        )
    return found


def _trained(cells: Iterable[Cell]) -> float | None:
    """Parameters, on average over tasks; those with more labels have larger heads."""
    return mean_of(cell.records[0]["trained_parameters"] for cell in cells)


def markdown(answer: dict[str, Any]) -> str:
    """One table a group."""
    parts = [progress_note(answer)]
    for group, points in answer["groups"].items():
        rows = [
            [p["name"], f"{p['parameters']:,.0f}", len(p["gaps"]),
             *(f"{value:+.1f}" for value in p["percentiles"])]
            for p in points
        ]  # fmt: skip
        head = ["", "trained a task", "tasks", *(f"{p}th percentile" for p in PERCENTILES)]
        parts.append(f"Points above {answer['reference']}, {group}:\n\n{lines(head, rows)}")
    return "\n\n".join(parts)


def draw(answer: dict[str, Any], path: Path) -> None:
    """Medians with the band between the outer percentiles."""
    from adapterbank.figures.tradeoff import draw_tradeoff

    draw_tradeoff(answer, path)
