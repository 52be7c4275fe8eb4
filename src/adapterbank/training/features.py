"""Frozen features: what the bare encoder says of a text, one vector a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.batches import Encoded


def features_of(encoder: Encoder, rows: Encoded) -> NDArray[np.float32]:
    """[rows, d], in the order given. The encoder must carry no task."""
    with TaskModel(encoder, "regression", method=Method("head")) as model:
        return model.features(*rows.take())
