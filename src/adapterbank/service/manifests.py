"""Manifests that were read before, as many as there is room for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from adapterbank.store.entry import Entry
from adapterbank.store.manifest import Manifest

ROOM = 32_000_000  # characters; most manifests have some four thousand


class Manifests:
    """What versions say of themselves, which never changes. Those asked for least recently go."""

    def __init__(self, read: Callable[[Entry], Manifest], room: int = ROOM) -> None:
        self._read, self._room = read, room
        self._lock = threading.Lock()
        self._found: OrderedDict[Entry, tuple[Manifest, int]] = OrderedDict()
        self._taken = 0

    def __call__(self, entry: Entry) -> Manifest:
        """The manifest of a version."""
        with self._lock:
            if entry in self._found:
                self._found.move_to_end(entry)
                return self._found[entry][0]
        manifest = self._read(entry)
        size = len(repr(manifest))
        with self._lock:
            if entry not in self._found:
                self._found[entry] = (manifest, size)
                self._taken += size
            while self._taken > self._room:
                _, (_, gone) = self._found.popitem(last=False)
                self._taken -= gone
        return manifest
