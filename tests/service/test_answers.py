"""What is asked over HTTP is answered as the engine answers."""

from __future__ import annotations

import pytest
from anyio.to_thread import run_sync

from adapterbank.errors import Busy, DataError
from adapterbank.service import limits
from adapterbank.service.answers import described
from adapterbank.serving.open import open_bank_engine

TEXT = "wa wb wc"
PAIR = {"text_a": "wa wb", "text_b": "wc wd"}
SPAN = {"question": "wa wb", "context": "wc wd we wf"}


@pytest.fixture(scope="module")
def engine(bank):
    return open_bank_engine(bank.files.url)


def close(found: dict, wanted: dict) -> bool:
    if set(found) != set(wanted):
        return False
    for name, value in found.items():
        other = wanted[name]
        if isinstance(value, dict):
            if not all(abs(value[k] - other[k]) < 1e-4 for k in value | other):
                return False
        elif isinstance(value, float):
            if abs(value - other) > 1e-4:
                return False
        elif value != (list(other) if isinstance(other, tuple) else other):
            return False
    return True


@pytest.mark.parametrize(
    ("task", "value"),
    [("plain", TEXT), ("pairs", PAIR), ("tags", TEXT), ("stars", TEXT), ("answers", SPAN)],
)
def test_each_kind_answers_as_the_engine_does(client, engine, task, value) -> None:
    response = client.post(f"/v1/tasks/{task}/predict", json={"inputs": [value, value]})
    assert response.status_code == 200
    found = response.json()
    assert (found["task"], found["version"]) == (task, 1)
    wanted = engine.answer([(task, value)])[0].as_dict()
    assert len(found["predictions"]) == 2
    assert all(close(each, wanted) for each in found["predictions"])


def test_many_tasks_in_one_batch(client, engine) -> None:
    inputs = [("plain", TEXT), ("pairs", PAIR), (None, TEXT), ("plain", "wb"), ("plain@1", TEXT)]
    asked = [{"task": task, "input": value} for task, value in inputs]
    found = client.post("/v1/predict", json={"inputs": asked}).json()["predictions"]
    wanted = engine.answer(inputs)
    assert len(found[2]["embedding"]) == 32
    for i in (0, 1, 3, 4):
        assert close(found[i], wanted[i].as_dict())


def test_a_row_that_fails_is_an_error_in_its_place(client) -> None:
    asked = {"inputs": [TEXT, 5, "", PAIR, {"text": TEXT}]}
    found = client.post("/v1/tasks/plain/predict", json=asked).json()["predictions"]
    assert ["error" in each for each in found] == [False, True, True, True, False]
    assert set(found[1]["error"]) == {"code", "message", "hint"}


def test_a_text_that_is_too_long_fails_its_row_alone(client) -> None:
    long = "a" * (limits.CHARACTERS + 1)
    inputs = [TEXT, long, {"text": long}, "wb"]
    mixed = [{"task": "plain", "input": each} for each in inputs]
    for path, body, name in (
        ("/v1/tasks/plain/predict", {"inputs": inputs}, "predictions"),
        ("/v1/predict", {"inputs": mixed}, "predictions"),
        ("/v1/route", {"inputs": inputs}, "routes"),
    ):
        response = client.post(path, json=body)
        assert response.status_code == 200, response.text
        found = response.json()[name]
        assert ["error" in each for each in found] == [False, True, True, False]
        assert f"Input 1 has more than {limits.CHARACTERS:,}" in found[1]["error"]["message"]
    only = client.post("/v1/tasks/plain/predict", json={"inputs": [long]}).json()
    assert only["version"] == 1
    assert only["predictions"][0]["error"]["code"] == "invalid"
    assert client.post("/v1/tasks/none/predict", json={"inputs": [long]}).status_code == 404


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("Name both: --text-column and --pair-column.", "options.text_column and options.pair_"),
        ("Say so: --encoding utf-16.", "options.encoding utf-16"),
        ("Make one: adapterbank keys create a --role train.", "--role train"),
    ],
)
def test_hints_name_the_options_of_requests(hint, said) -> None:
    assert said in described(DataError("It cannot be read.", hint))["hint"]


def test_a_task_that_is_missing_fails_its_rows_alone(client) -> None:
    asked = [{"task": task, "input": TEXT} for task in ("plain", "unknown", "plain@9", "NO")]
    found = client.post("/v1/predict", json={"inputs": asked}).json()["predictions"]
    assert "label" in found[0]
    assert [each["error"]["code"] for each in found[1:]] == ["not_found", "not_found", "invalid"]


def test_all_names_of_a_request_cost_one_turn(client, service, monkeypatch) -> None:
    """However many they are, and whether or not there are such tasks."""
    turns = []

    async def counted(call, **settings):
        turns.append(settings["limiter"])
        return await run_sync(call, **settings)

    monkeypatch.setattr("adapterbank.service.service.run_sync", counted)
    asked = [{"task": f"t{i}", "input": TEXT} for i in range(40)] + [{"task": None, "input": TEXT}]
    found = client.post("/v1/predict", json={"inputs": asked}).json()["predictions"]
    assert {each["error"]["code"] for each in found[:40]} == {"not_found"}
    assert "embedding" in found[40]
    assert turns == [service._turns["default"]]


def test_a_request_that_is_refused_leaves_nothing_in_the_queue(
    client, service, monkeypatch
) -> None:
    real, made = service.batcher.submit, []

    def second_is_refused(*arguments, **settings):
        if made:
            raise Busy("Too much is waiting to be answered.", "Try again in a moment.")
        made.append(real(*arguments, **settings))
        return made[-1]

    monkeypatch.setattr(service.batcher, "submit", second_is_refused)
    asked = [{"task": task, "input": TEXT} for task in ("plain", "tags")]
    assert client.post("/v1/predict", json={"inputs": asked}).status_code == 429
    assert made[0].done()


def test_no_inputs_no_answers(client) -> None:
    found = client.post("/v1/tasks/plain/predict", json={"inputs": []})
    assert found.json()["predictions"] == []
    assert client.post("/v1/predict", json={"inputs": []}).json() == {"predictions": []}
    assert client.post("/v1/route", json={"inputs": []}).json() == {"routes": []}


def test_a_tenant_does_not_reach_another(client, as_key) -> None:
    for task in ("acme/plain", "secret", "acme/secret"):
        asked = {"inputs": [{"task": task, "input": TEXT}]}
        (found,) = client.post("/v1/predict", json=asked).json()["predictions"]
        assert found["error"]["code"] == "not_found"
    assert client.post("/v1/tasks/secret/predict", json={"inputs": [TEXT]}).status_code == 404
    acme = as_key("acme")
    for task in ("plain", "acme/plain"):
        asked = {"inputs": [{"task": task, "input": TEXT}]}
        found = client.post("/v1/predict", json=asked, headers=acme).json()["predictions"]
        assert set(found[0]["probabilities"]) == {"red", "green"}


def test_routes_name_the_tenants_own_tasks(client, service, monkeypatch) -> None:
    asked = []
    real = service.router.among

    def among(inputs, embedded, names, most):
        asked.extend(names)
        return real(inputs, embedded, names, most)

    monkeypatch.setattr(service.router, "among", among)
    found = client.post("/v1/route", json={"inputs": [TEXT, 5]}).json()["routes"]
    assert found[0] == []  # these tasks have no statistics
    assert found[1]["error"]["code"] == "invalid"
    assert asked == ["answers", "pairs", "plain", "stars", "tags"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"inputs": "text"}',
        b'{"inputs": null}',
        b'{"inputs": ["a"], "more": 1}',
        b'{"inputs": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
        b'{"inputs": ["\xff\xfe"]}',
        b'{"inputs": [NaN]}',
    ],
)
def test_bad_bodies_are_refused(client, body) -> None:
    for path in ("/v1/tasks/plain/predict", "/v1/predict", "/v1/route"):
        response = client.post(path, content=body)
        if body == b'{"inputs": [NaN]}' and response.status_code == 200:
            answers = response.json()
            assert "error" in str(answers)
            continue
        assert response.status_code == 422, (path, body[:40])
        assert response.json()["error"]["code"] == "invalid"


def test_lone_surrogates_are_no_text(client) -> None:
    response = client.post("/v1/tasks/plain/predict", content=b'{"inputs": ["\\ud800"]}')
    assert response.status_code in (200, 422)


def test_limits_are_named(client, monkeypatch) -> None:
    many = {"inputs": ["a"] * (limits.INPUTS + 1)}
    response = client.post("/v1/tasks/plain/predict", json=many)
    assert response.status_code == 422
    assert str(limits.INPUTS) in response.json()["error"]["message"]
    body = b'{"inputs": ["' + b"a" * limits.JSON_BYTES + b'"]}'
    response = client.post("/v1/tasks/plain/predict", content=body)
    assert response.status_code == 413
    assert f"{limits.JSON_BYTES:,}" in response.json()["error"]["message"]


def test_a_body_of_no_announced_length_is_bounded_too(client) -> None:
    def pieces():
        yield b'{"inputs": ["'
        for _ in range(10):
            yield b"a" * 2**20
        yield b'"]}'

    response = client.post("/v1/tasks/plain/predict", content=pieces())
    assert response.status_code == 413


def test_a_full_queue_is_said_at_once(client, service, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise Busy("Too much is waiting to be answered.", "Try again in a moment.")

    monkeypatch.setattr(service.batcher, "submit", full)
    response = client.post("/v1/tasks/plain/predict", json={"inputs": [TEXT]})
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "1"


def test_counters_show_the_own_tenant_alone(client, as_key) -> None:
    client.post("/v1/tasks/plain/predict", json={"inputs": [TEXT]}, headers=as_key("acme"))
    text = client.get("/metrics", headers=as_key("admin")).text
    assert 'adapterbank_tenant_texts_total{tenant="default"}' in text
    assert "acme" not in text
    assert "adapterbank_batch_rows_bucket" in text
    assert 'route="/v1/tasks/{task}/predict"' in text
    mine = client.get("/metrics", headers=as_key("acme")).text
    assert 'tenant="acme"' in mine
    assert 'tenant="default"' not in mine


def test_health_is_open(client) -> None:
    bare = {"Authorization": ""}
    assert client.get("/healthz", headers=bare).json() == {"ok": True}
    assert client.get("/readyz", headers=bare).json() == {"ready": True}


def test_a_service_whose_jobs_stand_still_is_not_ready(client, service, monkeypatch) -> None:
    class Still:
        alive = False

    monkeypatch.setattr(service, "jobs", Still())
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"ready": False})
