"""Make probabilities mean what they say: one temperature, fitted on dev.

Networks are surer than they are right. Dividing the logits by one number makes the probabilities
fit the dev rows best, and changes no answer.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adapterbank.model.heads import Kind
from adapterbank.tasks.predictions import probabilities

RANGE = (0.05, 20.0)
FEW = 30  # rows that are no reason to make answers surer than they are


def fit_temperature(kind: Kind, logits: NDArray[np.float32], targets: NDArray[np.generic]) -> float:
    """The temperature with the lowest mean log loss. Targets: class ids, or 0/1 [rows, labels].

    A dev set without an error would ask for certainty. As in Platt's scaling, each label counts as
    doubtful by one row in all: 90 rows without an error make the answers 99 % sure, not 100. Fewer
    than 30 rows may take certainty away, and give none.
    """
    from scipy.optimize import minimize_scalar

    if len(logits) == 0:
        return 1.0
    doubt = 1 / (len(logits) + 2)
    least = 1.0 if len(logits) < FEW else RANGE[0]
    found = minimize_scalar(
        lambda power: log_loss(kind, logits, targets, math.exp(power), doubt),
        bounds=(math.log(least), math.log(RANGE[1])),
        method="bounded",
    )
    return math.exp(found.x)


def log_loss(
    kind: Kind,
    logits: NDArray[np.float32],
    targets: NDArray[np.generic],
    temperature: float,
    doubt: float = 0.0,
) -> float:
    """Mean negative log-likelihood of the right labels, each right with a chance of 1 - `doubt`."""
    chances = probabilities(kind, logits, temperature)
    if kind == "multi-label":
        right = np.where(targets.astype(bool), chances, 1 - chances)
    else:
        right = chances[np.arange(len(chances)), targets.astype(int)]
    loss = -np.log(np.clip(right, 1e-12, None)).mean()
    if doubt:
        loss = (1 - doubt) * loss - doubt * np.log(np.clip(1 - right, 1e-12, None)).mean()
    return float(loss)


def calibration_error(
    kind: Kind, logits: NDArray[np.float32], targets: NDArray[np.generic], temperature: float
) -> float:
    """Expected calibration error in ten bins: how far confidence is from accuracy."""
    chances = probabilities(kind, logits, temperature)
    if kind == "multi-label":
        sure = np.maximum(chances, 1 - chances).ravel()
        right = ((chances > 0.5) == targets.astype(bool)).ravel()
    else:
        sure, right = chances.max(-1), chances.argmax(-1) == targets
    bins = np.minimum((sure * 10).astype(int), 9)
    gaps = [
        abs(sure[bins == i].mean() - right[bins == i].mean()) * (bins == i).mean()
        for i in np.unique(bins)
    ]
    return float(sum(gaps))
