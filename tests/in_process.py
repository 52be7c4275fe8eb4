"""Work of `compute` in this process: a fresh one imports torch for seconds."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator

from adapterbank.compute.protocol import Event, Work


class InProcess:
    """A place to run work that is here."""

    def __init__(self, threads: int = 1) -> None:
        self.works: list[Work] = []

    def run(self, works: Iterable[Work]) -> Iterator[Event]:
        for work in works:
            self.works.append(work)
            yield Event(work.id, "started", {"pid": 0})
            found = importlib.import_module(work.module).work(work.arguments, lambda _: None)
            yield Event(work.id, "done", json.loads(json.dumps(found)))

    def cancel(self, id: str) -> bool:
        return False
