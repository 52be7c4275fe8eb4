"""Arms by tasks: test scores, their mean, and the gap to a reference, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adapterbank.studies.answers.common import (
    FAMILIES,
    about,
    lines,
    mean_of,
    of_cell,
    plus_minus,
    progress_note,
)
from adapterbank.studies.study import Study
from adapterbank.studies.table import Table, gap_between, table_of


def compute(study: Study) -> dict[str, Any]:
    """The table as a record."""
    table = table_of(study)
    return {
        **about(study),
        "reference": study.reference,
        "whole": table.whole,
        "arms": [_arm(table, arm.name) for arm in study.arms],
        "groups": {
            group: {arm.name: _summary(table, arm.name, tasks) for arm in study.arms}
            for group, tasks in study.groups.items()
        },
        "paper": study.paper,
    }


def _arm(table: Table, arm: str) -> dict[str, Any]:
    cells = table.cells[arm]
    records = [cells[task].records[0] for task in cells]
    theirs = table.cells.get(table.study.reference, {})
    return {
        "name": arm,
        "family": _family(table.study, arm),
        "cells": {
            task: {
                **of_cell(cell),
                "gap": asdict(gap_between([cell], [theirs[task]])) if task in theirs else None,
            }
            for task, cell in cells.items()
        },
        "parameters": mean_of(record.get("trained_parameters") for record in records),
        "percent_of_base": mean_of(record.get("percent_of_base") for record in records),
        "percent_without_embeddings": mean_of(
            record.get("percent_without_embeddings") for record in records
        ),
        **_summary(table, arm, None),
    }


def _family(study: Study, name: str) -> str:
    """Baselines are families of their own; an arm that chooses its method is of none."""
    arm = next(arm for arm in study.arms if arm.name == name)
    method = "" if "method" in arm.grid else str(arm.fixed.get("method", "adapters"))
    return FAMILIES.get(method, method)


def _summary(table: Table, arm: str, tasks: Sequence[str] | None) -> dict[str, Any]:
    reference = table.study.reference
    gap = table.gap(arm, reference, tasks) if reference and arm != reference else None
    return {
        "mean": table.mean(arm, tasks),
        "gap": asdict(gap) if gap else None,
        "of": len(tasks or table.tasks),
    }


def markdown(answer: dict[str, Any]) -> str:
    """Tasks down, arms across, with means and gaps at the foot; then the paper's figures."""
    arms = answer["arms"]
    rows = [
        [f"{task['name']} ({task['metric']})",
         *(_cell(arm["cells"].get(task["name"])) for arm in arms)]
        for task in answer["tasks"]
    ]  # fmt: skip
    part = "" if len(answer["whole"]) == len(answer["tasks"]) else f" of {len(answer['whole'])}"
    rows += _foot(f"mean{part}", arms, answer["reference"])
    for group, found in answer["groups"].items():
        rows += _foot(group, [found[arm["name"]] for arm in arms], answer["reference"])
    if any(arm["percent_of_base"] for arm in arms):
        for name, key in (("trained, % of the base", "percent_of_base"),
                          ("% outside the embeddings", "percent_without_embeddings")):  # fmt: skip
            rows.append([name, *(_percent(arm[key]) for arm in arms)])
    text = lines(["", *(arm["name"] for arm in arms)], rows)
    return f"{progress_note(answer)}\n\n{text}{_paper(answer)}"


def _foot(name: str, found: list[dict[str, Any]], reference: str) -> list[list[str]]:
    rows = [[f"**{name}**", *(plus_minus(each["mean"], None, 2) for each in found)]]
    if reference:
        rows.append([f"against {reference}", *(_gap(each["gap"], each["of"]) for each in found)])
    return rows


def _gap(gap: dict[str, Any] | None, of: int) -> str:
    """With the number of tasks, where these are not all."""
    if gap is None:
        return ""
    part = f" ({gap['tasks']})" if gap["tasks"] < of else ""
    error = "" if gap["error"] is None else f" ± {gap['error']:.2f}"
    return f"{gap['mean']:+.2f}{error}{part}"


def _percent(value: float | None) -> str:
    """Of what trains the embeddings too, the share outside them is none."""
    return "" if value is None or value > 100 else f"{value:.2f}"


def _cell(cell: dict[str, Any] | None) -> str:
    return "" if cell is None else plus_minus(cell["mean"], cell["error"])


def _paper(answer: dict[str, Any]) -> str:
    if not answer["paper"]:
        return ""
    arms = list(answer["paper"])
    tasks = list(dict.fromkeys(task for arm in arms for task in answer["paper"][arm]))
    rows = [[task, *(answer["paper"][arm].get(task, "") for arm in arms)] for task in tasks]
    return f"\nThe paper's own figures:\n\n{lines(['', *arms], rows)}"


def draw(answer: dict[str, Any], path: Path) -> None:
    """The gap of every arm on every task."""
    from adapterbank.figures.gaps import draw_gaps

    draw_gaps(answer, path)
