"""An address and a key are looked at before anything is sent, and the key is never shown."""

from __future__ import annotations

import httpx
import pytest

from adapterbank import Client
from adapterbank.errors import ConfigError

KEY = "ab_0123456789abcdef_" + "Aa0-_" * 8 + "xyz"
URL = "http://127.0.0.1:9"


def sent(client: Client) -> str:
    """The header with the key, as it goes out."""
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization", ""))
        return httpx.Response(200, json={"tasks": [], "next": None})

    client._wire._http._transport = httpx.MockTransport(answer)
    client.tasks()
    return seen[0]


@pytest.mark.parametrize("key", [KEY, f"{KEY}\n", f" {KEY}\r\n"])
def test_a_key_is_taken_as_files_and_shells_give_it(key, monkeypatch) -> None:
    assert sent(Client(URL, key)) == f"Bearer {KEY}"
    monkeypatch.setenv("ADAPTERBANK_KEY", key)
    assert sent(Client(URL)) == f"Bearer {KEY}"


@pytest.mark.parametrize("key", ["", " \n"])
def test_without_a_key_none_is_sent(key, monkeypatch) -> None:
    monkeypatch.setenv("ADAPTERBANK_KEY", KEY)
    assert sent(Client(URL, key)) == ""


@pytest.mark.parametrize("key", [f"{KEY}\n{KEY}", f"{KEY}é", KEY[:-1], KEY + "x", KEY.upper()])
def test_what_is_no_key_is_refused_and_not_shown(key) -> None:
    with pytest.raises(ConfigError, match=rf"has {len(key)} characters.* \$ADAPTERBANK_KEY") as no:
        Client(URL, key)
    assert key[3:19] not in str(no.value)


@pytest.mark.parametrize("url", ["http://[::1", "http://x:port", "http://x\n"])
def test_what_is_no_address_is_refused(url) -> None:
    with pytest.raises(ConfigError, match=r"not the address.*http://localhost:8000"):
        Client(url)
