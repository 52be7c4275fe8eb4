"""Times are foreseen from a few batches, and runs fitted to them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import load_encoder
from adapterbank.model.methods import Method
from adapterbank.tasks.batches import Encoded
from adapterbank.training.pace import Pace, fit_to_time, measure_pace
from adapterbank.training.recipe import Recipe
from tiny import save_base
from training.toy import started

TRAIN = Encoded.of([[1] * 10] * 320, [[0] * 10] * 320)
DEV = Encoded.of([[1] * 10] * 10, [[0] * 10] * 10)
PACE = Pace(train=0.01, read=0.005)  # 32 s an epoch, half a second for dev


@pytest.mark.parametrize(
    ("seconds", "epochs", "steps"),
    [(330, 10, 0), (98, 3, 0), (32.5, 1, 0), (16.5, 1, 5), (0, 1, 1), (-5, 1, 1), (1e9, 30, 0)],
)
def test_runs_fit_their_time(seconds, epochs, steps) -> None:
    fitted = fit_to_time(Recipe(1e-3), PACE, TRAIN, DEV, seconds)
    assert (fitted.epochs, fitted.max_steps) == (epochs, steps)


def test_a_large_dev_set_leaves_half_of_the_time_to_training() -> None:
    many = Encoded.of([[1] * 10] * 9000, [[0] * 10] * 9000)  # 450 s to read
    fitted = fit_to_time(Recipe(1e-3), PACE, TRAIN, many, 32.0)
    assert (fitted.epochs, fitted.max_steps) == (1, 5)  # half of the ten steps of an epoch


def test_measuring_changes_nothing(tmp_path) -> None:
    encoder = load_encoder(str(save_base(tmp_path)), pooling="mean")
    method = Method(adapter=AdapterConfig(norm="batch"))  # keeps statistics of what it sees
    with started(encoder, Recipe(1e-3, batch_size=8), method) as (model, run):
        before = run.copies()
        pace = measure_pace(run)
        assert pace.train > 0
        assert pace.read > 0
        after = model.tensors()
        assert all(torch.equal(before[name], after[name]) for name in before)
        assert all(p.grad is None for p in run.trained.values())
        assert run.step == 0


def test_rows_keep_their_order_and_bounds() -> None:
    rows = Encoded.of([[1, 2], [3], [4, 5, 6]], [[0, 0], [1], [0, 1, 1]])
    ids, types = rows.take([2, 0])
    assert [row.tolist() for row in ids] == [[4, 5, 6], [1, 2]]
    assert [row.tolist() for row in types] == [[0, 1, 1], [0, 0]]
    assert rows.lengths.tolist() == [2, 1, 3]
    assert np.concatenate(rows.take()[0]).tolist() == [1, 2, 3, 4, 5, 6]
