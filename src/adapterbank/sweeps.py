"""Run a sweep: trials in processes of their own, a record kept of each, the winner published.

    <folder>/task.jsonl            the data, once
    <folder>/trials/<id>.json      one record a trial; there means done
    <folder>/trials/<id>/          its package

A sweep that is stopped goes on where it was: trials with a record are not run again, and one that
was under way goes on from its checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapterbank.compute.every import run_every
from adapterbank.compute.protocol import Compute, Event, Work
from adapterbank.compute.records import write_record
from adapterbank.tasks.task import Task
from adapterbank.tasks.task_file import read_task, write_task
from adapterbank.training.sweep import Candidate, Trial, rank

if TYPE_CHECKING:
    from adapterbank.events import Learnt


@dataclass(frozen=True)
class Sweep:
    """A grid's trials on one task and base, and the folder that holds how far they are."""

    folder: Path
    base: str
    device: str
    trials: list[Trial]

    def open(self, task: Task) -> None:
        """Lay out the folder."""
        (self.folder / "trials").mkdir(parents=True, exist_ok=True)
        if not self.data.is_file():
            write_task(self.data, task)

    @property
    def data(self) -> Path:
        """The file with the task."""
        return self.folder / "task.jsonl"

    def record_of(self, id: str) -> Path:
        """The record of a trial."""
        return self.folder / "trials" / f"{id}.json"

    def package_of(self, id: str) -> Path:
        """The package of a trial."""
        return self.folder / "trials" / id

    def records(self) -> list[dict[str, Any]]:
        """Of the trials that are done, in the grid's order."""
        return [
            json.loads(self.record_of(trial.id).read_text("utf-8"))
            for trial in self.trials
            if self.record_of(trial.id).is_file()
        ]

    def run(self, compute: Compute) -> Iterator[tuple[Trial, Event]]:
        """Run the trials that have no record yet."""
        waiting = {t.id: t for t in self.trials if not self.record_of(t.id).is_file()}
        works = [
            Work(
                trial.id,
                "adapterbank.sweeps",
                {
                    "data": str(self.data),
                    "base": self.base,
                    "device": self.device,
                    "settings": trial.settings,
                    "seed": trial.seed,
                    "id": trial.id,
                    "record": str(self.record_of(trial.id)),
                    "package": str(self.package_of(trial.id)),
                },
                folder=str(self.folder),
                inputs=[self.data.name],
            )
            for trial in waiting.values()
        ]
        names = {id: str(trial) for id, trial in waiting.items()}
        for event in run_every(compute, works, names, "trials"):
            yield waiting[event.id], event

    def winner(self, metric: str) -> list[Candidate]:
        """All candidates, the winner first."""
        return rank(self.records(), metric)


def preload() -> None:
    """What is slow to import."""
    from adapterbank import learn

    learn.preload()


def work(arguments: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """One trial, in a process of its own."""
    from adapterbank.events import Learnt
    from adapterbank.learn import learn
    from adapterbank.model.encoder import load_encoder
    from adapterbank.order import make_order
    from adapterbank.store.package import write_package
    from adapterbank.training.loop import Epoch, Step

    task = read_task(Path(arguments["data"]))
    encoder = load_encoder(arguments["base"], device=arguments["device"])
    order = make_order(
        encoder.layers, **arguments["settings"], seed=arguments["seed"], baselines=False
    )
    package, record = Path(arguments["package"]), Path(arguments["record"])
    if record.is_file():  # it was done by a process that was lost before it could say so
        done: dict[str, Any] = json.loads(record.read_text("utf-8"))
        return done
    for event in learn(encoder, task, order, runs=package.parent, resume=True):
        if isinstance(event, Step):
            emit({"step": event.step, "steps": event.steps, "loss": event.loss})
        elif isinstance(event, Epoch):
            emit({"epoch": event.epoch, "epochs": event.epochs, "dev": event.dev})
        elif isinstance(event, Learnt):
            package.parent.mkdir(parents=True, exist_ok=True)  # a unit that was carried here
            write_package(package, event.manifest, event.tensors, replace=package.exists())
            write_record(record, _record(arguments, event))
    found: dict[str, Any] = json.loads(record.read_text("utf-8"))
    return found


def _record(arguments: dict[str, Any], learnt: Learnt) -> dict[str, Any]:
    manifest = learnt.manifest
    return {
        **{name: arguments[name] for name in ("id", "settings", "seed")},
        "dev": manifest.dev,
        "test": manifest.test,
        "trained_parameters": manifest.parameters.trained,
        "recipe": manifest.recipe,
        "software": manifest.software,
        "seconds": learnt.seconds,
    }
