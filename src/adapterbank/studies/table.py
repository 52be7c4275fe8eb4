"""What a study has found: test scores of each arm on each task, and the gap to a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from adapterbank.studies.data import load
from adapterbank.studies.runs import Record, Rows
from adapterbank.studies.study import BASELINES, Arm, Study
from adapterbank.training.sweep import standard_error


@dataclass(frozen=True)
class Cell:
    """One arm on one task."""

    settings: dict[str, Any]
    """Those that were chosen on dev."""
    scores: tuple[float, ...]
    """Of test, one a seed, in per cent; one alone for a method without a seed."""
    records: tuple[Record, ...]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(self.scores)

    @property
    def error(self) -> float:
        """Of the mean."""
        return standard_error(self.scores)


@dataclass(frozen=True)
class Gap:
    """How far an arm is above the reference: seed by seed, on the mean over tasks."""

    mean: float
    error: float


@dataclass(frozen=True)
class Table:
    """A study's cells, by arm and task; an arm stands in it once all of its runs are done."""

    study: Study
    cells: dict[str, dict[str, Cell]]

    @property
    def tasks(self) -> list[str]:
        """In the study's order."""
        return [rows.task for rows in self.study.rows]

    def metric(self, task: str) -> str:
        """The one that the task is measured by."""
        return next(load(rows).metric for rows in self.study.rows if rows.task == task)

    def mean(self, arm: str) -> float | None:
        """Over all tasks; None while one is missing."""
        cells = self._whole(arm)
        return fmean(cell.mean for cell in cells) if cells else None

    def gap(self, arm: str, reference: str) -> Gap | None:
        """None while a run of either is missing."""
        ours, theirs = self._whole(arm), self._whole(reference)
        if not ours or not theirs:
            return None
        gaps = [
            fmean(
                _of_seed(mine, seed) - _of_seed(other, seed)
                for mine, other in zip(ours, theirs, strict=True)
            )
            for seed in range(self.study.seeds)
        ]
        return Gap(fmean(gaps), standard_error(gaps))

    def _whole(self, arm: str) -> list[Cell]:
        cells = self.cells[arm]
        return [cells[task] for task in self.tasks] if len(cells) == len(self.tasks) else []


def table_of(study: Study) -> Table:
    """Everything that is done so far, of a study that chooses."""
    return Table(
        study,
        {
            arm.name: {
                rows.task: cell for rows in study.rows if (cell := cell_of(study, rows, arm))
            }
            for arm in study.arms
        },
    )


def cell_of(study: Study, rows: Rows, arm: Arm) -> Cell | None:
    """None while a run is missing."""
    chosen = study.chosen(rows, arm)
    if chosen is None:
        return None
    configs = study.seeded(rows, chosen)
    if chosen.get("method") in BASELINES:
        configs = configs[:1]
    records = [study.store.get(config) for config in configs]
    done = [record for record in records if record is not None]
    if len(done) < len(records):
        return None
    metric = load(rows).metric
    return Cell(chosen, tuple(100 * r["test"][metric] for r in done), tuple(done))


def _of_seed(cell: Cell, seed: int) -> float:
    return cell.scores[seed] if len(cell.scores) > 1 else cell.scores[0]


def markdown(table: Table) -> str:
    """The table as Markdown: mean ± standard error over seeds, and the gap to the reference."""
    reference = table.study.reference
    head = ["", *(f"{task} ({table.metric(task)})" for task in table.tasks), "mean"]
    if reference:
        head.append(f"against {reference}")
    lines = [_line(head), _line(["---"] * len(head))]
    for arm, cells in table.cells.items():
        mean = table.mean(arm)
        line = [arm, *(_cell(cells.get(task)) for task in table.tasks), _number(mean)]
        if reference:
            gap = None if arm == reference else table.gap(arm, reference)
            line.append("" if gap is None else f"{gap.mean:+.2f} ± {gap.error:.2f}")
        lines.append(_line(line))
    return "\n".join(lines) + "\n"


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return f"{cell.mean:.1f} ± {cell.error:.1f}" if len(cell.scores) > 1 else f"{cell.mean:.1f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
