"""Any walk through a store, against a plain dictionary that does the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from adapterbank.errors import TaskNotFound
from adapterbank.store.package import pack
from adapterbank.store.store import Store
from store.samples import BASE, manifest, tensors

NAMES = st.sampled_from(["spam", "ham", "shop/spam"])
PACKED = [pack(manifest(max_length=seed + 1), tensors(seed=seed)) for seed in range(4)]


class Model:
    """A task as a plain dictionary: versions, which is current, and how many there ever were."""

    def __init__(self) -> None:
        self.versions: dict[int, int] = {}
        self.current: int | None = None
        self.highest = 0


class Walk(RuleBasedStateMachine):
    """Publish, roll back, remove, purge, collect, reopen; in any order."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name) / "bank"
        self.store = Store.create(self.home, BASE)
        self.model: dict[str, Model] = {}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def task(self, name: str) -> Model:
        return self.model.setdefault(name, Model())

    @rule(name=NAMES, seed=st.integers(0, 3))
    def publish(self, name: str, seed: int) -> None:
        task = self.task(name)
        entry = self.store.publish_packed(name, PACKED[seed])
        task.highest += 1
        task.versions[task.highest] = seed
        task.current = task.highest
        assert entry.version.version == task.highest

    @rule(name=NAMES, version=st.integers(1, 6))
    def rollback(self, name: str, version: int) -> None:
        task = self.task(name)
        if version not in task.versions:
            with pytest.raises(TaskNotFound):
                self.store.rollback(name, version)
            return
        self.store.rollback(name, version)
        task.current = version

    @rule(name=NAMES, purge=st.booleans())
    def remove(self, name: str, purge: bool) -> None:
        task = self.task(name)
        if task.current is None and not (purge and task.versions):
            with pytest.raises(TaskNotFound):
                self.store.remove(name, purge=purge)
            return
        self.store.remove(name, purge=purge)
        task.current = None
        if purge:
            task.versions.clear()

    @rule(keep=st.none() | st.integers(1, 3))
    def collect(self, keep: int | None) -> None:
        self.store.collect(keep=keep, older_than=0)
        for task in self.model.values():
            if keep is not None:
                kept = {*sorted(task.versions)[-keep:], task.current}
                task.versions = {v: seed for v, seed in task.versions.items() if v in kept}

    @rule()
    def reopen(self) -> None:
        self.store = Store.open(self.home)

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def is_what_the_dictionary_says(self) -> None:
        there = {name for name, task in self.model.items() if task.current is not None}
        assert set(self.store.tasks()) == there
        for name, task in self.model.items():
            record = self.store.record(name)
            assert [each.version for each in record.versions] == sorted(task.versions)
            assert (record.current, record.highest) == (task.current, task.highest)
            for version, seed in task.versions.items():
                if task.current is None:
                    continue
                entry = self.store.find(f"{name}@{version}")
                assert entry.version.package == PACKED[seed].digest
                assert self.store.manifest(entry) == PACKED[seed].manifest
            if task.current is not None:
                package = self.store.load(self.store.find(name))
                assert package.manifest == PACKED[task.versions[task.current]].manifest


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
