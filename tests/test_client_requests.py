"""What the client makes of arguments and answers, against a service that is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from adapterbank import Client
from adapterbank.errors import ConfigError, JobNotFound

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
