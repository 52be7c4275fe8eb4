"""Figure 7: how much a method's result depends on its learning rate."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from adapterbank.studies.answers.common import FAMILIES, about, lines, progress_note
from adapterbank.studies.study import RATE, Arm, Study
from adapterbank.tasks.metrics import LOWER_IS_BETTER
from adapterbank.training.sweep import standard_error


def compute(study: Study) -> dict[str, Any]:
    """Of every arm the test score at each rate of its list, over the tasks that have them all; of
    an arm with sizes too, the best of these on dev."""
    return {**about(study), "arms": [_arm(study, arm) for arm in study.arms if RATE in arm.grid]}


def _arm(study: Study, arm: Arm) -> dict[str, Any]:
    by_task: dict[str, dict[float, float]] = {}
    for rows in study.rows:
        found = {rate: _score(study, rows, arm, rate) for rate in arm.grid[RATE]}
        if None not in found.values():
            by_task[rows.task] = {rate: score for rate, score in found.items() if score is not None}
    return {
        "name": arm.name,
        "family": FAMILIES[arm.fixed.get("method", "adapters")],
        "tasks": list(by_task),
        "points": [
            {
                "rate": rate,
                "mean": fmean(scores[rate] for scores in by_task.values()),
                # Of what the rate costs against the task's own best: tasks differ, this does not.
                "lost": fmean(max(s.values()) - s[rate] for s in by_task.values()),
                "error": standard_error([max(s.values()) - s[rate] for s in by_task.values()]),
            }
            for rate in arm.grid[RATE]
            if by_task
        ],
    }


def _score(study: Study, rows: Any, arm: Arm, rate: float) -> float | None:
    metric = study.task(rows).metric
    sign = -1 if metric in LOWER_IS_BETTER else 1
    found = []
    for settings in arm.candidates():
        if settings[RATE] == rate:
            record = study.record(rows, settings, 0)
            if record is None:
                return None
            dev, test = (float(record[split][metric]) for split in ("dev", "test"))
            found.append((sign * dev, 100 * test))
    return max(found, key=lambda scores: scores[0])[1]  # dev alone decides, between equals too


def markdown(answer: dict[str, Any]) -> str:
    """One line a rate."""
    parts = [progress_note(answer)]
    rows = [
        [arm["name"], f"{p['rate']:g}", len(arm["tasks"]), f"{p['mean']:.1f}",
         f"{p['lost']:.1f} ± {p['error']:.1f}"]
        for arm in answer["arms"]
        for p in arm["points"]
    ]  # fmt: skip
    head = ["", "learning rate", "tasks", "mean score", "below each task's best rate"]
    return "\n\n".join([*parts, lines(head, rows)])


def draw(answer: dict[str, Any], path: Path) -> None:
    """Points lost by rate."""
    from adapterbank.figures.rates import draw_rates

    draw_rates(answer, path)
