"""What `train` says at the end: the noise that it prints is the one that it goes by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapterbank.cli.train import _verdict
from store.samples import manifest


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (0.944, "No clear lead over n-grams (+4.4 points; 90 rows are sure to ±5.2)"),
        (0.954, "5.4 points above n-grams: training on the encoder pays here."),
        (0.80, "10.0 points below n-grams"),
    ],
)
def test_verdict(score: float, said: str) -> None:
    scores, simple = {"accuracy": score}, {"n-grams": {"accuracy": 0.9}}
    made = replace(manifest(), metric="accuracy", test=scores, baselines=simple)
    assert _verdict(made, 90).startswith(said)


@pytest.mark.parametrize("metric", ["matthews", "macro_f1", "micro_f1", "pearson"])
def test_no_verdict_on_what_is_no_share_of_rows(metric: str) -> None:
    """At a Matthews of 0.47 on 300 rows one standard error is 0.055; that of a share is 0.029."""
    scores, simple = {metric: 0.0}, {"n-grams": {metric: -0.03}}
    made = replace(manifest(), metric=metric, test=scores, baselines=simple)
    said = _verdict(made, 300)
    assert said.startswith(f"{metric}: +3.0 points against n-grams. How far chance moves this")
    assert "pays here" not in said
