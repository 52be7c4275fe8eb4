"""The service's jobs on a cluster: trained there, published here, cancelled, gone on with."""

from __future__ import annotations

import time
from importlib.util import find_spec

import httpx
import pytest

from adapterbank.model.encoder import load_encoder
from service.conftest import make_bank
from service.server import served
from service.test_kill import upload
from service.test_training import rows
from tiny import save_base

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]
ENDS = ("done", "failed", "cancelled")
LONG = '{"epochs": 1000, "max_length": 16, "baselines": false, "size": 4}'


@pytest.fixture
def bank(tmp_path):
    encoder = load_encoder(str(save_base(tmp_path / "base")))
    make_bank(tmp_path / "bank", encoder, {"plain": {}})
    return tmp_path / "bank"


def wait(client: httpx.Client, id: str, *states: str, seconds: float = 120.0) -> dict:
    end = time.monotonic() + seconds
    while True:
        job = client.get(f"/v1/jobs/{id}").json()
        if job["state"] in states:
            return job
        assert job["state"] not in ENDS, job
        assert time.monotonic() < end, job
        time.sleep(0.2)


def send(client: httpx.Client, task: str, options: str) -> str:
    answer = client.post(
        f"/v1/tasks/{task}/train",
        files={"file": ("rows.csv", rows())},
        data={"options": options},
    )
    assert answer.status_code == 202, answer.text
    id: str = answer.json()["id"]
    return id


def test_a_job_is_trained_on_the_cluster(cluster, bank, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with served(bank, tmp_path, "--jobs-on", "ray") as server:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            id = upload(client, "mood")
            assert id is not None
            wait(client, id, "done")
            answer = client.post("/v1/tasks/mood/predict", json={"inputs": ["wa wb"]})
            assert answer.status_code == 200, answer.text

            long = send(client, "endless", LONG)
            wait(client, long, "running")
            began = time.monotonic()
            client.post(f"/v1/jobs/{long}/cancel")
            wait(client, long, "cancelled")
            assert time.monotonic() - began < 15
        assert server.stop() == 0


def test_a_service_that_is_killed_goes_on_with_its_job(
    cluster, bank, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with served(bank, tmp_path, "--jobs-on", "ray") as server:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            options = LONG.replace("1000", "60")
            id = send(client, "mood", options)
            wait(client, id, "running")
        server.kill()
        server.start()
        with httpx.Client(base_url=server.url, timeout=60) as client:
            wait(client, id, "done")
            told = client.get("/v1/tasks/mood").json()
            assert told["current"] == 1
        assert server.stop() == 0
