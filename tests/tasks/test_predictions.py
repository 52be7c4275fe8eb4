"""Numbers become words: labels, values, probabilities that add up."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax

from adapterbank.tasks.predictions import Prediction, decode, probabilities

LOGITS = np.array([[2.0, -1.0, 0.5], [-800.0, 0.0, 800.0]], np.float32)


def test_classes() -> None:
    first, second = decode("classification", ["a", "b", "c"], LOGITS)
    assert (first.label, second.label) == ("a", "c")
    assert list(first.probabilities) == ["a", "b", "c"]
    assert list(first.probabilities.values()) == pytest.approx(softmax([2.0, -1.0, 0.5]))
    assert second.probabilities == {"a": 0.0, "b": 0.0, "c": 1.0}
    assert first.as_dict() == {"label": "a", "probabilities": first.probabilities}


def test_several_labels() -> None:
    first, second = decode("multi-label", ["a", "b", "c"], LOGITS)
    assert first.labels == ("a", "c")
    assert second.labels == ("c",)
    assert list(first.probabilities.values()) == pytest.approx(expit([2.0, -1.0, 0.5]))
    assert second.probabilities["a"] == 0.0


def test_numbers() -> None:
    found = decode("regression", (), np.array([[1.5], [-2.0]], np.float32))
    assert [p.value for p in found] == [1.5, -2.0]
    assert found[0].as_dict() == {"value": 1.5}


def test_a_temperature_divides_the_logits() -> None:
    cool = probabilities("classification", LOGITS[:1], 2.0)
    assert cool[0] == pytest.approx(softmax([1.0, -0.5, 0.25]))


def test_an_unanswered_question_stands_nowhere() -> None:
    assert Prediction(answer="", score=0.8).as_dict() == {
        "answer": "",
        "start": None,
        "end": None,
        "score": 0.8,
    }
