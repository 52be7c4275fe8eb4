"""Room for the tensors of many tasks: a few large arrays with a slot for each task.

The arrays are reserved at their full size at once, which costs nothing: the system gives them
memory page by page when a slot is first written to, and takes it back when a slot is freed.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapterbank.errors import BankError

Array = NDArray[np.float32]
SITES = ("attention", "output")
PRIVATE = hasattr(mmap, "MAP_PRIVATE")
BARE = 0  # the slot of the base itself: adapters of zeros, its own LayerNorms


@dataclass(frozen=True)
class Form:
    """The base's shape, as far as tasks have tensors of it."""

    layers: int
    """As stored: ALBERT uses them several times over."""
    width: int
    embeddings: int
    """The width of the embeddings' LayerNorm."""

    @property
    def sites(self) -> int:
        """Places for adapters."""
        return self.layers * len(SITES)

    def arrays(self, size: int) -> dict[str, tuple[int, ...]]:
        """What one task has, with a bottleneck of `size`: the shape of each array."""
        k, d, m = self.sites, self.width, size
        return {
            "down.weight": (k, m, d),
            "down.bias": (k, 1, m),
            "up.weight": (k, d, m),
            "up.bias": (k, 1, d),
            "norm.weight": (k, 1, d),
            "norm.bias": (k, 1, d),
            "embeddings.norm.weight": (1, 1, self.embeddings),
            "embeddings.norm.bias": (1, 1, self.embeddings),
        }

    def bytes(self, size: int) -> int:
        """The memory of one task."""
        return sum(4 * int(np.prod(shape)) for shape in self.arrays(size).values())


class Arena:
    """Slots for tasks whose bottlenecks have one size, or less: zeros fill it up, exactly.

    What comes to an adapter is a product of the base and its bias b. The bias is part of the
    adapter's own here, x + b + W2·f(W1·(x + b) + b1) + b2, so that the graph adds it nowhere.
    """

    def __init__(self, form: Form, size: int, slots: int, own: Mapping[str, Array]) -> None:
        """`own` are the base's LayerNorms, by neutral name, and its bias at each site."""
        self.form, self.size, self.own = form, size, own
        self._sites = [f"layer.{layer}.{site}" for layer in range(form.layers) for site in SITES]
        self._maps: list[mmap.mmap] = []
        self._arrays = {
            name: self._reserve((1 + slots, *shape)) for name, shape in form.arrays(size).items()
        }
        self._lock = threading.Lock()
        self._free = list(range(slots, BARE, -1))
        self._warm: list[int] = []
        self._write(BARE, {})

    def _reserve(self, shape: tuple[int, ...]) -> Array:
        size = 4 * int(np.prod(shape))
        # Private memory, where the system has the word for it: shared memory is never given back.
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if PRIVATE else {}
        pages = mmap.mmap(-1, size, **private)
        self._maps.append(pages)
        return np.frombuffer(pages, np.float32).reshape(shape)

    @property
    def inputs(self) -> dict[str, Array]:
        """The arrays as the graph takes them: slots and sites in one dimension."""
        return {name: array.reshape(-1, *array.shape[2:]) for name, array in self._arrays.items()}

    def put(self, tensors: Mapping[str, Array]) -> int:
        """Give a task's tensors, by neutral name, a slot."""
        with self._lock:
            if not (self._warm or self._free):
                raise BankError("There is no room for another task in memory.")
            slot = (self._warm or self._free).pop()
        try:
            self._write(slot, tensors)
        except BaseException:
            self.free(slot)
            raise
        return slot

    def free(self, slot: int) -> None:
        """Give a slot back. It keeps its memory for whoever comes next, until `cool`: fetching it
        anew takes as long as reading a task does."""
        with self._lock:
            self._warm.append(slot)

    @property
    def warm(self) -> int:
        """The bytes of freed slots that keep their memory."""
        return len(self._warm) * self.form.bytes(self.size)

    def cool(self) -> None:
        """Give back the memory of the slot that was freed longest ago."""
        with self._lock:
            if not self._warm:
                return
            slot = self._warm.pop(0)
        for array, pages in zip(self._arrays.values(), self._maps, strict=True):
            _forget(pages, slot * array[0].nbytes, array[0].nbytes)
        with self._lock:
            self._free.append(slot)

    def _write(self, slot: int, tensors: Mapping[str, Array]) -> None:
        here = {name: array[slot] for name, array in self._arrays.items()}
        downs = [tensors.get(f"{site}.down.weight") for site in self._sites]
        if any(down is None or len(down) < self.size for down in downs):  # else all is written
            for name in ("down.weight", "down.bias", "up.weight"):
                here[name].fill(0)
        for index, site in enumerate(self._sites):
            for leaf in ("weight", "bias"):
                name = f"{site}.norm.{leaf}"
                here[f"norm.{leaf}"][index] = tensors.get(name, self.own[name])
            bias = self.own[f"{site}.bias"]
            here["up.bias"][index] = bias
            if (down := downs[index]) is not None:
                size = len(down)
                here["down.weight"][index, :size] = down
                here["down.bias"][index, 0, :size] = tensors[f"{site}.down.bias"] + down @ bias
                here["up.weight"][index, :, :size] = tensors[f"{site}.up.weight"]
                here["up.bias"][index] += tensors[f"{site}.up.bias"]
        for leaf in ("weight", "bias"):
            name = f"embeddings.norm.{leaf}"
            here[name][0] = tensors.get(name, self.own[name])


def _forget(pages: mmap.mmap, start: int, length: int) -> None:
    """Give the whole pages within a stretch back to the system; they read as zeros then."""
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + length) // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED, first, last - first)
