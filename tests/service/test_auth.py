"""Keys: shown once, kept as digests, seen by every process."""

from __future__ import annotations

import json

import pytest

from adapterbank.errors import ConfigError, Forbidden, Unauthorized
from adapterbank.service import auth
from adapterbank.service.auth import Caller, Keys, Quotas
from adapterbank.store.store import Store


@pytest.fixture
def store(bank) -> Store:
    return Store.open(bank.files.url)


def test_a_key_opens_what_it_was_made_for(store) -> None:
    keys = Keys(store)
    quotas = Quotas(tasks=3, requests_a_second=7.5)
    key = keys.create("acme", "read", "the web shop", quotas)
    caller = keys.caller(f"Bearer {key}")
    assert (caller.tenant, caller.role, caller.quotas) == ("acme", "read", quotas)
    assert key.startswith(f"ab_{caller.key}_")


def test_the_bank_does_not_hold_the_key(store) -> None:
    key = Keys(store).create("acme")
    secret = key.split("_", 2)[2]
    for name in store.files.names("keys"):
        assert secret.encode() not in store.files.read(f"keys/{name}", 10_000)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key[:-1] + ("A" if key[-1] != "A" else "B"),
        lambda key: key[:-1],
        lambda key: key + "A",
        lambda key: key.replace("ab_", "AB_"),
        lambda key: "ab_" + "0" * 16 + key[19:],
        lambda _: "../../bank",
        lambda _: "",
    ],
)
def test_any_other_key_is_unknown(store, spoil) -> None:
    keys = Keys(store)
    with pytest.raises(Unauthorized):
        keys.caller(f"Bearer {spoil(keys.create('acme'))}")


def test_without_a_header_a_key_is_asked_for(store) -> None:
    with pytest.raises(Unauthorized, match="This needs a key"):
        Keys(store).caller(None)


def test_another_process_sees_new_and_revoked_keys(store, monkeypatch) -> None:
    here, there = Keys(store), Keys(Store.open(store.files.url))
    key = here.create("acme")
    assert there.caller(f"Bearer {key}").tenant == "acme"
    here.revoke(key.split("_")[1])
    assert there.caller(f"Bearer {key}").tenant == "acme"  # still remembered
    monkeypatch.setattr(auth, "SEEN_AGAIN", -1.0)
    with pytest.raises(Unauthorized):
        there.caller(f"Bearer {key}")


def test_it_is_remembered_for_less_than_five_seconds() -> None:
    assert auth.SEEN_AGAIN < 5


def test_guesses_are_not_remembered(store) -> None:
    keys = Keys(store)
    for i in range(20):
        with pytest.raises(Unauthorized):
            keys.caller(f"Bearer ab_{i:016x}_{'A' * 43}")
    assert not keys._seen


def test_the_list_shows_no_secret(store) -> None:
    keys = Keys(store)
    key = keys.create("zebra", "admin", "note")
    (found,) = [each for each in keys.list() if each.tenant == "zebra"]
    assert (found.role, found.note) == ("admin", "note")
    assert key.split("_", 2)[2] not in json.dumps(str(found))


@pytest.mark.parametrize(
    ("tenant", "role"), [("../x", "read"), ("a/b", "read"), ("A", "read"), ("acme", "root")]
)
def test_what_cannot_be_is_refused(store, tenant, role) -> None:
    with pytest.raises(ConfigError):
        Keys(store).create(tenant, role)


def test_an_unknown_id_is_not_revoked(store) -> None:
    for id in ("0" * 16, "../../bank", ""):
        with pytest.raises(ConfigError, match="no key of that id"):
            Keys(store).revoke(id)


@pytest.mark.parametrize(
    ("has", "wants", "may"),
    [
        ("read", "read", True),
        ("read", "train", False),
        ("train", "train", True),
        ("train", "admin", False),
        ("admin", "read", True),
    ],
)
def test_roles_hold_those_below_them(has, wants, may) -> None:
    caller = Caller("acme", has)
    if may:
        caller.needs(wants)
    else:
        with pytest.raises(Forbidden, match=f"role {wants}"):
            caller.needs(wants)
