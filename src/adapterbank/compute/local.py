"""Work on this machine: each unit in a process of its own, a few at a time, cores shared out.

A process of its own gives a unit its own thread pool, so training never slows what serves, and
an end of its own: one that is killed or runs out of memory takes nothing else with it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue

from adapterbank.compute.process import WorkerProcess
from adapterbank.compute.protocol import Event, Work
from adapterbank.compute.start import Fresh, Nursery, Start
from adapterbank.errors import ConfigError

Put = Callable[[Event], None]
FORKS = sys.platform == "linux"  # elsewhere the system's own libraries do not stand it


class LocalCompute:
    """Runs work in processes of this machine.

    processes: how many units at once, in one `run`. One unless given, with all the cores: PyTorch
        spreads a batch over them, a unit is done soonest, and one encoder is in memory.
    threads: for each process. Unless given, the cores are shared out equally.
    nice: how far the processes step back for others, 0 to 19.
    """

    def __init__(
        self, processes: int | None = None, threads: int | None = None, nice: int = 0
    ) -> None:
        self.processes = _at_least_one("processes", 1 if processes is None else processes)
        share = max(1, available_cores() // self.processes)
        self.threads = _at_least_one("threads", share if threads is None else threads)
        if not 0 <= nice <= 19:
            raise ConfigError(f"nice is {nice}.", "Choose from 0 (like others) to 19 (last).")
        self.nice = nice
        self._start_process: Start = (
            Nursery(self.threads) if FORKS else lambda _: Fresh(self.threads)
        )
        self._lock = threading.Lock()
        self._waiting: dict[str, Put] = {}
        self._running: dict[str, WorkerProcess] = {}

    def run(self, works: Iterable[Work]) -> Iterator[Event]:
        """Start the works in their order, `processes` at a time; their events as they come.

        A unit that fails is one `failed` event, and the others go on. Closing the iterator, or an
        exception such as KeyboardInterrupt while it waits, ends every process it started.
        """
        works = list(works)
        twice = [id for id, count in Counter(work.id for work in works).items() if count > 1]
        if twice:
            raise ConfigError(
                f"Work is named twice: {', '.join(twice)}.", "Give each unit an id of its own."
            )
        return self._events(works)

    def cancel(self, id: str) -> bool:
        """End this unit, running or waiting; False if there is none. From any thread.

        A running process is asked to end, and killed if it has not after five seconds; its last
        event is `cancelled`, or `done` where it was quicker.
        """
        with self._lock:
            if put := self._waiting.pop(id, None):
                put(Event(id, "cancelled"))
                return True
            if process := self._running.get(id):
                process.end()
                return True
            return False

    def _events(self, works: list[Work]) -> Iterator[Event]:
        events: SimpleQueue[Event] = SimpleQueue()
        left = {work.id for work in works}
        self._register(left, events.put)
        queue = deque(works)
        running = 0
        try:
            while left:
                while queue and running < self.processes:
                    running += self._start(queue.popleft(), events.put)
                event = events.get()
                if event.last:
                    left.discard(event.id)
                    running -= self._forget(event.id)
                yield event
        finally:
            self._end(left)

    def _register(self, ids: set[str], put: Put) -> None:
        with self._lock:
            if known := ids & (self._waiting.keys() | self._running.keys()):
                raise ConfigError(
                    f"Work is running already: {', '.join(sorted(known))}.",
                    "Wait for it, or cancel it.",
                )
            self._waiting |= dict.fromkeys(ids, put)

    def _start(self, work: Work, put: Put) -> bool:
        """Start a unit, unless it was cancelled as it waited; whether it runs now."""
        with self._lock:
            if self._waiting.pop(work.id, None) is None:
                return False
            try:
                process = WorkerProcess(work, self._start_process, self.nice)
            except OSError as error:
                put(Event(work.id, "failed", _not_started(error)))
                return False
            self._running[work.id] = process
        threading.Thread(target=_pass_on, args=(process, put), daemon=True).start()
        return True

    def _forget(self, id: str) -> bool:
        """Whether this unit, now over, had a process."""
        with self._lock:
            return self._running.pop(id, None) is not None

    def _end(self, ids: set[str]) -> None:
        """End all that is left: ask every process first, so that they share the grace."""
        with self._lock:
            for id in ids:
                self._waiting.pop(id, None)
            processes = [self._running.pop(id) for id in ids if id in self._running]
        for process in processes:
            process.end()
        for process in processes:
            process.join()


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _not_started(error: OSError) -> dict[str, str]:
    message = f"The worker could not be started: {error.strerror}."
    return {"message": message, "hint": "", "kind": "OSError", "stderr": ""}


def _pass_on(process: WorkerProcess, put: Put) -> None:
    for event in process.events():
        put(event)


def _at_least_one(name: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"{name} is {value}.", "Choose 1 or more.")
    return value
