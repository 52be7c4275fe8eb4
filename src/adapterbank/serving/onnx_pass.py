"""The pass on a CPU: ONNX Runtime on the base's graph. Nothing here imports torch.

Rows are sorted by length and cut into runs, so that little is padded. Tasks are kept in classes of
bottleneck sizes; a run is of one class. Within a run, a text that several tasks read is computed
once for as long as none of them has changed it.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from adapterbank.model.config import AdapterConfig
from adapterbank.serving.arena import BARE, Arena
from adapterbank.serving.export import Export
from adapterbank.serving.rows import Array, Row, Seat
from adapterbank.store.manifest import Manifest
from adapterbank.store.package import Package

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

SMALLEST = 8  # the least class of bottleneck sizes; they go up by doubling
RUN_TOKENS = 4096  # of one run at most: more fall out of the cache
RUN_COST = 24  # tokens that take as long as starting one more run
SPIN = "10"  # microseconds: the next operation of a run comes within that, or not soon
NEVER = 1 << 30  # the layer from which a task that changes none on changes states


@dataclass(frozen=True)
class Place:
    """A task's slot in the arena of its class."""

    size: int
    slot: int
    lowest: int
    """The first layer that it changes, counted in the encoder's depth; the embeddings' LayerNorm
    changes with the first."""


class OnnxPass:
    """Tasks of the standard form, all on one graph."""

    def __init__(self, export: Export, budget: int, threads: int = 0) -> None:
        """`budget` is the memory for tasks in bytes; 0 threads: as many as there are cores."""
        self.export, self.budget = export, budget
        self.session = open_session(export.graph, threads)
        self._arenas: dict[int, Arena] = {}
        self._lock = threading.Lock()

    def takes(self, manifest: Manifest) -> bool:
        """Adapters of the standard form in any size, at any sites; LayerNorms and heads alone."""
        adapter = manifest.adapter
        if adapter is None:
            return manifest.method.name in ("layer-norm", "head")
        like = AdapterConfig(
            adapter.size, layers=adapter.layers, where=adapter.where, init_std=adapter.init_std,
            train_layer_norms=adapter.train_layer_norms,
        )  # fmt: skip
        return adapter == like

    def bytes_of(self, manifest: Manifest) -> int:
        """A slot; a head alone needs none."""
        return (
            0
            if manifest.method.name == "head"
            else self.export.form.bytes(class_of(manifest.adapter))
        )

    def seat(self, package: Package) -> Place:
        """Copy a task's tensors into a slot."""
        return self.seat_tensors(package.manifest.adapter, package.arrays)

    def seat_tensors(self, adapter: AdapterConfig | None, arrays: Mapping[str, Array]) -> Place:
        """The same for tensors by neutral name; a head among them is left out."""
        tensors = {name: array for name, array in arrays.items() if not name.startswith("head.")}
        if not tensors:
            return Place(SMALLEST, BARE, NEVER)
        size = class_of(adapter)
        return Place(size, self._arena(size).put(tensors), self._lowest(tensors))

    def _lowest(self, names: Iterable[str]) -> int:
        parts = [name.split(".") for name in names]
        if any(name[0] == "embeddings" for name in parts):
            return 0
        stored = min(int(name[1]) for name in parts if name[0] == "layer")
        return stored * self.export.depth // self.export.form.layers

    def _arena(self, size: int) -> Arena:
        with self._lock:
            if size not in self._arenas:
                form = self.export.form
                slots = max(1, self.budget // form.bytes(size))
                self._arenas[size] = Arena(form, size, slots, self.export.own)
            return self._arenas[size]

    def leave(self, seat: Seat) -> None:
        """Give the slot back."""
        place = cast(Place, seat)
        if place.slot != BARE:
            self._arena(place.size).free(place.slot)

    def run(self, rows: Sequence[Row]) -> list[Array]:
        """What each row's head reads."""
        found: list[Array | None] = [None] * len(rows)
        for size, chosen in self._by_class(rows).items():
            for run in cut_runs([len(rows[i].tokens) for i in chosen]):
                some = [chosen[i] for i in run]
                for i, each in zip(some, self._run(size, [rows[i] for i in some]), strict=True):
                    found[i] = each
        return cast(list[Array], found)

    def _by_class(self, rows: Sequence[Row]) -> dict[int, list[int]]:
        """Row numbers by class. Rows of no slot go with the largest: every arena has the base."""
        classes: defaultdict[int, list[int]] = defaultdict(list)
        bare = []
        for i, row in enumerate(rows):
            place = cast(Place | None, row.seat)
            if place is None or place.slot == BARE:
                bare.append(i)
            else:
                classes[place.size].append(i)
        if bare:
            most = max(classes, key=lambda size: len(classes[size]), default=SMALLEST)
            classes[most] += bare
        return classes

    def _run(self, size: int, rows: Sequence[Row]) -> Iterator[Array]:
        plan = Plan.of(rows, self.export.depth)
        feed: dict[str, NDArray[Any]] = {**self._arena(size).inputs, **plan.inputs}
        if not self.export.token_types:
            del feed["token_type_ids"]
        wanted = sorted({row.reads or "hidden" for row in rows})
        out = dict(zip(wanted, self.session.run(wanted, feed), strict=True))
        for row, place in zip(rows, plan.places, strict=True):
            found = out[row.reads or "hidden"][place]
            yield found if row.reads else found[: len(row.tokens)]


@dataclass(frozen=True)
class Plan:
    """The inputs of a run that say which rows go where, and where each row comes out."""

    inputs: dict[str, NDArray[Any]]
    places: list[int]

    @classmethod
    def of(cls, rows: Sequence[Row], depth: int) -> Plan:
        """Rows with the same tokens are one text; a text is one row for each task that has changed
        it so far."""
        texts: dict[bytes, int] = {}
        number = [texts.setdefault(row.key, len(texts)) for row in rows]
        seats = [_seat_of(row) for row in rows]

        def streams(layer: int) -> dict[tuple[int, int], int]:
            """What runs through a layer, by slot and text: rows of one slot stand together."""
            found = {
                (slot if lowest <= layer else BARE, text)
                for (slot, lowest), text in zip(seats, number, strict=True)
            }
            return {stream: place for place, stream in enumerate(sorted(found))}

        inputs: dict[str, NDArray[Any]] = {}
        before = streams(0)
        first = dict(zip(number, rows, strict=True))
        inputs |= _padded([first[text] for _, text in before])
        inputs["slots.embeddings"] = _groups(before)
        for layer in range(depth):
            now = streams(layer)
            came = [before.get(stream, before.get((BARE, stream[1]))) for stream in now]
            inputs[f"rows.{layer}"] = np.array(came, np.int64)
            inputs[f"slots.{layer}"] = _groups(now)
            before = now
        places = [
            before[slot if lowest < depth else BARE, text]
            for (slot, lowest), text in zip(seats, number, strict=True)
        ]
        return cls(inputs, places)


def _seat_of(row: Row) -> tuple[int, int]:
    """Its slot, and the first layer that changes."""
    if row.seat is None:
        return BARE, NEVER
    place = cast(Place, row.seat)
    return place.slot, place.lowest


def _padded(rows: Sequence[Row]) -> dict[str, NDArray[np.int32]]:
    lengths = np.array([len(row.tokens) for row in rows], np.int32)
    ids = np.zeros((len(rows), lengths.max()), np.int32)
    types = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : lengths[i]] = row.tokens
        types[i, : lengths[i]] = row.types
    return {"input_ids": ids, "token_type_ids": types, "lengths": lengths}


def _groups(streams: dict[tuple[int, int], int]) -> NDArray[np.int64]:
    """The slot of each group: the largest groups of one size that fit all tasks."""
    slots = np.array([slot for slot, _ in streams], np.int64)
    _, counts = np.unique(slots, return_counts=True)
    return slots[:: math.gcd(*counts.tolist())]


def class_of(adapter: AdapterConfig | None) -> int:
    """The least class that holds a task's bottlenecks."""
    size = adapter.size if adapter else 1
    return max(SMALLEST, 1 << (size - 1).bit_length())


def cut_runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers by length, cut where padding would cost more than one more run."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    run: list[int] = []
    waste = 0
    for i in order:
        if run:
            longest = lengths[run[0]]
            waste += longest - lengths[i]
            if waste > RUN_COST or (len(run) + 1) * longest > RUN_TOKENS:
                yield run
                run, waste = [], 0
        run.append(i)
    if run:
        yield run


def open_session(graph: Path, threads: int) -> InferenceSession:
    """A session on the CPU. Threads that wait soon lie down to sleep, so that other programs and
    other parts of this one go on."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.spin_duration_us", SPIN)
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(
        graph,
        options,
        providers=["CPUExecutionProvider"],
        # Sum and LayerNorm in one operation run on one thread, three times as long as two.
        disabled_optimizers=["SkipLayerNormFusion"],
    )
