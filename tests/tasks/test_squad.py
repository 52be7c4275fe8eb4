"""SQuAD files are read strictly and mended openly; predictions are written whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapterbank.errors import DataError
from adapterbank.tasks.squad import (
    FORM,
    has_unanswerable,
    read_squad,
    read_squad_file,
    span_example,
    write_predictions,
)
from adapterbank.tasks.task import Answer, Example

CONTEXT = "The ferry leaves at nine. On Sundays the ferry leaves at ten."


def asked(id: str, *answers: tuple[Any, Any], **more: Any) -> dict[str, Any]:
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": f"{id}?", "answers": found} | more


def saved(folder: Path, *questions: Any, title: str = "Ferries") -> Path:
    paragraph = {"context": CONTEXT, "qas": list(questions)}
    return written(folder, {"data": [{"title": title, "paragraphs": [paragraph]}]})


def written(folder: Path, content: Any) -> Path:
    path = folder / "file.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


def refused(path: Path) -> str:
    with pytest.raises(DataError) as raised:
        read_squad(path)
    return str(raised.value).replace(str(path), "FILE").replace(FORM, "FORM")


def test_questions_with_and_without_answers(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        asked("q1", ("nine", 20), ("at nine", 17)),
        asked("q2", is_impossible=True, plausible_answers=[{"text": "ten", "answer_start": 57}]),
        asked("q3", ("ten", 57), is_impossible=False),
        asked("q4"),
        asked("q5", ("ten", 57), is_impossible=True),
    )
    found = read_squad_file(path)
    assert found.examples == (
        Example("q1?", None, CONTEXT, "q1", (Answer("nine", 20), Answer("at nine", 17))),
        Example("q2?", None, CONTEXT, "q2"),
        Example("q3?", None, CONTEXT, "q3", (Answer("ten", 57),)),
        Example("q4?", None, CONTEXT, "q4"),
        Example("q5?", None, CONTEXT, "q5"),
    )
    assert found.notes == ()
    assert len({id(example.pair) for example in found.examples}) == 1
    assert read_squad(str(path)) == found.examples
    assert has_unanswerable(found.examples)
    assert not has_unanswerable(found.examples[::2][:2])


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = saved(tmp_path, asked("q1", ("nine", 20)))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_squad(path)[0].id == "q1"


def test_answers_are_mended_and_counted(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        asked("near", ("leaves", 40), ("ferry", 12)),
        asked("far", ("nine", 900), ("ten", -5)),
        asked("some", ("noon", 3), ("nine", 20)),
        asked("void", ("", 3), ("nine", 20)),
        asked("nothing", (" ", 3)),
    )
    found = read_squad_file(path)
    assert [example.answers for example in found.examples] == [
        (Answer("leaves", 47), Answer("ferry", 4)),
        (Answer("nine", 20), Answer("ten", 57)),
        (Answer("nine", 20),),
        (Answer("nine", 20),),
        (),
    ]
    place = f"{path}, article 'Ferries', question"
    assert found.notes == (
        f"answers not at their answer_start: taken from the nearest place "
        f"(4; the first: {place} 'near')",
        f"answers not in their context: left out, the question keeps its other answers "
        f"(1; the first: {place} 'some')",
        f"answers empty: read as no answer (2; the first: {place} 'void')",
    )


@given(
    context=st.text("ab", min_size=1, max_size=12),
    text=st.text("ab", min_size=1, max_size=3),
    start=st.integers(-3, 15),
)
def test_the_nearest_place_is_taken(context: str, text: str, start: int) -> None:
    places = [i for i in range(len(context)) if context[i:].startswith(text)]
    if not places:
        with pytest.raises(DataError):
            span_example("?", context, text, start)
        return
    found = span_example("?", context, text, start).answers[0]
    assert found.text == text
    assert found.start in places
    assert abs(found.start - start) == min(abs(place - start) for place in places)


NOT_THERE = (
    "the answer 'noon' does not stand in its context. "
    "An answer is a piece of its context, letter by letter."
)
NO_ANSWER = (
    'is_impossible is false, but there is no answer. Set "is_impossible" to true, '
    "or leave it out, for a question without an answer."
)
HALF = (
    "'question' holds half a character at place 5: 'half \\ud83d of it'. "
    "Write the file again as UTF-8."
)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (asked("q1", ("noon", 3)), NOT_THERE),
        (asked("q1", ("noon", 3), ("", 0)), NOT_THERE),
        (asked("q1", is_impossible=False), NO_ANSWER),
        (asked("q1", is_impossible="no"), "'is_impossible' is 'no', not true or false. FORM"),
        (asked("q1", answers=None), "'answers' is missing. FORM"),
        (asked("q1", answers={"text": "x"}), "'answers' is {'text': 'x'}, not a list. FORM"),
        (asked("q1", question=None), "'question' is missing. FORM"),
        (asked("q1", ("nine", "20")), "'answer_start' is '20', not a whole number. FORM"),
        (asked("q1", ("nine", None)), "'answer_start' is missing. FORM"),
        (asked("q1", (3, 3)), "'text' is 3, not a string. FORM"),
        (asked("q1", question="half \ud83d of it"), HALF),
    ],
)
def test_a_wrong_question_is_named(tmp_path: Path, question: Any, message: str) -> None:
    told = refused(saved(tmp_path, asked("q0", ("nine", 20)), question))
    told = told.replace("'q1', an answer:", "'q1':")
    assert told == f"FILE, article 'Ferries', question 'q1': {message}"


def test_ids(tmp_path: Path) -> None:
    twice = saved(tmp_path, asked("q1"), asked("q1"))
    assert refused(twice) == (
        "FILE, article 'Ferries', question 'q1': the id comes twice. "
        "Give every question its own id."
    )
    number = saved(tmp_path, {"id": 7, "question": "?", "answers": []}, title="")
    assert refused(number) == "FILE, article 1, a question: 'id' is 7, not a string. FORM"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "FILE: 'data' is missing. FORM"),
        ({"data": "x" * 99}, f"FILE: 'data' is '{'x' * 27}...{'x' * 28}', not a list. FORM"),
        ({"data": []}, "FILE holds no questions. FORM"),
        ({"data": [{"paragraphs": []}]}, "FILE holds no questions. FORM"),
        ({"data": ["x"]}, "FILE, article 1: 'paragraphs' is missing. FORM"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "FILE, article 1: 'context' is missing. FORM"),
        ({"data": [{"paragraphs": [{"context": ""}]}]}, "FILE, article 1: 'qas' is missing. FORM"),
    ],
)
def test_a_wrong_form_is_named(tmp_path: Path, content: Any, message: str) -> None:
    assert refused(written(tmp_path, content)) == message


def test_rows_in_json_are_told_where_they_belong(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": "b"}] * 2
    said = refused(written(tmp_path, rows))
    assert said.startswith("FILE holds a list, and .json is read as SQuAD's form. Rows are read")
    path = tmp_path / "file.json"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert "Rows are read from a .jsonl file, one object a line" in refused(path)


def test_files_that_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    assert refused(path) == "FILE cannot be read: No such file or directory."
    assert refused(tmp_path).endswith(" cannot be read: Is a directory.")
    path.write_text('{"data": [')
    assert refused(path).startswith("FILE is not JSON: Expecting value: line 1 column 11")
    path.write_bytes(b'{"data": "\xff\xff"}')
    assert refused(path).startswith("FILE is not JSON: 'utf-8' codec can't decode")
    path.write_text("[" * 200_000)
    assert refused(path).startswith("FILE is not JSON: ")


def test_flat_rows() -> None:
    assert span_example("When?", CONTEXT, "leaves", id="7") == Example(
        "When?", None, CONTEXT, "7", (Answer("leaves", 10),)
    )
    assert span_example("When?", CONTEXT, "leaves", 47).answers == (Answer("leaves", 47),)
    assert span_example("When?", CONTEXT, " ", 3) == Example("When?", pair=CONTEXT)
    told = "Question 'When?': the answer 'noon' does not stand in its context."
    with pytest.raises(DataError, match=f"^{re.escape(told)}"):
        span_example("When?", CONTEXT, "noon")
    with pytest.raises(DataError, match=r"^Question '7': the answer"):
        span_example("When?", CONTEXT, "noon", id="7")


def test_predictions_are_one_json_object(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    path.write_text("before")
    answers = {"q1": "nine", "q2": "", "q3": "naïve \ud83d"}
    write_predictions(path, answers)
    assert json.loads(path.read_bytes()) == answers
    assert list(tmp_path.iterdir()) == [path]


def test_predictions_appear_whole_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "predictions.json"
    path.write_text("before")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError) as raised:
        write_predictions(path, {"q1": "nine"})
    assert str(raised.value) == f"{path} cannot be written: No space left on device."
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_predictions_need_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "p.json", tmp_path / "file" / "p.json"):
        with pytest.raises(DataError, match="cannot be written: N"):
            write_predictions(path, {})
