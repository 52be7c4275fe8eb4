"""The pass in torch: the reference, every kind of adapter, and the way on a GPU.

Rows stand packed, those of one task together, so that each adapter sees one stretch of tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np
import torch
from torch import Tensor

from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.mixed import Overlay, Part, can_mix, make_overlay, mixed
from adapterbank.model.prefix import can_skip, skipping, states_entering
from adapterbank.model.task_model import TaskModel, token_batches
from adapterbank.serving.rows import Array, Row, Seat
from adapterbank.store.manifest import Manifest
from adapterbank.store.mount import mount
from adapterbank.store.package import Package


@dataclass(frozen=True)
class TorchSeat:
    """A task's tensors as modules."""

    overlay: Overlay
    lowest: int
    """The first layer that it changes."""


class TorchPass:
    """Adapters of every form, many tasks in one pass."""

    def __init__(self, encoder: Encoder, lock: threading.RLock | None = None) -> None:
        """`lock` is held by whoever has the encoder."""
        self.encoder, self.lock = encoder, lock or threading.RLock()

    def takes(self, manifest: Manifest) -> bool:
        """All that leaves the base's own weights alone, if the base can mix rows of tasks."""
        alone = manifest.method.name in ("adapters", "layer-norm", "head")
        return alone and can_mix(self.encoder.model, self.encoder.sites)

    def bytes_of(self, manifest: Manifest) -> int:
        """What its tensors take."""
        return tensor_bytes(manifest)

    def seat(self, package: Package) -> TorchSeat:
        """Make modules of a task's tensors."""
        return self.seat_tensors(package.manifest.adapter, package.arrays)

    def seat_tensors(self, adapter: AdapterConfig | None, arrays: Mapping[str, Array]) -> TorchSeat:
        """The same for tensors by neutral name; a head among them is left out."""
        tensors = {
            name: torch.from_numpy(array)
            for name, array in arrays.items()
            if not name.startswith("head.")
        }
        overlay = make_overlay(adapter, tensors, next(self.encoder.model.parameters()))
        return TorchSeat(overlay, overlay.lowest(self.encoder.layers))

    def leave(self, seat: Seat) -> None:
        """Nothing is held but the seat itself."""

    def run(self, rows: Sequence[Row]) -> list[Array]:
        """What each row's head reads."""
        found: list[Array | None] = [None] * len(rows)
        with self.lock, torch.inference_mode(), _bare(self.encoder) as model, model.packing():
            model.eval()
            for chosen in token_batches([len(row.tokens) for row in rows]):
                chosen.sort(key=lambda i: id(rows[i].seat))
                some = [rows[i] for i in chosen]
                for i, each in zip(chosen, self._read(model, some), strict=True):
                    found[i] = each
        return cast(list[Array], found)

    def _read(self, model: TaskModel, rows: Sequence[Row]) -> Iterator[Array]:
        lengths = torch.tensor([len(row.tokens) for row in rows], device=model.device)
        with model.autocast():
            hidden = self._states(model, rows)
            pooled = {
                reads: model.pool(hidden, lengths, reads).float().cpu().numpy()
                for reads in {row.reads for row in rows}
                if reads is not None
            }
        tokens = hidden.float().cpu().split(lengths.tolist())
        for i, row in enumerate(rows):
            yield pooled[row.reads][i] if row.reads else tokens[i].numpy()

    def _states(self, model: TaskModel, rows: Sequence[Row]) -> Tensor:
        """The states of all tokens: [tokens, d]."""
        base, sites = model.base, model.sites
        batch = model.collate([row.tokens for row in rows], [row.types for row in rows])
        parts = [
            Part(cast(TorchSeat, first.seat).overlay if first.seat else None, size)
            for first, size in _stretches(rows, by_token=batch.bounds is not None)
        ]
        depth = min(row.seat.lowest if row.seat else self.encoder.layers for row in rows)
        beginning: AbstractContextManager[None] = nullcontext()
        if 0 < depth < self.encoder.layers and can_skip(base, sites):
            known = self._below(model, rows, depth)
            if known is not None:
                beginning = skipping(base, sites, depth, known.unsqueeze(0))
        with mixed(base, sites, parts, dim=0 if batch.bounds is None else 1), beginning:
            return model.states(batch)

    def _below(self, model: TaskModel, rows: Sequence[Row], depth: int) -> Tensor | None:
        """What enters a layer that no task has changed anything before, each text computed once;
        None if no text is there twice."""
        texts: dict[bytes, int] = {}
        numbers = [texts.setdefault(row.key, len(texts)) for row in rows]
        if len(texts) == len(rows):
            return None
        each = [rows[numbers.index(number)] for number in range(len(texts))]
        batch = model.collate([row.tokens for row in each], [row.types for row in each])
        layer = model.sites.layer_modules(model.base)[depth]
        states = states_entering(model.base, layer, {**batch.inputs, "bounds": batch.bounds})
        pieces = states.squeeze(0).split(batch.lengths.tolist())
        return torch.cat([pieces[number] for number in numbers])


def _stretches(rows: Sequence[Row], *, by_token: bool) -> Iterator[tuple[Row, int]]:
    """Neighbours of one task: the first of them, and how many tokens or rows they are."""
    for _, some in groupby(rows, key=lambda row: id(row.seat)):
        group = list(some)
        yield group[0], sum(len(row.tokens) for row in group) if by_token else len(group)


def _bare(encoder: Encoder) -> TaskModel:
    """The encoder lent out with nothing on it."""
    with torch.random.fork_rng(devices=[]):  # its head is not read
        return TaskModel(encoder, "regression", method=Method("head"))


@dataclass(frozen=True)
class WholeSeat:
    """A task that has changed the base itself: it runs on its own."""

    package: Package
    lowest: int = 0


class WholePass:
    """Tasks of any method, one after the other: each has the encoder to itself for its rows.

    The way for full and top-k fine-tuning, whose packages hold weights of the base: costly, and
    marked so in listings.
    """

    def __init__(self, encoder: Encoder, lock: threading.RLock | None = None) -> None:
        self.encoder, self.lock = encoder, lock or threading.RLock()

    def takes(self, manifest: Manifest) -> bool:
        """Everything."""
        del manifest
        return True

    def bytes_of(self, manifest: Manifest) -> int:
        """What its tensors take."""
        return tensor_bytes(manifest)

    def seat(self, package: Package) -> WholeSeat:
        """Keep its tensors at hand."""
        return WholeSeat(package)

    def leave(self, seat: Seat) -> None:
        """Nothing is held but the seat itself."""

    def run(self, rows: Sequence[Row]) -> list[Array]:
        """What each row's head reads."""
        found: list[Array | None] = [None] * len(rows)
        for seat in {id(row.seat): cast(WholeSeat, row.seat) for row in rows}.values():
            chosen = [i for i, row in enumerate(rows) if row.seat is seat]
            some = [rows[i] for i in chosen]
            tokens, types = [row.tokens for row in some], [row.types for row in some]
            with self.lock, mount(self.encoder, seat.package) as model:
                if some[0].reads is None:
                    ends = np.cumsum([len(row) for row in tokens])
                    read = np.split(model.token_states(tokens, types), ends[:-1])
                else:
                    read = list(model.features(tokens, types))
            for i, each in zip(chosen, read, strict=True):
                found[i] = each
        return cast(list[Array], found)


def tensor_bytes(manifest: Manifest) -> int:
    """Of a package's tensors in single precision."""
    return manifest.weights_bytes * (2 if manifest.precision == "fp16" else 1)
