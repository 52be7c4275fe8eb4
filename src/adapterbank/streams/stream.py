"""Tasks learnt one after the other, each checked with all before it, as an iterator of events.

    learn → publish → record → check all tasks so far in a fresh process → (contrast)

Stopped at any moment, the same stream goes on where it was. What is wrong with an arrival sets that
one aside; what is wrong with the machine or the bank ends the stream, and costs no arrival.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from adapterbank.bank import Bank
from adapterbank.compute.local import LocalCompute
from adapterbank.compute.protocol import Compute, Work
from adapterbank.errors import (
    AdapterBankError,
    BankError,
    BaseDamaged,
    BaseNotFound,
    CheckpointError,
    ComputeError,
    ConfigError,
    DataError,
    WrongBase,
)
from adapterbank.events import Learnt
from adapterbank.model.count import total
from adapterbank.order import Order
from adapterbank.store.package import pack
from adapterbank.streams.arrivals import Arrival, read_list
from adapterbank.streams.check import THREADS
from adapterbank.streams.contrast import Contrast
from adapterbank.streams.events import Arrived, Begun, Checked, Checking, Event, Kept, SetAside
from adapterbank.streams.folder import FORMS, Folder, Stamp, stamp_of
from adapterbank.streams.learn_work import learn_elsewhere
from adapterbank.streams.report import make_report, problems
from adapterbank.streams.state import Document, State
from adapterbank.tasks.task import Task
from adapterbank.tasks.task_file import write_task

POLL = 1.0  # seconds between two looks at a folder
HELD_OUT = 500
Source = list[Arrival] | Folder
OF_VERSIONS = ("from_version", "even_if_worse")
# The machine's fault or the bank's: another arrival would fare no better.
NOT_ITS_FAULT = (BaseNotFound, BaseDamaged, WrongBase, CheckpointError, ComputeError)


def open_source(path: Path, given: Mapping[str, Any]) -> Source:
    """The tasks of a TOML file, or a folder that they come into. Settings `given` hold for all."""
    given = {name: value for name, value in given.items() if value is not None}
    if path.is_dir():
        return Folder(path, given)
    if not path.exists():
        raise DataError(
            f"There is no {path}.", "Give a TOML file that lists tasks, or a folder of data files."
        )
    return read_list(path, given)


@dataclass
class Stream:
    """Tasks that come into a bank one after the other."""

    bank: Bank
    path: Path
    source: Source
    score_rows: int = HELD_OUT
    """Held-out rows of each task that are asked again and again."""
    contrast: bool = False
    base: str | None = None
    """Where the bank's base is, if not where the bank says."""
    compute: Compute = field(default_factory=lambda: LocalCompute(threads=THREADS))
    """Where tasks are asked again."""
    learn_on: Compute | None = None
    """Where tasks are learnt; in this process unless given."""

    @cached_property
    def state(self) -> State:
        """How far it is."""
        return State.of(self.bank.store, self.path)

    @cached_property
    def beside(self) -> Contrast:
        """The shared encoder that the bank is compared with."""
        return Contrast(self.state, self.bank.encoder)

    def run(self, *, watch: bool = False) -> Iterator[Event]:
        """Learn what is there and not learnt yet; with `watch`, then what comes, for ever.

        Where there are tasks from an earlier run, it begins by asking those again.
        """
        self._check_settings()
        with self.state.alone():
            self.state.settle(self.bank.store)
            yield from self._events(watch)

    def _events(self, watch: bool) -> Iterator[Event]:
        if self.state.learnt():
            yield from self._check()
        if self.contrast:
            yield from self.beside.catch_up(self._here())
        if watch and isinstance(self.source, Folder):
            yield from self._watched(self.source)
            return
        here = self._here()
        if not here and not self.state.arrivals():
            raise DataError(
                f"There is no data in {self.path}.",
                f"Put {', '.join(FORMS)} files there; --watch waits for them.",
            )
        for number, arrival in enumerate(here, 1):
            yield from self._take(arrival, number, len(here))

    def report(self) -> Document:
        """Everything that there is to know of it, as one plain document."""
        return make_report(
            self.state,
            source=str(self.path),
            bank=self.bank.store.files.url,
            base=self.bank.store.base,
            parameters=total(self.bank.encoder.model.parameters()),
        )

    # --- what comes, and when

    def _here(self) -> list[Arrival]:
        return self.source.arrivals() if isinstance(self.source, Folder) else self.source

    def _watched(self, folder: Folder) -> Iterator[Event]:
        looked_at: dict[str, Stamp] = {}
        numbers = count(1)
        while True:
            for arrival in folder.arrivals():
                stamp = stamp_of(arrival.files.values())
                if looked_at.get(arrival.key) != stamp and folder.settled(arrival):
                    looked_at[arrival.key] = stamp
                    yield from self._take(arrival, next(numbers), None)
                    break  # others may have come or gone meanwhile
            else:
                time.sleep(POLL)

    def _check_settings(self) -> None:
        """Refuse a setting that cannot be, before anything is learnt."""
        if isinstance(self.source, Folder):
            self._check_order(self.source.given)
            return
        for arrival in self.source:
            try:
                self._check_order(arrival.learning)
            except ConfigError as error:
                raise ConfigError(f"{self.path.name}, {arrival.name}: {error}") from None

    def _check_order(self, learning: Mapping[str, Any]) -> None:
        settings = {k: v for k, v in learning.items() if k not in OF_VERSIONS}
        any_task = Task("any", ("a", "b"), (), ())
        self.bank.order(**settings).recipe_for(any_task, self.bank.encoder.units)

    # --- one arrival

    def _take(self, arrival: Arrival, number: int, of: int | None) -> Iterator[Event]:
        digest, settings = arrival.digest(), arrival.settings
        last = self.state.last(arrival.key)
        if last and (last["digest"], last["settings"]) == (digest, settings):
            yield Arrived(arrival.name, number, of, known=True)
            if "problem" in last:  # it was put back, or the stream was killed before the move
                yield self._put_aside(arrival, last["problem"])
            return
        yield Arrived(arrival.name, number, of, known=False)
        about = {
            "number": self.state.next_number(),
            "key": arrival.key,
            "name": arrival.name,
            "sources": arrival.sources,
            "digest": digest,
            "settings": settings,
        }
        try:
            task = arrival.read()
            yield from self._learn(arrival, task, about)
        except AdapterBankError as error:
            if isinstance(error, NOT_ITS_FAULT) or type(error) is BankError:
                raise
            self.state.add_arrival(about | {"problem": str(error)})
            yield self._put_aside(arrival, str(error))
            return
        yield from self._check()
        if self.contrast:
            yield from self.beside.learn(self.state.learnt()[-1], task)

    def _learn(self, arrival: Arrival, task: Task, about: Document) -> Iterator[Event]:
        settings = dict(arrival.learning)
        even_if_worse = bool(settings.pop("even_if_worse", False))
        order: Order = self.bank.order(**settings)
        write_task(self.state.held_out(about["number"]), self._held_out(task))
        events: Iterator[Any]
        if self.learn_on is None:
            events = self.bank.learning(arrival.name, task, order=order, resume=True)
        else:
            events = learn_elsewhere(
                self.learn_on,
                self.bank.store.files.url,
                self.base,
                self.state.folder / "learning" / f"{about['number']:04}",
                task.named(arrival.name),
                settings,
            )
        yield Begun(task.metric, str(order.method))
        for event in events:
            if not isinstance(event, Learnt):
                yield event
                continue
            record = about | _facts(event)
            self.state.announce(record)
            entry = self.bank.publish(arrival.name, event, even_if_worse=even_if_worse)
            record["version"] = entry.version.version
        # Here the run has removed its state.
        self.state.add_arrival(record)
        shutil.rmtree(self.state.folder / "learning", ignore_errors=True)
        yield Kept(record)

    def _held_out(self, task: Task) -> Task:
        """The task with nothing but the rows to ask it about: some of test, or else of dev."""
        rows = task.test or task.dev
        if len(rows) > self.score_rows:
            chosen = random.Random(0).sample(range(len(rows)), self.score_rows)
            rows = [rows[i] for i in sorted(chosen)]
        return replace(task, train=(), dev=(), test=rows)

    def _put_aside(self, arrival: Arrival, reason: str) -> SetAside:
        folder = self.source
        place = folder.put_aside(arrival, reason) if isinstance(folder, Folder) else ""
        return SetAside(arrival.name, reason, place)

    # --- all tasks so far

    def _check(self) -> Iterator[Event]:
        learnt = self.state.learnt()
        yield Checking(len(learnt))
        work = Work(
            "check",
            "adapterbank.streams.check",
            {
                "bank": self.bank.store.files.url,
                "base": self.base,
                "tasks": [
                    {
                        "arrival": record["number"],
                        "reference": f"{record['name']}@{record['version']}",
                        "rows": str(self.state.held_out(record["number"])),
                    }
                    for record in learnt
                ],
            },
        )
        *_, last = self.compute.run([work])
        if last.kind != "done":
            raise ComputeError(
                f"The tasks could not be asked again: {last.payload.get('message', last.kind)}",
                "Everything learnt is kept: the same command goes on from here.",
            )
        self.state.add_check({"after": learnt[-1]["number"], **last.payload})
        yield Checked(len(learnt), problems(learnt, self.state.checks()))


def _facts(learnt: Learnt) -> Document:
    manifest = learnt.manifest
    return {
        "package": pack(manifest, learnt.tensors).digest,
        "kind": manifest.kind,
        "labels": len(manifest.labels),
        "metric": manifest.metric,
        "rows": manifest.data.rows,
        "dev": manifest.dev,
        "test": manifest.test,
        "recipe": manifest.recipe,
        "trained_parameters": manifest.parameters.trained,
        "seconds": learnt.seconds,
    }
