"""A value that is made once, whichever threads ask for it first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Calls `make` when it is first called; whoever comes meanwhile waits at the lock, and nobody
    does later. (`cached_property` and `functools.cache` may make several, from Python 3.12 on.)"""

    def __init__(self, make: Callable[[], T], lock: threading.RLock | None = None) -> None:
        """`lock` where making it takes a lock that others hold too; else it has one of its own."""
        self._make, self._lock = make, lock or threading.RLock()
        self._made: list[T] = []

    def __call__(self) -> T:
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]
