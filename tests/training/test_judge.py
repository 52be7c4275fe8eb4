"""What is said of a task that has learnt nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapterbank.tasks.predictions import Prediction
from adapterbank.training.judge import FEW, warning
from training.toy import EXAMPLES, NUMBERS, STARS, TASK

ALIKE = [Prediction(label="good")] * len(EXAMPLES)


def test_one_answer_for_all_rows_is_warned_of() -> None:
    found = warning(TASK, EXAMPLES, ALIKE, 2e-3)
    assert found is not None
    assert f"All {len(EXAMPLES)} rows that were scored are answered 'good'" in found.message
    assert "0.002" in found.message


@pytest.mark.parametrize(
    ("task", "examples", "predictions"),
    [
        (TASK, EXAMPLES, [*ALIKE[1:], replace(ALIKE[0], label="bad")]),
        (TASK, [e for e in EXAMPLES if e.label == "good"], ALIKE[: len(EXAMPLES) // 2]),
        (TASK, EXAMPLES[:: len(EXAMPLES) // 4], ALIKE[:4]),
        (NUMBERS, STARS, [Prediction(value=1.0)] * len(STARS)),
    ],
    ids=["two answers", "one label", "few rows", "numbers"],
)
def test_nothing_is_said_of(task, examples, predictions) -> None:
    assert len(EXAMPLES) // 2 >= FEW
    assert warning(task, examples, predictions, 2e-3) is None
