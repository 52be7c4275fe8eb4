"""Figure 6: what removing trained adapters costs, and how large a start may be."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from adapterbank.studies.answers.common import about, lines, of_cell, plus_minus, progress_note
from adapterbank.studies.study import Arm, Study
from adapterbank.studies.table import cell_with
from adapterbank.training.sweep import standard_error

STD = "init_std"


def compute(study: Study) -> dict[str, Any]:
    """Of each task the mean over seeds of every score without some layers' adapters; and of the
    arms that vary the start, the scores."""
    return {
        **about(study),
        "removed": {
            rows.task: found
            for rows in study.rows
            for arm in study.arms
            if arm.fixed.get("probe") == "ablation" and (found := _removed(study, rows, arm))
        },
        "starts": {
            rows.task: [
                {"std": settings[STD], **of_cell(cell)}
                for arm in study.arms
                if STD in arm.grid
                for settings in arm.candidates()
                if (cell := cell_with(study, rows, settings)) is not None
            ]
            for rows in study.rows
        },
    }


def shows(arm: Arm) -> str:
    """Whether an arm is of removed adapters or of starts."""
    if arm.fixed.get("probe") == "ablation":
        return "removed"
    return "starts" if list(arm.grid) == [STD] else ""


def _removed(study: Study, rows: Any, arm: Arm) -> dict[str, Any] | None:
    chosen = study.chosen(rows, arm)
    cell = None if chosen is None else cell_with(study, rows, chosen)
    if cell is None:
        return None
    found = [record["ablation"] for record in cell.records]
    whole = fmean(each["whole"] for each in found)
    without = [
        [each["first"], each["last"], fmean(other["without"][i]["score"] for other in found)]
        for i, each in enumerate(found[0]["without"])
    ]
    return {
        "layers": found[0]["layers"],
        "whole": whole,
        "constant": found[0]["constant"],
        "without": without,
        "change": [[i, j, _change(score, whole)] for i, j, score in without],
        "halves_error": standard_error([_halves(each) for each in found]),
    }


def _halves(found: dict[str, Any]) -> float:
    """By how many per cent the lower half of the layers is worth less than the upper."""
    layers, half = found["layers"], len(found["layers"]) // 2
    scores = {(each["first"], each["last"]): each["score"] for each in found["without"]}
    lower, upper = (layers[0], layers[half - 1]), (layers[half], layers[-1])
    if half == 0:
        return 0.0
    return _change(scores[lower], found["whole"]) - _change(scores[upper], found["whole"])


def _change(score: float, whole: float) -> float:
    """In per cent of the whole score; of nothing there is nothing to lose."""
    return 100 * (score - whole) / whole if whole else 0.0


def changes(removed: dict[str, Any]) -> dict[tuple[int, int], float]:
    """The change of the score in per cent of the whole one, by first and last layer removed."""
    return {(i, j): change for i, j, change in removed["change"]}


def markdown(answer: dict[str, Any]) -> str:
    """What one layer costs, what all cost, and the starts."""
    parts = [progress_note(answer)]
    rows = []
    for task, removed in answer["removed"].items():
        change, layers = changes(removed), removed["layers"]
        single = {layer: change[layer, layer] for layer in layers}
        worst = min(single, key=lambda layer: single[layer])
        half = len(layers) // 2
        constant = removed["constant"]
        rows.append(
            [task, f"{100 * removed['whole']:.1f}", f"{single[worst]:+.1f} % (layer {worst})",
             f"{change[layers[0], layers[half - 1]]:+.1f} %",
             f"{change[layers[half], layers[-1]]:+.1f} %",
             f"{change[layers[0], layers[-1]]:+.1f} %",
             "" if constant is None else f"{_change(constant, removed['whole']):+.1f} %"]
        )  # fmt: skip
    if rows:
        head = ["", "whole", "worst single layer", "lower half", "upper half", "all", "majority"]
        parts.append(lines(head, rows))
    stds = sorted({point["std"] for found in answer["starts"].values() for point in found})
    if stds:
        tasks = [task for task, found in answer["starts"].items() if found]
        by = {task: {p["std"]: p for p in answer["starts"][task]} for task in tasks}
        body = [[f"{std:g}", *(_start(by[task].get(std)) for task in tasks)] for std in stds]
        parts.append(lines(["init std", *tasks], body))
    return "\n\n".join(parts)


def _start(cell: dict[str, Any] | None) -> str:
    return "" if cell is None else plus_minus(cell["mean"], cell["error"])


def draw(answer: dict[str, Any], path: Path) -> None:
    """A heat map a task, and a curve over the starts."""
    from adapterbank.figures.ablation import draw_ablation

    draw_ablation(answer, path)
