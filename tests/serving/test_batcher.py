"""Requests become batches: together, fairly, within bounds, and each with its own answer."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from adapterbank.errors import Busy, TaskNotFound
from adapterbank.serving.batcher import Batcher

TEXT = "the film was good"


@pytest.fixture
def engine(engine_on, store):
    return engine_on(store)


@contextmanager
def batching(engine, **settings):
    batcher = Batcher(engine, **settings)
    try:
        yield batcher
    finally:
        batcher.close()


class Gate:
    """Holds the first batch up, so that others wait behind it."""

    def __init__(self, engine, monkeypatch) -> None:
        self.open, self.reached = threading.Event(), threading.Event()
        self.batches: list[int] = []
        run = engine.passes.onnx.run

        def gated(rows):
            self.batches.append(len(rows))
            self.reached.set()
            assert self.open.wait(10)
            return run(rows)

        monkeypatch.setattr(engine.passes.onnx, "run", gated)


def test_the_same_answers_as_without(engine) -> None:
    with batching(engine) as batcher:
        inputs = [("plain", TEXT), ("small", "a bad meal"), (None, TEXT), ("stars", "it was awful")]
        with ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(lambda i: batcher.submit(i[0], [i[1]]).result().predictions[0], inputs * 5)
            )
    for answer, expected in zip(found, engine.answer(inputs * 5), strict=True):
        assert answer.label == expected.label
        assert answer.value == pytest.approx(expected.value, abs=1e-4)


def test_what_waits_runs_together(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    with batching(engine) as batcher:
        first = batcher.submit("plain", [TEXT])
        assert gate.reached.wait(10)
        rest = [batcher.submit(name, [TEXT, TEXT]) for name in ("small", "large", "upper")]
        gate.open.set()
        assert len(first.result(10).predictions) == 1
        assert all(len(each.result(10).predictions) == 2 for each in rest)
    assert gate.batches == [1, 6]


def test_a_long_request_runs_in_several_batches(engine) -> None:
    seen = []
    with batching(engine, batch_tokens=32, watch=seen.append) as batcher:
        answers = batcher.submit("plain", [TEXT] * 40).result(10).predictions
    assert len(answers) == 40
    assert len(seen) > 5
    assert max(each.tokens for each in seen) <= 32
    assert {each.label for each in answers} == {engine.answer([("plain", TEXT)])[0].label}


def test_a_flood_does_not_hold_another_tenant_up(engine, monkeypatch) -> None:
    order = []
    gate = Gate(engine, monkeypatch)
    with batching(engine, batch_tokens=64) as batcher:
        flood = [batcher.submit("plain", [TEXT] * 10, tenant="flood") for _ in range(10)]
        small = batcher.submit("small", [TEXT], tenant="small")
        for name, future in [*((str(i), f) for i, f in enumerate(flood)), ("small", small)]:
            future.add_done_callback(lambda _, name=name: order.append(name))
        gate.open.set()
        small.result(10)
        [each.result(10) for each in flood]
    assert order.index("small") <= 2


def test_a_full_queue_turns_requests_away(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    with batching(engine, batch_tokens=8, queue_tokens=40) as batcher:
        held = batcher.submit("plain", [TEXT])
        assert gate.reached.wait(10)
        waiting = batcher.submit("plain", [TEXT] * 8)
        with pytest.raises(Busy, match="Too much is waiting"):
            batcher.submit("plain", [TEXT])
        gate.open.set()
        found = held.result(10).predictions + waiting.result(10).predictions
        assert len(found) == 9
        assert len(batcher.submit("plain", [TEXT]).result(10).predictions) == 1


def test_too_late_is_said_and_not_run(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    with batching(engine) as batcher:
        first = batcher.submit("plain", [TEXT])
        assert gate.reached.wait(10)
        late = batcher.submit("small", [TEXT], seconds=0.01)
        time.sleep(0.05)
        gate.open.set()
        assert len(first.result(10).predictions) == 1
        with pytest.raises(Busy, match="no time"):
            late.result(10)
    assert gate.batches == [1]


def test_a_cancelled_request_is_not_run(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    with batching(engine) as batcher:
        first = batcher.submit("plain", [TEXT])
        assert gate.reached.wait(10)
        given_up = batcher.submit("small", [TEXT])
        assert given_up.cancel()
        gate.open.set()
        first.result(10)
        with pytest.raises(CancelledError):
            given_up.result(10)
    assert gate.batches == [1]


def test_given_up_in_the_moment_that_it_fails(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    with batching(engine) as batcher:
        first = batcher.submit("plain", [TEXT])
        assert gate.reached.wait(10)
        late = batcher.submit("small", [TEXT], seconds=0)
        monkeypatch.setattr(late, "done", lambda: late.cancel() and False)  # just after it is asked
        gate.open.set()
        first.result(10)
        assert batcher.submit("large", [TEXT]).result(10).predictions[0].error is None


def test_who_counts_cannot_stop_the_batches(engine) -> None:
    def watch(_):
        raise RuntimeError("cannot count")

    with batching(engine, watch=watch) as batcher:
        for _ in range(2):
            assert batcher.submit("plain", [TEXT]).result(10).predictions[0].error is None


def test_one_bad_request_does_not_spoil_a_batch(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    run = engine.passes.onnx.run
    small = engine.residency.acquire(engine.store.find("small")).seat

    def failing(rows):
        if any(row.seat is small for row in rows):
            raise RuntimeError("this one cannot be run")
        return run(rows)

    monkeypatch.setattr(engine.passes.onnx, "run", failing)
    with batching(engine) as batcher:
        first = batcher.submit("plain", [TEXT])
        assert gate.reached.wait(10)
        good, bad = batcher.submit("large", [TEXT]), batcher.submit("small", [TEXT])
        gate.open.set()
        assert len(first.result(10).predictions) == len(good.result(10).predictions) == 1
        with pytest.raises(RuntimeError, match="cannot be run"):
            bad.result(10)


def test_an_unknown_task_is_told_at_once_and_others_go_on(engine) -> None:
    with batching(engine) as batcher:
        with pytest.raises(TaskNotFound):
            batcher.submit("nope", [TEXT])
        assert batcher.submit("plain", [TEXT, 5]).result(10).predictions[1].error is not None


def test_a_batch_that_is_run_apart_is_counted_once(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    run, seen = engine.passes.onnx.run, []

    def failing(rows):
        if len(rows) > 1:
            raise RuntimeError("not together")
        return run(rows)

    monkeypatch.setattr(engine.passes.onnx, "run", failing)
    with batching(engine, watch=seen.append) as batcher:
        asked = [batcher.submit("plain", [TEXT])]
        assert gate.reached.wait(10)
        asked += [batcher.submit(name, [TEXT]) for name in ("small", "large", "upper")]
        gate.open.set()
        assert all(each.result(10).predictions[0].error is None for each in asked)
    assert [each.rows for each in seen] == [1, 3]


def test_closing_answers_what_waits(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    batcher = Batcher(engine)
    first = batcher.submit("plain", [TEXT])
    assert gate.reached.wait(10)
    second = batcher.submit("small", [TEXT])
    gate.open.set()
    batcher.close()
    assert first.done()
    assert second.done()
    with pytest.raises(Busy, match="going down"):
        batcher.submit("plain", [TEXT]).result(1)


def test_nothing_stays_pinned(engine, monkeypatch) -> None:
    gate = Gate(engine, monkeypatch)
    with batching(engine) as batcher:
        futures = [batcher.submit(name, [TEXT]) for name in ("plain", "small", "large")]
        futures[2].cancel()
        gate.open.set()
        futures[0].result(10)
        futures[1].result(10)
    assert {each.pins for each in engine.residency._residents.values()} == {0}
