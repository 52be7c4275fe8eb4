"""New labelled rows for a task that has been learnt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapterbank.errors import DataError
from adapterbank.tasks.labelled import read_labelled
from adapterbank.tasks.task import Answer, Example

LABELS = ("0", "1")


def rows(*labels: object) -> list[dict[str, object]]:
    return [{"text": f"text {i}", "label": label} for i, label in enumerate(labels)]


def read(source: Any, kind: Any = "classification", labels: Any = LABELS, **more: Any):
    return read_labelled(source, kind, labels, **more).examples


def test_every_kind() -> None:
    new = rows("1", 0)
    assert read(new) == [Example("text 0", "1"), Example("text 1", "0")]
    assert read(rows("2.5"), "regression", ())[0].label == 2.5
    assert read(rows("a|b"), "multi-label", ("a", "b"))[0].label == ("a", "b")
    named = read(new, labels=("no", "yes"), label_names=["no", "yes"])
    assert [row.label for row in named] == ["yes", "no"]


def test_columns_are_the_tasks_own_or_found() -> None:
    two = [{"text_a": "a", "text_b": "b", "text": "c", "label": "0"}]
    assert read(two, pairs=True)[0].pair == "b"
    assert read(two) == [Example("c", "0")]
    assert read(two, text_column="text_b") == [Example("b", "0")]
    assert read(two, known={"text": "text_b"}) == [Example("b", "0")]
    assert read(two, known={"text": "message", "label": "team"}) == [Example("c", "0")]
    with pytest.raises(DataError, match="no column 'message'"):
        read(two, text_column="message")


def test_a_span_task_is_in_squads_form(tmp_path: Path) -> None:
    question = {"id": "1", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}]}
    document = {"data": [{"paragraphs": [{"context": "Ann did.", "qas": [question]}]}]}
    (tmp_path / "facts.json").write_text(json.dumps(document))
    assert read(tmp_path / "facts.json", "span", ())[0].answers == (Answer("Ann", 0),)
    with pytest.raises(DataError, match="not a span task"):
        read([{"question": "Who?", "context": "Ann did."}], "span", ())


def test_bad_rows_are_told_or_left_out() -> None:
    new = rows("1", "x", None, "0")
    with pytest.raises(DataError) as caught:
        read(new)
    assert caught.value.message == (
        "the rows given, row 2: the label 'x' is not one of the task's: 0, 1, and 1 row with other "
        "problems."
    )
    assert "--label-names A,B,…" in caught.value.hint
    assert "--skip-bad" in caught.value.hint
    found = read_labelled(new, "classification", LABELS, skip_bad=True)
    assert [row.label for row in found.examples] == ["1", "0"]
    assert found.numbers == [1, 4]
    assert found.left_out == 2
    assert found.notes[0].startswith("left out 2 bad rows: the rows given, row 2")
    with pytest.raises(DataError, match="no row is left"):
        read(rows("x"), skip_bad=True)


def test_a_slip_is_seen() -> None:
    with pytest.raises(DataError, match="Did you mean 'billing'"):
        read(rows("biling"), labels=("billing", "sales"))
