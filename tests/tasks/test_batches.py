"""Batches hold every row once; grouped ones hold rows of about one length."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.tasks.batches import length_grouped, shuffled


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(1, 99), min_size=1, max_size=300), size=st.integers(1, 40))
def test_every_row_once(lengths: list[int], size: int) -> None:
    for make in (shuffled, length_grouped):
        batches = make(lengths, size, random.Random(0))
        assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
        assert all(1 <= len(batch) <= size for batch in batches)
        assert len(batches) == -(-len(lengths) // size)


def test_grouping_saves_most_of_the_padding() -> None:
    draw = random.Random(0)
    lengths = [round(16 * draw.lognormvariate(0, 0.6)) + 1 for _ in range(2000)]

    def padded(batches: list[list[int]]) -> int:
        return sum(len(b) * max(lengths[row] for row in b) for b in batches)

    real = sum(lengths)
    assert padded(length_grouped(lengths, 32, draw)) < 1.1 * real
    assert padded(shuffled(lengths, 32, draw)) > 2 * real


def test_epochs_differ() -> None:
    draw = random.Random(0)
    for make in (shuffled, length_grouped):
        assert make([3, 4] * 25, 8, draw) != make([3, 4] * 25, 8, draw)
