"""The temperature that was put in comes out, and answers stay what they are."""

from __future__ import annotations

import numpy as np
import pytest

from adapterbank.tasks.predictions import decode, probabilities
from adapterbank.training.calibration import calibration_error, fit_temperature, log_loss


def drawn(kind: str, temperature: float, rows: int = 6000):
    """Logits, and labels drawn from what they say at that temperature."""
    draw = np.random.default_rng(0)
    logits = draw.normal(0, 4, (rows, 3)).astype(np.float32)
    chances = probabilities(kind, logits, temperature)
    if kind == "multi-label":
        return logits, (draw.random(chances.shape) < chances).astype(np.float32)
    return logits, np.array([draw.choice(3, p=row) for row in chances])


@pytest.mark.parametrize("kind", ["classification", "multi-label"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_true_temperature_is_found(kind, temperature) -> None:
    logits, targets = drawn(kind, temperature)
    found = fit_temperature(kind, logits, targets)
    assert found == pytest.approx(temperature, rel=0.1)
    assert log_loss(kind, logits, targets, found) <= log_loss(kind, logits, targets, 1.0)
    assert calibration_error(kind, logits, targets, found) < 0.03
    if temperature == 3.0:
        assert calibration_error(kind, logits, targets, 1.0) > 0.1


def test_the_loss_is_scikit_learns() -> None:
    from sklearn.metrics import log_loss as reference

    logits, targets = drawn("classification", 1.0, 200)
    expected = reference(targets, probabilities("classification", logits, 2.0), labels=[0, 1, 2])
    assert log_loss("classification", logits, targets, 2.0) == pytest.approx(expected)


def test_no_dev_rows_leave_probabilities_as_they_are() -> None:
    assert fit_temperature("classification", np.empty((0, 2), np.float32), np.empty(0)) == 1.0


def test_a_temperature_changes_no_answer() -> None:
    logits = np.random.default_rng(1).normal(0, 3, (50, 3)).astype(np.float32)
    for kind in ("classification", "multi-label"):
        cold, hot = (decode(kind, ["a", "b", "c"], logits, t) for t in (0.2, 5.0))
        assert [(p.label, p.labels) for p in cold] == [(p.label, p.labels) for p in hot]


@pytest.mark.parametrize("kind", ["classification", "multi-label"])
@pytest.mark.parametrize("rows", [20, 90, 1000])
def test_no_error_on_dev_is_no_certainty(kind, rows) -> None:
    targets = np.arange(rows) % 2
    logits = np.where(targets[:, None] == [0, 1], 9.0, -9.0).astype(np.float32)
    table = np.eye(2)[targets] if kind == "multi-label" else targets
    found = fit_temperature(kind, logits, table)
    sure = probabilities(kind, logits, found).max(-1)
    assert sure == pytest.approx(1 - 1 / (rows + 2), abs=2e-3)


@pytest.mark.parametrize("kind", ["classification", "multi-label"])
def test_few_rows_make_no_answer_surer(kind) -> None:
    """Barely right on every row: many rows would make it sure, a few prove little."""
    for rows, surer in ((29, False), (30, True)):
        targets = np.arange(rows) % 2
        logits = np.where(targets[:, None] == [0, 1], 0.1, -0.1).astype(np.float32)
        table = np.eye(2)[targets] if kind == "multi-label" else targets
        assert (fit_temperature(kind, logits, table) < 1.0) == surer
