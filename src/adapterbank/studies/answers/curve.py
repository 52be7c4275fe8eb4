"""Figures 4 and 5: the score of each task by the number of trained parameters, with errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapterbank.studies.answers.common import (
    FAMILIES,
    about,
    lines,
    of_cell,
    plus_minus,
    progress_note,
)
from adapterbank.studies.study import Arm, Study
from adapterbank.studies.table import cell_with


def compute(study: Study) -> dict[str, Any]:
    """Every setting of every arm, with all its seeds; of a rate that is chosen, the best one's."""
    return {
        **about(study),
        "points": {
            rows.task: [
                {
                    "name": name,
                    "family": FAMILIES[arm.fixed.get("method", "adapters")],
                    **of_cell(cell),
                }
                for arm in study.arms
                for name, settings in _settings(study, rows, arm)
                if (cell := cell_with(study, rows, settings)) is not None
            ]
            for rows in study.rows
        },
        "paper": study.paper,
    }


def _settings(study: Study, rows: Any, arm: Arm) -> list[tuple[str, dict[str, Any]]]:
    if arm.choose:
        chosen = study.chosen(rows, arm)
        return [] if chosen is None else [(arm.name, chosen)]
    return list(zip(names_of(arm), arm.candidates(), strict=True))


def names_of(arm: Arm) -> list[str]:
    """What its points are called."""
    if arm.choose:
        return [arm.name]
    return [
        " ".join([arm.name, *(str(settings[axis]) for axis in arm.grid)])
        for settings in arm.candidates()
    ]


def markdown(answer: dict[str, Any]) -> str:
    """Settings down, tasks across."""
    names = list(dict.fromkeys(p["name"] for found in answer["points"].values() for p in found))
    tasks = [task["name"] for task in answer["tasks"]]
    by_task = {task: {p["name"]: p for p in answer["points"][task]} for task in tasks}
    rows = []
    for name in names:
        cells = [by_task[task].get(name) for task in tasks]
        parameters = next(cell["parameters"] for cell in cells if cell)
        rows.append(
            [name, f"{parameters:,}",
             *("" if cell is None else plus_minus(cell["mean"], cell["error"]) for cell in cells)]
        )  # fmt: skip
    head = ["", "trained", *(f"{task['name']} ({task['metric']})" for task in answer["tasks"])]
    return f"{progress_note(answer)}\n\n{lines(head, rows)}"


def draw(answer: dict[str, Any], path: Path) -> None:
    """A panel a task, a line a family."""
    from adapterbank.figures.curve import draw_curve

    draw_curve(answer, path)
