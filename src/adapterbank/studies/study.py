"""A study: which tasks, which methods, which settings of each, how many seeds.

    reproduction/runs/<digest>.json      one record a run, shared by all studies
    reproduction/<study>/study.toml      the question

    title = "Adapters against full fine-tuning"
    tasks = ["mrpc", "cola"]
    seeds = 3
    train_rows = 2500

    [[arm]]
    name = "adapters 32"
    size = 32
    learning_rate = [1e-3, 2e-3]

An arm with lists is tried on their whole grid with one seed; the setting that is best on dev then
runs with the other seeds. With `choose = false` every setting runs with every seed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from adapterbank.errors import ConfigError
from adapterbank.model.encoder import read_config
from adapterbank.model.methods import Method
from adapterbank.order import make_order
from adapterbank.studies.data import digest_of, load
from adapterbank.studies.runs import Record, Rows, RunConfig, RunStore
from adapterbank.tasks.metrics import LOWER_IS_BETTER
from adapterbank.tasks.task import Task

BASELINES = ("n-grams", "frozen features")
KNOWN = (
    "title", "base", "tasks", "seeds", "train_rows", "dev_rows", "test_rows", "choose", "reference",
    "arm",
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """A method with what is tried of it."""

    name: str
    fixed: dict[str, Any]
    grid: dict[str, list[Any]]

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Every setting."""
        for values in product(*self.grid.values()):
            yield self.fixed | dict(zip(self.grid, values, strict=True))


@dataclass(frozen=True)
class Study:
    """A question to the store of runs."""

    folder: Path
    title: str
    base: str
    fingerprint: str
    rows: tuple[Rows, ...]
    arms: tuple[Arm, ...]
    seeds: int
    choose: bool
    """Whether the best setting on dev stands for its arm; else every setting stands for itself."""
    reference: str
    """The arm that others are compared with."""

    @cached_property
    def store(self) -> RunStore:
        """The records of this study and its neighbours."""
        return RunStore(self.folder.parent / "runs")

    @cached_property
    def layers(self) -> int:
        """Of the base."""
        return int(read_config(self.base).num_hidden_layers)

    def config(self, rows: Rows, settings: dict[str, Any], seed: int) -> RunConfig:
        """One run with all its numbers."""
        task = load(rows)
        own = dict(settings)
        method = own.pop("method", "adapters")
        common = (rows, digest_of(rows), self.fingerprint, method)
        if method in BASELINES:
            return RunConfig(*common)
        order = make_order(self.layers, method=method, **own)
        recipe = order.recipe_for(task).as_dict()
        del recipe["seed"]
        return RunConfig(*common, _settings(order.method), recipe, seed)

    def runs(self, rows: Rows, arm: Arm) -> list[RunConfig]:
        """All that is known to be needed of an arm on a task: more once its setting is chosen."""
        candidates = list(arm.candidates())
        if not self.choose or len(candidates) == 1:
            return _unique(
                self.config(rows, settings, seed)
                for settings in candidates
                for seed in range(self.seeds)
            )
        first = _unique(self.config(rows, settings, 0) for settings in candidates)
        chosen = self.chosen(rows, arm)
        return first if chosen is None else _unique([*first, *self.seeded(rows, chosen)])

    def seeded(self, rows: Rows, settings: dict[str, Any]) -> list[RunConfig]:
        """One setting with every seed."""
        return [self.config(rows, settings, seed) for seed in range(self.seeds)]

    def chosen(self, rows: Rows, arm: Arm) -> dict[str, Any] | None:
        """The setting that is best on dev with the first seed; None while one is to be run."""
        candidates = list(arm.candidates())
        if len(candidates) == 1:
            return candidates[0]
        task = load(rows)
        found = []
        for settings in candidates:
            record = self.store.get(self.config(rows, settings, 0))
            if record is None:
                return None
            found.append((_rank(task, record), settings))
        return max(found, key=lambda each: each[0])[1]

    def needed(self) -> list[RunConfig]:
        """Every run that is known to be needed, task by task; none twice."""
        return _unique(
            config for rows in self.rows for arm in self.arms for config in self.runs(rows, arm)
        )

    def missing(self) -> list[RunConfig]:
        """Those that are not done."""
        return [config for config in self.needed() if self.store.get(config) is None]


def read_study(folder: Path) -> Study:
    """The study of a folder."""
    path = folder / "study.toml"
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"There is no study in {folder}: {path.name} cannot be read ({error.strerror}).",
            "Name a folder with a study.toml, such as reproduction/quality.",
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}.") from error
    for name in found:
        if name not in KNOWN:
            raise ConfigError(f"{path}: unknown entry {name!r}.", f"Entries: {', '.join(KNOWN)}.")
    for name in ("title", "tasks", "arm"):
        if not found.get(name):
            raise ConfigError(f"{path} has no {name}.")
    base = found.get("base", "minilm")
    caps = [found.get(f"{split}_rows", 0) for split in ("train", "dev", "test")]
    arms = tuple(_arm(path, arm) for arm in found["arm"])
    reference = found.get("reference", "")
    if reference and reference not in (arm.name for arm in arms):
        raise ConfigError(f"{path}: the reference {reference!r} is not one of the arms.")
    return Study(
        folder,
        found["title"],
        base,
        _fingerprint(base),
        tuple(Rows(task, *caps) for task in found["tasks"]),
        arms,
        found.get("seeds", 1),
        found.get("choose", True),
        reference,
    )


def _fingerprint(base: str) -> str:
    from adapterbank.model.encoder import load_encoder

    return load_encoder(base).fingerprint


def _arm(path: Path, found: dict[str, Any]) -> Arm:
    if "name" not in found:
        raise ConfigError(f"{path}: an arm has no name.")
    grid = {name: values for name, values in found.items() if isinstance(values, list)}
    for name, values in grid.items():
        if not values:
            raise ConfigError(f"{path}: {name} of {found['name']} is an empty list.")
    fixed = {k: v for k, v in found.items() if k not in grid and k != "name"}
    return Arm(found["name"], fixed, grid)


def _settings(method: Method) -> dict[str, Any]:
    """Every setting that the method goes by, the defaults too."""
    if method.name == "adapters":
        return asdict(method.adapter)
    return {"top_k": method.top_k} if method.name == "top-k" else {}


def _unique(configs: Iterable[RunConfig]) -> list[RunConfig]:
    return list({config.digest: config for config in configs}.values())


def _rank(task: Task, record: Record) -> float:
    score = float(record["dev"][task.metric])
    return -score if task.metric in LOWER_IS_BETTER else score
