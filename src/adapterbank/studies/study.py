"""A study: which tasks, which methods, which settings of each, how many seeds.

    reproduction/runs/<digest>.json      one record a run, shared by all studies
    reproduction/<study>/study.toml      the question (`study_file.py`)
    reproduction/<study>/study.lock      the base and the rows it is asked of

An arm with lists is tried on their whole grid with one seed; the setting that is best on dev then
runs with the other seeds. Where the best learning rate is the lowest or the highest of its list,
the list is continued (`widen`, twice at most): a best at the edge may not be the best, unless the
next rate inside is as good. With `choose = false`, for the study or for an arm, every setting runs
with every seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from adapterbank.errors import ConfigError
from adapterbank.model.heads import Kind
from adapterbank.model.methods import Method
from adapterbank.model.products import Products
from adapterbank.order import make_order
from adapterbank.studies.facts import Facts, TaskFacts, facts_of
from adapterbank.studies.runs import Record, Rows, RunConfig, RunStore

if TYPE_CHECKING:
    from adapterbank.streams.arrivals import Arrival

NGRAMS, FEATURES = "n-grams", "frozen features"
BASELINES = (NGRAMS, FEATURES)
NGRAM_TRIES = 24
RATE = "learning_rate"
SINGLE: Products = "fp32"
WIDEN = 2


@dataclass(frozen=True)
class Arm:
    """A method with what is tried of it."""

    name: str
    fixed: dict[str, Any]
    grid: dict[str, list[Any]]
    choose: bool = True
    """Whether the best setting on dev stands for the arm; else every setting stands for itself."""

    @property
    def methods(self) -> list[Any]:
        """Those that it tries."""
        return self.grid.get("method", [self.fixed.get("method", "adapters")])

    def candidates(self) -> list[dict[str, Any]]:
        """Every setting."""
        return [
            self.fixed | dict(zip(self.grid, values, strict=True))
            for values in product(*self.grid.values())
        ]


@dataclass(frozen=True)
class Study:
    """A question to the store of runs."""

    folder: Path
    title: str
    figure: str
    """How the answer is drawn: `studies/answers.py`."""
    base: str
    rows: tuple[Rows, ...]
    sources: dict[str, Arrival]
    """Where each task's rows come from."""
    arms: tuple[Arm, ...]
    seeds: int
    products: Products
    """How every run multiplies: the same on all machines."""
    widen: int
    """How often a list of learning rates may be continued."""
    reference: str
    """The arm that others are compared with."""
    groups: dict[str, list[str]]
    """Tasks that are looked at together, by a name."""
    paper: dict[str, Any]
    """The paper's own figures, to stand beside."""
    place: int
    """Where it stands among its neighbours."""

    @cached_property
    def store(self) -> RunStore:
        """The records of this study and its neighbours."""
        return RunStore(self.neighbours / "runs")

    @property
    def neighbours(self) -> Path:
        """The folder that this study and others are in, also where it is called "."."""
        return self.folder.resolve().parent

    @property
    def base_place(self) -> str:
        """The base as it is opened: like a task's files, ../bases/mpnet is named from here."""
        return str((self.folder / self.base).resolve()) if self.base[:1] == "." else self.base

    @cached_property
    def facts(self) -> Facts:
        """What is known of base and rows."""
        return self.look(fresh=False)

    def look(self, *, fresh: bool) -> Facts:
        """Find out what is not known; with `fresh`, everything once more."""
        base = (self.base, self.base_place)
        return facts_of(self.folder, base, self.rows, self.sources, fresh=fresh)

    def task(self, rows: Rows) -> TaskFacts:
        """What is known of a task's rows."""
        return self.facts.tasks[rows.task]

    def config(self, rows: Rows, settings: dict[str, Any], seed: int) -> RunConfig:
        """One run with all its numbers."""
        facts = self.task(rows)
        own = dict(settings)
        method, probe = own.pop("method", "adapters"), own.pop("probe", "")
        common = (rows, facts.digest, self.facts.base.fingerprint, method)
        if method in BASELINES and facts.kind == "span":
            raise ConfigError(
                f"{rows.task} asks for spans, which {method} cannot answer.",
                "Leave the arm out, or ask it of the other tasks in a study of their own.",
            )
        if method == FEATURES:
            return RunConfig(*common)
        if method == NGRAMS:
            return RunConfig(*common, {"tries": own.get("tries", NGRAM_TRIES)}, seed=seed)
        own = {"products": self.products, **own}
        order = make_order(self.facts.base.layers, method=method, **own)
        recipe = order.recipe_of(
            facts.train, cast(Kind, facts.kind), self.facts.base.units
        ).as_dict()
        del recipe["seed"]
        if recipe["products"] == SINGLE:  # not named, so that records from before keep their names
            del recipe["products"]
        return RunConfig(*common, _settings(order.method), recipe, seed, probe)

    def runs(self, rows: Rows, arm: Arm) -> list[RunConfig]:
        """All that is known to be needed of an arm on a task: more once its setting is chosen."""
        if not arm.choose or len(arm.candidates()) == 1:
            every = arm.candidates()
            return _unique(run for settings in every for run in self.seeded(rows, settings))
        first = [self.config(rows, settings, 0) for settings in self.tried(rows, arm)]
        chosen = self.chosen(rows, arm)
        return _unique(first if chosen is None else [*first, *self.seeded(rows, chosen)])

    def seeded(self, rows: Rows, settings: dict[str, Any]) -> list[RunConfig]:
        """One setting with every seed; once, where a seed changes nothing."""
        return _unique(self.config(rows, settings, seed) for seed in range(self.seeds))

    def tried(self, rows: Rows, arm: Arm) -> list[dict[str, Any]]:
        """Every setting of the grid, and those beyond its edges that its records ask for."""
        tried = arm.candidates()
        for _ in range(self.widen if arm.choose and len(arm.grid.get(RATE, ())) > 1 else 0):
            best = self._best(rows, tried)
            edge = _edge(best, tried) if best else None
            if edge is None or best is None:
                break
            inner, further = edge
            if self._dev(rows, inner) == self._dev(rows, best):  # a plain reaches to the edge
                break
            tried.append(further)
        return tried

    def chosen(self, rows: Rows, arm: Arm) -> dict[str, Any] | None:
        """The setting that is best on dev with the first seed; None while one is to be run."""
        candidates = arm.candidates()
        return candidates[0] if len(candidates) == 1 else self._best(rows, self.tried(rows, arm))

    def _best(self, rows: Rows, tried: list[dict[str, Any]]) -> dict[str, Any] | None:
        found = [self._dev(rows, settings) for settings in tried]
        known = [score for score in found if score is not None]
        return tried[found.index(max(known))] if len(known) == len(found) else None

    def _dev(self, rows: Rows, settings: dict[str, Any]) -> float | None:
        """The score that settings are chosen by."""
        record = self.record(rows, settings, 0)
        return None if record is None else float(record["dev"][self.task(rows).metric])

    def needed(self) -> list[RunConfig]:
        """Every run that is known to be needed, task by task; none twice."""
        return _unique(
            config for rows in self.rows for arm in self.arms for config in self.runs(rows, arm)
        )

    def missing(self) -> list[RunConfig]:
        """Those that are not done."""
        return [config for config in self.needed() if self.store.get(config) is None]

    def record(self, rows: Rows, settings: dict[str, Any], seed: int) -> Record | None:
        """Of one run; None if it is not done."""
        return self.store.get(self.config(rows, settings, seed))


def _edge(
    best: dict[str, Any], tried: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """If the best setting stands at an edge: its neighbour inside, and the one beyond."""
    alike = [each for each in tried if {**each, RATE: 0} == {**best, RATE: 0}]
    rates = sorted(each[RATE] for each in alike)
    if len(rates) < 2 or rates[0] < best[RATE] < rates[-1]:
        return None
    low, high = (rates[0], rates[1]) if best[RATE] == rates[0] else (rates[-1], rates[-2])
    further = low * low / high  # as far on as the list's own last step
    if not 0 < further < 1:
        return None
    return {**best, RATE: high}, {**best, RATE: float(f"{further:.3g}")}


def _settings(method: Method) -> dict[str, Any]:
    """Every setting that the method goes by, the defaults too."""
    if method.name == "adapters":
        return asdict(method.adapter)
    return {"top_k": method.top_k} if method.name == "top-k" else {}


def _unique(configs: Iterable[RunConfig]) -> list[RunConfig]:
    return list({config.digest: config for config in configs}.values())
