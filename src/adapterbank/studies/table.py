"""What a study has found: test scores of each arm on each task, and the gap to a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from adapterbank.studies.runs import Record, Rows
from adapterbank.studies.study import Arm, Study
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
    def error(self) -> float | None:
        """Of the mean; None of a single seed: it says nothing of others."""
        return standard_error(self.scores)


@dataclass(frozen=True)
class Gap:
    """How far an arm is above the reference: seed by seed, on the mean over tasks."""

    mean: float
    error: float | None
    tasks: int
    """How many it is over."""


@dataclass(frozen=True)
class Table:
    """A study's cells, by arm and task; an arm stands in it once all of its runs are done."""

    study: Study
    cells: dict[str, dict[str, Cell]]

    @property
    def tasks(self) -> list[str]:
        """In the study's order."""
        return [rows.task for rows in self.study.rows]

    @property
    def whole(self) -> list[str]:
        """The tasks that every arm is done with: means are over these, so that all are of the
        same tasks."""
        return [task for task in self.tasks if all(task in cells for cells in self.cells.values())]

    def metric(self, task: str) -> str:
        """The one that the task is measured by."""
        return self.study.facts.tasks[task].metric

    def mean(self, arm: str, tasks: Sequence[str] | None = None) -> float | None:
        """Over all whole tasks, or some of them; None where there is none."""
        cells = [self.cells[arm][task] for task in self.whole if tasks is None or task in tasks]
        return fmean(cell.mean for cell in cells) if cells else None

    def gap(self, arm: str, reference: str, tasks: Sequence[str] | None = None) -> Gap | None:
        """Over the tasks that both are done with; None where there is none."""
        ours, theirs = self.cells[arm], self.cells[reference]
        both = [task for task in tasks or self.tasks if task in ours and task in theirs]
        if not both:
            return None
        return gap_between([ours[task] for task in both], [theirs[task] for task in both])


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
    return None if chosen is None else cell_with(study, rows, chosen)


def cell_with(study: Study, rows: Rows, settings: dict[str, Any]) -> Cell | None:
    """One setting with all its seeds; None while a run is missing."""
    records = [study.store.get(config) for config in study.seeded(rows, settings)]
    done = [record for record in records if record is not None]
    if len(done) < len(records):
        return None
    metric = study.task(rows).metric
    return Cell(settings, tuple(100 * r["test"][metric] for r in done), tuple(done))


def gap_between(ours: Sequence[Cell], theirs: Sequence[Cell]) -> Gap:
    """The mean over tasks of what one has over the other on the same seed; the error over seeds. A
    cell without seeds stands for all."""
    seeds = max(len(cell.scores) for cell in (*ours, *theirs))
    gaps = [
        fmean(
            _of_seed(mine, seed) - _of_seed(other, seed)
            for mine, other in zip(ours, theirs, strict=True)
        )
        for seed in range(seeds)
    ]
    return Gap(fmean(gaps), standard_error(gaps), len(ours))


def _of_seed(cell: Cell, seed: int) -> float:
    return cell.scores[seed] if len(cell.scores) > 1 else cell.scores[0]
