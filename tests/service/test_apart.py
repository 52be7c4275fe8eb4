"""Work in processes of its own: shared out between tenants."""

from __future__ import annotations

import threading

import pytest

from adapterbank.errors import Busy
from adapterbank.service.apart import AT_ONCE, PLACES, Apart
from service.test_jobs import until


class Held(Apart):
    """Work that ends when it is let go, in the order in which it began."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[str] = []
        self.free = threading.Semaphore(0)

    def _call(self, module: str, arguments: dict) -> dict:
        self.began.append(module)
        assert self.free.acquire(timeout=10)
        return {}

    def start(self, tenant: str) -> threading.Thread:
        before = (self._waiting + self._running).total()
        thread = threading.Thread(target=self.call, args=(tenant, {}, tenant))
        thread.start()
        until(lambda: (self._waiting + self._running).total() > before)
        return thread


def test_a_tenant_has_half_of_the_places_and_is_not_first_every_time() -> None:
    apart = Held()
    threads = [apart.start("flood") for _ in range(PLACES // 2)]
    with pytest.raises(Busy, match="Too many files"):
        apart.call("flood", {}, "flood")
    threads.append(apart.start("other"))
    assert apart.began == ["flood"] * AT_ONCE
    for _ in range(AT_ONCE):
        apart.free.release()
    until(lambda: "other" in apart.began)
    assert apart.began.index("other") <= AT_ONCE + 1
    for _ in threads:
        apart.free.release()
    for thread in threads:
        thread.join(10)
    assert len(apart.began) == PLACES // 2 + 1
    assert not apart._running.total()
