"""The store of runs: one JSON file a run, named by a digest of all that its result depends on.

Studies that need the same run share it, and one that is done is never run again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, cast

from adapterbank.compute.records import write_record
from adapterbank.errors import ConfigError

Record = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """The data of a run: a task, and how many rows of its splits are used at most (0: all)."""

    task: str
    train: int = 0
    dev: int = 0
    test: int = 0


@dataclass(frozen=True)
class RunConfig:
    """One training run."""

    rows: Rows
    data: str
    """Digest of the rows."""
    base: str
    """Fingerprint of the base."""
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Every one of the method and its adapters."""
    recipe: dict[str, Any] = field(default_factory=dict)
    """Every number of it, the seed apart; none of a baseline."""
    seed: int = 0
    probe: str = ""
    """What is measured on the trained package besides its scores: `studies/probes.py`."""

    @property
    def digest(self) -> str:
        """The run's name. How many rows were asked for says nothing that the rows don't."""
        said = {**asdict(self), "rows": self.rows.task}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:20]


class RunStore:
    """A folder of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, config: RunConfig) -> Path:
        """Where the record of a run is, once it is done."""
        return self.folder / f"{config.digest}.json"

    def get(self, config: RunConfig) -> Record | None:
        """The record of a run; None if it is not done."""
        path = self.path(config)
        try:
            record = json.loads(path.read_text("utf-8"))
            _check(record, config)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The record {path} cannot be read: {error}.",
                "Delete it; its run is then repeated.",
            ) from error
        return cast(Record, record)

    def put(self, config: RunConfig, record: Record) -> None:
        """Keep a record: all of it, or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_record(self.path(config), {"config": asdict(config), **record})


def _check(record: Any, config: RunConfig) -> None:
    """It is of this run, and has scores: another's under its name would be taken for its own."""
    if not isinstance(record, dict):
        raise ValueError("it is no record")
    try:
        own = record["config"]
        named = RunConfig(**{**own, "rows": Rows(**own["rows"])}).digest
        scores = [record[split][record["metric"]] for split in ("dev", "test")]
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks {error}") from None
    if named != config.digest:
        raise ValueError("it is of another run")
    if not all(isinstance(score, int | float) and isfinite(score) for score in scores):
        raise ValueError(f"its scores are {scores}")
