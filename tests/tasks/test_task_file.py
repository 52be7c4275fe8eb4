"""A task written and read again is the same task."""

from __future__ import annotations

import pytest

from adapterbank.errors import DataError
from adapterbank.tasks.task import Answer, Example, Task
from adapterbank.tasks.task_file import read_task, write_task

CLASSES = Task(
    "toy", ("a", "ü"), [Example("x\ny", "a", "z"), Example("🎈", "ü", "")], [Example("d", "a")],
    metric="f1", positive="a", columns={"text": "t"},
)  # fmt: skip
NUMBERS = Task("n", (), [Example("x", 1 / 3)], [Example("y", -2.0)], kind="regression")
TAGS = Task("m", ("p", "q"), [Example("x", ("p", "q")), Example("y", ())], (), kind="multi-label")
SPANS = Task(
    "s", (), [Example("who?", None, "Ada", "1", (Answer("Ada", 0),)), Example("?", None, "B", "2")],
    (), (Example("?", None, "C", "3"),), kind="span",
)  # fmt: skip


@pytest.mark.parametrize("task", [CLASSES, NUMBERS, TAGS, SPANS], ids=lambda task: task.kind)
def test_round_trip(task, tmp_path) -> None:
    write_task(tmp_path / "task.jsonl", task)
    again = read_task(tmp_path / "task.jsonl")
    for name in ("name", "labels", "kind", "metric", "positive", "columns"):
        assert getattr(again, name) == getattr(task, name)
    for split in ("train", "dev", "test"):
        assert list(getattr(again, split)) == list(getattr(task, split))
        assert all(isinstance(a, Answer) for e in getattr(again, split) for a in e.answers)
    assert [path.name for path in tmp_path.iterdir()] == ["task.jsonl"]


@pytest.mark.parametrize("content", ["", "{}\n", '{"name": "x"}\n["train", 1]\n', "no"])
def test_other_files_are_refused(content, tmp_path) -> None:
    (tmp_path / "task.jsonl").write_text(content)
    with pytest.raises(DataError, match=r"task\.jsonl is not a task"):
        read_task(tmp_path / "task.jsonl")
    with pytest.raises(DataError, match=r"none\.jsonl is not a task"):
        read_task(tmp_path / "none.jsonl")
