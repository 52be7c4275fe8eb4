"""The pass on a CPU: ONNX Runtime on the base's graph. Nothing here imports torch.

Rows are sorted by length and cut into runs, so that little is padded. Tasks are kept in classes of
bottleneck sizes; a run is of one class. Within a run, a text that several tasks read is computed
once for as long as none of them has changed it.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from adapterbank.model.config import AdapterConfig
from adapterbank.serving.arena import BARE, Arena
from adapterbank.serving.cut import Cut, Run, cut, one_by_one
from adapterbank.serving.export import Export
from adapterbank.serving.plan import NEVER, Place, Plan, seat_of
from adapterbank.serving.rows import Array, Row, Seat
from adapterbank.serving.sessions import Sessions
from adapterbank.store.manifest import Manifest
from adapterbank.store.package import Package

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

SMALLEST = 8  # the least class of bottleneck sizes; they go up by doubling
WARM = 1 / 16  # of the memory for tasks: what freed slots of all classes may keep beside it


class OnnxPass:
    """Tasks of the standard form, all on one graph."""

    def __init__(self, export: Export, budget: int, threads: int = 0) -> None:
        """`budget` is the memory for tasks in bytes; 0 threads: as many as there are cores."""
        self.export, self.budget = export, budget
        self.sessions = Sessions(export.graph, threads)
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
            self._cool(max(WARM * self.budget, self.export.form.bytes(place.size)))

    def _cool(self, limit: float) -> None:
        """Let freed slots keep so many bytes in all."""
        with self._lock:
            arenas = list(self._arenas.values())
            while sum(arena.warm for arena in arenas) > limit:
                max(arenas, key=lambda arena: arena.warm).cool()

    def run(self, rows: Sequence[Row]) -> list[Array]:
        """What each row's head reads."""
        found: list[Array | None] = [None] * len(rows)

        def compute(session: InferenceSession, run: Run) -> None:
            some = [rows[i] for i in run.rows]
            for i, each in zip(run.rows, self._compute(session, run.size, some), strict=True):
                found[i] = each

        way = self._cut(rows)
        if way.side_by_side:
            self.sessions.each(compute, way.runs)
        else:
            for run in way.runs:
                compute(self.sessions.together, run)
        return cast(list[Array], found)

    def _cut(self, rows: Sequence[Row]) -> Cut:
        """Into runs; a text that runs once for several tasks stays with all of them in one."""
        choose = one_by_one if _has_shared_texts(rows) else cut
        lengths = [len(row.tokens) for row in rows]
        return choose(self._by_class(rows), lengths, self.sessions.threads)

    def _by_class(self, rows: Sequence[Row]) -> dict[int, list[int]]:
        """Row numbers by class, those of a task together. Rows of no slot go with the most others:
        every arena has the base."""
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
        return {
            size: sorted(chosen, key=lambda i: seat_of(rows[i])) for size, chosen in classes.items()
        }

    def _compute(
        self, session: InferenceSession, size: int, rows: Sequence[Row]
    ) -> Iterator[Array]:
        plan = Plan.of(rows, self.export.depth)
        feed: dict[str, NDArray[Any]] = {**self._arena(size).inputs, **plan.inputs}
        if not self.export.token_types:
            del feed["token_type_ids"]
        wanted = sorted({row.reads or "hidden" for row in rows})
        out = dict(zip(wanted, session.run(wanted, feed), strict=True))
        for row, place in zip(rows, plan.places, strict=True):
            found = out[row.reads or "hidden"][place]
            yield found if row.reads else found[: len(row.tokens)]


def _has_shared_texts(rows: Sequence[Row]) -> bool:
    """Whether layers can run once for several rows."""
    texts = Counter(row.key for row in rows if row.seat is None or row.seat.lowest > 0)
    return any(times > 1 for times in texts.values())


def class_of(adapter: AdapterConfig | None) -> int:
    """The least class that holds a task's bottlenecks."""
    size = adapter.size if adapter else 1
    return max(SMALLEST, 1 << (size - 1).bit_length())
