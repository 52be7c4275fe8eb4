"""A look at a file: what it holds, and what is wrong with it, without learning anything."""

from __future__ import annotations

import json

import pytest

from adapterbank.errors import DataError
from adapterbank.tasks.drafts import LISTED
from adapterbank.tasks.look import PREVIEW, look


def write(folder, text: str, name: str = "rows.csv"):
    file = folder / name
    file.write_text(text)
    return file


def rows(count: int) -> str:
    return "".join(f"text number {i},{'ab'[i % 2]}\n" for i in range(count))


def test_columns_kind_labels_and_a_preview(tmp_path) -> None:
    found = look(write(tmp_path, "body,topic\n" + rows(60)))
    assert found["columns"] == ["body", "topic"]
    assert (found["text_column"], found["pair_column"]) == ("body", None)
    assert found["label_column"] == "topic"
    assert found["kind"] == "classification"
    assert sum(found["rows"].values()) == 60
    assert set(found["labels"]) == {"a", "b"}
    assert found["preview"][0] == {"body": "text number 0", "topic": "a"}
    assert len(found["preview"]) == PREVIEW
    assert (found["problems"], found["bad_rows"], found["error"]) == ([], 0, None)
    assert json.dumps(found)


def test_problems_by_row_the_first_ones_listed_all_counted(tmp_path) -> None:
    text = "text,label\n" + rows(30) + ",a\n" + "no label,\n" + rows(30) + ",b\n" * LISTED
    found = look(write(tmp_path, text))
    assert found["problems"][0] == {"row": 31, "message": "the text is empty"}
    assert [each["row"] for each in found["problems"][:3]] == [31, 32, 63]
    assert len(found["problems"]) == LISTED
    assert found["bad_rows"] == LISTED + 2
    assert found["error"] is None


def test_columns_may_be_named(tmp_path) -> None:
    text = "a,b,c\n" + "".join(f"x{i},some text {i},{i % 3}\n" for i in range(60))
    found = look(write(tmp_path, text), text_column="b", label_column="c", kind="classification")
    assert (found["text_column"], found["label_column"]) == ("b", "c")
    assert set(found["labels"]) == {"0", "1", "2"}


def test_what_cannot_be_learnt_from_is_still_shown(tmp_path) -> None:
    found = look(write(tmp_path, "a,b\n1,2\n"))
    assert found["columns"] == ["a", "b"]
    assert found["preview"] == [{"a": "1", "b": "2"}]
    assert found["error"]["message"]
    assert found["kind"] is None


def test_long_cells_are_cut(tmp_path) -> None:
    found = look(write(tmp_path, "text,label\n" + "x" * 1000 + ",a\n" + rows(40)))
    assert found["preview"][0]["text"] == "x" * 300 + "…"


def test_what_is_no_table_is_an_error(tmp_path) -> None:
    with pytest.raises(DataError):
        look(write(tmp_path, ""))


def test_squad_files_have_no_columns(tmp_path) -> None:
    answers = [{"text": "Ada", "answer_start": 0}]
    paragraphs = [
        {
            "context": f"Ada wrote it {i}.",
            "qas": [{"id": str(i), "question": "Who?", "answers": answers}],
        }
        for i in range(20)
    ]
    data = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    found = look(write(tmp_path, json.dumps(data), "rows.json"))
    assert found["kind"] == "span"
    assert found["columns"] == []
