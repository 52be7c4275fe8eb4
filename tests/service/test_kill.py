"""The service is killed at any moment: what was acknowledged is there, and every job ends once."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import httpx
import pytest

from adapterbank.store.store import Store
from service.conftest import make_bank
from service.server import Server, served
from service.test_training import QUICK, rows

TEXT = "wa wb wc"


class Traffic:
    """Asks one task over and over, and keeps what was answered."""

    def __init__(self, url: str) -> None:
        self.url, self.answers, self.stopping = url, [], threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=10) as client:
            while not self.stopping.is_set():
                try:
                    response = client.post("/v1/tasks/plain/predict", json={"inputs": [TEXT]})
                except httpx.HTTPError:
                    time.sleep(0.05)
                    continue
                if response.status_code == 200:
                    self.answers.append(response.json()["predictions"][0]["label"])

    def stop(self) -> list[str]:
        self.stopping.set()
        self.thread.join()
        return self.answers


def upload(client: httpx.Client, task: str) -> str | None:
    """The id of a job that was acknowledged."""
    try:
        response = client.post(
            f"/v1/tasks/{task}/train",
            files={"file": ("rows.csv", rows())},
            data={"options": '{"epochs": 1, "max_length": 16, "baselines": false, "size": 4}'},
        )
    except httpx.HTTPError:
        return None
    return response.json()["id"] if response.status_code == 202 else None


def hold(kills: int, folder: Path, encoder, seed: int = 0) -> None:
    """Kill the service so often, at random moments of its work; then look."""
    draw = random.Random(seed)
    store = make_bank(folder / "bank", encoder, {"plain": {}})
    with served(folder / "bank", folder) as server:
        traffic = Traffic(server.url)
        acknowledged: dict[str, str] = {}
        for i in range(kills):
            task = f"task-{i}"
            killer = threading.Timer(draw.uniform(0.0, 6.0), server.kill)
            killer.start()
            with httpx.Client(base_url=server.url, timeout=30) as client:
                if (id := upload(client, task)) is not None:
                    acknowledged[id] = task
            killer.join()
            server.start()
        states = wait_for_all(server, set(acknowledged))
        answers = traffic.stop()
        assert server.stop() == 0
    assert set(states.values()) <= {"done", "failed"}, states
    died = [id for id, state in states.items() if state == "failed"]
    fresh = Store.open(store.files.url)
    for id, task in acknowledged.items():
        versions = fresh.record(task).versions
        assert len(versions) == (0 if id in died else 1), (task, states[id])
    assert len(died) <= kills // 3  # those that were killed three times
    assert answers
    assert len(set(answers)) == 1


def wait_for_all(server: Server, ids: set[str]) -> dict[str, str]:
    end = time.monotonic() + 60 + 10 * len(ids)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        while True:
            found = {job["id"]: job["state"] for job in client.get("/v1/jobs").json()["jobs"]}
            assert ids <= set(found)  # none that was acknowledged is lost
            if not {"queued", "running"} & set(found.values()):
                return {id: found[id] for id in ids}
            assert time.monotonic() < end, found
            time.sleep(0.2)


def test_killed_a_few_times(tmp_path, encoder) -> None:
    hold(3, tmp_path, encoder)


@pytest.mark.slow
def test_killed_fifty_times(tmp_path, encoder) -> None:
    hold(50, tmp_path, encoder, seed=1)


def test_stopped_in_order_and_started_again(tmp_path, encoder) -> None:
    make_bank(tmp_path / "bank", encoder, {"plain": {}})
    with served(tmp_path / "bank", tmp_path) as server:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            options = {**QUICK, "epochs": 1000}
            id = client.post(
                "/v1/tasks/long/train",
                files={"file": ("rows.csv", rows())},
                data={"options": str(options).replace("'", '"').replace("False", "false")},
            ).json()["id"]
            with client.stream("GET", f"/v1/jobs/{id}/events") as stream:
                for line in stream.iter_lines():
                    if '"step"' in line:
                        break
                assert server.stop() == 0
        server.start()
        with httpx.Client(base_url=server.url, timeout=30) as client:
            assert client.get(f"/v1/jobs/{id}").json()["state"] in ("queued", "running")
            client.post(f"/v1/jobs/{id}/cancel")
            assert wait_for_all(server, {id})[id] == "cancelled"
