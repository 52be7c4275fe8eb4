"""Which tasks are in memory: loaded when first asked for, let go when room is wanted.

A task that is in use is pinned. When memory is full, the task that was used longest ago goes, those
in use apart. A version is known by its package's digest, so a task that is published again is
another one here, and what was loaded before is never given for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from adapterbank.errors import BankError, PackageError
from adapterbank.serving.rows import Array, Pass, Seat
from adapterbank.store.entry import Entry
from adapterbank.store.known_files import KnownFiles
from adapterbank.store.manifest import DAMAGED, Manifest
from adapterbank.store.package import Package
from adapterbank.store.store import Store

Key = tuple[str, str]  # task, digest of its package


@dataclass(eq=False)
class Resident:
    """A task in memory."""

    entry: Entry
    manifest: Manifest
    head: tuple[Array, Array]
    """Weight [outputs, d] and bias."""
    runs_on: Pass
    seat: Seat
    bytes: int
    pins: int = 0

    @property
    def key(self) -> Key:
        """What it is known by."""
        return self.entry.task, self.entry.version.package


@dataclass
class Counts:
    """What became of requests for tasks."""

    hits: int = 0
    loads: int = 0
    evictions: int = 0


class Residency:
    """Tasks in memory, within a budget of bytes."""

    def __init__(
        self,
        store: Store,
        choose: Callable[[Manifest], Pass],
        check: Callable[[Package], None],
        budget: int,
    ) -> None:
        """`check` refuses what doesn't fit the base, `choose` gives the pass for the rest."""
        self.store, self.choose, self.check, self.budget = store, choose, check, budget
        self.counts = Counts()
        self._residents: OrderedDict[Key, Resident] = OrderedDict()
        self._loading: set[Key] = set()
        self._always: set[str] = set()
        self._used = 0
        self._known = KnownFiles()
        self._changed = threading.Condition()

    @property
    def bytes(self) -> int:
        """What the tasks in memory take."""
        return self._used

    def __len__(self) -> int:
        return len(self._residents)

    def acquire(self, entry: Entry, *, wait: bool = True) -> Resident | None:
        """The task, loaded and pinned: `release` it. Without `wait`, None if everything in memory
        is in use and there is no room, or if another thread is loading it.

        Threads that want the same task load it once; others are not held up meanwhile.
        """
        key = (entry.task, entry.version.package)
        with self._changed:
            if not wait and key in self._loading:  # who loads it may wait for what we have pinned
                return None
            self._changed.wait_for(lambda: key not in self._loading)
            found = self._residents.get(key)
            if found is not None:
                self._residents.move_to_end(key)
                self.counts.hits += 1
                found.pins += 1
                return found
            self._loading.add(key)
        try:
            return self._load(entry, wait)
        finally:
            with self._changed:
                self._loading.remove(key)
                self._changed.notify_all()

    def _load(self, entry: Entry, wait: bool) -> Resident | None:
        package = self.store.load(entry, self._known)
        self.check(package)
        manifest = package.manifest
        runs_on = self.choose(manifest)
        size = runs_on.bytes_of(manifest) + package.arrays["head.weight"].nbytes
        if size > self.budget:
            raise BankError(
                f"{entry} needs {size / 2**20:,.0f} MB of memory, and there are "
                f"{self.budget / 2**20:,.0f} for all tasks.",
                "Give more with --memory.",
            )
        if not self._make_room(size, wait):
            return None
        try:
            seat = runs_on.seat(package)
        except BaseException as error:
            with self._changed:
                self._used -= size
            if isinstance(error, ValueError | RuntimeError | LookupError):  # of its tensors' form
                raise PackageError(f"{entry} does not fit the base.", DAMAGED) from error
            raise
        head = (package.arrays["head.weight"].copy(), package.arrays["head.bias"].copy())
        made = Resident(entry, manifest, head, runs_on, seat, size, pins=1)
        with self._changed:
            self._residents[made.key] = made
            self.counts.loads += 1
        return made

    def _make_room(self, size: int, wait: bool) -> bool:
        """Count `size` bytes as used; those used longest ago go for it."""
        with self._changed:
            while True:
                for each in list(self._residents.values()):
                    if self._used + size <= self.budget:
                        break
                    if not each.pins and each.entry.task not in self._always:
                        self._let_go(each)
                if self._used + size <= self.budget:
                    self._used += size
                    return True
                if not wait:
                    return False
                self._changed.wait()

    def _let_go(self, each: Resident) -> None:
        del self._residents[each.key]
        each.runs_on.leave(each.seat)
        self._used -= each.bytes
        self.counts.evictions += 1

    def release(self, resident: Resident) -> None:
        """Say that a task is not in use any more."""
        with self._changed:
            resident.pins -= 1
            if not resident.pins:
                self._changed.notify_all()

    def forget(self, task: str) -> None:
        """Let every version of a task go that isn't in use: it is not there any more."""
        with self._changed:
            for each in list(self._residents.values()):
                if each.entry.task == task and not each.pins:
                    self._let_go(each)

    def keep(self, *tasks: str) -> None:
        """Never let these go for want of room."""
        self._always.update(tasks)
