"""The table of jobs and what runs them: each ends once, whatever dies meanwhile."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from adapterbank.compute.protocol import Event, Work
from adapterbank.errors import BankError, Busy, JobNotFound, ServiceError
from adapterbank.service.auth import Caller, Quotas
from adapterbank.service.jobs import JobTable
from adapterbank.service.kept import purge_kept
from adapterbank.service.runner import TRIES, Jobs

ACME = Caller("acme", "train", Quotas(waiting_jobs=3))
DIED = {"message": "The worker died.", "hint": "", "kind": "WorkerDied", "stderr": "trace"}


class Stage:
    """A place to run work whose every event a test gives."""

    def __init__(self) -> None:
        self.started: SimpleQueue[Work] = SimpleQueue()
        self.queues: dict[str, SimpleQueue[Event]] = {}

    def run(self, works: Iterable[Work]) -> Iterator[Event]:
        (work,) = works
        events = self.queues[work.id] = SimpleQueue()
        self.started.put(work)
        yield Event(work.id, "started", {"pid": 1})
        while True:
            event = events.get()
            yield event
            if event.last:
                return

    def cancel(self, id: str) -> bool:
        if id not in self.queues:
            return False
        self.queues[id].put(Event(id, "cancelled"))
        return True

    def next(self) -> Work:
        return self.started.get(timeout=5)

    def tell(self, id: str, kind: Any, payload: dict[str, Any] | None = None) -> None:
        self.queues[id].put(Event(id, kind, payload or {}))


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def jobs(tmp_path, stage) -> Iterator[Jobs]:
    jobs = Jobs(tmp_path, "bank", compute=stage)
    yield jobs
    jobs.close()


def add(jobs: Jobs, task: str = "spam", caller: Caller = ACME, **request: Any) -> str:
    folder = jobs.new_folder()
    (folder / "train.csv").write_text("text,label\n")
    return jobs.add(folder, caller, task, {"files": {"train": "train.csv"}, **request}).id


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end, "it has not come about"
        time.sleep(0.005)


def state(jobs: Jobs, id: str) -> str:
    return jobs.table.get(id).state


def test_from_the_queue_to_its_end(jobs, stage, tmp_path) -> None:
    id = add(jobs)
    work = stage.next()
    assert work.arguments["task"] == "acme/spam"
    assert work.arguments["files"] == {"train": "train.csv"}
    assert state(jobs, id) == "running"
    stage.tell(id, "event", {"event": "step", "step": 1})
    stage.tell(id, "event", {"event": "step", "step": 2})
    stage.tell(id, "done", {"task": "acme/spam", "version": 1})
    until(lambda: state(jobs, id) == "done")
    job = jobs.table.get(id)
    assert job.outcome == {"task": "spam", "version": 1}
    assert [json.loads(event)["step"] for _, event in jobs.table.events(id)] == [1, 2]
    assert [number for number, _ in jobs.table.events(id, after=0)] == [1]
    until(lambda: not (tmp_path / "data" / id).exists())


def test_the_data_is_kept_when_asked(jobs, stage, tmp_path) -> None:
    id = add(jobs, keep_data=True)
    stage.next()
    stage.tell(id, "done", {"task": "acme/spam", "version": 1})
    until(lambda: state(jobs, id) == "done")
    assert (tmp_path / "data" / id / "train.csv").is_file()
    jobs.purge("acme", "spam")
    assert not (tmp_path / "data" / id).exists()
    with pytest.raises(JobNotFound):
        jobs.table.get(id)


def test_an_error_of_the_data_is_told_and_one_of_ours_is_not(jobs, stage) -> None:
    told, hidden = add(jobs), add(jobs)
    for payload in (
        {"message": "Row 3 is bad.", "hint": "Mend it.", "kind": "DataError", "stderr": "/home/x"},
        {"message": "KeyError: /home/x", "hint": "", "kind": "KeyError", "stderr": "/home/x"},
    ):
        stage.tell(stage.next().id, "failed", payload)
    until(lambda: state(jobs, told) == state(jobs, hidden) == "failed")
    assert jobs.table.get(told).outcome == {"message": "Row 3 is bad.", "hint": "Mend it."}
    assert "home" not in json.dumps(jobs.table.get(hidden).outcome)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("BankError", False),
        ("BaseDamaged", False),
        ("CheckpointError", False),
        ("WrongBase", False),
        ("NotBetter", True),
        ("TrainingDiverged", True),
    ],
)
def test_what_may_name_places_of_the_machine_is_not_told(jobs, stage, kind, told) -> None:
    id = add(jobs)
    stage.next()
    payload = {"message": "It is at '/srv/bank'.", "hint": "See /srv.", "kind": kind, "stderr": ""}
    stage.tell(id, "failed", payload)
    until(lambda: state(jobs, id) == "failed")
    outcome = jobs.table.get(id).outcome
    assert set(outcome) == {"message", "hint"}
    assert ("/srv" in json.dumps(outcome)) is told


def test_a_process_that_dies_is_started_again_a_few_times(jobs, stage) -> None:
    id = add(jobs)
    for _ in range(TRIES):
        assert stage.next().id == id
        stage.tell(id, "failed", DIED)
    until(lambda: state(jobs, id) == "failed")
    assert f"died {TRIES} times" in jobs.table.get(id).outcome["message"]
    other = add(jobs)
    assert stage.next().id == other  # and the next one has its turn


def test_cancelled_as_it_waits_and_as_it_runs(jobs, stage, tmp_path) -> None:
    runs, waits = add(jobs), add(jobs)
    stage.next()
    assert jobs.cancel(waits, "acme").state == "cancelled"
    assert not (tmp_path / "data" / waits).exists()
    jobs.cancel(runs, "acme")
    until(lambda: state(jobs, runs) == "cancelled")
    assert jobs.cancel(runs, "acme").state == "cancelled"
    with pytest.raises(JobNotFound):
        jobs.cancel(runs, "other")


def test_cancelled_before_its_process_is_there(jobs, stage, monkeypatch) -> None:
    real, held = stage.run, threading.Event()

    def late(works: Iterable[Work]) -> Iterator[Event]:
        held.wait(5)
        yield from real(works)

    monkeypatch.setattr(stage, "run", late)
    id = add(jobs)
    until(lambda: state(jobs, id) == "running")
    jobs.cancel(id, "acme")
    held.set()
    until(lambda: state(jobs, id) == "cancelled")


def test_a_cancelled_job_whose_process_dies_is_not_started_again(jobs, stage) -> None:
    id = add(jobs)
    stage.next()
    jobs.table.ask_to_cancel(id)
    stage.tell(id, "failed", DIED)
    until(lambda: state(jobs, id) == "cancelled")


def test_a_tenant_with_much_waiting_is_refused(jobs) -> None:
    for _ in range(3):
        add(jobs)
    with pytest.raises(Busy, match="3 jobs are waiting"):
        add(jobs)
    add(jobs, caller=Caller("other", "train"))


def test_tasks_that_are_being_learnt_count(jobs) -> None:
    caller = Caller("acme", "train", Quotas(tasks=3))
    folder = jobs.new_folder
    for task in ("a", "b", "b", "known"):
        jobs.add(folder(), caller, task, {}, names={"known"})
    with pytest.raises(Busy, match="3 tasks are all"):
        jobs.add(folder(), caller, "c", {}, names={"known"})
    jobs.cancel(jobs.table.of("acme")[-2].id, "acme")
    jobs.cancel(jobs.table.of("acme")[-3].id, "acme")
    jobs.add(folder(), caller, "c", {}, names={"known"})


def test_taken_fairly(jobs, stage) -> None:
    first, second, third = (add(jobs) for _ in range(3))
    other = add(jobs, caller=Caller("other", "train"))
    order = []
    for _ in range(4):
        work = stage.next()
        order.append(work.id)
        stage.tell(work.id, "done", {"task": "spam", "version": 1})
    assert order == [first, second, third, other]  # one at a time: by age


def test_two_at_once_are_of_two_tenants(tmp_path, stage) -> None:
    jobs = Jobs(tmp_path, "bank", compute=stage, at_once=2)
    first, second = add(jobs), add(jobs)
    other = add(jobs, caller=Caller("other", "train"))
    assert {stage.next().id, stage.next().id} == {first, other}
    assert state(jobs, second) == "queued"
    stage.tell(first, "done", {"task": "spam", "version": 1})
    assert stage.next().id == second
    jobs.close()


def test_closed_in_order_every_job_is_kept(tmp_path, stage) -> None:
    jobs = Jobs(tmp_path, "bank", compute=stage)
    runs, waits = add(jobs), add(jobs)
    stage.next()
    jobs.close()
    again = Jobs(tmp_path, "bank", compute=Stage())
    until(lambda: state(again, runs) == "running")
    assert again.table.get(runs).tries == 1  # the pause does not count
    assert state(again, waits) == "queued"
    assert (tmp_path / "data" / runs / "train.csv").is_file()
    again.close()


def test_after_a_crash_it_goes_on(tmp_path) -> None:
    table = JobTable(tmp_path / "jobs.sqlite")
    folder = tmp_path / "data" / ("a" * 24)
    folder.mkdir(parents=True)
    (tmp_path / "data" / "half-uploaded").mkdir()
    table.add(folder.name, "acme", "spam", {"files": {}, "at_once": 1, "rows": 1})
    assert table.take().state == "running"
    table.close()  # and nothing else: the process is gone
    stage = Stage()
    jobs = Jobs(tmp_path, "bank", compute=stage)
    assert stage.next().id == folder.name
    assert jobs.table.get(folder.name).tries == 2
    assert folder.exists()
    assert not (tmp_path / "data" / "half-uploaded").exists()
    jobs.close()


def test_crashes_are_counted(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    table = JobTable(tmp_path / "jobs.sqlite")
    table.add("a", "acme", "spam", {"files": {}, "at_once": 1})
    for _ in range(TRIES):
        assert table.take() is not None
        table.put_back("a")
    table.take()
    table.close()
    jobs = Jobs(tmp_path, "bank", compute=Stage())
    assert state(jobs, "a") == "failed"
    jobs.close()


def test_one_service_has_the_jobs(tmp_path, jobs) -> None:
    with pytest.raises(BankError, match="Another service"):
        Jobs(tmp_path, "bank", compute=Stage())


def test_a_job_ends_once(tmp_path) -> None:
    table = JobTable(tmp_path / "jobs.sqlite")
    table.add("a", "acme", "spam", {"at_once": 1})
    table.take()
    ended = []
    threads = [
        threading.Thread(target=lambda i=i: ended.append(table.end("a", "done", {"version": i})))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == [False] * 7 + [True]
    assert not table.end("a", "failed")
    assert table.take() is None


def test_old_jobs_are_forgotten(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.service.jobs.KEPT_JOBS", 2)
    table = JobTable(tmp_path / "jobs.sqlite")
    for id in "abcd":
        table.add(id, "acme", "spam", {"at_once": 1})
        table.add_event(id, {"event": "x"})
    for id in "abc":
        table.end(id, "done")
    assert table.forget_old("acme") == ["a"]
    assert [job.id for job in table.of("acme")] == ["d", "c", "b"]
    assert table.events("a") == []


@pytest.mark.parametrize("kind", ["cancelled", "failed", "done"])
def test_the_state_of_a_run_goes_when_its_job_has_ended(tmp_path, stage, kind) -> None:
    jobs = Jobs(tmp_path, "bank", compute=stage, runs=lambda name: tmp_path / "runs" / name)
    id = add(jobs, keep_data=True)
    work = stage.next()
    state_of_run = tmp_path / "runs" / "acme/spam" / work.arguments["job"]
    state_of_run.mkdir(parents=True)
    (state_of_run / "state.safetensors").write_text("rows, in a way")
    if kind == "cancelled":
        jobs.cancel(id, "acme")
    else:
        stage.tell(id, kind, {"kind": "DataError", "message": "", "hint": "", "stderr": ""})
    until(lambda: state(jobs, id) == kind)
    until(lambda: not state_of_run.exists())
    assert jobs.folder(id).exists()
    jobs.close()


def test_while_a_job_runs_its_task_is_not_purged(jobs, stage, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.service.runner.PURGE_SECONDS", 0.05)
    id = add(jobs)
    stage.next()
    with monkeypatch.context() as patch:
        patch.setattr(stage, "cancel", lambda _: True)  # it does not end
        with pytest.raises(ServiceError, match="still running"):
            jobs.purge("acme", "spam")
    assert (jobs.folder(id) / "train.csv").is_file()
    stage.tell(id, "done", {"task": "acme/spam", "version": 1})
    until(lambda: not jobs._running)
    assert jobs.purge("acme", "spam")
    assert not jobs.folder(id).exists()
    assert not jobs.purge("acme", "spam")


def test_what_is_kept_is_purged_while_no_service_runs(tmp_path, stage) -> None:
    assert not purge_kept(tmp_path, "acme", "spam")
    jobs = Jobs(tmp_path, "bank", compute=stage)
    id, other = add(jobs), add(jobs, "ham")
    stage.next()
    with pytest.raises(BankError, match="A running service has jobs of this task"):
        purge_kept(tmp_path, "acme", "spam")
    assert not purge_kept(tmp_path, "acme", "eggs")
    jobs.close()
    assert purge_kept(tmp_path, "acme", "spam")
    assert [path.name for path in (tmp_path / "data").iterdir()] == [other]
    table = JobTable(tmp_path / "jobs.sqlite")
    assert table.find(id) is None
    assert table.get(other).state == "queued"


def full(*_: object, **__: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def test_a_full_disk_ends_no_job_for_good(jobs, stage, monkeypatch) -> None:
    """Nothing can be taken, kept or ended for a while; then all goes on."""
    monkeypatch.setattr("adapterbank.service.runner.PAUSE", 0.02)
    with monkeypatch.context() as patch:
        patch.setattr(jobs.table, "take", full)
        first = add(jobs)
        time.sleep(0.1)
        assert jobs.alive
        assert state(jobs, first) == "queued"
    stage.next()
    with monkeypatch.context() as patch:
        for name in ("add_event", "end", "put_back"):
            patch.setattr(jobs.table, name, full)
        stage.tell(first, "event", {"event": "step"})
        stage.tell(first, "done", {"task": "acme/spam", "version": 1})
        time.sleep(0.1)
        assert state(jobs, first) == "running"
    until(lambda: state(jobs, first) == "done")
    second = add(jobs)
    assert stage.next().id == second


def test_a_table_whose_change_failed_can_be_used_again(tmp_path) -> None:
    table = JobTable(tmp_path / "jobs.sqlite")

    def change() -> None:
        with table._changing() as connection:
            connection.execute("ROLLBACK")  # as SQLite does itself when the disk is full
            full()

    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        change()
    table.add("a", "acme", "spam", {"at_once": 1})
    assert table.take().id == "a"


def test_a_job_that_nobody_runs_can_be_cancelled(jobs, stage) -> None:
    id = add(jobs)
    stage.next()
    jobs._running.discard(id)
    assert jobs.cancel(id, "acme").state == "cancelled"


def test_watchers_hear_of_everything(jobs, stage) -> None:
    heard: list[str] = []
    jobs.watch(heard.append)
    id = add(jobs)
    stage.next()
    stage.tell(id, "event", {"event": "x"})
    stage.tell(id, "done", {"task": "spam", "version": 1})
    until(lambda: state(jobs, id) == "done")
    until(lambda: len(heard) >= 3)
    assert set(heard) == {id}


def test_state_folder_is_made(tmp_path: Path, stage: Stage) -> None:
    jobs = Jobs(tmp_path / "a" / "b", "bank", compute=stage)
    jobs.close()
    assert (tmp_path / "a" / "b" / "jobs.sqlite").is_file()
