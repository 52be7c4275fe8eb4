"""What every request passes: keys, rates, headers, the log."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from adapterbank.errors import BankError, WrongBase
from adapterbank.service.app import describe
from adapterbank.service.auth import Keys, Quotas
from service.conftest import make_bank, running

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OPEN = {"/", "/healthz", "/readyz"}


def paths(app) -> list[str]:
    filled = [re.sub(r"\{\w+\}", "plain", path) for path in describe(app)["paths"]]
    return [
        *filled,
        "/",
        "/openapi.json",
        "/nothing",
        "/v1",
        "/v1/tasks/",
        "/docs",
        "/redoc",
        "//v1/tasks",
    ]


def test_nothing_is_open_without_a_key(client) -> None:
    assert len(paths(client.app)) > 20
    for path in paths(client.app):
        for method in METHODS:
            for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
                headers = {"Authorization": "", **header}
                response = client.request(method, path, headers=headers)
                if path in OPEN:
                    assert response.status_code in (200, 405), (method, path)
                else:
                    assert response.status_code == 401, (method, path)
                    assert response.headers["WWW-Authenticate"] == "Bearer"
                    if method != "HEAD":
                        assert response.json()["error"]["code"] == "unauthorized"


def test_a_key_in_the_url_is_none(client, keys) -> None:
    for query in (f"?key={keys['admin']}", f"?access_token={keys['admin']}"):
        response = client.get(f"/v1/tasks{query}", headers={"Authorization": ""})
        assert response.status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("POST", "/v1/tasks/plain/train", "read"),
        ("POST", "/v1/tasks/plain/rollback", "read"),
        ("POST", "/v1/tasks/plain/package", "read"),
        ("POST", "/v1/inspect", "read"),
        ("POST", "/v1/jobs/x/cancel", "read"),
        ("DELETE", "/v1/tasks/plain", "read"),
        ("GET", "/metrics", "read"),
        ("GET", "/metrics", "train"),
    ],
)
def test_roles_are_asked_for(client, as_key, method, path, key) -> None:
    response = client.request(method, path, headers=as_key(key))
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "forbidden"


def test_errors_have_one_shape(client) -> None:
    for method, path, status, code, hint in (
        ("GET", "/nothing", 404, "not_found", "GET /openapi.json lists those there are."),
        ("PUT", "/v1/tasks", 405, "not_allowed", "GET /openapi.json says what it takes."),
        ("GET", "/v1/tasks?limit=0", 422, "invalid", "GET /openapi.json says what may be sent."),
        ("GET", "/v1/tasks/unknown", 404, "not_found", "GET /v1/tasks lists those there are."),
        ("GET", "/v1/tasks/UPPER", 422, "invalid", "Use 1 to 64 of a-z"),
    ):
        response = client.request(method, path)
        assert response.status_code == status, path
        assert response.json()["error"]["code"] == code
        assert set(response.json()["error"]) == {"code", "message", "hint"}
        assert response.json()["error"]["hint"].startswith(hint)


def test_an_unforeseen_error_says_nothing_of_itself(client, service, monkeypatch, caplog) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the secret is /home/secret")

    monkeypatch.setattr(service, "info", fail)
    with caplog.at_level(logging.ERROR, "adapterbank.service"):
        response = client.get("/v1/tasks/plain")
    assert response.status_code == 500
    assert "secret" not in response.text
    id = response.headers["X-Request-Id"]
    assert id in response.json()["error"]["message"]
    assert id in caplog.text


def test_what_clients_are_not_told_is_in_the_log(client, service, monkeypatch, caplog) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BankError("The bank at '/srv/x' cannot be read: No such device.")

    monkeypatch.setattr(service, "info", fail)
    monkeypatch.setattr(service.batcher, "submit", fail)
    asked = {"inputs": [{"task": "plain", "input": "wa"}] * 2}
    for method, path, body, status in (
        ("GET", "/v1/tasks/plain", None, 503),
        ("POST", "/v1/predict", asked, 200),
    ):
        caplog.clear()
        with caplog.at_level(logging.ERROR, "adapterbank.service"):
            response = client.request(method, path, json=body)
        assert response.status_code == status
        assert "/srv" not in response.text
        (line,) = caplog.messages
        assert response.headers["X-Request-Id"] in line
        assert "No such device" in line


def test_a_base_that_does_not_fit_is_said_without_places(client, service, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise WrongBase("The bank at '/srv/x' is on a, and this base is /srv/b.")

    monkeypatch.setattr(service.apart, "call", fail)
    response = client.post("/v1/tasks/plain/package", content=b"x")
    assert (response.status_code, response.json()["error"]["code"]) == (422, "wrong_base")
    assert "/srv" not in response.text
    assert "base of this bank" in response.json()["error"]["message"]


def test_only_a_late_body_is_one(client, service, monkeypatch) -> None:
    def slow(*_: object) -> None:
        raise TimeoutError("of the bank's disk")

    with monkeypatch.context() as patch:
        patch.setattr(service, "info", slow)
        assert client.get("/v1/tasks/plain").status_code == 500

    async def late(*_: object) -> bytes:
        await asyncio.sleep(5)
        return b""

    monkeypatch.setattr("adapterbank.service.routes.parts.JSON_SECONDS", 0.01)
    monkeypatch.setattr("adapterbank.service.routes.parts.body_of", late)
    response = client.post("/v1/predict", json={"inputs": []})
    assert response.status_code == 408
    assert "too long" in response.json()["error"]["message"]


def test_every_answer_has_its_headers(client) -> None:
    seen = set()
    for path in ("/", "/healthz", "/v1/tasks", "/nothing"):
        headers = client.get(path).headers
        seen.add(headers["X-Request-Id"])
        assert headers["X-Content-Type-Options"] == "nosniff"
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "server" not in headers
    assert len(seen) == 4


def test_the_log_has_a_line_a_request_and_no_key(client, keys, caplog) -> None:
    with caplog.at_level(logging.INFO, "adapterbank.access"):
        client.get("/v1/tasks/plain")
        client.get("/v1/tasks", headers={"Authorization": "Bearer nonsense"})
    lines = [json.loads(r.message) for r in caplog.records if r.name == "adapterbank.access"]
    assert [(line["path"], line["status"]) for line in lines] == [
        ("/v1/tasks/plain", 200),
        ("/v1/tasks", 401),
    ]
    assert lines[0]["tenant"] == "default"
    assert lines[0]["key"] == keys["train"].split("_")[1]
    assert keys["train"] not in caplog.text
    assert "nonsense" not in caplog.text


def test_a_tenant_has_a_rate(tmp_path, encoder) -> None:
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}})
    slow = Keys(store).create("default", quotas=Quotas(requests_a_second=2))
    quick = Keys(store).create("acme")
    with running(store, tmp_path / "state") as client:
        found = [
            client.get("/v1/tasks", headers={"Authorization": f"Bearer {slow}"}) for _ in range(10)
        ]
        assert [each.status_code for each in found[:4]] == [200] * 4
        assert 429 in [each.status_code for each in found]
        assert found[-1].headers["Retry-After"] == "1"
        assert found[-1].json()["error"]["code"] == "busy"
        other = client.get("/v1/tasks", headers={"Authorization": f"Bearer {quick}"})
        assert other.status_code == 200


def test_a_tenant_has_so_many_requests_at_once(tmp_path, encoder, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.service.gate.IN_FLIGHT", 2)
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}, "acme/plain": {}})
    headers = {
        name: {"Authorization": f"Bearer {Keys(store).create(name)}"}
        for name in ("default", "acme")
    }
    with running(store, tmp_path / "state") as client, ThreadPoolExecutor(2) as pool:
        go, inside, real = threading.Event(), threading.Semaphore(0), client.app.state.service.info

        def slow(reference):
            inside.release()
            assert go.wait(10)
            return real(reference)

        monkeypatch.setattr(client.app.state.service, "info", slow)
        get = partial(client.get, headers=headers["default"])
        slow_ones = [pool.submit(get, "/v1/tasks/plain") for _ in range(2)]
        for _ in slow_ones:
            assert inside.acquire(timeout=10)
        refused = get("/openapi.json")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "busy")
        assert refused.headers["Retry-After"] == "1"
        assert client.get("/openapi.json", headers=headers["acme"]).status_code == 200
        assert client.get("/healthz").status_code == 200
        go.set()
        assert [each.result(10).status_code for each in slow_ones] == [200, 200]
        assert get("/v1/tasks").status_code == 200


def test_without_keys_this_machine_alone_is_answered(tmp_path, encoder) -> None:
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}, "acme/secret": {}})
    with running(store, tmp_path / "state") as client:
        names = [each["task"] for each in client.get("/v1/tasks").json()["tasks"]]
        assert names == ["plain"]
        for headers in (
            {"Host": "evil.example"},
            {"Host": "localhost.evil.example"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
        ):
            assert client.get("/v1/tasks", headers=headers).status_code == 403
        same = {"Origin": "http://localhost"}
        assert client.get("/v1/tasks", headers=same).status_code == 200


def test_without_keys_nobody_from_elsewhere_is_answered(tmp_path, encoder) -> None:
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}})
    with running(store, tmp_path / "state", loopback=False) as client:
        assert client.get("/v1/tasks").status_code == 401
