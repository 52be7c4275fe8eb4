"""The table of training jobs, on the disk.

    queued → running → done | failed | cancelled

A job is on the disk before it is acknowledged, and ends exactly once. Waiting jobs are taken
fairly: of the tenant with the fewest running, the oldest.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from adapterbank.errors import JobNotFound

State = Literal["queued", "running", "done", "failed", "cancelled"]
STATES: tuple[State, ...] = get_args(State)
OVER: tuple[State, ...] = ("done", "failed", "cancelled")
TABLE = "jobs.sqlite"  # in a state folder
KEPT_JOBS = 1_000  # of a tenant, that are over
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL UNIQUE,
    tenant   TEXT NOT NULL,
    task     TEXT NOT NULL,
    state    TEXT NOT NULL,
    request  TEXT NOT NULL,
    tries    INTEGER NOT NULL DEFAULT 0,
    cancel   INTEGER NOT NULL DEFAULT 0,
    created  REAL NOT NULL,
    started  REAL,
    ended    REAL,
    outcome  TEXT
);
CREATE INDEX IF NOT EXISTS by_state ON jobs (state, number);
CREATE INDEX IF NOT EXISTS by_tenant ON jobs (tenant, number);
CREATE TABLE IF NOT EXISTS events (
    job     TEXT NOT NULL,
    number  INTEGER NOT NULL,
    event   TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Job:
    """One row of the table."""

    id: str
    tenant: str
    task: str
    """Without the tenant."""
    state: State
    created: float
    started: float | None
    ended: float | None
    tries: int
    """How often it was begun."""
    cancel: bool
    """Whether it is to end."""
    request: dict[str, Any]
    """The files and the options that came with it."""
    outcome: dict[str, Any] | None
    """What came of it: the result, or an error's message and hint."""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in OVER


class JobTable:
    """Jobs and their events. Safe to use from several threads of one process."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        # What was acknowledged survives a power cut.
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(SCHEMA)

    def close(self) -> None:
        """The table may be opened again."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk ends it by itself
                    self._connection.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    # --- looking

    def find(self, id: str) -> Job | None:
        """A job; None if there is none of that id."""
        rows = self._rows("SELECT * FROM jobs WHERE id = ?", id)
        return _job(rows[0]) if rows else None

    def get(self, id: str, tenant: str | None = None) -> Job:
        """A job that is there; with `tenant`, one of its own."""
        job = self.find(id)
        if job is None or tenant not in (None, job.tenant):
            raise JobNotFound("There is no such job.", "GET /v1/jobs lists those there are.")
        return job

    def of(self, tenant: str, most: int = 100) -> list[Job]:
        """A tenant's jobs, the newest first."""
        query = "SELECT * FROM jobs WHERE tenant = ? ORDER BY number DESC LIMIT ?"
        return [_job(row) for row in self._rows(query, tenant, most)]

    def waiting(self, tenant: str) -> int:
        """How many of a tenant's jobs are not over."""
        query = "SELECT count(*) FROM jobs WHERE tenant = ? AND state IN ('queued', 'running')"
        return int(self._rows(query, tenant)[0][0])

    def unfinished(self, tenant: str) -> set[str]:
        """The tasks of a tenant's jobs that are not over."""
        query = "SELECT DISTINCT task FROM jobs WHERE tenant = ? AND state IN ('queued', 'running')"
        return {str(row["task"]) for row in self._rows(query, tenant)}

    def counts(self) -> dict[State, int]:
        """How many jobs are in each state."""
        return dict(self._rows("SELECT state, count(*) FROM jobs GROUP BY state"))  # type: ignore[arg-type]

    def events(self, id: str, after: int = -1, most: int = 1_000) -> list[tuple[int, str]]:
        """A job's events with their numbers, as JSON."""
        query = "SELECT number, event FROM events WHERE job = ? AND number > ? ORDER BY number "
        return [tuple(row) for row in self._rows(query + "LIMIT ?", id, after, most)]

    # --- changing

    def add(self, id: str, tenant: str, task: str, request: dict[str, Any]) -> Job:
        """A job that waits from now on."""
        with self._changing() as connection:
            connection.execute(
                "INSERT INTO jobs (id, tenant, task, state, request, created) "
                "VALUES (?, ?, ?, 'queued', ?, ?)",
                (id, tenant, task, json.dumps(request), time.time()),
            )
        return self.get(id)

    def take(self) -> Job | None:
        """The next job, now running; of a tenant no more run at once than the job says."""
        with self._changing() as connection:
            rows = connection.execute(
                "SELECT id, number, tenant, state, json_extract(request, '$.at_once') AS at_once "
                "FROM jobs WHERE state IN ('queued', 'running') ORDER BY number"
            ).fetchall()
            running = Counter(row["tenant"] for row in rows if row["state"] == "running")
            able = [
                row
                for row in rows
                if row["state"] == "queued" and running[row["tenant"]] < row["at_once"]
            ]
            if not able:
                return None
            chosen = min(able, key=lambda row: (running[row["tenant"]], row["number"]))
            connection.execute(
                "UPDATE jobs SET state = 'running', tries = tries + 1, "
                "started = coalesce(started, ?) WHERE id = ?",
                (time.time(), chosen["id"]),
            )
            return self.get(chosen["id"])  # or it is not taken

    def put_back(self, id: str, *, uncounted: bool = False) -> None:
        """Let a running job wait again; `uncounted` if it was not its own fault."""
        with self._changing() as connection:
            connection.execute(
                "UPDATE jobs SET state = 'queued', tries = tries - ? "
                "WHERE id = ? AND state = 'running'",
                (int(uncounted), id),
            )

    def running(self) -> list[Job]:
        """The jobs that run, or ran when the service died."""
        return [_job(row) for row in self._rows("SELECT * FROM jobs WHERE state = 'running'")]

    def end(self, id: str, state: State, outcome: dict[str, Any] | None = None) -> bool:
        """End a job; False if it was over already."""
        with self._changing() as connection:
            changed = connection.execute(
                "UPDATE jobs SET state = ?, outcome = ?, ended = ? "
                "WHERE id = ? AND state IN ('queued', 'running')",
                (state, json.dumps(outcome), time.time(), id),
            )
            return changed.rowcount == 1

    def ask_to_cancel(self, id: str) -> Job:
        """A job that waits is over at once, one that runs is marked."""
        with self._changing() as connection:
            connection.execute(
                "UPDATE jobs SET cancel = 1 WHERE id = ? AND state = 'running'", (id,)
            )
            connection.execute(
                "UPDATE jobs SET state = 'cancelled', ended = ? WHERE id = ? AND state = 'queued'",
                (time.time(), id),
            )
        return self.get(id)

    def add_event(self, id: str, event: dict[str, Any]) -> None:
        """Keep what a job has to say."""
        with self._changing() as connection:
            connection.execute(
                "INSERT INTO events SELECT ?, coalesce(max(number), -1) + 1, ? "
                "FROM events WHERE job = ?",
                (id, json.dumps(event), id),
            )

    def forget_old(self, tenant: str) -> list[str]:
        """Delete a tenant's oldest jobs that are over; their ids."""
        query = (
            "SELECT id FROM jobs WHERE tenant = ? AND state IN ('done', 'failed', 'cancelled') "
            "ORDER BY number DESC LIMIT -1 OFFSET ?"
        )
        old = [str(row["id"]) for row in self._rows(query, tenant, KEPT_JOBS)]
        self._delete(old)
        return old

    def purge(self, tenant: str, task: str) -> list[str]:
        """Delete all that is known of a task's jobs that are over; their ids."""
        query = (
            "SELECT id FROM jobs WHERE tenant = ? AND task = ? "
            "AND state IN ('done', 'failed', 'cancelled')"
        )
        gone = [str(row["id"]) for row in self._rows(query, tenant, task)]
        self._delete(gone)
        return gone

    def _delete(self, ids: list[str]) -> None:
        with self._changing() as connection:
            for table, column in (("events", "job"), ("jobs", "id")):
                connection.executemany(
                    f"DELETE FROM {table} WHERE {column} = ?",  # noqa: S608 - two names of ours
                    [(id,) for id in ids],
                )


def _job(row: sqlite3.Row) -> Job:
    return Job(
        id=row["id"],
        tenant=row["tenant"],
        task=row["task"],
        state=cast(State, row["state"]),
        created=row["created"],
        started=row["started"],
        ended=row["ended"],
        tries=row["tries"],
        cancel=bool(row["cancel"]),
        request=json.loads(row["request"]),
        outcome=json.loads(row["outcome"]) if row["outcome"] else None,
    )
