"""Tasks in memory: loaded once, let go for others, never while in use, never a stale one."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from adapterbank.errors import BankError, PackageError, TaskNotFound
from adapterbank.serving.arena import SITES, Arena, Form
from adapterbank.serving.onnx_pass import OnnxPass
from adapterbank.store.package import Package, as_arrays
from serving.conftest import make_store
from serving.tasks import publish, random_task

NAMES = [f"t{i}" for i in range(6)]
TEXT = "the film was good"


@pytest.fixture
def some(tmp_path, encoder):
    return make_store(tmp_path / "bank", encoder, {name: {} for name in NAMES})


def room_for(count: int, engine, store) -> int:
    manifest = store.info(NAMES[0]).manifest
    one = engine.passes.choose(manifest).bytes_of(manifest) + 4 * 3 * 32
    return count * one


@pytest.fixture
def small(engine_on, some):
    """An engine with room for three tasks."""
    return engine_on(some, memory=room_for(3, engine_on(some), some))


def test_a_task_is_loaded_once(small) -> None:
    for _ in range(3):
        small.answer([("t0", TEXT), ("t0", TEXT)])
    assert (small.residency.counts.loads, small.residency.counts.hits) == (1, 2)


def test_those_used_longest_ago_go(small) -> None:
    for name in ("t0", "t1", "t2", "t0", "t3"):  # t1 goes
        small.answer([(name, TEXT)])
    loads = small.residency.counts.loads
    small.answer([("t0", TEXT), ("t2", TEXT), ("t3", TEXT)])
    assert small.residency.counts.loads == loads
    small.answer([("t1", TEXT)])
    assert small.residency.counts.loads == loads + 1
    assert len(small.residency) == 3


def test_more_tasks_than_room_are_all_answered(small, engine_on, some) -> None:
    inputs = [(name, TEXT) for name in NAMES]
    expected = engine_on(some).answer(inputs)
    found = small.answer(inputs)
    assert [each.label for each in found] == [each.label for each in expected]
    assert len(small.residency) <= 3


def test_a_task_that_needs_more_than_there_is_says_so(engine_on, some) -> None:
    with pytest.raises(BankError, match=r"needs .* MB of memory"):
        engine_on(some, memory=1000).residency.acquire(some.find("t0"))


def test_a_task_in_use_stays(small, some) -> None:
    held = [small.residency.acquire(some.find(name)) for name in NAMES[:3]]
    assert small.residency.acquire(some.find("t3"), wait=False) is None
    small.residency.release(held[1])
    taken = small.residency.acquire(some.find("t3"), wait=False)
    assert taken is not None
    assert small.residency.acquire(some.find("t0"), wait=False) is held[0]


def test_who_waits_for_room_gets_it(small, some) -> None:
    held = [small.residency.acquire(some.find(name)) for name in NAMES[:3]]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(small.residency.acquire, some.find("t3"))
        assert not waiting.done()
        small.residency.release(held[0])
        assert waiting.result(timeout=10).entry == some.find("t3")


def test_tasks_that_are_kept_do_not_go(small, some) -> None:
    task = some.find("t0").task
    small.residency.keep(task)
    for name in NAMES:
        small.answer([(name, TEXT)])
    loads = small.residency.counts.loads
    small.answer([("t0", TEXT)])
    assert small.residency.counts.loads == loads


def test_many_threads_load_a_task_once(engine_on, some, monkeypatch) -> None:
    engine = engine_on(some)
    load, loads, begun = some.load, [], threading.Barrier(4)

    def slowly(entry, known):
        loads.append(entry)
        return load(entry, known)

    monkeypatch.setattr(some, "load", slowly)

    def ask(_):
        begun.wait()
        return engine.answer([("t0", TEXT)])[0].label

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 1
    assert len(loads) == 1


def test_packages_from_elsewhere_are_fetched_side_by_side(engine_on, encoder, monkeypatch) -> None:
    far = make_store(f"memory://{uuid.uuid4()}", encoder, {name: {} for name in NAMES[:2]})
    engine, load, both = engine_on(far), far.load, threading.Barrier(2)

    def slowly(entry, known):
        both.wait(10)  # broken if one is loaded after the other
        return load(entry, known)

    monkeypatch.setattr(far, "load", slowly)
    assert all(far.is_far(name) for name in NAMES[:2])
    found = engine.answer([(name, TEXT) for name in NAMES[:2]])
    assert all(each.error is None for each in found)
    assert not any(far.is_far(name) for name in NAMES[:2])


def test_two_that_hold_what_the_other_wants_both_get_it(engine_on, some) -> None:
    engine = engine_on(some, memory=room_for(1, engine_on(some), some))

    def ask(names):
        return [engine.answer([(name, TEXT) for name in names]) for _ in range(30)]

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask, names) for names in (NAMES[:3], NAMES[2::-1])]
        for each in asking:
            assert all(row.error is None for rows in each.result(timeout=60) for row in rows)


def test_what_another_thread_loads_is_not_waited_for_unless_asked(engine_on, some) -> None:
    residency, entry = engine_on(some).residency, some.find("t0")
    residency._loading.add((entry.task, entry.version.package))
    assert residency.acquire(entry, wait=False) is None


def test_loading_holds_nobody_up(engine_on, some, monkeypatch) -> None:
    engine = engine_on(some)
    engine.answer([("t0", TEXT)])
    load, go_on = some.load, threading.Event()

    def stuck(entry, known):
        assert go_on.wait(10)
        return load(entry, known)

    monkeypatch.setattr(some, "load", stuck)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.answer, [("t1", TEXT)])
        assert engine.answer([("t0", TEXT)])[0].error is None
        assert not waiting.done()
        go_on.set()
        assert waiting.result(timeout=10)[0].error is None


def test_published_again_is_served_at_once(engine_on, some, encoder) -> None:
    engine = engine_on(some)
    first = engine.answer([("t0", TEXT)])[0]
    publish(some, encoder, "t0", seed=99)
    second = engine.answer([("t0", TEXT)])[0]
    assert second.probabilities != first.probabilities
    assert engine.answer([("t0@1", TEXT)])[0].probabilities == pytest.approx(first.probabilities)
    some.rollback("t0", 1)
    assert engine.answer([("t0", TEXT)])[0].probabilities == pytest.approx(first.probabilities)


def test_a_removed_task_is_not_answered_and_leaves_memory(engine_on, some) -> None:
    engine = engine_on(some)
    engine.answer([("t0", TEXT), ("t1", TEXT)])
    some.remove("t0", purge=True)
    gone, there = engine.answer([("t0", TEXT), ("t1", TEXT)])
    assert isinstance(gone.error, TaskNotFound)
    assert there.error is None
    assert len(engine.residency) == 1


@pytest.mark.parametrize("again", [False, True], ids=["removed", "published again"])
def test_what_goes_just_before_it_is_read(engine_on, some, encoder, monkeypatch, again) -> None:
    engine = engine_on(some)
    load = some.load

    def late(entry, known=None):
        monkeypatch.setattr(some, "load", load)
        some.remove("t0", purge=True)
        if again:
            publish(some, encoder, "t0", seed=99)
        return load(entry, known)

    monkeypatch.setattr(some, "load", late)
    (answer,) = engine.answer([("t0", TEXT)])
    if again:
        assert answer == engine.answer([("t0", TEXT)])[0]
    else:
        assert isinstance(answer.error, TaskNotFound)


def test_a_damaged_package_spoils_its_own_rows_alone(engine_on, some) -> None:
    entry = some.find("t0")
    tenant, _, task = entry.task.rpartition("/")
    folder = some.files.local / "tasks" / (tenant or "default") / task / "packages"
    file = folder / entry.version.package / "weights.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-5] ^= 1
    file.write_bytes(raw)
    bad, good, unknown = engine_on(some).answer([("t0", TEXT), ("t1", TEXT), ("nope", TEXT)])
    assert isinstance(bad.error, PackageError)
    assert good.error is None
    assert isinstance(unknown.error, TaskNotFound)


def test_a_bottleneck_is_filled_up_with_zeros_exactly() -> None:
    form = Form(layers=1, width=4, embeddings=4)
    norms = {
        f"{name}.{leaf}": np.full(4, i, np.float32)
        for i, name in enumerate(
            ("embeddings.norm", "layer.0.attention.norm", "layer.0.output.norm")
        )
        for leaf in ("weight", "bias")
    }
    draw = np.random.default_rng(0)
    biases = {f"layer.0.{s}.bias": draw.standard_normal(4, np.float32) for s in SITES}
    arena = Arena(form, 8, 3, {**norms, **biases})
    tensors = {
        "layer.0.output.down.weight": draw.standard_normal((3, 4), np.float32),
        "layer.0.output.down.bias": draw.standard_normal(3, np.float32),
        "layer.0.output.up.weight": draw.standard_normal((4, 3), np.float32),
        "layer.0.output.up.bias": draw.standard_normal(4, np.float32),
    }
    slot = arena.put(tensors)
    inputs = arena.inputs
    site = slot * form.sites + 1
    assert (inputs["down.weight"][site, :3] == tensors["layer.0.output.down.weight"]).all()
    assert not inputs["down.weight"][site, 3:].any()
    assert (inputs["up.weight"][site, :, :3] == tensors["layer.0.output.up.weight"]).all()
    assert not inputs["up.weight"][site, :, 3:].any()
    assert not inputs["up.weight"][site - 1].any()
    assert (inputs["norm.weight"][site] == 2).all()
    # The base's bias is part of the adapter's own, also where there is no adapter.
    bias, at = biases["layer.0.output.bias"], "layer.0.output"
    before = tensors[f"{at}.down.weight"] @ bias + tensors[f"{at}.down.bias"]
    np.testing.assert_allclose(inputs["down.bias"][site, 0, :3], before, rtol=1e-6)
    assert not inputs["down.bias"][site, 0, 3:].any()
    assert (inputs["up.bias"][site, 0] == bias + tensors[f"{at}.up.bias"]).all()
    assert (inputs["up.bias"][site - 1, 0] == biases["layer.0.attention.bias"]).all()
    arena.free(slot)
    assert arena.put({}) == slot
    assert not arena.inputs["down.weight"][site].any()


def arena_of(slots: int) -> Arena:
    form = Form(layers=1, width=1024, embeddings=1024)
    names = ("embeddings.norm", "layer.0.attention.norm", "layer.0.output.norm")
    norms = {f"{n}.{leaf}": np.ones(1024, np.float32) for n in names for leaf in ("weight", "bias")}
    norms |= {f"layer.0.{site}.bias": np.ones(1024, np.float32) for site in SITES}
    return Arena(form, 8, slots, norms)


def ones(d: int = 1024) -> dict[str, np.ndarray]:
    shapes = {"down.weight": (8, d), "down.bias": (8,), "up.weight": (d, 8), "up.bias": (d,)}
    return {
        f"layer.0.{site}.{name}": np.ones(shape, np.float32)
        for site in SITES
        for name, shape in shapes.items()
    }


def test_a_freed_slot_keeps_its_memory_until_it_is_to_cool() -> None:
    arena = arena_of(3)
    slots = [arena.put(ones()) for _ in range(3)]
    for slot in slots:
        arena.free(slot)
    assert arena.warm == 3 * arena.form.bytes(8)
    arena.cool()
    assert arena.warm == 2 * arena.form.bytes(8)
    sites = arena.form.sites
    full = [s for s in slots if arena.inputs["down.weight"][s * sites : (s + 1) * sites].any()]
    assert full == slots[1:]
    assert arena.put({}) == slots[-1]
    assert sorted([slots[-1], *(arena.put(ones()) for _ in slots[1:])]) == sorted(slots)
    with pytest.raises(BankError, match="no room"):
        arena.put(ones())
    for _ in range(3):
        arena.cool()  # nothing is warm
    assert arena.warm == 0


def test_a_slot_that_cannot_be_written_is_free_again() -> None:
    arena = arena_of(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="broadcast"):
            arena.put(ones(16))
    arena.put(ones())


def test_freed_slots_of_all_sizes_keep_a_bounded_memory(encoder, engine_on, some) -> None:
    export = engine_on(some).passes.onnx.export
    budget = 2**21
    runs_on = OnnxPass(export, budget)
    for size in (8, 16, 32, 64):
        manifest, tensors = random_task(encoder, 0, size=size)
        package = Package(manifest, as_arrays(tensors))
        seats = [runs_on.seat(package) for _ in range(budget // runs_on.bytes_of(manifest))]
        for seat in seats:
            runs_on.leave(seat)
        warm = sum(arena.warm for arena in runs_on._arenas.values())
        assert 0 < warm <= max(budget / 16, runs_on.bytes_of(manifest))
        assert warm < len(seats) * runs_on.bytes_of(manifest) / 4


def test_a_seat_in_torch_does_not_keep_the_weights_file(encoder, engine_on, some) -> None:
    package = some.load(some.find("t0"))
    runs_on = engine_on(some, onnx=False).passes.torch
    norms = runs_on.seat(package).overlay.norms
    for array in package.arrays.values():
        array.fill(7)
    for weight, bias in norms.values():
        assert not (weight == 7).any()
        assert not (bias == 7).any()


def test_a_version_that_never_was_leaves_the_task_in_memory(engine_on, some) -> None:
    engine = engine_on(some)
    for _ in range(2):
        assert engine.answer([("t0", TEXT)])[0].error is None
        assert isinstance(engine.answer([("t0@99", TEXT)])[0].error, TaskNotFound)
    assert engine.residency.counts.loads == 1


def test_what_cannot_be_fetched_leaves_the_others_free(engine_on, encoder, monkeypatch) -> None:
    far = make_store(f"memory://{uuid.uuid4()}", encoder, {name: {} for name in NAMES[:3]})
    engine, load = engine_on(far), far.load

    def failing(entry, known):
        if entry.task.endswith("t0"):
            raise RuntimeError("not one of ours")
        return load(entry, known)

    monkeypatch.setattr(far, "load", failing)
    with pytest.raises(RuntimeError, match="not one of ours"):
        engine.answer([(name, TEXT) for name in NAMES[:3]])
    assert {each.pins for each in engine.residency._residents.values()} == {0}


def test_what_cannot_be_seated_spoils_its_own_rows_alone(engine_on, some, monkeypatch) -> None:
    engine = engine_on(some, memory=room_for(2, engine_on(some), some))
    seat, calls = engine.passes.onnx.seat, []

    def failing(package):
        calls.append(package)
        if len(calls) == 1:
            raise ValueError("could not broadcast")
        return seat(package)

    monkeypatch.setattr(engine.passes.onnx, "seat", failing)
    bad, good = engine.answer([("t0", TEXT), ("t1", TEXT)])
    assert isinstance(bad.error, PackageError)
    assert "broadcast" not in str(bad.error)
    assert good.error is None
    assert engine.residency.bytes == next(iter(engine.residency._residents.values())).bytes
