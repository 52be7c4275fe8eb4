"""Grids of settings, and the choice among them as the paper makes it: the best on validation.

A trial is one setting with one seed. Trials that differ in nothing but the seed are one candidate:
its dev score is their mean, and the candidate with the best one wins. Test scores stand in the
records, and the choice never looks at them.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from adapterbank.errors import ConfigError
from adapterbank.tasks.metrics import LOWER_IS_BETTER

# What a grid may vary: the method, the adapters, and any setting of the recipe.
AXES = (
    "method", "size", "top_k", "first_layer", "recipe", "learning_rate", "epochs", "batch_size",
    "warmup", "weight_decay", "max_length",
)  # fmt: skip
# Axes that say nothing of other methods; without this a grid would repeat the same run.
OWN_AXES = {"size": "adapters", "first_layer": "adapters", "top_k": "top-k"}
GRIDS: dict[str, dict[str, list[Any]]] = {
    "quick": {"method": ["adapters"], "size": [16, 64], "learning_rate": [1e-3, 3e-3]},
    "methods": {
        "method": ["adapters", "full", "top-k", "layer-norm", "head"],
        "size": [32],
        "top_k": [2],
    },
    # PAPER, section 3.2 and 3.3. Seeds come from --seeds: the paper has 5.
    "paper-glue": {
        "recipe": ["paper"],
        "method": ["adapters"],
        "learning_rate": [3e-5, 3e-4, 3e-3],
        "epochs": [3, 20],
        "size": [8, 64, 256],
    },
    "paper-extra": {
        "recipe": ["paper"],
        "method": ["adapters"],
        "learning_rate": [1e-5, 3e-5, 1e-4, 3e-3],
        "size": [2, 4, 8, 16, 32, 64],
        "epochs": [20, 50, 100],
    },
}
MAX_TRIALS = 10_000


@dataclass(frozen=True)
class Trial:
    """One setting with one seed."""

    settings: dict[str, Any]
    seed: int

    @property
    def id(self) -> str:
        """A short digest of both."""
        text = json.dumps([self.settings, self.seed], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return " ".join([describe(self.settings), f"seed {self.seed}"])


def describe(settings: dict[str, Any]) -> str:
    """Settings in a few words."""
    words = [f"{name} {value}" for name, value in settings.items() if name != "method"]
    return ", ".join([settings.get("method", "adapters"), *words])


@dataclass(frozen=True)
class Candidate:
    """Trials of one setting, over seeds."""

    settings: dict[str, Any]
    dev: float
    """Mean of the metric."""
    dev_error: float | None
    """Standard error of that mean; None with one seed."""
    test: float | None
    test_error: float | None
    trials: tuple[str, ...]
    best_trial: str
    """The seed that is best on dev: what is published."""


def read_grid(name: str) -> dict[str, list[Any]]:
    """A grid by name, or from a TOML file with one list an axis."""
    if name in GRIDS:
        return GRIDS[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise ConfigError(
            f"There is no grid {name!r}.", f"Grids: {', '.join(GRIDS)}, or a .toml file."
        )
    try:
        grid = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"The grid {name} cannot be read: {error}.") from error
    return check_grid(grid, path.name)


def check_grid(grid: dict[str, Any], name: str) -> dict[str, list[Any]]:
    """A grid with known axes and at least one value on each."""
    for axis, values in grid.items():
        if axis not in AXES:
            raise ConfigError(f"{name}: unknown axis {axis!r}.", f"Axes: {', '.join(AXES)}.")
        if not isinstance(values, list) or not values:
            raise ConfigError(f"{name}: {axis} is {values!r}.", "Give a list: [1e-4, 1e-3].")
    if not grid:
        raise ConfigError(f"{name} has no axis.", f"Axes: {', '.join(AXES)}.")
    return grid


def trials(grid: dict[str, list[Any]], seeds: int) -> list[Trial]:
    """Every setting with every seed, seeds innermost; none twice."""
    count = math.prod(len(values) for values in grid.values()) * seeds
    if count > MAX_TRIALS:
        raise ConfigError(f"The grid has {count:,} trials; {MAX_TRIALS:,} at most can be run.")
    found: dict[str, Trial] = {}
    for values in product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        method = settings.get("method", "adapters")
        own = {k: v for k, v in settings.items() if OWN_AXES.get(k, method) == method}
        for seed in range(seeds):
            trial = Trial(own, seed)
            found[trial.id] = trial
    return list(found.values())


def rank(records: Iterable[dict[str, Any]], metric: str) -> list[Candidate]:
    """Candidates, the best on dev first; of equals the one with fewer parameters."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(json.dumps(record["settings"], sort_keys=True), []).append(record)
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    found = [
        (_candidate(group, metric, sign), min(record["trained_parameters"] for record in group))
        for group in groups.values()
    ]
    found.sort(key=lambda pair: (-sign * pair[0].dev, pair[1], describe(pair[0].settings)))
    return [candidate for candidate, _ in found]


def _candidate(group: list[dict[str, Any]], metric: str, sign: float) -> Candidate:
    group = sorted(group, key=lambda record: record["seed"])
    dev = [record["dev"][metric] for record in group]
    test = [record["test"][metric] for record in group if record["test"]]
    best = max(group, key=lambda record: sign * record["dev"][metric])
    return Candidate(
        group[0]["settings"],
        fmean(dev),
        standard_error(dev),
        fmean(test) if test else None,
        standard_error(test),
        tuple(record["id"] for record in group),
        best["id"],
    )


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean of these values; None of fewer than two, which say nothing of others."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
