"""Figure 7: how much a method's result depends on its learning rate."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from adapterbank.studies.answers.common import (
    FAMILIES,
    about,
    lines,
    plus_minus,
    progress_note,
)
from adapterbank.studies.study import RATE, Arm, Study
from adapterbank.training.sweep import standard_error

SPLITS = ("dev", "test")
Scores = tuple[float, float]


def compute(study: Study) -> dict[str, Any]:
    """Of every arm the test score at each rate of its list, over the tasks that have them all and
    the seeds that every rate has; of an arm with sizes too, the best of these on dev."""
    return {**about(study), "arms": [_arm(study, arm) for arm in study.arms if RATE in arm.grid]}


def _arm(study: Study, arm: Arm) -> dict[str, Any]:
    by_task: dict[str, dict[float, Scores]] = {}
    for rows in study.rows:
        found = {rate: _score(study, rows, arm, rate) for rate in arm.grid[RATE]}
        if None not in found.values():
            by_task[rows.task] = {rate: score for rate, score in found.items() if score is not None}
    lost = {
        rate: [_lost(scores, rate, 1) for scores in by_task.values()] for rate in arm.grid[RATE]
    }
    return {
        "name": arm.name,
        "family": FAMILIES[arm.fixed.get("method", "adapters")],
        "tasks": list(by_task),
        "points": [
            {
                "rate": rate,
                "mean": fmean(scores[rate][1] for scores in by_task.values()),
                # Of what the rate costs against the task's own best: tasks differ, this does not.
                "lost": fmean(lost[rate]),
                "error": standard_error(lost[rate]),
                "lost_on_dev": fmean(_lost(scores, rate, 0) for scores in by_task.values()),
            }
            for rate in arm.grid[RATE]
            if by_task
        ],
    }


def _lost(scores: dict[float, Scores], rate: float, split: int) -> float:
    return max(each[split] for each in scores.values()) - scores[rate][split]


def _score(study: Study, rows: Any, arm: Arm, rate: float) -> Scores | None:
    """Of dev and test."""
    metric = study.task(rows).metric
    found = []
    for settings in arm.candidates():
        if settings[RATE] == rate:
            # Where a rate is chosen, the others have one seed.
            seeds = range(1 if arm.choose else study.seeds)
            records = [study.record(rows, settings, seed) for seed in seeds]
            if None in records:
                return None
            dev, test = (fmean(r[split][metric] for r in records if r) for split in SPLITS)
            found.append((100 * dev, 100 * test))
    return max(found, key=lambda scores: scores[0])  # dev alone decides, of equals too


def markdown(answer: dict[str, Any]) -> str:
    """One line a rate."""
    parts = [progress_note(answer)]
    rows = [
        [arm["name"], f"{p['rate']:g}", len(arm["tasks"]), f"{p['mean']:.1f}",
         plus_minus(p["lost"], p["error"]), f"{p['lost_on_dev']:.1f}"]
        for arm in answer["arms"]
        for p in arm["points"]
    ]  # fmt: skip
    head = ["", "learning rate", "tasks", "mean score", "below each task's best rate", "on dev"]
    return "\n\n".join([*parts, lines(head, rows)])


def draw(answer: dict[str, Any], path: Path) -> None:
    """Points lost by rate."""
    from adapterbank.figures.rates import draw_rates

    draw_rates(answer, path)
