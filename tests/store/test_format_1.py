"""A bank of format 1, frozen: every later version must read it. Never remake it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from adapterbank.store.manifest import BaseRecord, Confusion, Probe
from adapterbank.store.store import Store

FROZEN = Path(__file__).parent / "format-1"


@pytest.fixture
def store() -> Store:
    return Store.open(FROZEN)


def test_the_bank_and_its_records(store: Store) -> None:
    assert store.base == BaseRecord("minilm", "b" * 64)
    assert list(store.tasks()) == ["ham", "shop/spam"]
    record = store.record("shop/spam")
    assert (record.sequence, record.action, record.current, record.highest) == (3, "rollback", 1, 2)
    assert [each.version for each in record.versions] == [1, 2]
    assert [each.bytes for each in record.versions] == [4852, 4571]
    assert record.versions[0].published == "2026-11-16T00:00:00Z"


@pytest.mark.parametrize(("version", "precision"), [(1, "fp32"), (2, "fp16")])
def test_the_packages(store: Store, version: int, precision: str) -> None:
    package = store.load(store.find(f"shop/spam@{version}"))
    manifest, tensors = package.manifest, package.tensors
    assert (manifest.format, manifest.task, manifest.precision) == (1, "shop/spam", precision)
    assert manifest.origin == ("" if version == 1 else "shop/spam@1")
    assert manifest.note == "A frozen package: readers of every later version must still read it."
    assert manifest.labels == ("no", "yes")
    assert manifest.adapter is not None
    assert (manifest.adapter.size, manifest.adapter.activation) == (2, "gelu_tanh")
    assert manifest.columns == {"text": "message", "label": "ist Müll?"}
    assert manifest.dev == {"accuracy": 0.9375, "f1": 1.0}
    assert manifest.test == {"accuracy": 1 / 3}
    assert manifest.confusion == (Confusion("no", "no", 3), Confusion("yes", "no", 1))
    assert manifest.data.balance == {"no": 6, "yes": 4}
    assert manifest.probes == (Probe((101, 7, 102), (0.25, -1.5), "d" * 64),)
    assert manifest.statistics == {"mean": [0.5, 0.25]}
    assert manifest.temperature == 1.25
    # Counted off in 64ths through the names in order: exact in both precisions.
    number = 0
    for name in sorted(tensors):
        count = tensors[name].numel()
        expected = torch.arange(number, number + count, dtype=torch.float32) / 64 - 1
        assert torch.equal(tensors[name].flatten(), expected), name
        number += count
    assert number == 138


def test_the_span_task(store: Store) -> None:
    package = store.load(store.find("ham"))
    assert (package.manifest.kind, package.manifest.threshold) == ("span", 0.5)
    assert package.tensors["head.bias"].tolist() == [1.0, 2.0]


def test_it_can_be_added_to(tmp_path: Path, store: Store) -> None:
    copy = Store.open(shutil.copytree(FROZEN, tmp_path / "bank"))
    package = store.load(store.find("shop/spam"))
    entry = copy.publish("shop/spam", package.manifest, package.tensors)
    assert str(entry) == "shop/spam@3"
    assert entry.version.package == store.find("shop/spam").version.package
