"""Several services on one bank: what is published, rolled back or removed reaches all of them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapterbank.store.store import Store
from service.conftest import make_bank
from service.server import Server

TEXT = "wa wb wc"
SOON = 1.5  # seconds after which every replica has seen a change; docs/cluster.md says so


class Asking:
    """Asks one replica over and over: when, which version answered, and what."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: list[tuple[float, int | None, str]] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=30) as client:
            while not self.stopping.is_set():
                began = time.monotonic()
                answer = client.post("/v1/tasks/plain/predict", json={"inputs": [TEXT]})
                if answer.status_code == 200:
                    told = answer.json()
                    self.seen.append((began, told["version"], _plain(told["predictions"][0])))
                else:
                    assert answer.status_code == 404, answer.text
                    self.seen.append((began, None, ""))

    def stop(self) -> list[tuple[float, int | None, str]]:
        self.stopping.set()
        self.thread.join()
        return self.seen


def _plain(prediction: dict[str, Any]) -> str:
    return str({k: round(v, 4) for k, v in prediction["probabilities"].items()})


def test_two_replicas_see_every_change(tmp_path, encoder) -> None:
    make_bank(tmp_path / "bank", encoder)
    hold(Store.open(tmp_path / "bank"), str(tmp_path / "bank"), tmp_path)


@pytest.mark.slow
def test_two_replicas_on_an_object_store(tmp_path, encoder, bucket, monkeypatch) -> None:
    monkeypatch.setenv("ADAPTERBANK_CACHE", str(tmp_path / "cache"))
    make_bank(tmp_path / "bank", encoder)
    home = Store.open(tmp_path / "bank")
    there = Store.create(f"{bucket}/bank", home.base)
    there.publish_packed("plain", home.packed(home.find("plain")))
    hold(there, f"{bucket}/bank", tmp_path)


def hold(store: Store, url: str, folder: Path) -> None:
    """Change a task while two replicas are asked for it, and compare with what was so when."""
    packed = store.packed(store.find("plain"))
    servers = [
        Server(url, folder / f"{i}.log", "--no-jobs", "--state", str(folder / f"state{i}"))
        for i in range(2)
    ]
    changes: list[tuple[float, int | None]] = []

    def change(what: Any, version: int | None) -> None:
        what()
        changes.append((time.monotonic(), version))
        time.sleep(SOON + 1.0)

    try:
        for server in servers:
            server.start()
        asking = [Asking(server.url) for server in servers]
        changes.append((time.monotonic(), 1))
        time.sleep(SOON + 1.0)
        change(lambda: store.publish_packed("plain", packed), 2)
        change(lambda: store.rollback("plain", 1), 1)
        change(lambda: store.remove("plain"), None)
        change(lambda: store.rollback("plain", 2), 2)
        seen = [each.stop() for each in asking]
    finally:
        for server in servers:
            if server.process is not None:
                server.kill()
    for answers in seen:
        assert len({answer for _, version, answer in answers if version}) == 1  # the same package
        assert len(answers) > 20
        for (at, version), following in zip(changes, [*changes[1:], (1e99, None)], strict=True):
            # From SOON after a change to the next one nothing else is answered.
            settled = {v for when, v, _ in answers if at + SOON < when < following[0] - 0.3}
            assert settled == {version}
