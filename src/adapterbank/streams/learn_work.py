"""One task of a stream learnt in another process, on this machine or another one.

It learns and leaves a package in its folder; publishing is the stream's own, so that a unit that is
run twice publishes once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adapterbank.bank import Bank
from adapterbank.compute.protocol import Compute, Work
from adapterbank.errors import ComputeError, DataError
from adapterbank.events import Compared, Learnt
from adapterbank.learn import preload as preload  # before a unit is forked
from adapterbank.store.package import read_package, write_package
from adapterbank.tasks.task import Task
from adapterbank.tasks.task_file import read_task, write_task
from adapterbank.training.loop import Epoch, Step

Emit = Callable[[dict[str, Any]], None]


def learn_elsewhere(
    compute: Compute,
    bank: str,
    base: str | None,
    folder: Path,
    task: Task,
    settings: dict[str, Any],
) -> Iterator[Step | Epoch | Learnt]:
    """Learn the task there; steps and epochs as they come, and at last what it learnt."""
    folder.mkdir(parents=True, exist_ok=True)
    write_task(folder / "task.jsonl", task)
    work = Work(
        f"learn-{task.name.replace('/', '-')}",
        "adapterbank.streams.learn_work",
        {"bank": bank, "base": base, "folder": str(folder), "settings": settings},
        folder=str(folder),
        inputs=["task.jsonl"],
    )
    for event in compute.run([work]):
        payload = event.payload
        if event.kind == "event":
            yield Step(**payload["step"]) if "step" in payload else Epoch(**payload["epoch"])
        elif event.kind == "done":
            yield _learnt(folder, payload)
        elif event.last:
            kind = DataError if payload.get("kind") == "DataError" else ComputeError
            raise kind(payload.get("message", event.kind), payload.get("hint", ""))


def _learnt(folder: Path, told: dict[str, Any]) -> Learnt:
    package = read_package(folder / "package")
    compared = Compared(**told["compared"]) if told["compared"] else None
    return Learnt(
        package.manifest, package.tensors, (), [], told["seconds"], told["speed"], compared
    )


def work(arguments: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Learn, and leave a package."""
    folder = Path(arguments["folder"])
    task = read_task(folder / "task.jsonl")
    bank = Bank.open(arguments["bank"], arguments["base"], create=False)
    order = bank.order(**arguments["settings"])
    told: dict[str, Any] = {}
    for event in bank.learning(task.name, task, order=order, resume=True, runs=folder / "state"):
        if isinstance(event, Step):
            emit({"step": asdict(event)})
        elif isinstance(event, Epoch):
            emit({"epoch": asdict(event)})
        elif isinstance(event, Learnt):
            target = folder / "package"
            write_package(target, event.manifest, event.tensors, replace=target.exists())
            told = {
                "seconds": event.seconds,
                "speed": event.examples_per_second,
                "compared": asdict(event.compared) if event.compared else None,
            }
    return told
