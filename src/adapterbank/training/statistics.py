"""What a task's texts look like to the bare encoder, in a few numbers that stay with the task.

They tell later which task a text belongs to. Centres of several rows are kept, never a row's own
vector: a text can be guessed from its vector.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapterbank.model.encoder import Encoder
from adapterbank.training.features import features_of
from adapterbank.training.rows import Rows

CENTRES = 32
ROWS_A_CENTRE = 8  # at least
ROUNDS = 20
TOKENS = 40_000  # of the rows that are looked at: a few seconds


class Summary(NamedTuple):
    """Centres of the texts' directions, and how near to one of them a text of the task is."""

    centres: NDArray[np.float32]
    """[centres, d], each of length 1."""
    near: float
    """The mean cosine of unseen rows with their nearest centre."""
    spread: float
    """Its standard deviation."""


def summarise(encoder: Encoder, train: Rows, held_out: Rows) -> Summary | None:
    """From train, and rows that were not trained on. None of a train set that is too small to be
    told without telling its rows."""
    return summary_of(_directions(encoder, train), _directions(encoder, held_out))


def summary_of(seen: NDArray[np.float32], unseen: NDArray[np.float32]) -> Summary | None:
    """From vectors of length 1: [rows, d]."""
    if len(seen) < ROWS_A_CENTRE:
        return None
    centres = _centres(seen, min(CENTRES, len(seen) // ROWS_A_CENTRE))
    cosines = (unseen @ centres.T).max(1)
    return Summary(centres, float(cosines.mean()), float(max(cosines.std(), 1e-3)))


def _centres(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Spherical k-means. Our own: scikit-learn's gives other bits from run to run on many cores.
    Rows of a centre that has too few of them go to the next one."""
    centres = rows[np.random.default_rng(0).choice(len(rows), count, replace=False)]
    for _ in range(ROUNDS):
        centres, counts = _moved(rows, centres)
    while len(counts) > 1 and counts.min() < ROWS_A_CENTRE:
        centres, counts = _moved(rows, np.delete(centres, counts.argmin(), 0))
    return centres


def _moved(
    rows: NDArray[np.float32], centres: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Each centre where its rows are now, and how many they are."""
    nearest = (rows @ centres.T).argmax(1)
    sums = np.zeros_like(centres)
    np.add.at(sums, nearest, rows)
    alone = ~sums.any(1)  # a centre that has lost all its rows stays where it is
    sums[alone] = centres[alone]
    return _unit(sums), np.bincount(nearest, minlength=len(centres))


def _directions(encoder: Encoder, rows: Rows) -> NDArray[np.float32]:
    share = min(1.0, TOKENS / max(1, int(rows.encoded.lengths.sum())))
    count = max(1, int(share * len(rows)))
    chosen = np.random.default_rng(0).choice(len(rows), count, replace=False)
    return _unit(features_of(encoder, rows.few(sorted(chosen.tolist())).encoded))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
    found: NDArray[np.float32] = vectors / np.maximum(lengths, np.float32(1e-12))
    return found
