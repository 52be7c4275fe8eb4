"""Mixed traffic from many threads while tasks are published, rolled back and removed."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from adapterbank.errors import TaskNotFound
from adapterbank.serving.batcher import Batcher
from adapterbank.serving.predictor import Predictor
from serving.conftest import make_store
from serving.tasks import publish

NAMES = [f"t{i}" for i in range(12)]
TEXTS = ["the film was good", "a bad meal", "it was awful", "great book the room was fine"]
THREADS = 6


class Traffic:
    """Asks, changes, and keeps what came for checking afterwards."""

    def __init__(self, engine, encoder) -> None:
        self.engine, self.store, self.encoder = engine, engine.store, encoder
        self.batcher = Batcher(engine)
        self.stop = threading.Event()
        self.expected: dict[tuple[str, int], np.ndarray] = {}
        self.worst: defaultdict[tuple[str, int], float] = defaultdict(float)
        self.found: list[tuple[str, int, int, list[float]]] = []
        self.missing: set[str] = set()
        self.removed: set[str] = set()
        self.problems: list[BaseException] = []
        for name in NAMES:
            self.learn(name)

    def learn(self, name: str) -> None:
        """What a version answers is taken down the plain way."""
        entry = self.store.find(name)
        package = self.store.load(entry)
        with self.engine.passes.torch.lock, Predictor(self.encoder, package) as predictor:
            answers = predictor.answer(TEXTS)
        self.expected[name, entry.version.version] = np.array(
            [list(each.probabilities.values()) for each in answers]
        )

    def ask(self, seed: int) -> None:
        draw = random.Random(seed)
        while not self.stop.is_set():
            name, text = draw.choice(NAMES), draw.randrange(len(TEXTS))
            try:
                answered = self.batcher.submit(name, [TEXTS[text]], tenant=str(seed)).result(30)
            except TaskNotFound:
                self.missing.add(name)
                continue
            (answer,) = answered.predictions
            chances = list(answer.probabilities.values())
            self.found.append((name, answered.entry.version.version, text, chances))

    def change(self) -> None:
        draw = random.Random(0)
        while not self.stop.wait(0.02):
            name = draw.choice(NAMES)
            versions = [each.version for each in self.store.record(name).versions]
            kind = draw.choice(["publish", "publish", "rollback", "remove", "purge"])
            if kind in ("remove", "purge"):
                self.removed.add(name)
                self.store.remove(name, purge=kind == "purge")
            if kind != "rollback" or not versions:
                publish(self.store, self.encoder, name, draw.randrange(10**9))
                self.learn(name)
            else:
                self.store.rollback(name, draw.choice(versions))

    def run(self, seconds: float) -> list[float]:
        """Memory on the way, in MB."""
        jobs = [lambda seed=seed: self.ask(seed) for seed in range(THREADS)] + [self.change]
        threads = [threading.Thread(target=self._watched, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        memory = []
        for _ in range(10):
            time.sleep(seconds / 10)
            memory.append(resident_mb())
            self.check()
        self.stop.set()
        for thread in threads:
            thread.join()
        self.batcher.close()
        self.check()
        return memory

    def _watched(self, job) -> None:
        try:
            job()
        except BaseException as error:
            self.problems.append(error)
            self.stop.set()

    def check(self) -> None:
        """Compare what has come so far, and forget it."""
        later = []
        while self.found:
            name, version, text, chances = self.found.pop()
            if (name, version) not in self.expected:  # published this moment
                later.append((name, version, text, chances))
                continue
            off = float(np.abs(np.array(chances) - self.expected[name, version][text]).max())
            self.worst[name, version] = max(self.worst[name, version], off)
        if not self.stop.is_set():
            self.found += later
        else:
            assert not later


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


@pytest.mark.parametrize(
    "seconds", [3.0, pytest.param(600.0, marks=pytest.mark.slow)], ids=["short", "ten minutes"]
)
def test_no_wrong_answer_whatever_changes_meanwhile(tmp_path, encoder, engine_on, seconds) -> None:
    store = make_store(tmp_path / "bank", encoder, {name: {"size": 8} for name in NAMES})
    probe = engine_on(store)
    manifest = store.info(NAMES[0]).manifest
    room = 8 * (probe.passes.choose(manifest).bytes_of(manifest) + 1000)
    traffic = Traffic(engine_on(store, memory=room), encoder)
    memory = traffic.run(seconds)
    assert traffic.problems == []
    assert len(traffic.worst) > 12
    assert max(traffic.worst.values()) < 1e-4
    assert traffic.missing <= traffic.removed
    assert len(traffic.engine.residency) <= 8
    if seconds > 60:
        assert memory[-1] - memory[2] < 30
