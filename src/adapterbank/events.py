"""What learning tells as it goes; the last of it, `Learnt`, is the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from adapterbank.store.entry import Entry
from adapterbank.store.manifest import Manifest
from adapterbank.tasks.metrics import LOWER_IS_BETTER
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.report import DataReport
from adapterbank.tasks.task import Example
from adapterbank.training.baselines import Baseline
from adapterbank.training.judge import Rounded, Warned
from adapterbank.training.loop import Epoch, Scores, Step
from adapterbank.training.recipe import Recipe


@dataclass(frozen=True)
class Plan:
    """What is about to happen, and how long it is expected to take."""

    recipe: Recipe
    steps: int
    seconds: float
    """All of it: baselines, training, scoring."""
    trained_parameters: int
    package_bytes: int


@dataclass(frozen=True)
class Resumed:
    """The run goes on from a saved state."""

    step: int
    steps: int
    dev: list[Scores]
    """Of the epochs that were done before."""


@dataclass(frozen=True)
class Learnt:
    """The end: what the task learnt, and how good it is."""

    manifest: Manifest
    """Without digests: publishing fills them in."""
    tensors: dict[str, Tensor]
    examples: Sequence[Example]
    """The rows of the last score: test, or dev where there is none."""
    predictions: list[Prediction]
    seconds: float
    examples_per_second: float
    compared: Compared | None = None
    warnings: tuple[str, ...] = ()
    """What its owner should know before it is used."""

    def result(self, entry: Entry) -> dict[str, Any]:
        """What came of it, once it is in the bank; for JSON."""
        manifest = self.manifest
        return {
            "task": entry.task,
            "version": entry.version.version,
            "kind": manifest.kind,
            "labels": list(manifest.labels),
            "metric": manifest.metric,
            "positive": manifest.positive,
            "dev": manifest.dev,
            "test": manifest.test,
            "baselines": manifest.baselines,
            "method": manifest.method.name,
            "trained_parameters": manifest.parameters.trained,
            "percent_of_base": manifest.parameters.percent_of_base,
            "percent_without_embeddings": manifest.parameters.percent_without_embeddings,
            "temperature": manifest.temperature,
            "precision": manifest.precision,
            "bytes": entry.version.bytes,
            "rows": manifest.data.rows,
            "seconds": self.seconds,
            "examples_per_second": self.examples_per_second,
        }


@dataclass(frozen=True)
class Compared:
    """An earlier version and the one that went on from it, on the same rows of dev."""

    reference: str
    metric: str
    before: float
    after: float

    @property
    def worse(self) -> bool:
        """Whether going on has cost something."""
        gain = self.after - self.before
        return (-gain if self.metric in LOWER_IS_BETTER else gain) < 0


Event = DataReport | Plan | Resumed | Baseline | Step | Epoch | Rounded | Warned | Compared | Learnt
