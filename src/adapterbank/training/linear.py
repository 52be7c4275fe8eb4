"""A linear map from features to a head's outputs, fitted directly: no gradient steps, seconds.

Features are standardised for fitting; the map that comes out reads them raw.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapterbank.tasks.task import Kind

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
MAX_ROWS = 20_000
MAX_ROWS_TIMES_LABELS = 300_000  # of a multi-label task, where every label is a fit of its own
RIDGE = 10.0  # α·C: puts what is usually best for numbers in the middle of the same strengths
# Loose on purpose: the scores stand still long before the loss does.
TOLERANCE, MAX_ITERATIONS = 1e-5, 50

Fit = Callable[[float], tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True)
class LinearMap:
    """features [rows, d] → features · weightᵀ + bias [rows, outputs]."""

    weight: NDArray[np.float32]
    """[outputs, d]"""
    bias: NDArray[np.float32]
    """[outputs]"""

    def __call__(self, features: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        out: NDArray[np.float32] = features.astype(np.float32) @ self.weight.T + self.bias
        return out


def fit_linear_map(
    features: NDArray[np.floating[Any]],
    targets: NDArray[Any],
    kind: Kind,
    outputs: int,
    strength: float = 0.1,
) -> LinearMap:
    """Logistic regression on features [rows, d]; ridge regression for numbers.

    targets: class ids [rows], 0/1 [rows, labels] or numbers [rows]. `strength` is C, the weight of
    the data against that of small coefficients. Two classes get a half of the logit each, with
    opposite signs. A class without rows gets no weights and a bias that makes it unlikely.
    """
    (found,) = linear_path(features, targets, kind, outputs, (strength,))
    return found


def linear_path(
    features: NDArray[np.floating[Any]],
    targets: NDArray[Any],
    kind: Kind,
    outputs: int,
    strengths: Sequence[float] = STRENGTHS,
) -> Iterator[LinearMap]:
    """A map for each strength. Each fit starts from the one before, so rising strengths are quick.

    At most `MAX_ROWS` rows are used, always the same ones.
    """
    from threadpoolctl import threadpool_limits

    rows = _some_rows(len(features), outputs if kind == "multi-label" else 1)
    features, targets = features[rows].astype(np.float32), targets[rows]
    mean = features.mean(0, dtype=np.float64)
    deviation = features.std(0, dtype=np.float64)
    deviation[deviation == 0] = 1.0
    standard = ((features - mean) / deviation).astype(np.float32)
    fit = _FITS[kind](standard, targets, outputs)
    for strength in strengths:
        with threadpool_limits(1):  # the same numbers on any number of cores
            weight, bias = fit(strength)
        raw = weight / deviation
        yield LinearMap(raw.astype(np.float32), (bias - raw @ mean).astype(np.float32))


def _some_rows(count: int, fits: int) -> NDArray[np.int64]:
    limit = min(MAX_ROWS, max(1_000, MAX_ROWS_TIMES_LABELS // fits))
    rows: NDArray[np.int64] = np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(rows)[:limit])


def _classes(features: NDArray[np.float32], targets: NDArray[Any], outputs: int) -> Fit:
    seen = np.unique(targets)
    logistic = _Logistic(features, targets)

    def fit(strength: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        weight = np.zeros((outputs, features.shape[1]))
        bias = np.full(outputs, -math.log(len(targets) + 1))
        bias[seen] = 0.0
        if len(seen) > 1:
            found, at = logistic.fit(strength)
            if len(seen) == 2:  # one logit, for the second of them
                found, at = np.concatenate([-found, found]) / 2, np.concatenate([-at, at]) / 2
            weight[seen], bias[seen] = found, at
        return weight, bias

    return fit


def _labels(features: NDArray[np.float32], targets: NDArray[Any], outputs: int) -> Fit:
    wanted = targets.astype(bool)
    share = wanted.mean(0)
    logistics = [_Logistic(features, wanted[:, i]) for i in range(outputs)]

    def fit(strength: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        weight = np.zeros((outputs, features.shape[1]))
        # Labels that no row has, or every row.
        bias = np.where(share > 0.5, 1.0, -1.0) * math.log(len(targets) + 1)
        for i in np.flatnonzero((share > 0) & (share < 1)):
            found, at = logistics[i].fit(strength)
            weight[i], bias[i] = found[0], at[0]
        return weight, bias

    return fit


def _numbers(features: NDArray[np.float32], targets: NDArray[Any], outputs: int) -> Fit:
    from sklearn.linear_model import Ridge

    del outputs

    def fit(strength: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        model = Ridge(RIDGE / strength, solver="cholesky").fit(
            features.astype(np.float64), targets.astype(np.float64)
        )
        return model.coef_[None], np.array([model.intercept_])

    return fit


_FITS: dict[Kind, Callable[[NDArray[np.float32], NDArray[Any], int], Fit]] = {
    "classification": _classes,
    "multi-label": _labels,
    "regression": _numbers,
}


class _Logistic:
    """A logistic regression that goes on from its last fit."""

    def __init__(self, features: NDArray[np.float32], targets: NDArray[Any]) -> None:
        from sklearn.linear_model import LogisticRegression

        self.features, self.targets = features, targets
        self.model = LogisticRegression(tol=TOLERANCE, max_iter=MAX_ITERATIONS, warm_start=True)

    def fit(self, strength: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights and biases: of every class, or of the second of two."""
        from sklearn.exceptions import ConvergenceWarning

        self.model.C = strength
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self.features, self.targets)
        return self.model.coef_.astype(np.float64), self.model.intercept_.astype(np.float64)
