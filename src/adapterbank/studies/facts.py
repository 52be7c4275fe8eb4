"""What a study needs to know of its base and of its tasks' rows: without it, no run has a name.

It is found out once and kept beside the study in `study.lock`, so that what was found can be looked
at and drawn where neither the rows nor the base are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapterbank.compute.records import write_record
from adapterbank.errors import ConfigError
from adapterbank.studies.data import load
from adapterbank.studies.runs import Rows
from adapterbank.tasks.metrics import LOWER_IS_BETTER

if TYPE_CHECKING:
    from adapterbank.streams.arrivals import Arrival

LOCK = "study.lock"


@dataclass(frozen=True)
class BaseFacts:
    """Of the base."""

    name: str
    fingerprint: str
    layers: int
    units: int


@dataclass(frozen=True)
class TaskFacts:
    """Of a task's rows."""

    rows: Rows
    digest: str
    """Of all that is in them."""
    kind: str
    metric: str
    train: int
    dev: int
    test: int
    asked: dict[str, Any] = field(default_factory=dict)
    """Of rows of one's own: their files, and how they are read."""


@dataclass(frozen=True)
class Facts:
    """Of a study."""

    base: BaseFacts
    tasks: dict[str, TaskFacts]


def facts_of(
    folder: Path,
    base: tuple[str, str],
    rows: tuple[Rows, ...],
    sources: Mapping[str, Arrival],
    *,
    fresh: bool,
) -> Facts:
    """Those of the lock, and whatever it lacks, or was asked otherwise. `base`: as it is called and
    as it is opened. `fresh` looks at everything again, and refuses rows
    or a base that are others than the lock's: their results could not stand beside the old ones."""
    path = folder / LOCK
    kept = _read(path)
    known = kept is not None and kept.base.name == base[0]
    asked = Facts(
        kept.base if kept and known and not fresh else _base_facts(*base),
        {
            each.task: kept.tasks[each.task]
            if kept and not fresh and _has(kept, each, sources[each.task])
            else _task_facts(each, sources[each.task])
            for each in rows
        },
    )
    if kept is not None:
        _compare(path, kept, asked, sources)
    if asked != kept:
        write_record(path, asdict(asked))
    return asked


def _has(kept: Facts, rows: Rows, source: Arrival) -> bool:
    """Whether the same was asked: the same rows, read in the same way."""
    found = kept.tasks.get(rows.task)
    return found is not None and (found.rows, found.asked) == (rows, _asked(source))


def _asked(source: Arrival) -> dict[str, Any]:
    files = {split: Path(place).name for split, place in source.sources.items()}
    return files | source.settings


def _compare(path: Path, kept: Facts, now: Facts, sources: Mapping[str, Arrival]) -> None:
    changed = [
        f"rows of {task}"
        for task, found in now.tasks.items()
        if _has(kept, found.rows, sources[task]) and kept.tasks[task].digest != found.digest
    ]
    if kept.base.name == now.base.name and kept.base.fingerprint != now.base.fingerprint:
        changed.append(f"base {now.base.name}")
    if changed:
        raise ConfigError(
            f"The {', '.join(changed)} here and those that {path} was made with are not the same.",
            f"Use the same ones, or delete {path.name}: the study then begins anew.",
        )


def _read(path: Path) -> Facts | None:
    try:
        found = json.loads(path.read_text("utf-8"))
        tasks = {
            name: TaskFacts(**{**each, "rows": Rows(**each["rows"])})
            for name, each in found["tasks"].items()
        }
        return Facts(BaseFacts(**found["base"]), tasks)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", "Delete it: it is made anew."
        ) from None


def _base_facts(name: str, place: str) -> BaseFacts:
    from adapterbank.model.encoder import load_encoder

    encoder = load_encoder(place)
    return BaseFacts(name, encoder.fingerprint, encoder.layers, encoder.units)


def _task_facts(rows: Rows, source: Arrival) -> TaskFacts:
    task = load(rows, source)
    if not task.test:
        raise ConfigError(
            f"{task.name} has no test rows, and a study reports scores on them.",
            "Give test beside dev in study.toml, or neither: then both are cut from train.",
        )
    if task.metric in LOWER_IS_BETTER:  # gaps, bests and pictures all take more for better
        raise ConfigError(
            f"{task.name} is measured by {task.metric}, of which less is better.",
            'In a study name another for it: metric = "pearson".',
        )
    return TaskFacts(
        rows, task.digest(), task.kind, task.metric,
        len(task.train), len(task.dev), len(task.test), _asked(source),
    )  # fmt: skip
