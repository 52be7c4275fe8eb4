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
from itertools import chain, combinations_with_replacement, zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adapterbank.errors import ConfigError
from adapterbank.model.encoder import Encoder
from adapterbank.model.task_model import Row, TaskModel, token_batches
from adapterbank.store.mount import mount
from adapterbank.store.package import Package
from adapterbank.tasks.metrics import LOWER_IS_BETTER
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.task import Example, Task
from adapterbank.training.evaluate import predictions_of, scores_of
from adapterbank.training.rows import prepare

_Batch = tuple[Sequence[Row], Sequence[Row] | None]
_Change = tuple[int, int] | int | None  # a run of layers without adapters, a size, or none
_NOTHING = np.empty(0, np.float32)
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
    tokens, types = rows.encoded.take()
    with mount(encoder, package) as model:
        names = _adapters(model)
        layers = sorted(names)
        spans = [(first, last) for first in layers for last in layers if first <= last]
        halves = _halves(manifest.adapter.size)
        batches = list(token_batches([len(row) for row in tokens]))
        found: dict[_Change, list[NDArray[np.float32]]] = {
            change: [_NOTHING] * len(tokens) for change in (None, *spans, *halves)
        }
        done = 0
        for chosen in batches:
            batch = (
                [tokens[i] for i in chosen],
                None if types is None else [types[i] for i in chosen],
            )
            by_row = [len(row) for row in batch[0]] if rows.windows is not None else 1
            for change, logits in chain(
                _without_runs(model, encoder, names, batch), _narrowed(model, names, halves, batch)
            ):
                for i, piece in zip(chosen, _pieces(logits, by_row), strict=True):
                    found[change][i] = piece
                done += 1
                progress(done, len(found) * len(batches))

    def score(change: _Change) -> float:
        answers = predictions_of(
            task, rows, np.concatenate(found[change]), threshold=manifest.threshold
        )
        return scores_of(task, examples, answers)[task.metric]

    return Ablation(
        task.metric, len(examples), tuple(layers), score(None), _constant(task, examples),
        tuple(Without(*span, score(span)) for span in spans),
        tuple(Narrowed(size, score(size)) for size in halves),
    )  # fmt: skip


def _without_runs(
    model: TaskModel, encoder: Encoder, names: Mapping[int, list[str]], batch: _Batch
) -> Iterator[tuple[_Change, NDArray[np.float32]]]:
    """Logits of one batch: with all adapters, and without those of each run of layers.

    Below its first layer a run without adapters is the whole; and without layers i to j it is, as
    far as layer j, the run without i to j - 1. So each begins at its last layer, with what an
    earlier one left there: of twelve layers 30 passes in place of 79, of six 10 in place of 22.
    Layers that take turns (an ALBERT's may) leave nothing to begin with.
    """
    layers = encoder.sites.layer_modules(model.base)
    with _kept_outputs(layers) as whole, _order(layers) as order:
        yield None, model.logits(*batch)
    if order != sorted(order):
        yield from _in_whole_passes(model, names, batch)
        return
    entering: dict[int, Any] = {}  # the next layer, without adapters from this one on
    adapted = sorted(names)
    for last, above in zip_longest(adapted, adapted[1:], fillvalue=len(layers)):
        if last:
            entering[last] = whole[layers[last - 1]]
        with _zeroed(model, names[last]):
            for first in [layer for layer in adapted if layer <= last]:
                below = {layer: whole[layer] for layer in layers[:last]}
                if last:
                    below[layers[last - 1]] = entering[first]
                with _answering(below), _kept_outputs([layers[above - 1]]) as left:
                    yield (first, last), model.logits(*batch)
                entering[first] = left[layers[above - 1]]


def _in_whole_passes(
    model: TaskModel, names: Mapping[int, list[str]], batch: _Batch
) -> Iterator[tuple[_Change, NDArray[np.float32]]]:
    """Logits of one batch without the adapters of each run of layers, computed from the start."""
    for first, last in combinations_with_replacement(sorted(names), 2):
        gone = [name for layer, each in names.items() if first <= layer <= last for name in each]
        with _zeroed(model, gone):
            yield (first, last), model.logits(*batch)


def _narrowed(
    model: TaskModel, names: Mapping[int, list[str]], halves: Sequence[int], batch: _Batch
) -> Iterator[tuple[_Change, NDArray[np.float32]]]:
    """Logits of one batch with the strongest units of each adapter alone."""
    for size in halves:
        with _kept(model, [name for each in names.values() for name in each], size):
            yield size, model.logits(*batch)


@contextmanager
def _kept_outputs(layers: Iterable[nn.Module]) -> Iterator[dict[nn.Module, Any]]:
    """What layers answer within this block, each the last time it is asked."""
    outputs: dict[nn.Module, Any] = {}

    def keep(layer: nn.Module, _: Any, output: Any) -> None:
        outputs[layer] = output

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _order(layers: Iterable[nn.Module]) -> Iterator[list[int]]:
    """The numbers of the layers as they run within this block."""
    found: list[int] = []
    handles = [
        layer.register_forward_hook(lambda *_, number=number: found.append(number))
        for number, layer in enumerate(layers)
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _answering(outputs: Mapping[nn.Module, Any]) -> Iterator[None]:
    """Layers that answer what is known, and compute nothing."""
    for layer, output in outputs.items():
        layer.forward = lambda *_, output=output, **__: output
    try:
        yield
    finally:
        for layer in outputs:
            del layer.forward


def _pieces(logits: NDArray[np.float32], by_row: list[int] | int) -> list[NDArray[np.float32]]:
    """Those of each row."""
    if isinstance(by_row, int):
        return [logits[i : i + 1] for i in range(len(logits))]
    return np.split(logits, np.cumsum(by_row)[:-1])


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
