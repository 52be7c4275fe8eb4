"""A service on a tiny bank: two tenants, tasks of several kinds, no training unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.service.app import make_app
from adapterbank.service.auth import Keys
from adapterbank.service.service import Service, Settings
from adapterbank.serving.open import open_bank_engine
from adapterbank.store.manifest import BaseRecord
from adapterbank.store.store import Store
from serving.tasks import publish
from tiny import save_base

FORMS = {
    "plain": {},
    "pairs": {"pair": True},
    "tags": {"kind": "multi-label"},
    "stars": {"kind": "regression"},
    "answers": {"kind": "span"},
    "acme/plain": {"labels": ("red", "green")},
    "acme/secret": {},
}
LOCAL = "http://localhost"


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> Encoder:
    return load_encoder(str(save_base(tmp_path_factory.mktemp("base"))))


def make_bank(folder: Path, encoder: Encoder, forms: dict[str, dict] = FORMS) -> Store:
    store = Store.create(folder, BaseRecord(encoder.name, encoder.fingerprint))
    for seed, (name, form) in enumerate(forms.items()):
        publish(store, encoder, name, seed, **form)
    return store


@contextmanager
def running(store: Store, state: Path, **settings: object) -> Iterator[TestClient]:
    """A client of a service that runs in this process. Errors are answers here, as they are
    over a wire."""
    made = replace(Settings(state, jobs=False, job_nice=0), **settings)
    service = Service(open_bank_engine(store.files.url), made)
    app = make_app(service)
    with TestClient(app, LOCAL, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def bank(tmp_path_factory, encoder) -> Store:
    return make_bank(tmp_path_factory.mktemp("bank") / "bank", encoder)


@pytest.fixture(scope="module")
def keys(bank) -> dict[str, str]:
    """A key for each tenant and role that tests want."""
    made = Keys(bank)
    wanted = {
        "train": ("default", "train"),
        "read": ("default", "read"),
        "admin": ("default", "admin"),
        "acme": ("acme", "admin"),
    }
    return {name: made.create(*each) for name, each in wanted.items()}


@pytest.fixture(scope="module")
def client(tmp_path_factory, bank, keys) -> Iterator[TestClient]:
    """With the training key of the tenant `default`."""
    with running(bank, tmp_path_factory.mktemp("state")) as client:
        client.headers["Authorization"] = f"Bearer {keys['train']}"
        yield client


@pytest.fixture(scope="module")
def service(client) -> Service:
    return client.app.state.service


@pytest.fixture
def as_key(keys) -> Callable[[str], dict[str, str]]:
    """Headers of one of the keys."""
    return lambda name: {"Authorization": f"Bearer {keys[name]}"}
