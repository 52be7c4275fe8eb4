"""Waiting requests become batches: whatever tasks they are for, up to a number of tokens.

A batch is taken whenever the last one is done, so under load batches fill up by themselves. Only
when requests keep coming in company is there a short wait for more. Requests are made ready (their
task loaded, their texts tokenised) by the threads that bring them; one thread runs the batches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from adapterbank.errors import Busy
from adapterbank.serving.engine import Asked, Engine
from adapterbank.serving.fair_queue import FairQueue
from adapterbank.serving.rows import Array
from adapterbank.store.entry import Entry
from adapterbank.tasks.predictions import Prediction

log = logging.getLogger("adapterbank.serving")
BATCH_TOKENS = 512  # more hardly gain speed, and let others wait longer
QUEUE_TOKENS = 64 * BATCH_TOKENS  # about six seconds of work on two cores
WINDOW = 0.002  # seconds to wait for company


@dataclass(frozen=True)
class Answered:
    """Answers, and which version gave them."""

    entry: Entry | None
    """None for the bare encoder."""
    predictions: list[Prediction]


@dataclass(eq=False)
class Request:
    """Inputs of one task that wait together. Their rows may run in several batches."""

    asked: Asked
    deadline: float
    future: Future[Answered] = field(default_factory=Future)
    found: dict[int, Array] = field(default_factory=dict)

    def settle(self) -> None:
        """Give the answers once every row has run."""
        if len(self.found) == len(self.asked.rows) and not self.future.done():
            rows = [self.found[i] for i in range(len(self.asked.rows))]
            answered = Answered(self.asked.entry, self.asked.answer(rows))
            with suppress(InvalidStateError):
                self.future.set_result(answered)

    def fail(self, error: Exception) -> None:
        with suppress(InvalidStateError):  # cancelled, perhaps in this very moment
            self.future.set_exception(error)


Piece = tuple[Request, int]  # a request, and the number of a row of it


@dataclass(frozen=True)
class Batch:
    """What ran together, for those who count."""

    rows: int
    tokens: int
    tasks: int
    seconds: float


class Batcher:
    """A queue in front of an engine. `close` when done; what waits then is still answered."""

    def __init__(
        self,
        engine: Engine,
        *,
        batch_tokens: int = BATCH_TOKENS,
        queue_tokens: int = QUEUE_TOKENS,
        window: float = WINDOW,
        watch: Callable[[Batch], None] = lambda _: None,
    ) -> None:
        self.engine, self.window, self.watch = engine, window, watch
        self.batch_tokens, self.queue_tokens = batch_tokens, queue_tokens
        self._queue: FairQueue[Piece] = FairQueue()
        self._changed = threading.Condition()
        self._closed = False
        self._worker = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._worker.start()

    @property
    def waiting(self) -> int:
        """Rows in the queue."""
        return len(self._queue)

    def submit(
        self,
        task: str | None,
        inputs: Sequence[Any],
        *,
        tenant: str = "",
        seconds: float = 30.0,
    ) -> Future[Answered]:
        """Inputs of one task to be answered within so many seconds. Cancelling the future takes
        them out of the queue. Busy, at once, if the tenant has its share of the queue waiting."""
        self._check_room(tenant)
        deadline = time.monotonic() + seconds
        asked = self.engine.ask(task, inputs)
        assert asked is not None  # noqa: S101 - it has waited for room
        request = Request(asked, deadline)
        request.future.add_done_callback(lambda _: asked.release())
        if not asked.rows:
            request.settle()
            return request.future
        with self._changed:
            try:
                self._check_room(tenant)  # others of the same tenant may have been quicker
            except Busy as error:
                request.fail(error)
                return request.future
            for i, row in enumerate(asked.rows):
                self._queue.put(tenant, task or "", (request, i), len(row.tokens))
            self._changed.notify_all()
        return request.future

    def _check_room(self, tenant: str) -> None:
        """Whoever floods the queue has half of it at most, and less when others wait too: they are
        let in."""
        if self._closed:
            raise Busy("The service is going down.", "Try again in a moment.")
        waiting = self._queue.costs
        tenants = len(waiting) + (tenant not in waiting)
        if waiting.get(tenant, 0) >= self.queue_tokens / max(2, tenants):
            raise Busy("Too much is waiting to be answered.", "Try again in a moment.")

    def close(self) -> None:
        """Answer what waits, and stop."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._worker.join()

    def _work(self) -> None:
        company = False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._queue) or self._closed)
                if not len(self._queue):
                    return
                if company and self._queue.cost < self.batch_tokens and not self._closed:
                    self._changed.wait(self.window)
                pieces = self._queue.take(self.batch_tokens)
            company = len({id(request) for request, _ in pieces}) > 1 or len(self._queue) > 0
            wanted = [piece for piece in pieces if self._wanted(piece[0])]
            try:
                self._run(wanted)
            except Exception as error:  # whatever it is, the next batch is to run
                log.exception("a batch of %d rows", len(wanted))
                for request, _ in wanted:
                    request.fail(error)

    def _wanted(self, request: Request) -> bool:
        if request.future.done():  # cancelled, or failed in an earlier batch
            return False
        if time.monotonic() > request.deadline:
            request.fail(Busy("There was no time to answer.", "Try again in a moment."))
            return False
        return True

    def _run(self, pieces: Sequence[Piece]) -> None:
        began = time.monotonic()
        self._answer(pieces)
        rows = [request.asked.rows[i] for request, i in pieces]
        self.watch(
            Batch(
                len(rows),
                sum(len(row.tokens) for row in rows),
                len({id(row.seat) for row in rows}),
                time.monotonic() - began,
            )
        )

    def _answer(self, pieces: Sequence[Piece]) -> None:
        for runs_on in {id(r.asked.runs_on): r.asked.runs_on for r, _ in pieces}.values():
            mine = [piece for piece in pieces if piece[0].asked.runs_on is runs_on]
            try:
                found = runs_on.run([request.asked.rows[i] for request, i in mine])
            except Exception as error:
                self._run_apart(mine, error)
                continue
            for (request, i), each in zip(mine, found, strict=True):
                request.found[i] = each
            for request in dict.fromkeys(request for request, _ in mine):
                _settle(request)

    def _run_apart(self, pieces: Sequence[Piece], error: Exception) -> None:
        """A batch failed: each of its requests by itself, so that one cannot spoil the others."""
        requests = dict.fromkeys(request for request, _ in pieces)
        if len(requests) == 1:
            next(iter(requests)).fail(error)
            return
        for request in requests:
            self._answer([piece for piece in pieces if piece[0] is request])


def _settle(request: Request) -> None:
    try:
        request.settle()
    except Exception as error:
        request.fail(error)
