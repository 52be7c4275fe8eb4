"""A running service: bank and engine, the queue in front of them, jobs, keys and counters."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.concurrency import run_in_threadpool

from adapterbank.compute.local import LocalCompute
from adapterbank.compute.protocol import Compute
from adapterbank.errors import AdapterBankError, Busy, ServiceError, TaskNotFound
from adapterbank.service.answers import note
from adapterbank.service.apart import Apart
from adapterbank.service.auth import Caller, Keys
from adapterbank.service.limits import ANSWER_SECONDS, STREAMS, AtOnce, check_tasks
from adapterbank.service.manifests import Manifests
from adapterbank.service.metrics import Metrics
from adapterbank.service.runner import Jobs, full_name
from adapterbank.service.uploads import sweep
from adapterbank.serving.batcher import Answered, Batcher
from adapterbank.serving.engine import Engine
from adapterbank.serving.which_task import Route, Router
from adapterbank.store.entry import TaskInfo
from adapterbank.store.names import split_reference
from adapterbank.tasks.predictions import Prediction

NICE = 10
TURNS = 4  # mixed requests of a tenant whose many names are looked up at once


WHOLE = (Busy, ServiceError)  # a matter of the whole request: it may be sent again


@dataclass(frozen=True)
class Settings:
    """How a service is to be run."""

    state: Path
    """Where jobs and uploads are kept on this machine."""
    base: str | None = None
    """The bank's base where it is now, if not where the bank says."""
    jobs: bool = True
    jobs_at_once: int = 1
    job_threads: int | None = None
    job_nice: int = NICE
    """How far training steps back for answers, 0 to 19."""
    jobs_on: Compute | None = None
    """Where tasks are trained, if not on this machine."""
    loopback: bool = True
    """Whether it can be reached from this machine alone."""


class Service:
    """Everything that routes need."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine, self.store, self.settings = engine, engine.store, settings
        self.keys, self.metrics, self.apart = Keys(self.store), Metrics(), Apart()
        self.ready = threading.Event()
        self.jobs: Jobs | None = None
        settings.state.mkdir(parents=True, exist_ok=True)
        self.uploads = settings.state / "uploads"
        self.uploads.mkdir(exist_ok=True)
        sweep(self.uploads)
        self.closing = False
        self.streams = AtOnce(STREAMS, "streams of events")
        self._turns: defaultdict[str, CapacityLimiter] = defaultdict(lambda: CapacityLimiter(TURNS))
        self._hearing: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.manifest = Manifests(self.store.manifest)

    def open_jobs(self) -> None:
        """Take the jobs, if they are wanted and no other service has them, and go on with them."""
        settings = self.settings
        if not settings.jobs or self.jobs is not None:
            return
        self.jobs = Jobs(
            settings.state,
            self.store.files.url,
            settings.base,
            at_once=settings.jobs_at_once,
            compute=settings.jobs_on
            or LocalCompute(settings.jobs_at_once, settings.job_threads, settings.job_nice),
            runs=self.store.runs,
        )
        self.jobs.watch(self._heard)
        self.metrics.watch_jobs(self.jobs.table.counts)

    def start(self) -> None:
        """Open the engine, which takes a moment, and go on with the jobs."""
        self.open_jobs()
        self.batcher = Batcher(self.engine, watch=self.metrics.see_batch)
        self.router = Router(self.engine)
        self.metrics.watch_engine(self.engine, lambda: self.batcher.waiting)
        self.engine.answer([(None, "ready")])
        self.ready.set()

    def close(self) -> None:
        """Answer what waits, keep every job, and stop."""
        self.ready.clear()
        if self.jobs is not None:
            self.jobs.close()
        self.batcher.close()

    @property
    def able(self) -> bool:
        """Whether it can answer, and train if that is its task."""
        return self.ready.is_set() and (self.jobs is None or self.jobs.alive)

    @property
    def place(self) -> dict[str, str | None]:
        """The bank, for another process."""
        return {"bank": self.store.files.url, "base": self.settings.base}

    # --- news of jobs

    @contextmanager
    def hearing(self, job: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever something happens to a job. For the server's loop."""
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._hearing[job].add(event)
        try:
            yield event
        finally:
            self._hearing[job].discard(event)
            if not self._hearing[job]:
                del self._hearing[job]

    def _heard(self, job: str) -> None:
        """From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed: nobody follows any more
                self._loop.call_soon_threadsafe(self._tell, job)

    def _tell(self, job: str) -> None:
        for event in self._hearing.get(job, ()):
            event.set()

    def hang_up(self) -> None:
        """End the streams that are being followed. For the server's loop."""
        self.closing = True
        for events in self._hearing.values():
            for event in events:
                event.set()

    # --- tasks

    def reference(self, caller: Caller, task: str) -> str:
        """A client's name for a task as the bank has it: its tenant's own alone."""
        name, version = split_reference(task)
        if "/" in name:
            tenant, _, name = name.partition("/")
            if tenant != caller.tenant:
                raise TaskNotFound("There is no such task.")
        return full_name(caller.tenant, name) + ("" if version is None else f"@{version}")

    def info(self, reference: str) -> TaskInfo:
        """A task of the bank; what its package says is read once."""
        return self.store.info(reference, self.manifest)

    def names(self, caller: Caller) -> set[str]:
        """A tenant's tasks without its name, and those that are being learnt."""
        learnt = set() if self.jobs is None else self.jobs.table.unfinished(caller.tenant)
        return learnt | {short(name) for name in self.store.tasks(caller.tenant)}

    def check_room(self, caller: Caller, task: str) -> None:
        """Refuse a new task of a tenant that has enough."""
        check_tasks(caller, task, self.names(caller))

    def purge(self, caller: Caller, task: str) -> None:
        """Delete everything of a task: its jobs first, so that none publishes it once more."""
        name = full_name(caller.tenant, task)
        known = self.jobs is not None and self.jobs.purge(caller.tenant, task)
        try:
            self.store.remove(name, purge=True)
        except TaskNotFound:  # its rows may have come and nothing of them been published
            if not known:
                raise
            self.store.forget_runs(name)

    # --- answers

    async def ask(self, caller: Caller, task: str | None, inputs: Sequence[Any]) -> Answered:
        """Answers for inputs of one task, whatever else runs beside them."""
        self._check_ready()
        future = await run_in_threadpool(self._submit, caller, task, inputs)
        self.metrics.see_texts(caller.tenant, len(inputs))
        return await asyncio.wrap_future(future)

    def _check_ready(self) -> None:
        if not self.ready.is_set():
            raise ServiceError("The service is not ready.", "Try again in a moment.")

    def _submit(self, caller: Caller, task: str | None, inputs: Sequence[Any]) -> Future[Answered]:
        reference = None if task is None else self.reference(caller, task)
        return self.batcher.submit(reference, inputs, tenant=caller.tenant, seconds=ANSWER_SECONDS)

    async def ask_mixed(
        self, caller: Caller, inputs: Sequence[tuple[str | None, Any]]
    ) -> list[Prediction]:
        """Answers for inputs of any tasks; what goes wrong with a task is its rows' alone."""
        self._check_ready()
        by_task: dict[str | None, list[int]] = {}
        for i, (task, _) in enumerate(inputs):
            by_task.setdefault(task, []).append(i)

        futures: list[Future[Answered]] = []

        def submit() -> None:  # all of it in one turn: names cost something, known or not
            for task, rows in by_task.items():
                try:
                    future = self._submit(caller, task, [inputs[i][1] for i in rows])
                except AdapterBankError as error:
                    if isinstance(error, WHOLE):
                        raise
                    future = Future()
                    future.set_exception(error)
                futures.append(future)

        answers: dict[int, Prediction] = {}
        try:
            await run_sync(submit, limiter=self._turns[caller.tenant])
            self.metrics.see_texts(caller.tenant, len(inputs))
            for future, rows in zip(futures, by_task.values(), strict=True):
                found = await _predictions(future, len(rows))
                answers |= zip(rows, found, strict=True)
        finally:
            for future in futures:
                future.cancel()  # those that nobody waits for any more
        return [answers[i] for i in range(len(inputs))]

    async def route(
        self, caller: Caller, inputs: Sequence[Any], most: int
    ) -> list[list[Route] | AdapterBankError]:
        """Of each input the caller's tasks that it is likely meant for."""
        answered = await self.ask(caller, None, inputs)

        def find() -> list[list[Route] | AdapterBankError]:
            names = list(self.store.tasks(caller.tenant))
            return self.router.among(inputs, answered.predictions, names, most)

        return await run_in_threadpool(find)


async def _predictions(future: Future[Answered], inputs: int) -> list[Prediction]:
    """Answers of one task; an error that is not the whole request's in place of each."""
    try:
        return (await asyncio.wrap_future(future)).predictions
    except WHOLE:
        raise
    except AdapterBankError as error:
        note(error)
        return [Prediction(error=error)] * inputs


def short(task: str) -> str:
    """A task's name without its tenant."""
    return task.rpartition("/")[2]
