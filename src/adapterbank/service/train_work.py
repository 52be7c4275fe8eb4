"""What a training job does, in a process of its own: labelled rows in, a version in the bank out.

It may be killed at any point and started again: training goes on from its last saved state, and
what was published is found by the digest that was written down just before, so that a job that is
run twice publishes once.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adapterbank.bank import Bank
from adapterbank.compute.records import write_record
from adapterbank.errors import TooLarge
from adapterbank.events import Compared, Event, Learnt, Plan, Resumed
from adapterbank.learn import going_on
from adapterbank.learn import preload as preload  # before a unit is forked
from adapterbank.service.apart import bounded_memory
from adapterbank.store.package import pack
from adapterbank.tasks.limit import limited
from adapterbank.tasks.load import load_task
from adapterbank.tasks.report import DataReport
from adapterbank.tasks.room import Room
from adapterbank.tasks.task import Task
from adapterbank.training.baselines import Baseline
from adapterbank.training.judge import Rounded, Warned
from adapterbank.training.loop import Epoch, Step

Emit = Callable[[dict[str, Any]], None]
PUBLISHED = "published.json"
STEPS_TOLD = 400  # of a run, about
MEMORY = 2 * 2**30  # for reading an upload, and so much more for each byte of a large one
MEMORY_A_BYTE = 10
CHARACTERS = 200_000_000  # or as many as the upload has bytes


def work(arguments: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Learn and publish. Arguments: `bank`, `base`, `task`, `job` (its id), `folder` (of the job),
    `files` in it by split, `reading`, `learning`, `even_if_worse`, `rows` (at most), `max_rows`."""
    folder, name = Path(arguments["folder"]), str(arguments["task"])
    with _alone(folder):
        bank = Bank.open(arguments["bank"], arguments["base"], create=False)
        if (known := _published(bank, name, folder)) is not None:
            return known
        metric = arguments["reading"].get("metric")
        order = bank.order(metric=metric, **arguments["learning"])
        order, task = going_on(order, _read(arguments, folder))
        teller = Teller(emit, task.metric)
        # A folder of its own, so that the service can delete it whatever becomes of the job.
        runs = bank.store.runs(name) / arguments["job"]
        events = bank.learning(name, task, order=order, resume=True, runs=runs)
        learnt = None
        for event in events:
            teller.tell(event)
            if isinstance(event, Learnt):
                learnt = event
                break
        assert learnt is not None  # noqa: S101 - it is the last event
        digest = pack(learnt.manifest, learnt.tensors).digest
        _keep(folder / PUBLISHED, {"package": digest, "result": {}})
        entry = bank.publish(name, learnt, even_if_worse=arguments["even_if_worse"])
        result = learnt.result(entry)
        _keep(folder / PUBLISHED, {"package": digest, "result": result})
        next(events, None)  # it is kept: the run may remove its state
        return result


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process has this job: one may still be dying."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _published(bank: Bank, name: str, folder: Path) -> dict[str, Any] | None:
    """What an earlier try came to, if it came as far as that."""
    try:
        written = json.loads((folder / PUBLISHED).read_text("utf-8"))
    except FileNotFoundError:
        return None
    for version in bank.store.record(name).versions:
        if version.package == written["package"]:
            found = written["result"] or bank.store.info(f"{name}@{version.version}").summary()
            return dict(found)
    return None


def _keep(path: Path, record: dict[str, Any]) -> None:
    write_record(path, record)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _read(arguments: dict[str, Any], folder: Path) -> Task:
    """The task of the uploaded files, read within bounds: a small one may unpack to gigabytes."""
    files = {split: folder / name for split, name in arguments["files"].items()}
    seed = int(arguments["learning"].get("seed") or 0)
    size = sum(file.stat().st_size for file in files.values())
    memory = MEMORY + MEMORY_A_BYTE * size
    try:
        with bounded_memory(memory):
            task = load_task(
                str(arguments["task"]),
                files["train"],
                dev=files.get("dev"),
                test=files.get("test"),
                seed=seed,
                room=Room(arguments["rows"], max(CHARACTERS, size)),
                **arguments["reading"],
            )
    except MemoryError:
        raise TooLarge(
            f"Reading the rows took more than {memory / 1e9:.1f} GB of memory.",
            "Send fewer rows, or shorter texts.",
        ) from None
    rows = len(task.train) + len(task.dev) + len(task.test)
    if rows > arguments["rows"]:
        raise TooLarge(
            f"The data has {rows:,} rows; {arguments['rows']:,} at most are taken.",
            "Send fewer.",
        )
    most = int(arguments["max_rows"] or 0)
    return limited(task, most, most, most, seed)


class Teller:
    """Makes events of a run plain, and thins its steps out."""

    def __init__(self, emit: Emit, metric: str) -> None:
        self._emit, self._metric = emit, metric
        self._pause = 0.5  # seconds between two steps that are told
        self._next = 0.0
        self._losses: list[float] = []

    def tell(self, event: Event) -> None:
        """Pass an event on, if it is one for others."""
        if isinstance(event, Step):
            self._step(event)
        elif isinstance(event, Plan):
            self._pause = max(self._pause, event.seconds / STEPS_TOLD)
            self._emit(
                {
                    "event": "plan",
                    "steps": event.steps,
                    "epochs": event.recipe.epochs,
                    "metric": self._metric,
                    "seconds": event.seconds,
                    "trained_parameters": event.trained_parameters,
                    "bytes": event.package_bytes,
                }
            )
        elif isinstance(event, DataReport):
            self._emit({"event": "data", **event.as_dict()})
        elif isinstance(event, Resumed | Epoch | Baseline | Rounded | Warned | Compared):
            self._emit({"event": type(event).__name__.lower(), **asdict(event)})

    def _step(self, step: Step) -> None:
        self._losses.append(step.loss)
        now = time.monotonic()
        if now < self._next and step.step < step.steps:
            return
        loss = sum(self._losses) / len(self._losses)
        self._next, self._losses = now + self._pause, []
        self._emit({"event": "step", "step": step.step, "steps": step.steps, "loss": loss})
