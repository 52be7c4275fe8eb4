"""How much a request may hold, and how many may come."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.requests import Request

from adapterbank.errors import Busy, TooLarge
from adapterbank.service.auth import Caller

JSON_BYTES = 8 * 2**20
INPUTS = 1_024  # texts a request
CHARACTERS = 100_000  # of one text
OPTIONS_BYTES = 64 * 2**10
PACKAGE_BYTES = 2**30
JSON_SECONDS = 30.0  # for a body to arrive
UPLOAD_SECONDS = 900.0
ANSWER_SECONDS = 30.0
BURST_SECONDS = 2.0  # of a tenant's rate, at once
MOST_TENANTS = 100_000  # whose rates are remembered
IN_FLIGHT = 128  # requests of a tenant at once
STREAMS = 32  # of them, that follow jobs


class Rates:
    """A bucket of requests for each tenant, filled at its rate. For one thread."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}  # left, when

    def take(self, caller: Caller) -> None:
        """One request; Busy if the tenant has none left."""
        rate = caller.quotas.requests_a_second
        most = max(1.0, rate * BURST_SECONDS)
        now = time.monotonic()
        left, when = self._buckets.pop(caller.tenant, (most, now))
        left = min(most, left + (now - when) * rate)
        self._buckets[caller.tenant] = (max(left - 1.0, 0.0) if left >= 1.0 else left, now)
        if len(self._buckets) > MOST_TENANTS:
            self._buckets.pop(next(iter(self._buckets)))
        if left < 1.0:
            raise Busy(
                f"More than {rate:g} requests a second.", "Send fewer, with more texts in each."
            )


class BodyLate(Exception):
    """A body that takes too long to arrive."""


@asynccontextmanager
async def arriving(seconds: float) -> AsyncIterator[None]:
    """Within this block a body has so long to arrive. Other things that take too long in it are
    not its fault."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise BodyLate from error
        raise


class AtOnce:
    """How much each tenant has under way, and how much it may. For one thread."""

    def __init__(self, most: int, what: str) -> None:
        self.most, self.what = most, what
        self._counts: Counter[str] = Counter()

    def check(self, tenant: str) -> None:
        """Busy if the tenant has as much as it may."""
        if self._counts[tenant] >= self.most:
            raise Busy(
                f"{self.most} {self.what} at once are all that is allowed.",
                "Wait for some of them to end.",
            )

    @contextmanager
    def place(self, tenant: str) -> Iterator[None]:
        """One more, within this block."""
        self.check(tenant)
        self._counts[tenant] += 1
        try:
            yield
        finally:
            self._counts[tenant] -= 1
            if not self._counts[tenant]:
                del self._counts[tenant]


def check_tasks(caller: Caller, task: str, names: Collection[str]) -> None:
    """Refuse a task beyond those that a tenant has, if these are all it may have."""
    if task not in names and len(names) >= caller.quotas.tasks:
        raise Busy(
            f"{caller.quotas.tasks} tasks are all that is allowed, with those that are being "
            "learnt.",
            "Remove one first.",
        )


async def body_of(request: Request, limit: int) -> bytes:
    """The body, if it is no longer than the limit."""
    pieces = [piece async for piece in bounded(request, limit)]
    return b"".join(pieces)


async def bounded(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body in pieces, up to the limit."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large(limit)
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise too_large(limit)
        yield piece


def too_large(limit: int) -> TooLarge:
    """The error of a body past its limit."""
    return TooLarge(f"The body is longer than {limit:,} bytes.", "Send less at once.")
