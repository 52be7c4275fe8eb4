"""Runs what waits in the table of jobs: each in a process of its own, a few at a time.

If a job's process or the service dies, the job goes on from its last saved state; after a few such
deaths it counts as failed. The uploaded data of a job and the state of its run are deleted when it
is over.
"""

from __future__ import annotations

import fcntl
import logging
import secrets
import shutil
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any

from adapterbank.compute.protocol import Compute, Event, Work
from adapterbank.errors import BankError, Busy, ServiceError
from adapterbank.service.answers import described
from adapterbank.service.apart import raised
from adapterbank.service.auth import Caller
from adapterbank.service.jobs import TABLE, Job, JobTable
from adapterbank.service.limits import check_tasks
from adapterbank.store.names import DEFAULT_TENANT

TRIES = 3  # a job whose process dies this often has failed
PURGE_SECONDS = 10.0  # for the jobs of a task to end, which are killed after half of it
PAUSE = 5.0  # seconds before the table is tried again: its disk may be full
WRONG = {"kind": "", "message": "see above", "stderr": ""}  # of a job that failed because of us
log = logging.getLogger("adapterbank.jobs")


class Jobs:
    """The jobs of a service. One process at a time has a state folder."""

    def __init__(
        self,
        state: Path,
        bank: str,
        base: str | None = None,
        *,
        compute: Compute,
        at_once: int = 1,
        runs: Callable[[str], Path] | None = None,
    ) -> None:
        """`runs` says where the runs of a task keep their states, if that is on this machine."""
        self.bank, self.base, self.at_once, self._runs = bank, base, at_once, runs
        self.data = state / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self._lock_file = lock_state(state)
        self.table = JobTable(state / TABLE)
        self._compute = compute
        self._changed = threading.Condition()
        self._running: set[str] = set()
        self._closing = False
        self._watchers: list[Callable[[str], None]] = []
        for job in self.table.running():  # the service died as they ran
            self._try_again(job)
        self._sweep()
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
        self._thread.start()

    # --- from clients

    def folder(self, id: str) -> Path:
        """Where a job's files are."""
        return self.data / id

    def new_folder(self) -> Path:
        """A folder for the files of a job that is about to be; its name is the job's id."""
        folder = self.data / secrets.token_hex(12)
        folder.mkdir()
        return folder

    def check_room(self, caller: Caller) -> None:
        """Refuse a tenant that has enough waiting."""
        if self.table.waiting(caller.tenant) >= caller.quotas.waiting_jobs:
            raise Busy(
                f"{caller.quotas.waiting_jobs} jobs are waiting; no more are taken.",
                "Wait for one to end, or cancel one.",
            )

    def add(
        self,
        folder: Path,
        caller: Caller,
        task: str,
        request: Mapping[str, Any],
        names: Collection[str] = (),
    ) -> Job:
        """Take a job on, with the files in its folder. When this returns, it is kept. `names` are
        the tasks that the tenant has; those that are being learnt count, too."""
        with self._changed:  # counted and added in one piece
            self.check_room(caller)
            check_tasks(caller, task, {*names, *self.table.unfinished(caller.tenant)})
            most = {"rows": caller.quotas.rows, "at_once": caller.quotas.jobs}
            job = self.table.add(folder.name, caller.tenant, task, {**request, **most})
            self._changed.notify_all()
        for old in self.table.forget_old(caller.tenant):
            shutil.rmtree(self.folder(old), ignore_errors=True)
        return job

    def cancel(self, id: str, tenant: str) -> Job:
        """End a job, waiting or running; one that is over stays as it is."""
        self.table.get(id, tenant)
        with self._changed:  # no job is taken meanwhile
            job = self.table.ask_to_cancel(id)
            if job.state == "running" and id not in self._running:  # nobody would ever end it
                self.table.end(id, "cancelled")
                job = self.table.get(id)
        self._compute.cancel(id)
        if job.state == "cancelled":
            self._clear(job)
        self._told(id)
        return job

    def purge(self, tenant: str, task: str) -> bool:
        """End a task's jobs and delete everything of them; whether there were any. While one of
        them still runs, which could publish, nothing is deleted."""
        own = {job.id: job for job in self.table.of(tenant, most=-1) if job.task == task}
        for job in own.values():
            if not job.over:
                self.cancel(job.id, tenant)
        with self._changed:
            ended = self._changed.wait_for(lambda: not own.keys() & self._running, PURGE_SECONDS)
        if not ended:
            raise ServiceError(
                "A job of this task is still running; nothing was deleted.",
                "Try again in a moment.",
            )
        for id in self.table.purge(tenant, task):
            shutil.rmtree(self.folder(id), ignore_errors=True)
        return bool(own)

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call it with a job's id whenever something happens to one."""
        self._watchers.append(watcher)

    @property
    def alive(self) -> bool:
        """Whether jobs that wait will have their turn."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop, and keep every job: those that run go on when the service is back."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            running = list(self._running)
        for id in running:
            self._compute.cancel(id)
        self._thread.join()
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout=30)
        self.table.close()
        self._lock_file.close()

    # --- running

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._closing:
                    return
                try:
                    job = self.table.take() if len(self._running) < self.at_once else None
                except Exception:  # of a full disk, say: others must not wait for ever
                    log.exception("no job could be taken")
                    self._changed.wait(timeout=PAUSE)
                    continue
                if job is None:
                    self._changed.wait(timeout=60)
                    continue
                self._running.add(job.id)
            threading.Thread(target=self._run, args=(job,), daemon=True).start()

    def _run(self, job: Job) -> None:
        try:
            last = self._followed(job)
            while not self._settled(job, last):
                with self._changed:
                    if self._closing:  # the next start finds it running, and goes on with it
                        return
                    self._changed.wait(timeout=PAUSE)
        finally:
            with self._changed:
                self._running.discard(job.id)
                self._changed.notify_all()

    def _followed(self, job: Job) -> Event:
        """The last event of a job; the others are kept as they come."""
        try:
            self._told(job.id)
            for event in self._compute.run([self._work_of(job)]):
                if event.last:
                    return event
                self._see(job, event)
        except Exception:
            log.exception("job %s", job.id)
        return Event(job.id, "failed", WRONG)

    def _settled(self, job: Job, last: Event) -> bool:
        """Whether it is written down how a job has ended."""
        try:
            self._settle(job, last)
        except Exception:
            log.exception("job %s: its end could not be written down", job.id)
            return False
        return True

    def _work_of(self, job: Job) -> Work:
        arguments = job.request | {
            "bank": self.bank,
            "base": self.base,
            "task": full_name(job.tenant, job.task),
            "folder": str(self.folder(job.id)),
            "job": job.id,
        }
        folder = self.folder(job.id)
        files = [path.name for path in folder.iterdir() if path.is_file()]
        return Work(
            job.id, "adapterbank.service.train_work", arguments, folder=str(folder), inputs=files
        )

    def _see(self, job: Job, event: Event) -> None:
        try:
            if event.kind == "event":
                self.table.add_event(job.id, event.payload)
                self._told(job.id)
            elif self._closing or self.table.get(job.id).cancel:  # asked before it had started
                self._compute.cancel(job.id)
        except Exception:  # what it had to say is lost, and the job goes on
            log.exception("job %s: an event could not be kept", job.id)

    def _settle(self, job: Job, last: Event) -> None:
        if last.kind == "done":
            self._end(job, "done", last.payload | {"task": job.task})
        elif last.kind == "failed":
            self._failed(job, last.payload)
        elif self.table.get(job.id).cancel:
            self._end(job, "cancelled")
        else:  # the service is going down
            self.table.put_back(job.id, uncounted=True)

    def _failed(self, job: Job, payload: dict[str, Any]) -> None:
        log.warning("job %s: %s\n%s", job.id, payload["message"], payload["stderr"])
        if self.table.get(job.id).cancel:
            self._end(job, "cancelled")
        elif payload["kind"] == "WorkerDied":
            self._try_again(job)
        else:
            said = described(raised(payload, str(self.folder(job.id))))
            self._end(job, "failed", {name: said[name] for name in ("message", "hint")})

    def _try_again(self, job: Job) -> None:
        if job.cancel:
            self._end(job, "cancelled")
        elif job.tries >= TRIES:
            message = f"Its process died {TRIES} times."
            hint = "Use a smaller batch or a shorter maximum length, if memory may be the reason."
            self._end(job, "failed", {"message": message, "hint": hint})
        else:
            self.table.put_back(job.id)
            self._told(job.id)

    def _end(self, job: Job, state: Any, outcome: dict[str, Any] | None = None) -> None:
        if self.table.end(job.id, state, outcome):
            self._clear(job)
        self._told(job.id)

    def _clear(self, job: Job) -> None:
        """The state of its run and the data that was sent are not kept longer than they are needed;
        the data is if that was asked."""
        if self._runs is not None:
            runs = self._runs(full_name(job.tenant, job.task))
            shutil.rmtree(runs / job.id, ignore_errors=True)
        if not job.request.get("keep_data"):
            shutil.rmtree(self.folder(job.id), ignore_errors=True)

    def _told(self, id: str) -> None:
        for watcher in self._watchers:
            watcher(id)

    def _sweep(self) -> None:
        """Remove what was being uploaded, or was over, when the service died."""
        for folder in self.data.iterdir():
            job = self.table.find(folder.name)
            if job is None:
                shutil.rmtree(folder, ignore_errors=True)
            elif job.over:
                self._clear(job)


def full_name(tenant: str, task: str) -> str:
    """A tenant's task as the bank names it."""
    return task if tenant == DEFAULT_TENANT else f"{tenant}/{task}"


def lock_state(state: Path) -> IO[str]:
    """The lock of a state folder, until it is closed: one process has it."""
    file = (state / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise BankError(
            "Another service has these jobs already.",
            "Give this one a state folder of its own (--state), or none of the jobs (--no-jobs).",
        ) from None
    return file
