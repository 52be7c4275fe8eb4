"""A tiny base with its exports, and a store on it with tasks of every form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.serving.engine import Engine
from adapterbank.serving.passes import Passes
from adapterbank.store.manifest import BaseRecord
from adapterbank.store.store import Store
from serving.tasks import publish
from tiny import save_base

MEMORY = 2**24
FORMS = {
    "plain": {},
    "small": {"size": 3},
    "large": {"size": 24},
    "pairs": {"pair": True},
    "many": {"labels": tuple(f"label {i}" for i in range(40))},
    "tags": {"kind": "multi-label"},
    "stars": {"kind": "regression"},
    "answers": {"kind": "span"},
    "upper": {"layers": (2, 3)},
    "upper-answers": {"layers": (3,), "kind": "span", "size": 3},
    "outputs": {"where": "output"},
    "still-norms": {"train_layer_norms": False},
    "norms": {"method": "layer-norm"},
    "head": {"method": "head"},
    "head-stars": {"method": "head", "kind": "regression"},
}
# Served by torch alone: the first ones in the shared pass, the others apart.
VARIANTS = {
    "relu": {"activation": "relu"},
    "parallel": {"insertion": "parallel"},
    "gated": {"gate": True},
    "normed": {"norm": "layer"},
    "batch-normed": {"norm": "batch"},
    "deep": {"hidden_layers": 2},
}
COSTLY = {"full": {"method": "full"}, "top": {"method": "top-k"}}
PAIRED = {"pairs", "answers", "upper-answers"}


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> Encoder:
    return load_encoder(str(save_base(tmp_path_factory.mktemp("served"))))


def make_store(place: Path | str, encoder: Encoder, forms: dict[str, dict]) -> Store:
    store = Store.create(place, BaseRecord(encoder.name, encoder.fingerprint))
    for seed, (name, form) in enumerate(forms.items()):
        publish(store, encoder, name, seed, **form)
    return store


@pytest.fixture(scope="session")
def store(tmp_path_factory, encoder) -> Store:
    """Not to be changed."""
    return make_store(tmp_path_factory.mktemp("bank"), encoder, FORMS | VARIANTS | COSTLY)


@pytest.fixture(scope="session")
def engine_on(encoder) -> Callable[..., Engine]:
    def make(store: Store, *, onnx: bool = True, memory: int = MEMORY, threads: int = 0) -> Engine:
        passes = Passes(
            encoder.fingerprint, lambda: encoder, memory=memory, threads=threads, onnx=onnx
        )
        return Engine(store, passes, memory)

    return make
