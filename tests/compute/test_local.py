"""Work runs in processes: events in order, a bound on how many, and an end for every one."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from adapterbank.compute import local, process, protocol
from adapterbank.compute.local import LocalCompute, available_cores
from adapterbank.compute.protocol import Compute, Event, Work
from adapterbank.errors import ConfigError

HERE = Path(__file__).parent


@pytest.fixture(autouse=True, params=["forked", "fresh"])
def _toys(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let `toy_work` of this folder be work, and ending be quick; processes of both origins."""
    monkeypatch.setattr(local, "FORKS", request.param == "forked")
    monkeypatch.setattr(protocol, "PACKAGE", "toy_")
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.3)
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def toy(unit: str, do: str, **arguments: Any) -> Work:
    return Work(unit, "toy_work", {"do": do, **arguments})


def by_id(events: Iterable[Event]) -> dict[str, list[Event]]:
    found = defaultdict(list)
    for event in events:
        found[event.id].append(event)
    return dict(found)


def only(events: Iterable[Event]) -> Event:
    """The last event of a single unit."""
    *_, last = events
    return last


def free(lock: Path) -> bool:
    """Whether every process that held the lock is gone."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def becomes_free(lock: Path) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if free(lock):
            return True
        time.sleep(0.02)
    return False


def test_events_come_in_order_and_units_in_theirs() -> None:
    compute: Compute = LocalCompute()
    events = list(compute.run([toy("b", "count", to=3), toy("a", "count", to=1)]))
    assert [(event.id, event.kind) for event in events] == [
        ("b", "started"),
        ("b", "event"),
        ("b", "event"),
        ("b", "event"),
        ("b", "done"),
        ("a", "started"),
        ("a", "event"),
        ("a", "done"),
    ]
    assert [event.payload for event in events[1:5]] == [
        {"number": 0},
        {"number": 1},
        {"number": 2},
        {"counted": 3},
    ]
    assert [event.last for event in events] == [False] * 4 + [True] + [False] * 2 + [True]


def test_units_run_side_by_side_up_to_the_bound(tmp_path: Path) -> None:
    meeting = [toy(id, "meet", folder=str(tmp_path), id=id, others=1) for id in ("x", "y")]
    events = by_id(LocalCompute(processes=2).run(meeting))
    assert [events[id][-1].kind for id in ("x", "y")] == ["done", "done"]

    (tmp_path / "bound").mkdir()
    crowd = [toy(str(n), "overlap", folder=str(tmp_path / "bound"), id=str(n)) for n in range(5)]
    found = by_id(LocalCompute(processes=2).run(crowd))
    assert len(found) == 5
    assert max(events[-1].payload["seen"] for events in found.values()) <= 2


def test_nothing_to_run() -> None:
    assert list(LocalCompute().run([])) == []


def test_a_person_s_error_keeps_its_words_and_the_others_go_on() -> None:
    events = by_id(LocalCompute().run([toy("bad", "refuse"), toy("good", "count", to=0)]))
    failed = events["bad"][-1]
    assert failed.kind == "failed"
    assert failed.payload == {
        "message": "Row 3 has no label.",
        "hint": "Give it one.",
        "kind": "DataError",
        "stderr": "",
    }
    assert events["good"][-1].kind == "done"


def test_an_unforeseen_error_keeps_its_trace() -> None:
    payload = only(LocalCompute().run([toy("bad", "stumble")])).payload
    assert payload["kind"] == "KeyError"
    assert payload["message"] == "KeyError: 'missing'"
    assert payload["stderr"].startswith("Traceback")
    assert payload["stderr"].endswith("KeyError: 'missing'")


def test_a_result_that_is_no_json_is_a_failure() -> None:
    payload = only(LocalCompute().run([toy("bad", "not_json")])).payload
    assert payload["message"] == "TypeError: Object of type set is not JSON serializable"


@pytest.mark.parametrize(
    ("number", "name", "hint"), [(9, "SIGKILL", "ran out of memory"), (11, "SIGSEGV", "")]
)
def test_a_killed_worker_is_told_in_words(number: int, name: str, hint: str) -> None:
    works = [toy("bad", "die", number=number), toy("good", "count", to=0)]
    events = by_id(LocalCompute().run(works))
    payload = events["bad"][-1].payload
    assert (
        payload["message"]
        == f"The worker was ended by {name} (signal {number}) before it had a result."
    )
    assert payload["kind"] == "WorkerDied"
    assert hint in payload["hint"]
    assert bool(payload["hint"]) == bool(hint)
    assert events["good"][-1].kind == "done"


def test_an_exit_keeps_the_last_lines_of_standard_error() -> None:
    payload = only(LocalCompute().run([toy("bad", "leave", code=7, lines=80)])).payload
    assert payload["message"] == "The worker ended with exit code 7 before it had a result."
    assert payload["stderr"].splitlines() == [f"line {n}" for n in range(30, 80)]


def test_a_fork_left_behind_does_not_hold_up_the_end() -> None:
    began = time.monotonic()
    payload = only(LocalCompute().run([toy("bad", "orphan")])).payload
    assert time.monotonic() - began < 30  # the fork sleeps for 60 seconds
    assert payload["message"] == "The worker ended with exit code 3 before it had a result."


def test_a_unit_that_is_done_but_does_not_exit_is_ended(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    last = only(LocalCompute().run([toy("slow", "linger", lock=str(lock))]))
    assert (last.kind, last.payload) == ("done", {"ok": True})
    assert becomes_free(lock)


def test_prints_and_subprocesses_do_not_touch_the_events() -> None:
    events = list(LocalCompute().run([toy("loud", "print_much")]))
    assert [event.kind for event in events] == ["started", "event", "done"]
    assert [event.payload for event in events[1:]] == [{"read": ""}, {"ok": True}]


def test_large_payloads_arrive_whole() -> None:
    text = "ä\u2028\ud800\x00\r\n" * 500_000
    events = list(LocalCompute().run([toy("big", "echo", text=text)]))
    assert [event.kind for event in events] == ["started", "event", "done"]
    assert events[1].payload == events[2].payload == {"text": text}


def test_the_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "99")
    names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"]

    def seen(compute: LocalCompute) -> dict[str, Any]:
        return only(compute.run([toy("unit", "environment", names=names)])).payload

    niceness = os.nice(0)
    expected = min(19, niceness + 3)
    assert seen(LocalCompute(threads=3, nice=3)) == {"nice": expected} | dict.fromkeys(names, "3")
    monkeypatch.setattr("adapterbank.compute.local.available_cores", lambda: 8)
    assert seen(LocalCompute()) == {"nice": niceness} | dict.fromkeys(names, "8")
    assert LocalCompute(processes=3).threads == 2
    assert LocalCompute(processes=9).threads == 1


def test_available_cores_are_counted() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("stubborn", "grace"), [(False, 30.0), (True, 0.3)], ids=["willing", "stubborn"]
)
def test_cancel_a_running_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stubborn: bool, grace: float
) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", grace)
    lock = tmp_path / "lock"
    compute = LocalCompute()
    works = [toy("held", "hold", lock=str(lock), stubborn=stubborn), toy("next", "count", to=0)]
    kinds = defaultdict(list)
    for event in compute.run(works):
        kinds[event.id].append(event.kind)
        if event.payload == {"holding": True}:
            assert not free(lock)
            began = time.monotonic()
            assert compute.cancel("held")
        if event.kind == "cancelled":
            waited = time.monotonic() - began
            assert becomes_free(lock)
    assert kinds == {"held": ["started", "event", "cancelled"], "next": ["started", "done"]}
    assert (waited >= grace) is stubborn


def test_cancel_a_waiting_unit_at_once(tmp_path: Path) -> None:
    compute = LocalCompute()
    works = [toy("first", "hold", lock=str(tmp_path / "lock")), toy("second", "count", to=0)]
    seen = []
    for event in compute.run(works):
        seen.append((event.id, event.kind))
        if event.kind == "event":
            assert compute.cancel("second")
            assert not compute.cancel("second")
        if event.kind == "cancelled" and event.id == "second":
            compute.cancel("first")
    assert seen == [
        ("first", "started"),
        ("first", "event"),
        ("second", "cancelled"),
        ("first", "cancelled"),
    ]


def test_cancel_what_is_not_there() -> None:
    compute = LocalCompute()
    assert not compute.cancel("nobody")
    assert only(compute.run([toy("unit", "count", to=0)])).kind == "done"
    assert not compute.cancel("unit")


def test_cancel_from_another_thread(tmp_path: Path) -> None:
    compute = LocalCompute()
    threading.Timer(0.3, lambda: compute.cancel("held")).start()
    assert only(compute.run([toy("held", "hold", lock=str(tmp_path / "lock"))])).kind == "cancelled"


def test_closing_ends_every_process(tmp_path: Path) -> None:
    locks = [tmp_path / "a", tmp_path / "b"]
    compute = LocalCompute(processes=2)
    works = [toy(lock.name, "hold", lock=str(lock), stubborn=True) for lock in locks]
    events = compute.run([*works, toy("never", "count", to=0)])
    while not all(lock.exists() and not free(lock) for lock in locks):
        next(events)
    events.close()  # type: ignore[attr-defined]
    assert all(becomes_free(lock) for lock in locks)
    assert not any(compute.cancel(id) for id in ("a", "b", "never"))
    assert only(compute.run([toy("a", "count", to=0)])).kind == "done"


PARENT = """
import sys
from adapterbank.compute import protocol
from adapterbank.compute.local import LocalCompute
protocol.PACKAGE = "toy_"
work = protocol.Work("held", "toy_work", {"do": "hold", "lock": sys.argv[1]})
for event in LocalCompute().run([work]):
    print(event.kind, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_children_end_with_their_parent(tmp_path: Path, number: int) -> None:
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", PARENT, str(lock)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        assert [parent.stdout.readline() for _ in range(2)] == ["started\n", "event\n"]
        assert not free(lock)
        parent.send_signal(number)
        assert becomes_free(lock)
    assert parent.returncode == -number


def test_two_runs_of_one_compute(tmp_path: Path) -> None:
    compute = LocalCompute()
    first = compute.run([toy("one", "hold", lock=str(tmp_path / "lock"))])
    assert next(first).kind == "started"
    with pytest.raises(ConfigError, match=r"^Work is running already: one\. Wait for it"):
        next(compute.run([toy("one", "count", to=0)]))
    assert only(compute.run([toy("two", "count", to=0)])).kind == "done"
    first.close()  # type: ignore[attr-defined]


def test_a_worker_that_cannot_start_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    events = list(LocalCompute().run([toy("a", "count", to=0), toy("b", "count", to=0)]))
    assert [(event.id, event.kind) for event in events] == [("a", "failed"), ("b", "failed")]
    assert events[0].payload == {
        "message": "The worker could not be started: No such file or directory.",
        "hint": "",
        "kind": "OSError",
        "stderr": "",
    }


def test_only_our_own_modules_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(
        ConfigError, match=r"^Work 'x' names the module 'os'\. .* start with 'adapterbank\.'\.$"
    ):
        Work("x", "os")
    with pytest.raises(ConfigError):
        Work("x", "adapterbank_evil.code")
    assert Work("x", "adapterbank.training.trial").arguments == {}


def test_arguments_are_plain_json() -> None:
    with pytest.raises(ConfigError, match=r"^The arguments of work 'x' are not plain JSON: .*set"):
        toy("x", "count", to={1})


def test_ids_are_unique() -> None:
    works = [toy("same", "count", to=0), toy("other", "count", to=0), toy("same", "count", to=1)]
    with pytest.raises(ConfigError, match=r"^Work is named twice: same\. "):
        LocalCompute().run(works)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"processes": 0}, "processes is 0. Choose 1 or more."),
        ({"threads": -1}, "threads is -1. Choose 1 or more."),
        ({"nice": 20}, "nice is 20. Choose from 0 (like others) to 19 (last)."),
        ({"nice": -1}, "nice is -1. Choose from 0 (like others) to 19 (last)."),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        LocalCompute(**settings)
    assert str(error.value) == message
