"""Any rows of any tasks in one pass: each is answered as if it were alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapterbank.serving.predictor import Predictor, embed
from serving.conftest import COSTLY, FORMS, PAIRED, VARIANTS
from tiny import WORDS

WORD = st.sampled_from(WORDS[5:])
TEXT = st.lists(WORD, min_size=1, max_size=40).map(" ".join)


def asked(names):
    """An input of one of the tasks, or of none."""

    def inputs(name):
        if name in PAIRED:
            keys = ("question", "context") if "answers" in name else ("text_a", "text_b")
            return st.tuples(TEXT, TEXT).map(lambda pair: dict(zip(keys, pair, strict=True)))
        return TEXT

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


@pytest.mark.parametrize(("kind", "tolerance"), [("torch", 1e-5), ("onnx", 1e-4)])
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_each_row_is_answered_as_if_it_were_alone(engines, alone, kind, tolerance, data) -> None:
    names = [*FORMS, *VARIANTS, *COSTLY] if kind == "torch" else list(FORMS)
    inputs = data.draw(st.lists(asked(names), min_size=1, max_size=12))
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


def test_onnx_serves_the_standard_forms_and_torch_the_others(engines, store) -> None:
    passes = engines["onnx"].passes
    manifests = {name: store.info(name).manifest for name in FORMS | VARIANTS | COSTLY}
    for name, manifest in manifests.items():
        expected = (
            passes.onnx if name in FORMS else passes.torch if name in VARIANTS else passes.whole
        )
        assert passes.choose(manifest) is expected, name
