"""Rows are cut into runs: none is lost, little is padded, every thread has as much to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapterbank.serving.cut import ALONE_COST, RUN_COST, RUN_TOKENS, cut, one_by_one

LENGTHS = st.lists(st.integers(1, 512), max_size=60)
SHORT = st.lists(st.integers(8, 40), min_size=16, max_size=60)


@pytest.mark.parametrize("way", [cut, one_by_one])
@given(lengths=LENGTHS, classes=st.integers(1, 3), threads=st.integers(1, 8))
def test_every_row_is_in_one_run_of_its_class(way, lengths, classes, threads) -> None:
    by_class = {size: list(range(size, len(lengths), classes)) for size in range(classes)}
    found = way({size: rows for size, rows in by_class.items() if rows}, lengths, threads)
    for size, rows in by_class.items():
        assert sorted(i for run in found.runs if run.size == size for i in run.rows) == rows
    cost = ALONE_COST if found.side_by_side else RUN_COST
    for run in found.runs:
        longest = max(lengths[i] for i in run.rows)
        assert run.tokens == len(run.rows) * longest
        assert len(run.rows) == 1 or run.tokens <= RUN_TOKENS
        assert sum(longest - lengths[i] for i in run.rows) <= cost


@given(lengths=SHORT, threads=st.integers(2, 4))
def test_no_thread_waits_long(lengths, threads) -> None:
    """A batch takes at most a third longer than if it could be shared out to the last token."""
    found = cut({8: list(range(len(lengths)))}, lengths, threads)
    assert found.time <= 4 / 3 * (sum(lengths) / threads + 4 * ALONE_COST)


def test_rows_of_one_length_keep_their_order() -> None:
    found = one_by_one({8: [3, 0, 2, 1]}, [20, 90, 20, 90], 1)
    assert [run.rows for run in found.runs] == [[3, 1], [0, 2]]


@pytest.mark.parametrize(
    ("lengths", "threads", "side_by_side"),
    [
        ([16], 2, False),
        ([512], 2, False),  # one row cannot be shared out
        ([100, 100, 100], 2, False),  # one thread would have two of them
        ([16] * 8, 2, True),
        ([100, 50, 50], 2, True),
        ([16], 1, True),  # one thread is alone in any case
    ],
)
def test_runs_stand_side_by_side_where_that_is_quicker(lengths, threads, side_by_side) -> None:
    assert cut({8: list(range(len(lengths)))}, lengths, threads).side_by_side is side_by_side
