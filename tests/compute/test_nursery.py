"""Processes that are forked: what is slow to import is imported once, nothing else is shared."""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from adapterbank.compute import local, process, protocol
from adapterbank.compute.local import LocalCompute
from adapterbank.compute.protocol import Work
from adapterbank.compute.start import Nursery

pytestmark = pytest.mark.skipif(not local.FORKS, reason="processes are not forked here")
SLOW = """
import os, pathlib, time
folder = pathlib.Path(os.environ["TOY_FOLDER"])
with (folder / "imported").open("a") as file:
    file.write("once\\n")
time.sleep(float(os.environ["TOY_SECONDS"]))

def preload():
    (folder / "preloaded").touch()

def work(arguments, emit):
    emit({"begun": True})
    time.sleep(arguments.get("seconds", 0))
    return {"pid": os.getpid(), "word": os.environ.get("TOY_WORD"), "folder": os.getcwd()}
"""


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A module of work that takes its time to be imported; where it leaves its traces."""
    (tmp_path / "toy_slow.py").write_text(SLOW)
    monkeypatch.setattr(protocol, "PACKAGE", "toy_")
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.3)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TOY_FOLDER", str(tmp_path))
    monkeypatch.setenv("TOY_SECONDS", "0")
    return tmp_path


def slow(unit: str, **arguments: Any) -> Work:
    return Work(unit, "toy_slow", arguments)


def done(compute: LocalCompute, *works: Work) -> dict[str, dict[str, Any]]:
    events = list(compute.run(works))
    assert [event.kind for event in events if event.last] == ["done"] * len(works)
    return {event.id: event.payload for event in events if event.last}


def nursery_of(compute: LocalCompute) -> Any:
    """The process."""
    assert isinstance(compute._start_process, Nursery)
    link = compute._start_process._link
    assert link is not None
    return link._process


def test_what_is_slow_is_imported_once(toys: Path) -> None:
    compute = LocalCompute(processes=2)
    found = done(compute, *(slow(str(number)) for number in range(5)))
    found |= done(compute, slow("later"))
    assert len({each["pid"] for each in found.values()} | {os.getpid()}) == 7
    assert (toys / "imported").read_text() == "once\n"
    assert (toys / "preloaded").exists()


def test_each_begins_as_things_are_when_it_is_asked_for(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = LocalCompute()
    done(compute, slow("before"))
    (toys / "elsewhere").mkdir()
    monkeypatch.chdir(toys / "elsewhere")
    monkeypatch.setenv("TOY_WORD", "changed")
    found = done(compute, slow("after"))["after"]
    assert (found["word"], found["folder"]) == ("changed", str(toys / "elsewhere"))


def test_one_that_is_not_there_yet_can_be_called_off(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_SECONDS", "3")
    compute = LocalCompute(processes=2)
    began = time.monotonic()
    threading.Timer(0.3, lambda: [compute.cancel(id) for id in ("first", "second")]).start()
    events = list(compute.run([slow("first"), slow("second")]))
    assert {(event.id, event.kind) for event in events} == {
        ("first", "cancelled"),
        ("second", "cancelled"),
    }
    assert time.monotonic() - began < 2
    assert done(compute, slow("third"))["third"]["pid"]
    assert (toys / "imported").read_text() == "once\n"


def test_a_nursery_that_dies_takes_its_forks_along_and_is_replaced(toys: Path) -> None:
    compute = LocalCompute()
    seen = []
    for event in compute.run([slow("lost", seconds=60), slow("next")]):
        seen.append(event)
        if (event.id, event.kind) == ("lost", "event"):
            killed = nursery_of(compute).pid
            os.kill(killed, 9)
    assert [(event.id, event.kind) for event in seen] == [
        ("lost", "started"),
        ("lost", "event"),
        ("lost", "failed"),
        ("next", "started"),
        ("next", "event"),
        ("next", "done"),
    ]
    assert "ended by SIGKILL" in seen[2].payload["message"]
    assert nursery_of(compute).pid != killed


def test_it_ends_with_what_started_it(toys: Path) -> None:
    compute = LocalCompute()
    done(compute, slow("unit"))
    nursery = nursery_of(compute)
    assert nursery.poll() is None
    del compute
    gc.collect()
    assert nursery.wait(5) == 0


def test_a_module_that_cannot_be_imported_is_told_by_its_unit(toys: Path) -> None:
    (toys / "toy_broken.py").write_text("raise OSError('no such library')\n")
    *_, last = LocalCompute().run([Work("unit", "toy_broken")])
    assert last.kind == "failed"
    assert last.payload["message"] == "OSError: no such library"
