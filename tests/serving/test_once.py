"""Made once, whichever threads ask."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from adapterbank.serving.once import Once
from adapterbank.serving.open import open_bank_engine


def test_threads_that_ask_at_once_get_the_same() -> None:
    made, begun = [], threading.Barrier(4)

    def make():
        made.append(object())
        time.sleep(0.05)
        return made[-1]

    once = Once(make)

    def ask(_):
        begun.wait(10)
        return once()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(4))) == set(made)
    assert len(made) == 1


def test_what_failed_is_tried_again_and_nothing_is_a_value_too() -> None:
    answers = [OSError("no room"), None]

    def make():
        answer = answers.pop(0)
        if answer:
            raise answer
        return answer

    once = Once(make)
    with pytest.raises(OSError, match="no room"):
        once()
    assert once() is None
    assert once() is None


def test_once_made_it_waits_for_no_lock() -> None:
    lock = threading.RLock()
    once = Once(lambda: 7, lock)
    once()
    with lock, ThreadPoolExecutor(1) as pool:
        assert pool.submit(once).result(10) == 7


def test_an_engine_loads_the_encoder_once(store, encoder, monkeypatch) -> None:
    loads, begun = [], threading.Barrier(4)

    def slowly(*_, **__):
        loads.append(1)
        time.sleep(0.05)
        return encoder

    monkeypatch.setattr("adapterbank.model.encoder.load_encoder", slowly)
    engine = open_bank_engine(store.files.local)

    def ask(name):
        begun.wait(10)
        return engine.answer([(name, "good")])[0].error

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, ("relu", "gated", "full", "top"))) == [None] * 4
    assert len(loads) == 1
