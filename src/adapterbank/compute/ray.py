"""Work on a Ray cluster: Ray places units and starts them again when a machine is lost.

Within a unit everything is as on one machine: a fresh process of our own with its share of cores,
the same events, the same end. Arguments and events travel; files stay in folders that all machines
see, or are carried through a URL (`compute/carry.py`).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from adapterbank.compute.carry import Carrier
from adapterbank.compute.protocol import Event, Work
from adapterbank.errors import ComputeError, ConfigError

TRIES = 3  # of a unit whose machine or process is lost
POLL = 0.2  # seconds between two looks for events
END = 15.0  # seconds that units have to end in, when they are no longer wanted
LOOPBACK = "127.0.0.1"


class RayCompute:
    """Runs work on a cluster.

    address: `ray://HOST:PORT`; empty for the cluster that RAY_ADDRESS names (`auto`: the one that
        runs here), else for one of this machine alone, on loopback.
    threads: cores of each unit.
    through: a URL for files, where machines share no folders.
    """

    def __init__(self, address: str = "", *, threads: int = 1, through: str | None = None) -> None:
        self._ray = connect(address)
        self.threads = threads
        self._carrier = Carrier(through) if through else None
        self._lock = threading.Lock()
        self._refs: dict[str, Any] = {}
        self._cancelled: set[str] = set()

    def run(self, works: Iterable[Work]) -> Iterator[Event]:
        """Give the cluster all works; their events as they come, and one last event of each."""
        return self._events({work.id: work for work in works})

    def cancel(self, id: str) -> bool:
        """End this unit, running or waiting; False if there is none. From any thread."""
        with self._lock:
            ref = self._refs.get(id)
            if ref is None:
                return False
            self._cancelled.add(id)
        self._end(ref)
        return True

    def _end(self, ref: Any) -> None:
        """Kill the process that holds a unit: the unit's own ends with it, at once."""
        self._ray.cancel(ref, force=True)

    def _events(self, works: dict[str, Work]) -> Iterator[Event]:
        ray = self._ray
        inbox = ray.remote(num_cpus=0, max_restarts=-1)(Inbox).remote()
        unit = ray.remote(num_cpus=self.threads, max_retries=TRIES - 1)(run_unit)
        url = self._carrier.url if self._carrier else None
        for id, work in works.items():
            sent = self._carrier.send(work) if self._carrier and work.folder else work
            with self._lock:
                self._refs[id] = unit.remote(_plain(sent), self.threads, url, inbox)
        left = dict(works)
        try:
            while left:
                ready, _ = ray.wait([self._refs[id] for id in left], timeout=POLL)
                for event in self._told(inbox):  # what was told before an end comes before it
                    if event.id in left:
                        yield event
                for id in [id for id in left if self._refs[id] in ready]:
                    last = self._last(works[id])
                    del left[id]
                    yield last
        finally:
            ended = [self._refs[id] for id in left]
            for ref in ended:
                self._end(ref)
            if ended:
                ray.wait(ended, num_returns=len(ended), timeout=END)
            with self._lock:
                for id in works:
                    self._refs.pop(id, None)
                    self._cancelled.discard(id)
            ray.kill(inbox)

    def _told(self, inbox: Any) -> list[Event]:
        try:
            told = self._ray.get(inbox.take.remote(), timeout=5)
        except Exception:  # its machine is lost, and it is being started elsewhere
            return []
        return [Event(id, kind, payload) for id, kind, payload in told]

    def _last(self, work: Work) -> Event:
        """How a unit ended."""
        errors = self._ray.exceptions
        try:
            kind, payload = self._ray.get(self._refs[work.id])
        except errors.TaskCancelledError:
            kind, payload = "cancelled", {}
        except errors.RayError as error:
            kind, payload = "failed", _lost(error)
        if work.id in self._cancelled and kind != "done":
            kind, payload = "cancelled", {}
        if self._carrier and work.folder:
            self._carrier.collect(work) if kind == "done" else self._carrier.forget(work)
        return Event(work.id, kind, payload)


class Inbox:
    """What units tell on their way, until it is taken."""

    def __init__(self) -> None:
        self._told: deque[tuple[str, str, dict[str, Any]]] = deque()

    def put(self, id: str, kind: str, payload: dict[str, Any]) -> None:
        """From a unit."""
        self._told.append((id, kind, payload))

    def take(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Everything that was told since the last time."""
        told, self._told = list(self._told), deque()
        return told


def run_unit(
    plain: dict[str, Any], threads: int, url: str | None, inbox: Any
) -> tuple[str, dict[str, Any]]:
    """One unit on whichever machine: kind and payload of its last event."""
    from contextlib import nullcontext

    from adapterbank.compute.process import WorkerProcess
    from adapterbank.compute.start import Fresh

    work = Work(**plain)
    carried = Carrier(url).received(work) if url and work.folder else nullcontext(work)
    with carried as here:
        for event in WorkerProcess(here, lambda _: Fresh(threads), 0).events():
            if event.last:
                return event.kind, event.payload
            inbox.put.remote(event.id, event.kind, event.payload)
    raise AssertionError("a unit has a last event")


def connect(address: str) -> Any:
    """Ray, connected; on loopback where it is started here."""
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            "Ray is not installed.", "Install it: pip install 'adapterbank[ray]'."
        ) from error
    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        if address or os.environ.get("RAY_ADDRESS"):
            ray.init(address or None, **quiet)
        else:
            ray.init("local", include_dashboard=False, _node_ip_address=LOOPBACK, **quiet)
    except (ConnectionError, OSError, RuntimeError, TimeoutError, ValueError) as error:
        raise ComputeError(
            f"The Ray cluster {address or 'of this machine'} cannot be reached: {error}.",
            "Check its address: ray://HOST:10001 for a client, or set RAY_ADDRESS. If it wants a "
            "token: RAY_AUTH_MODE=token.",
        ) from error
    return ray


def _plain(work: Work) -> dict[str, Any]:
    return {
        "id": work.id, "module": work.module, "arguments": work.arguments,
        "folder": work.folder, "inputs": list(work.inputs),
    }  # fmt: skip


def _lost(error: Exception) -> dict[str, Any]:
    told = str(error).strip().splitlines()
    return {
        "message": f"The unit was lost {TRIES} times: {told[0] if told else type(error).__name__}",
        "hint": "Look at the cluster: machines that end, or memory that runs out.",
        "kind": "WorkerDied",
        "stderr": "\n".join(told[-20:]),
    }
