"""Rows are cut into runs: none is lost, little is padded, every thread has as much to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapterbank.serving.cut import (
    ALONE_TOKENS,
    LEAST,
    cut_runs,
    is_even,
    limits_apart,
)

LENGTHS = st.lists(st.integers(1, 512), min_size=1, max_size=60)


@given(LENGTHS, st.integers(16, 4096), st.integers(0, 100))
def test_every_row_is_in_one_run_and_runs_keep_to_the_limit(lengths, limit, cost) -> None:
    runs = list(cut_runs(lengths, limit, cost))
    assert sorted(i for run in runs for i in run) == list(range(len(lengths)))
    for run in runs:
        longest = max(lengths[i] for i in run)
        assert len(run) == 1 or len(run) * longest <= limit
        assert sum(longest - lengths[i] for i in run) <= cost


def test_rows_of_one_length_keep_their_order() -> None:
    assert list(cut_runs([8, 9, 8, 9], 18, 0)) == [[1, 3], [0, 2]]


@given(st.integers(1, 10_000), st.integers(1, 16))
def test_runs_on_one_thread_are_small_and_as_many_as_there_are_threads(tokens, threads) -> None:
    limits = list(limits_apart(tokens, threads))
    assert bool(limits) == (tokens >= LEAST * threads)
    for limit in limits:
        assert limit <= ALONE_TOKENS
        assert limit * (threads - 1) < tokens  # or a thread would have nothing to do


@pytest.mark.parametrize(
    ("costs", "threads", "even"),
    [
        ([100], 1, True),
        ([100], 2, False),
        ([100, 100], 2, True),
        ([100, 100, 100], 2, False),
        ([50, 100, 50], 2, True),
        ([100, 96], 2, True),
        ([100, 60], 2, False),
    ],
)
def test_threads_are_even_if_they_end_together(costs, threads, even) -> None:
    assert is_even(costs, threads) is even
