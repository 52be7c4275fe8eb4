"""Records are made by one process at a time."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

from adapterbank.compute.records import only_one


class Entering:
    """Somebody who enters as soon as it is possible, and leaves when told."""

    def __init__(self, path: Path) -> None:
        self.path, self.inside, self.leave = path, Event(), Event()
        self.thread = Thread(target=self._enter, daemon=True)
        self.thread.start()

    def _enter(self) -> None:
        with only_one(self.path):
            self.inside.set()
            self.leave.wait(60)


def test_whoever_waited_and_whoever_comes_later_are_never_within_at_once(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.running"
    with only_one(path):
        waiting = Entering(path)
        assert not waiting.inside.wait(0.5)
    assert waiting.inside.wait(60)
    later = Entering(path)
    assert not later.inside.wait(0.5)
    waiting.leave.set()
    assert later.inside.wait(60)
    later.leave.set()
    for each in (waiting, later):
        each.thread.join(60)
    assert list(path.parent.iterdir()) == []
