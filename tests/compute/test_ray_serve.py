"""The service on Ray Serve: two replicas on two nodes, each with batches of many tasks."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

from adapterbank.model.encoder import load_encoder
from adapterbank.service.auth import Keys
from adapterbank.serving.open import open_bank_engine
from adapterbank.store.store import Store
from service.conftest import make_bank
from serving.tasks import publish
from tiny import save_base

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("ray") is None or find_spec("opencensus") is None,
        reason="Ray Serve is not installed",
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
]
TASKS = [f"t{i}" for i in range(6)]
TEXTS = ["wa wb wc", "wd we", "wf wa wd we wb"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(str(save_base(tmp_path_factory.mktemp("base"))))


@pytest.fixture(scope="module")
def bank(tmp_path_factory, encoder) -> Store:
    forms: dict[str, dict[str, Any]] = {name: {} for name in TASKS} | {"acme/secret": {}}
    return make_bank(tmp_path_factory.mktemp("bank") / "bank", encoder, forms)


@pytest.fixture(scope="module")
def keyless(tmp_path_factory, encoder) -> Store:
    return make_bank(tmp_path_factory.mktemp("keyless") / "bank", encoder, {"t0": {}})


@pytest.fixture(scope="module")
def url(cluster) -> Iterator[str]:
    from ray import serve

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve.start("HeadOnly", http_options={"host": "127.0.0.1", "port": port})
    yield f"http://127.0.0.1:{port}"
    serve.shutdown()


@pytest.fixture(scope="module")
def key(bank) -> str:
    return Keys(bank).create("default", "admin")


@pytest.fixture(scope="module")
def handle(url, bank, key) -> Any:
    """Two replicas of one core each: a node has one."""
    from ray import serve

    from adapterbank.service.ray_serve import app

    # As `serve run` gives them: words.
    return serve.run(app({"bank": str(bank.files.url), "replicas": "2", "memory": "64"}))


def test_a_bank_without_keys_is_refused(url, keyless) -> None:
    from ray import serve

    from adapterbank.service.ray_serve import Options, app

    with pytest.raises(RuntimeError):
        serve.run(app(Options(bank=str(keyless.files.url), memory=64)), name="open")
    told = serve.status().applications["open"]
    serve.delete("open")
    assert "every request needs a key" in str(told)


def test_answers_are_the_engines_own_from_every_replica(handle, url, bank, key) -> None:
    engine = open_bank_engine(bank.files.url)
    expected = {
        (task, text): engine.answer([(task, text)])[0].as_dict() for task in TASKS for text in TEXTS
    }

    def ask(which: tuple[str, str]) -> tuple[int, Any]:
        task, text = which
        answer = client.post(f"/v1/tasks/{task}/predict", json={"inputs": [text]})
        return answer.status_code, answer.json()

    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        wanted = list(expected) * 20
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(ask, wanted))
        assert {status for status, _ in found} == {200}
        for which, (_, told) in zip(wanted, found, strict=True):
            assert told["predictions"][0]["label"] == expected[which]["label"]
            assert told["predictions"][0]["probabilities"] == pytest.approx(
                expected[which]["probabilities"], abs=1e-4
            )
        assert client.post("/v1/tasks/acme%2Fsecret/predict", json={"inputs": ["x"]}).is_error
        # Each replica counts for itself: a batch held several tasks in at least one of them.
        told = [client.get("/metrics").text for _ in range(20)]
    batches, tasks = (
        max(
            float(each) for page in told for each in re.findall(rf"batch_tasks_{which} (\S+)", page)
        )
        for which in ("count", "sum")
    )
    assert tasks > 1.2 * batches


def test_no_key_no_answer(handle, url) -> None:
    body = {"inputs": ["wa"]}
    assert httpx.post(f"{url}/v1/tasks/t0/predict", json=body, timeout=60).status_code == 401
    assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200


def test_code_in_the_cluster_asks_by_handle(handle, bank) -> None:
    found = handle.predict.remote("acme/secret", TEXTS).result(timeout_s=60)
    expected = open_bank_engine(bank.files.url).answer([("acme/secret", text) for text in TEXTS])
    assert [each["label"] for each in found] == [each.label for each in expected]
    embedded = handle.predict.remote(None, TEXTS[:1]).result(timeout_s=60)
    assert len(embedded[0]["embedding"]) == 32


def test_a_task_that_is_published_again_is_answered_anew_by_all(handle, bank, encoder, url, key):
    before = [_version(url, key) for _ in range(10)]
    publish(bank, encoder, "t0", 99)
    time.sleep(0.1)
    after = [_version(url, key) for _ in range(10)]
    assert set(before) == {1}
    assert set(after) == {2}


def _version(url: str, key: str) -> int:
    answer = httpx.post(
        f"{url}/v1/tasks/t0/predict",
        json={"inputs": ["wa"]},
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
    )
    found: int = answer.json()["version"]
    return found
