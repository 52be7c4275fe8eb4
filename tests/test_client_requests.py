"""What the client makes of arguments and answers, against a service that is played."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from adapterbank import Client
from adapterbank.client import TRIES
from adapterbank.errors import (
    AdapterBankError,
    Busy,
    ConfigError,
    DataError,
    JobNotFound,
    ServiceError,
)

Answer = Callable[[httpx.Request], httpx.Response]


class Played:
    """A client whose requests go to a function; they are kept."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[httpx.Request] = []
        self.client = Client("http://127.0.0.1:9")
        self.client._wire._http._transport = httpx.MockTransport(self._answer)
        self.answer = answer

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answer(request)


def fine(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={})


VERBS: dict[str, Callable[[Client, Any], Any]] = {
    "predict": lambda client, name: client.predict(name, ["x"]),
    "train": lambda client, name: client.train(name, "missing.csv"),
    "show": lambda client, name: client.show(name),
    "rollback": lambda client, name: client.rollback(name, 1),
    "remove": lambda client, name: client.remove(name),
    "export": lambda client, name: client.export(name, "a.tar.gz"),
    "import_": lambda client, name: client.import_("missing.tar.gz", name),
}
VERSIONED = ("predict", "show", "export")


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.slept = 1000.0, []
        monkeypatch.setattr("adapterbank.wire.time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["a#v2", "../jobs", "a/versions/x", "a?b", "A", "", "a..b", 5])
def test_what_is_no_name_is_never_asked(verb, name) -> None:
    played = Played(fine)
    with pytest.raises(ConfigError, match="is not a task's name"):
        VERBS[verb](played.client, name)
    assert played.requests == []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["default/helpdesk", "acme/helpdesk"])
def test_the_key_decides_the_tenant(verb, name) -> None:
    played = Played(fine)
    tenant = name.partition("/")[0]
    with pytest.raises(ConfigError, match=f"the key decides.*'helpdesk' with a key of {tenant}"):
        VERBS[verb](played.client, name)
    assert played.requests == []


@pytest.mark.parametrize("verb", sorted({*VERBS} - {*VERSIONED}))
def test_a_task_is_changed_whole(verb) -> None:
    played = Played(fine)
    with pytest.raises(ConfigError, match="'a@1' is not a task's name"):
        VERBS[verb](played.client, "a@1")
    assert played.requests == []


def test_versions_are_shown() -> None:
    played = Played(fine)
    played.client.show("a.b-c_d@3")
    assert played.requests[0].url.path == "/v1/tasks/a.b-c_d@3"


@pytest.mark.parametrize("id", ["", "../tasks/a", "x" * 24, "a" * 23, None])
def test_what_is_no_job_is_never_asked(id) -> None:
    played = Played(fine)
    for ask in (played.client.job, played.client.cancel, lambda id: next(played.client.follow(id))):
        with pytest.raises(JobNotFound, match="is not a job's id"):
            ask(id)
    assert played.requests == []


def answered(request: httpx.Request) -> httpx.Response:
    """Every input's own text, as a label."""
    inputs = json.loads(request.content)["inputs"]
    return httpx.Response(200, json={"predictions": [{"label": str(each)} for each in inputs]})


def sizes(played: Played) -> list[int]:
    """How many inputs each request had."""
    return [len(json.loads(each.content)["inputs"]) for each in played.requests]


BAD = [float("nan"), "half \ud800", "x" * 100_001, {1}, b"bytes"]


def test_a_bad_input_has_its_error_in_its_place() -> None:
    played = Played(answered)
    found = played.client.predict("a", (each for each in ["one", *BAD, "two"]))
    assert [each.label for each in found] == ["one", *[None] * len(BAD), "two"]
    assert all(isinstance(each.error, DataError) for each in found[1:-1])
    assert sizes(played) == [2]


def test_one_text_in_place_of_a_list_is_refused() -> None:
    played = Played(answered)
    for ask in (
        lambda: played.client.predict("a", "one"),
        lambda: played.client.predict_mixed("a"),
    ):
        with pytest.raises(ConfigError, match="One input came"):
            ask()
    assert played.requests == []


def test_a_bad_input_of_many_has_its_error_in_its_place() -> None:
    played = Played(answered)
    names = ["a#b", "acme/a", 5]
    asked = [("a", "one"), *(("a", each) for each in BAD), *((n, "x") for n in names), (None, "2")]
    found = played.client.predict_mixed(asked)
    assert [bool(each.error) for each in found] == [False, *[True] * (len(asked) - 2), False]
    assert all(isinstance(each.error, ConfigError) for each in found[-4:-1])
    assert sizes(played) == [2]
    with pytest.raises(DataError, match="not what a task reads"):
        played.client.route(float("nan"))


def test_requests_are_cut_by_count_and_characters() -> None:
    for text, wanted in (("x", [256, 256, 88]), ("x" * 10_000, [3] * 200), ("x" * 90_000, [1] * 9)):
        for mixed in (False, True):
            played = Played(answered)
            texts = [text] * sum(wanted)
            if mixed:
                found = played.client.predict_mixed([(None, each) for each in texts])
            else:
                found = played.client.predict("a", texts)
            assert len(found) == len(texts)
            assert sizes(played) == wanted
    played = Played(answered)
    pair = {"text_a": "x" * 10_000, "text_b": "x" * 10_000}
    played.client.predict("a", [pair] * 3)
    assert sizes(played) == [1, 1, 1]


def test_what_was_answered_is_kept_when_the_service_fails() -> None:
    def fails_at_two(request: httpx.Request) -> httpx.Response:
        return answered(request) if len(played.requests) == 1 else httpx.Response(500)

    for mixed in (False, True):
        played = Played(fails_at_two)
        texts = ["x"] * 1_000
        if mixed:
            found = played.client.predict_mixed([("a", each) for each in texts])
        else:
            found = played.client.predict("a", texts)
        assert [each.error is None for each in found] == [True] * 256 + [False] * 744
        assert isinstance(found[-1].error, ServiceError)
        assert len(played.requests) == 2
    played = Played(lambda _: httpx.Response(500))
    with pytest.raises(ServiceError, match="status 500"):
        played.client.predict("a", [float("nan"), "x"])


ODD = {
    "none": ({}, "without predictions"),
    "no list": ({"predictions": {"label": "x"}}, "without predictions"),
    "too few": ({"predictions": [{"label": "x"}]}, "2 inputs with 1 prediction"),
    "too many": ({"predictions": [{"label": "x"}] * 3}, "2 inputs with 3 predictions"),
    "no objects": ({"predictions": ["x", "y"]}, "without predictions"),
}


@pytest.mark.parametrize(("odd", "said"), ODD.values(), ids=ODD)
@pytest.mark.parametrize("mixed", [False, True])
def test_an_answer_to_other_than_was_asked_is_said(odd, said, mixed) -> None:
    def odd_at_the_end(request: httpx.Request) -> httpx.Response:
        few = len(json.loads(request.content)["inputs"]) == 2
        return httpx.Response(200, json=odd) if few else answered(request)

    def ask(texts: list[str]) -> list[Any]:
        client = Played(odd_at_the_end).client
        return (
            client.predict_mixed([("a", t) for t in texts]) if mixed else client.predict("a", texts)
        )

    with pytest.raises(ServiceError, match=rf"{said}.*Check the address"):
        ask(["x"] * 2)
    found = ask(["x"] * 258)
    assert [each.error is None for each in found] == [True] * 256 + [False] * 2
    assert isinstance(found[-1].error, ServiceError)


def refused(status: int, code: str, **headers: str) -> httpx.Response:
    error = {"code": code, "message": "No.", "hint": "Wait."}
    return httpx.Response(status, json={"error": error}, headers=headers)


ASKED: dict[str, Callable[[Client], Any]] = {
    "predict": lambda client: client.predict("a", ["x"]),
    "predict_mixed": lambda client: client.predict_mixed([(None, "x")]),
    "route": lambda client: client.route("x"),
    "show": lambda client: client.show("a"),
    "tasks": lambda client: client.tasks(),
}
EVERY = {"predictions": [{"label": "x"}], "routes": [[]], "tasks": [], "next": None}


@pytest.mark.parametrize("verb", ASKED)
def test_a_busy_service_is_asked_again(verb, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    waits = iter(
        [
            refused(429, "busy", **{"Retry-After": "7"}),
            refused(429, "busy", **{"Retry-After": "soon"}),
            refused(503, "unavailable"),
            httpx.Response(429, text="a proxy's own page"),
            httpx.Response(200, json=EVERY),
        ]
    )
    ASKED[verb](Played(lambda _: next(waits)).client)
    assert clock.slept == [7.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("verb", ASKED)
def test_patience_ends(verb, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    played = Played(lambda _: refused(429, "busy", **{"Retry-After": "50"}))
    with pytest.raises(Busy, match=r"No\. Wait\."):
        ASKED[verb](played.client)
    assert (clock.slept, len(played.requests)) == ([50.0, 50.0], 3)
    played.client._wire.patience = 0
    with pytest.raises(Busy):
        ASKED[verb](played.client)
    assert len(played.requests) == 4


@pytest.mark.parametrize(
    ("status", "code"), [(503, "package_damaged"), (404, "not_found"), (413, "too_large")]
)
def test_what_waiting_does_not_mend_is_said_at_once(status, code, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    played = Played(lambda _: refused(status, code))
    with pytest.raises(AdapterBankError, match="No"):
        played.client.predict("a", ["x"])
    assert (clock.slept, len(played.requests)) == ([], 1)


OTHERS = {
    "a page": (httpx.Response(200, text="<html>"), "is not AdapterBank.*Check the address"),
    "a list": (httpx.Response(200, json=[]), "is not AdapterBank.*Check the address"),
    "no text": (httpx.Response(200, content=b"\xff\x00"), "is not AdapterBank"),
    "another place": (
        httpx.Response(308, headers={"Location": "https://127.0.0.1/"}),
        "status 308. It sends on to https://127.0.0.1/: give the address",
    ),
    "an error of its own": (httpx.Response(404, json={"error": "Not Found"}), "with status 404"),
    "a list of errors": (httpx.Response(500, json=[{"error": 5}]), "with status 500"),
}


@pytest.mark.parametrize(("response", "said"), OTHERS.values(), ids=OTHERS)
def test_what_is_no_service_is_said(response, said, tmp_path) -> None:
    played = Played(lambda _: response)
    with pytest.raises(ServiceError, match=said):
        played.client.tasks()
    if not response.is_success:
        with pytest.raises(ServiceError, match=said):
            played.client.export("a", tmp_path / "a.tar.gz")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [429, 503])
def test_what_changes_a_bank_is_sent_once(status, tmp_path, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    file = tmp_path / "rows.csv"
    file.write_text("text,label\n")
    for change in (
        lambda client: client.train("a", file),
        lambda client: client.remove("a"),
        lambda client: client.rollback("a", 1),
        lambda client: client.import_(file, "a"),
    ):
        played = Played(lambda _: refused(status, "busy"))
        with pytest.raises(Busy):
            change(played.client)
        assert (clock.slept, len(played.requests)) == ([], 1)


def test_a_job_is_followed_while_the_service_is_busy(monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.client.time.sleep", lambda _: None)
    stream = 'id: 1\ndata: {"event": "plan"}\n\nevent: job\ndata: {"state": "done"}\n\n'
    waits = iter([refused(429, "busy"), refused(503, "unavailable")])
    played = Played(lambda _: next(waits, httpx.Response(200, text=stream)))
    assert [each["event"] for each in played.client.follow("a" * 24)] == ["plan", "job"]


@pytest.mark.parametrize("page", ["", "<html>\n\n", ": still here\n\n"])
def test_a_stream_that_never_brings_an_event_is_given_up(page, monkeypatch) -> None:
    slept = []
    monkeypatch.setattr("adapterbank.client.time.sleep", slept.append)
    played = Played(lambda _: httpx.Response(200 if len(slept) < 100 else 418, text=page))
    with pytest.raises(ServiceError, match=r"says nothing of job aaaaaaaa.*Check the address"):
        list(played.client.follow("a" * 24))
    assert len(played.requests) == TRIES
    event = 'id: 1\ndata: {"event": "step"}\n\n'  # a stream that is cut off is begun again
    some = iter([*[event] * TRIES, 'event: job\ndata: {"state": "done"}\n\n'])
    played = Played(lambda _: httpx.Response(200, text=next(some)))
    assert len(list(played.client.follow("a" * 24))) == TRIES + 1


def form(request: httpx.Request) -> dict[str, bytes]:
    """The parts of a form by name; a file's name stands before what it holds."""
    mark = request.headers["Content-Type"].partition("boundary=")[2].encode()
    parts = request.content.split(b"--" + mark)[1:-1]
    found = {}
    for part in parts:
        head, _, body = part.strip(b"\r\n").partition(b"\r\n\r\n")
        names = [each.split(b'"')[1] for each in head.split(b"; ")[1:]]
        found[names[0].decode()] = b" ".join([*names[1:], body])
    return found


ROWS = [{"text": "one", "label": "a"}, {"text": "two", "label": "b"}]


def test_rows_of_any_kind_are_sent(tmp_path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,label\n")
    lines = b"rows.jsonl " + b"\n".join(json.dumps(each).encode() for each in ROWS)
    for rows, wanted in ((file, b"rows.csv text,label"), (ROWS, lines), (iter(ROWS), lines)):
        played = Played(fine)
        played.client.train("a", rows, dev=ROWS)
        found = form(played.requests[0])
        assert (found["file"], found["dev"]) == (wanted, lines)
    played.client.inspect(ROWS)
    assert form(played.requests[1])["file"] == lines
    with pytest.raises(DataError, match="object of type int"):
        played.client.train("a", 5)
    assert len(played.requests) == 2


def test_rows_beside_a_file_are_sent_in_its_encoding(tmp_path) -> None:
    file = tmp_path / "dev.csv"
    file.write_text("text,label\n", encoding="utf-16")
    played = Played(fine)
    played.client.train("a", ROWS, dev=file, encoding="utf-16")
    name, _, content = form(played.requests[0])["file"].partition(b" ")
    assert name == b"rows.jsonl"
    assert list(map(json.loads, content.decode("utf-16").splitlines())) == ROWS


def test_settings_have_both_their_names() -> None:
    wanted = {"lr": 0.1, "store": "fp16", "from": "a@1", "epochs": 3}
    of_bank = {"learning_rate": 0.1, "precision": "fp16", "from_version": "a@1", "epochs": 3}
    for options in (wanted, of_bank):
        played = Played(fine)
        played.client.train("a", ROWS, size=None, **options)
        assert json.loads(form(played.requests[0])["options"]) == wanted


def test_settings_of_numpys_are_numbers() -> None:
    played = Played(fine)
    played.client.train("a", ROWS, seed=np.arange(3)[1], lr=np.float64(0.1), label_names={"x"})
    sent = json.loads(form(played.requests[0])["options"])
    assert sent == {"seed": 1, "lr": 0.1, "label_names": ["x"]}


def test_a_service_routes_among_all_tasks() -> None:
    played = Played(lambda _: httpx.Response(200, json={"routes": [[]]}))
    with pytest.raises(ConfigError, match=r"all tasks.*Bank\.open"):
        played.client.route("x", tasks=["a"])
    assert played.client.route("x", 5) == []
    assert json.loads(played.requests[0].content) == {"inputs": ["x"], "most": 5}
