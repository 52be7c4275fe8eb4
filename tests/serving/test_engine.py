"""Any rows of any tasks in one pass: each is answered as if it were alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapterbank.errors import AttachError, BankError, DataError, PackageError
from adapterbank.serving import cut
from adapterbank.serving.predictor import Predictor, embed
from adapterbank.serving.sessions import Sessions
from adapterbank.verify import check_probes
from serving.conftest import COSTLY, FORMS, PAIRED, VARIANTS, make_store
from serving.tasks import random_task
from tiny import WORDS

WORD = st.sampled_from(WORDS[5:])
TEXT = st.lists(WORD, min_size=1, max_size=40).map(" ".join)
PAIR = st.fixed_dictionaries({"text_a": TEXT, "text_b": TEXT}) | st.fixed_dictionaries(
    {"question": TEXT, "context": TEXT}
)


def asked(names):
    """An input of one of the tasks, or of none."""

    def inputs(name):
        if name in PAIRED:
            keys = ("question", "context") if "answers" in name else ("text_a", "text_b")
            return st.tuples(TEXT, TEXT).map(lambda pair: dict(zip(keys, pair, strict=True)))
        return TEXT if name else TEXT | PAIR

    return st.sampled_from([None, *names]).flatmap(
        lambda name: st.tuples(st.just(name), inputs(name))
    )


@pytest.fixture(scope="session")
def engines(engine_on, store):
    return {"onnx": engine_on(store), "torch": engine_on(store, onnx=False)}


@pytest.fixture(scope="session")
def alone(store, encoder):
    """The answer of one task to one input, by the plain way."""
    packages = {name: store.load(store.find(name)) for name in FORMS | VARIANTS | COSTLY}

    def answer(name, value):
        if name is None:
            return embed(encoder, [value])[0]
        with Predictor(encoder, packages[name]) as predictor:
            return predictor.answer([value])[0]

    return answer


def same(found, expected, tolerance) -> None:
    assert found.error is None
    assert expected.error is None
    one, other = found.as_dict(), expected.as_dict()
    assert one.keys() == other.keys()
    for key, value in other.items():
        if key == "probabilities":
            np.testing.assert_allclose(
                list(one[key].values()), list(value.values()), atol=tolerance
            )
        elif key in ("value", "embedding", "score"):
            np.testing.assert_allclose(one[key], value, atol=tolerance, rtol=tolerance)
        elif key in ("label", "labels"):
            if not close_call(other, tolerance):
                assert one[key] == value
        elif not close_call(other, tolerance):
            assert one[key] == value


def close_call(answer: dict, tolerance: float) -> bool:
    """Whether rounding may decide it."""
    chances = sorted(answer.get("probabilities", {}).values())
    if "labels" in answer:
        return any(abs(p - 0.5) < 10 * tolerance for p in chances)
    return len(chances) > 1 and chances[-1] - chances[-2] < 10 * tolerance


@contextmanager
def always_apart(really: bool) -> Iterator[None]:
    """Every batch is cut into runs for each thread, as only large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        if really:
            patch.setattr(cut, "SHARED", 1e9)
            patch.setattr(cut, "ALONE_TOKENS", 32)
        yield


@pytest.mark.parametrize(
    ("kind", "tolerance", "apart"),
    [("torch", 1e-5, False), ("onnx", 1e-4, False), ("onnx", 1e-4, True)],
)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_each_row_is_answered_as_if_it_were_alone(
    engines, alone, kind, tolerance, apart, data
) -> None:
    names = [*FORMS, *VARIANTS, *COSTLY] if kind == "torch" else list(FORMS)
    inputs = data.draw(st.lists(asked(names), min_size=1, max_size=12))
    with always_apart(apart):
        answers = engines[kind].answer(inputs)
    for (name, value), found in zip(inputs, answers, strict=True):
        same(found, alone(name, value), tolerance)


@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_the_order_of_rows_does_not_matter(engines, kind) -> None:
    draw = random.Random(0)
    inputs = [
        (name, " ".join(draw.choices(WORDS[5:], k=draw.randint(1, 30))))
        for name in (None, "plain", "small", "large", "upper", "head", "norms", "stars")
        for _ in range(3)
    ]
    first = dict(zip(inputs, engines[kind].answer(inputs), strict=True))
    draw.shuffle(inputs)
    for value, found in zip(inputs, engines[kind].answer(inputs), strict=True):
        same(found, first[value], 1e-5 if kind == "torch" else 1e-4)


@pytest.mark.parametrize(
    ("inputs", "apart"),
    [
        ([("plain", 7)], False),  # nothing that can be read
        ([("plain", "good")], False),
        ([("plain", "good " * 60)], False),  # one long row cannot be shared out
        ([("plain", "good " * n) for n in range(20, 40)], True),
        ([(name, "good " * 60) for name in ("plain", "norms")], True),
        ([(name, "good " * 60) for name in ("upper", "head")], False),
    ],
)
def test_large_batches_run_side_by_side(engine_on, store, monkeypatch, inputs, apart) -> None:
    """But not those in which a text runs once for several tasks."""
    engine = engine_on(store, threads=2)
    used = []
    each = Sessions.each
    monkeypatch.setattr(Sessions, "each", lambda *given: used.append(given) or each(*given))
    engine.answer(inputs)
    assert bool(used) == apart


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_a_text_s_embedding_is_the_same_beside_a_pair(engines, encoder, kind) -> None:
    pair = {"text_a": "bad", "text_b": "meal"}
    question = {"question": "bad", "context": "meal"}
    for answer in (
        lambda values: engines[kind].answer([(None, value) for value in values]),
        lambda values: embed(encoder, values),
    ):
        together = answer([pair, "good film", question, 7, "good film"])
        assert together[3].error is not None
        for i, value in enumerate([pair, "good film", pair]):
            same(together[i], answer([value])[0], 1e-4)
        same(together[4], together[1], 1e-4)


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_a_run_that_fails_is_its_own_rows_error(engines, kind, monkeypatch) -> None:
    engine = engines[kind]
    runs_on = getattr(engine.passes, kind)
    run = runs_on.run

    def failing(rows):
        if any(len(row.tokens) == 5 for row in rows):
            raise RuntimeError("shapes of /secret/place")
        return run(rows)

    monkeypatch.setattr(runs_on, "run", failing)
    found = engine.answer(
        [("plain", "good"), ("small", "it was bad"), ("small", 7), ("norms", "a")]
    )
    assert isinstance(found[1].error, PackageError)
    assert "secret" not in str(found[1].error)
    assert isinstance(found[2].error, DataError)
    assert found[0].label
    assert found[3].label
    with engine.using("small") as using:
        assert isinstance(using.answer(["it was bad"])[0].error, PackageError)
    assert isinstance(engine.answer([(None, "it was bad")])[0].error, BankError)
    assert {each.pins for each in engine.residency._residents.values()} == {0}


def test_an_error_of_those_that_make_room_is_not_the_next_task_s(
    engine_on, store, monkeypatch
) -> None:
    most = max(engine_on(store).passes.torch.bytes_of(store.info(n).manifest) for n in VARIANTS)
    engine = engine_on(store, onnx=False, memory=most + 1000)
    run, times = engine.passes.torch.run, []

    def failing(rows):
        times.append(len(rows))
        if len(times) == 1:
            raise AttachError("The encoder has no such LayerNorm.")
        return run(rows)

    monkeypatch.setattr(engine.passes.torch, "run", failing)
    bad, good = engine.answer([("deep", "good"), ("relu", "good")])
    assert times == [1, 1]
    assert isinstance(bad.error, AttachError)
    assert good.error is None


def test_a_head_of_another_width_is_its_own_rows_error(engine_on, store) -> None:
    engine = engine_on(store)
    with engine.using("small") as using:
        weight, bias = using.resident.head
        using.resident.head = (weight[:, :16], bias)
        good, *bad = engine.answer([("plain", "good"), ("small", "good"), ("small", "bad")])
    assert good.error is None
    assert all(isinstance(each.error, PackageError) for each in bad)


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_half_a_character_is_its_own_row_s_error(engines, kind) -> None:
    engine = engines[kind]
    found = engine.answer([("plain", "good"), ("small", "half \ud83d"), ("small", "good")])
    assert "half a character" in found[1].error.message
    assert found[0].label
    assert found[2].label
    assert {each.pins for each in engine.residency._residents.values()} == {0}


def test_what_goes_wrong_in_the_middle_leaves_nothing_in_use(engine_on, store, monkeypatch) -> None:
    engine = engine_on(store)
    ask = engine.ask

    def failing(task, inputs, *, wait=True):
        if task == "small":
            raise RuntimeError("not one of ours")
        return ask(task, inputs, wait=wait)

    monkeypatch.setattr(engine, "ask", failing)
    with pytest.raises(RuntimeError, match="not one of ours"):
        engine.answer([("plain", "good"), ("small", "good")])
    assert {each.pins for each in engine.residency._residents.values()} == {0}


@pytest.mark.parametrize(
    ("form", "part"),
    [({}, "head.weight"), ({"activation": "relu"}, "up.bias"), ({"kind": "span"}, "head.weight")],
)
def test_numbers_without_end_are_their_own_task_s_error(
    form, part, tmp_path, encoder, engine_on
) -> None:
    store = make_store(tmp_path / "bank", encoder, {"sound": {"activation": "relu"}, "plain": {}})
    for i in range(4):  # whichever of them stands first in the batch
        manifest, tensors = random_task(encoder, 10 + i, **form)
        huge = {n: t.fill_(3e38) if n.endswith(part) else t for n, t in tensors.items()}
        store.publish(f"huge-{i}", manifest, huge)
    engine = engine_on(store)
    wanted = [("sound", "the film was good"), ("plain", "a bad book"), (None, "it")]
    alone = engine.answer(wanted)
    long = "the film was good it was great the meal was bad"
    asked = {"question": "the film", "context": long} if form.get("kind") == "span" else long
    for i in range(4):
        *rest, lost = engine.answer([*wanted, (f"huge-{i}", asked)])
        assert "not finite" in lost.error.message
        for found, expected in zip(rest, alone, strict=True):
            same(found, expected, 1e-5)
        with pytest.raises(PackageError, match="not finite"):
            check_probes(encoder, store.load(store.find(f"huge-{i}")))


def test_onnx_serves_the_standard_forms_and_torch_the_others(engines, store) -> None:
    passes = engines["onnx"].passes
    manifests = {name: store.info(name).manifest for name in FORMS | VARIANTS | COSTLY}
    for name, manifest in manifests.items():
        expected = (
            passes.onnx if name in FORMS else passes.torch if name in VARIANTS else passes.whole
        )
        assert passes.choose(manifest) is expected, name
