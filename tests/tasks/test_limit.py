"""Fewer rows: drawn by the seed, in their order, and no label of train is lost."""

from __future__ import annotations

import pytest

from adapterbank.errors import ConfigError
from adapterbank.tasks.limit import limited
from adapterbank.tasks.task import Example, Task

ROWS = [Example(f"text {i}", "rare" if i == 77 else "common") for i in range(200)]
TASK = Task("t", ("common", "rare"), ROWS, ROWS[:50], ROWS[50:150])


@pytest.mark.parametrize("seed", range(5))
def test_rows_keep_their_order_and_train_its_labels(seed: int) -> None:
    few = limited(TASK, 10, 20, 0, seed)
    assert (len(few.train), len(few.dev), len(few.test)) == (10, 20, 100)
    assert [row for row in ROWS if row in few.train] == list(few.train)
    assert {row.label for row in few.train} == {"common", "rare"}
    assert limited(TASK, 10, 20, 0, seed) == few


def test_seeds_draw_other_rows() -> None:
    assert limited(TASK, 10, seed=0).train != limited(TASK, 10, seed=1).train


def test_what_is_small_enough_stays_as_it_is() -> None:
    assert limited(TASK, 200, 50, 100) is TASK
    assert limited(TASK) is TASK


def test_it_is_said() -> None:
    assert limited(TASK, 10, seed=3).notes == ("train: 10 of 200 rows, drawn with seed 3",)


def test_many_labels_keep_a_row_each() -> None:
    rows = [Example("x", str(i)) for i in range(30)]
    task = Task("t", tuple(sorted({str(i) for i in range(30)})), rows, rows)
    assert len(limited(task, 5).train) == 30


def test_several_labels_and_numbers() -> None:
    tags = [Example("x", ("a", "b") if i == 9 else ("a",)) for i in range(50)]
    few = limited(Task("t", ("a", "b"), tags, tags, kind="multi-label"), 3)
    assert {name for row in few.train for name in row.names} == {"a", "b"}
    numbers = [Example("x", float(i)) for i in range(50)]
    assert len(limited(Task("t", (), numbers, numbers, kind="regression"), 3).train) == 3


def test_fewer_than_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="-1 rows of dev"):
        limited(TASK, dev=-1)
