"""What a study needs to know of its base and of its tasks' rows: without it, no run has a name.

It is found out once and kept beside the study in `study.lock`, so that what was found can be looked
at and drawn where neither the rows nor the base are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from adapterbank.compute.records import write_record
from adapterbank.errors import ConfigError
from adapterbank.studies.data import load
from adapterbank.studies.runs import Rows
from adapterbank.tasks.metrics import LOWER_IS_BETTER

LOCK = "study.lock"


@dataclass(frozen=True)
class BaseFacts:
    """Of the base."""

    name: str
    fingerprint: str
    layers: int


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


@dataclass(frozen=True)
class Facts:
    """Of a study."""

    base: BaseFacts
    tasks: dict[str, TaskFacts]


def facts_of(
    folder: Path, base: str, rows: tuple[Rows, ...], sources: Mapping[str, Any], *, fresh: bool
) -> Facts:
    """Those of the lock, and whatever it lacks. `fresh` looks at everything again, and refuses rows
    or a base that are others than the lock's: their results could not stand beside the old ones."""
    path = folder / LOCK
    kept = _read(path)
    known = kept is not None and kept.base.name == base
    asked = Facts(
        kept.base if kept and known and not fresh else _base_facts(base),
        {
            each.task: kept.tasks[each.task]
            if kept and not fresh and _has(kept, each)
            else _task_facts(each, sources[each.task])
            for each in rows
        },
    )
    if kept is not None:
        _compare(path, kept, asked)
    if asked != kept:
        write_record(path, asdict(asked))
    return asked


def _has(kept: Facts, rows: Rows) -> bool:
    return rows.task in kept.tasks and kept.tasks[rows.task].rows == rows


def _compare(path: Path, kept: Facts, now: Facts) -> None:
    changed = [
        f"rows of {task}"
        for task, found in now.tasks.items()
        if _has(kept, found.rows) and kept.tasks[task].digest != found.digest
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


def _base_facts(base: str) -> BaseFacts:
    from adapterbank.model.encoder import load_encoder

    encoder = load_encoder(base)
    return BaseFacts(base, encoder.fingerprint, encoder.layers)


def _task_facts(rows: Rows, source: Any) -> TaskFacts:
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
    sizes = (len(each) for each in (task.train, task.dev, task.test))
    return TaskFacts(rows, task.digest(), task.kind, task.metric, *sizes)
