"""Which task is meant: the tasks whose texts a text is like, by the bare encoder's judgement.

Each package carries a few centres of its own texts and how near unseen ones come to them. A text is
measured against every task with those numbers alone, so a new task changes nothing for the older
ones. A text that is further from every task's centres than that task's own texts ever are belongs
to none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapterbank.errors import AdapterBankError, BankError, DataError, PackageError
from adapterbank.serving.engine import Engine
from adapterbank.store.manifest import Manifest
from adapterbank.store.statistics import Statistics, read_statistics
from adapterbank.tasks.predictions import Prediction

# How far below a task's mean cosine its own texts still are, in deviations: 9 of 10 are nearer. In
# a bank of many tasks fewer are refused, for a text that is far from its own may be near another's.
FAR = 1.28
# How many independent directions a cosine stands for: it turns differences into chances.
DIRECTIONS = 24.0
NARROWEST = 1e-3  # how wide a task's texts lie at least: some have all but one text
KEPT = 20_000  # versions whose statistics are remembered


@dataclass(frozen=True)
class Route:
    """A task that a text may be meant for."""

    task: str
    probability: float
    """Among the tasks that were looked at."""


@dataclass(frozen=True)
class _Known:
    reads_pairs: bool
    statistics: Statistics | None


class Router:
    """The statistics of an engine's tasks, each version's read once."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._known: dict[tuple[str, str], _Known] = {}

    def route(
        self, inputs: Sequence[Any], tasks: Iterable[str] | None = None, most: int = 3
    ) -> list[list[Route] | AdapterBankError]:
        """Of each input the likely tasks, the likeliest first; none if it is like no task's texts.
        An input that cannot be read has its error in its place."""
        names = list(self.engine.store.tasks() if tasks is None else tasks)
        embedded = self.engine.answer([(None, value) for value in inputs])
        return self.among(inputs, embedded, names, most)

    def among(
        self, inputs: Sequence[Any], embedded: Sequence[Prediction], names: Sequence[str], most: int
    ) -> list[list[Route] | AdapterBankError]:
        """The same for inputs whose embeddings are known."""
        found: list[list[Route] | AdapterBankError] = []
        statistics: dict[bool, dict[str, Statistics]] = {}
        for value, answer in zip(inputs, embedded, strict=True):
            if answer.embedding is None:
                found.append(answer.error or DataError("The input has no embedding."))
                continue
            pair = isinstance(value, Mapping) and len(value) > 1
            vector = np.array(answer.embedding, np.float32)
            if pair not in statistics:
                statistics[pair] = dict(self._statistics(names, pair, len(vector)))
            found.append(nearest(vector, statistics[pair], most))
        return found

    def _statistics(
        self, names: Iterable[str], pair: bool, width: int
    ) -> Iterator[tuple[str, Statistics]]:
        """Of the tasks that read such inputs and have any."""
        store = self.engine.store
        for name in names:
            try:
                entry = store.find(name)
                key = (entry.task, entry.version.package)
                known = self._known.get(key) or _read(store.manifest(entry), width)
            except (BankError, PackageError):  # gone since, or damaged: it answers nothing
                continue
            self._known[key] = known
            if len(self._known) > KEPT:
                self._known.pop(next(iter(self._known)))
            if known.statistics is not None and known.reads_pairs == pair:
                yield entry.task, known.statistics


def _read(manifest: Manifest, width: int) -> _Known:
    found = manifest.statistics
    pairs = manifest.pair or manifest.kind == "span"
    return _Known(pairs, None if found is None else read_statistics(found, width))


def nearest(vector: NDArray[np.float32], tasks: dict[str, Statistics], most: int) -> list[Route]:
    """The tasks nearest to a text's vector, with their chances; none if it is far from all."""
    direction = vector / max(float(np.linalg.norm(vector)), 1e-12)
    cosines = np.array([float((each.centres @ direction).max()) for each in tasks.values()])
    near = np.array([each.near for each in tasks.values()])
    spread = np.array([each.spread for each in tasks.values()])
    if not len(cosines) or bool(((cosines - near) / spread < -FAR).all()):
        return []
    # A normal distribution around the nearest centre, as wide as the task's own texts lie.
    width = np.maximum(1.0 - near, NARROWEST)
    score = -0.5 * DIRECTIONS * (np.log(width) + (1.0 - cosines) / width)
    chances = np.exp(score - score.max())
    chances /= chances.sum()
    names = list(tasks)
    return [Route(names[i], float(chances[i])) for i in np.argsort(-chances)[:most]]
