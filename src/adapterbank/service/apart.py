"""Work on what a client has sent, in a process of its own: bounded in memory and in time.

Reading a hostile file can at worst end that process, and never holds up those who ask the service
for answers.
"""

from __future__ import annotations

import resource
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adapterbank import errors
from adapterbank.compute.local import LocalCompute
from adapterbank.compute.protocol import Work
from adapterbank.errors import AdapterBankError, Busy, DataError, ServiceError

SECONDS = 120.0
AT_ONCE = 2
WAITING = 16
PLACES = AT_ONCE + WAITING


class Apart:
    """Runs one module's work at a time in processes of its own, a few beside each other."""

    def __init__(self) -> None:
        self._compute = LocalCompute(processes=1, threads=1, nice=5)
        self._changed = threading.Condition()
        self._waiting: Counter[str] = Counter()  # by tenant, as the next
        self._running: Counter[str] = Counter()

    def call(self, module: str, arguments: dict[str, Any], tenant: str = "") -> dict[str, Any]:
        """What the module's `work` returns. Its errors are raised here as they were there. A tenant
        has half of the places at most, and others' files do not wait for all of its own."""
        with self._changed:
            places = self._waiting + self._running
            if places.total() >= PLACES or places[tenant] >= PLACES // 2:
                raise Busy("Too many files are being looked at.", "Try again in a moment.")
            self._waiting[tenant] += 1
            self._changed.wait_for(lambda: self._may_run(tenant))
            self._waiting[tenant] -= 1
            self._running[tenant] += 1
        try:
            return self._call(module, arguments)
        finally:
            with self._changed:
                self._running[tenant] -= 1
                self._changed.notify_all()

    def _may_run(self, tenant: str) -> bool:
        others = any(count for each, count in self._waiting.items() if each != tenant)
        most = AT_ONCE // 2 if others else AT_ONCE
        return self._running.total() < AT_ONCE and self._running[tenant] < most

    def _call(self, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        id = secrets.token_hex(8)
        timer = threading.Timer(SECONDS, self._compute.cancel, [id])
        timer.daemon = True
        timer.start()
        try:
            for event in self._compute.run([Work(id, module, arguments)]):
                if event.kind == "done":
                    return event.payload
                if event.kind == "failed":
                    raise raised(event.payload, str(Path(arguments["file"]).parent))
        finally:
            timer.cancel()
        raise DataError(f"Reading it took longer than {SECONDS:.0f} seconds.", "Send less.")


def raised(payload: dict[str, Any], folder: str) -> AdapterBankError:
    """The error that a worker has told of; one that is not for people becomes a plain one. The
    place of our files, `folder`, is left out of it."""
    kind = getattr(errors, str(payload["kind"]), None)
    if isinstance(kind, type) and issubclass(kind, AdapterBankError):
        said = (str(payload[name]).replace(f"{folder}/", "") for name in ("message", "hint"))
        found: AdapterBankError = kind(*said)
        return found
    if payload["kind"] in ("WorkerDied", "MemoryError"):
        return DataError("Reading it took more memory than it may.", "Send less.")
    return ServiceError("Something went wrong here.")


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """In the worker: within this block it may not grow by more than so many bytes. (Linux alone
    has this.)"""
    own = Path("/proc/self/statm")
    if not own.is_file():
        yield
        return
    now = int(own.read_text("ascii").split()[0]) * resource.getpagesize()
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
