"""Which adapters of a trained task matter: its answers without some of them, nothing trained again.

The paper's figure 6, for any task. An adapter whose second projection is zero adds nothing: it is
the identity, as if it were not there. The LayerNorms stay as they were learnt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from adapterbank.errors import ConfigError
from adapterbank.model.encoder import Encoder
from adapterbank.model.task_model import TaskModel
from adapterbank.store.mount import mount
from adapterbank.store.package import Package
from adapterbank.tasks.metrics import LOWER_IS_BETTER
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.task import Example, Task
from adapterbank.training.evaluate import logits_of, predictions_of, scores_of
from adapterbank.training.rows import prepare

_ADAPTER = re.compile(r"(layer\.(\d+)\.(?:attention|output))\.up\.weight")


@dataclass(frozen=True)
class Without:
    """The score without the adapters of layers `first` to `last`."""

    first: int
    last: int
    score: float


@dataclass(frozen=True)
class Narrowed:
    """The score with the `size` strongest units of each adapter alone."""

    size: int
    score: float


@dataclass(frozen=True)
class Ablation:
    """What each layer's adapters are worth."""

    metric: str
    rows: int
    layers: tuple[int, ...]
    """Those that have adapters."""
    whole: float
    """The score with all of them."""
    constant: float | None
    """Of always giving the most frequent answer, where the kind of task has one."""
    without: tuple[Without, ...]
    """For every first and last layer."""
    narrowed: tuple[Narrowed, ...]
    """For every half of the size, down to 1."""

    @property
    def lower_is_better(self) -> bool:
        """Of its metric."""
        return self.metric in LOWER_IS_BETTER

    def cost(self, score: float) -> float:
        """How much worse than the whole a score is."""
        return (score - self.whole) * (1 if self.lower_is_better else -1)

    def score_without(self, first: int, last: int) -> float:
        """Without the adapters of these layers."""
        return next(w.score for w in self.without if (w.first, w.last) == (first, last))

    def spare_layers(self, most: float) -> int | None:
        """The highest of the layers from the lowest on that together cost at most so much."""
        lowest = self.layers[0]
        found = [
            last for last in self.layers if self.cost(self.score_without(lowest, last)) <= most
        ]
        return max(found, default=None)

    def least_size(self, most: float) -> int | None:
        """The smallest size that costs at most so much."""
        return min((n.size for n in self.narrowed if self.cost(n.score) <= most), default=None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def ablate(
    encoder: Encoder,
    package: Package,
    examples: Sequence[Example],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Ablation:
    """Score a task without the adapters of every run of layers, and with narrower ones."""
    manifest = package.manifest
    if manifest.adapter is None:
        raise ConfigError(
            f"{manifest.task!r} was trained by {manifest.method.name}: it has no adapters.",
            "Only tasks trained with adapters can be looked at in this way.",
        )
    task = Task(
        manifest.task, manifest.labels, (), examples, (), manifest.kind, manifest.metric,
        manifest.positive,
    )  # fmt: skip
    rows = prepare(encoder, task, examples, manifest.max_length)
    with mount(encoder, package) as model:
        names = _adapters(model)
        layers = sorted(names)
        spans = [(first, last) for first in layers for last in layers if first <= last]
        halves = _halves(manifest.adapter.size)
        done = 0

        def score() -> float:
            nonlocal done
            answers = predictions_of(
                task, rows, logits_of(model, rows), threshold=manifest.threshold
            )
            done += 1
            progress(done, 1 + len(spans) + len(halves))
            return scores_of(task, examples, answers)[task.metric]

        whole = score()
        without = []
        for first, last in spans:
            with _zeroed(
                model, (n for each in layers if first <= each <= last for n in names[each])
            ):
                without.append(Without(first, last, score()))
        narrowed = []
        for size in halves:
            with _kept(model, [n for each in layers for n in names[each]], size):
                narrowed.append(Narrowed(size, score()))
    return Ablation(
        task.metric, len(examples), tuple(layers), whole, _constant(task, examples),
        tuple(without), tuple(narrowed),
    )  # fmt: skip


def _adapters(model: TaskModel) -> dict[int, list[str]]:
    """The adapters of each layer, by the beginning of their tensors' names."""
    found: dict[int, list[str]] = {}
    for name in model.tensors():
        if match := _ADAPTER.fullmatch(name):
            found.setdefault(int(match[2]), []).append(match[1])
    return found


def _halves(size: int) -> list[int]:
    return [size >> i for i in range(1, size.bit_length())]


@contextmanager
def _changed(
    model: TaskModel, change: Callable[[Mapping[str, Tensor]], None], names: list[str]
) -> Iterator[None]:
    """Some tensors of the model changed; as they were, afterwards."""
    tensors = model.tensors()
    before = {name: tensors[name].clone() for name in names}
    try:
        with torch.no_grad():
            change(tensors)
        yield
    finally:
        with torch.no_grad():
            for name, value in before.items():
                tensors[name].copy_(value)


def _zeroed(model: TaskModel, adapters: Iterable[str]) -> Any:
    """Without these adapters."""
    names = [f"{adapter}.up.{part}" for adapter in adapters for part in ("weight", "bias")]

    def change(tensors: Mapping[str, Tensor]) -> None:
        for name in names:
            tensors[name].zero_()

    return _changed(model, change, names)


def _kept(model: TaskModel, adapters: list[str], size: int) -> Any:
    """With the strongest units of each adapter alone: what goes into one times what comes out."""
    names = [f"{adapter}.up.weight" for adapter in adapters]

    def change(tensors: Mapping[str, Tensor]) -> None:
        for adapter in adapters:
            up, down = (tensors[f"{adapter}.{part}.weight"] for part in ("up", "down"))
            strength = up.norm(dim=0) * down.norm(dim=1)
            weakest = strength.argsort()[: len(strength) - size]
            up[:, weakest] = 0

    return _changed(model, change, names)


def _constant(task: Task, examples: Sequence[Example]) -> float | None:
    if task.kind != "classification":
        return None
    (label, _), *_ = Counter(example.label for example in examples).most_common(1)
    answers = [Prediction(label=str(label))] * len(examples)
    return scores_of(task, examples, answers)[task.metric]
