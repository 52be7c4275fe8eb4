"""A task from files: what it decides, what it says, and every bad row it refuses."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.errors import ConfigError, DataError
from adapterbank.tasks import labels as label_module
from adapterbank.tasks.labels import sort_labels
from adapterbank.tasks.load import load_task
from adapterbank.tasks.task import Example, Task

SKIP = "Mend the data, or leave such rows out with --skip-bad (skip_bad=True)."
SEEN = "no test rows: the dev score is one that selection has seen"


def rows(*labels: object, **more: object) -> list[dict[str, object]]:
    return [{"text": f"text {i}", "label": label, **more} for i, label in enumerate(labels)]


def table(path: Path, cells: Sequence[Sequence[object]], **options: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, **options).writerows(cells)
    return path


def problem(train: object, **options: Any) -> str:
    with pytest.raises((DataError, ConfigError)) as caught:
        load_task("t", train, **options)
    return str(caught.value)


def test_the_header_once_more_is_no_class(tmp_path) -> None:
    """Files that were written one after the other have it in their middle."""
    lines = [f"text {i},{i % 2}" for i in range(40)]
    file = tmp_path / "both.csv"
    file.write_text("\n".join(["text,label", *lines[:20], "text,label", *lines[20:]]))
    said = f"both.csv, row 21 (line 22): the header stands here again. {SKIP}"
    assert problem(file) == said
    task = load_task("t", file, skip_bad=True)
    assert (task.kind, task.labels) == ("classification", ("0", "1"))


def given_dev(train: object, **options: Any) -> Task:
    """A task whose train stays whole: its own rows are dev."""
    return load_task("t", train, dev=train, **options)


def test_a_task_from_one_file(tmp_path: Path) -> None:
    draw = random.Random(0)
    cells = [(i, f"message {i}", draw.choice(["ham", "spam"])) for i in range(200)]
    path = table(tmp_path / "sms.csv", [("id", "Message", "Category"), *cells])
    task = load_task("spam", path, seed=3)
    assert (task.name, task.kind, task.metric) == ("spam", "classification", "accuracy")
    assert task.labels == ("ham", "spam")
    assert not task.pairs
    assert task.columns == {"text": "Message", "label": "Category"}
    sizes = [len(split) for split in (task.train, task.dev, task.test)]
    assert sizes == [160, 20, 20]
    every = sorted([*task.train, *task.dev, *task.test])
    assert every == sorted(Example(text, label) for _, text, label in cells)
    assert task.notes == (
        "text from 'Message', label from 'Category'",
        "not read: 'id'",
        "classification, 2 labels",
        "dev: 20 rows cut from train, test: 20 rows cut from train (stratified, seed 3)",
    )
    assert load_task("spam", str(path), seed=3) == task
    assert load_task("spam", path, seed=4) != task


def test_what_is_cut_depends_on_what_is_given() -> None:
    train, other = rows(*"ab" * 30), rows(*"abab")
    task = load_task("t", train, dev=other)
    assert (len(task.train), len(task.dev), len(task.test)) == (60, 4, 0)
    assert task.notes[-2:] == ("dev: 4 rows", SEEN)
    task = load_task("t", train, test=other)
    assert (len(task.train), len(task.dev), len(task.test)) == (54, 6, 4)
    assert task.notes[-1] == "dev: 6 rows cut from train, test: 4 rows (stratified, seed 0)"
    task = load_task("t", train, dev=other, test=other[:1])
    assert (len(task.train), len(task.dev), len(task.test)) == (60, 4, 1)
    assert task.notes[-1] == "dev: 4 rows, test: 1 row"


def test_odd_texts(tmp_path: Path) -> None:
    texts = [
        "line one\r\nline two",
        'she said "no"',
        "مرحبا بالعالم",
        "👩🏽‍🚀🇺🇳",
        "a,b;c\td",
        "word " * 100_000,
        "  kept  ",
        "\u2028 separators \x0b\x1c",
    ]
    cells = [(text, label) for text in texts for label in "xy"]
    for ending in ("\n", "\r\n"):
        path = table(tmp_path / "odd.csv", [("text", "label"), *cells], lineterminator=ending)
        assert [(row.text, row.label) for row in given_dev(path).train] == cells


def test_150_classes_and_strong_imbalance() -> None:
    many = rows(*(f"class {i % 150}" for i in range(1_500)))
    assert len(load_task("t", many).labels) == 150
    few = rows(*["common"] * 2_000, *["rare"] * 3)
    task = load_task("t", few)
    for split in (task.train, task.dev, task.test):
        assert sum(row.label == "rare" for row in split) == 1


def test_pairs() -> None:
    table = [{"premise": f"p{i}", "hypothesis": f"h{i}", "label": i % 3} for i in range(6)]
    task = given_dev(table)
    assert task.pairs
    assert task.train[1] == Example("p1", "1", "h1")
    assert task.columns == {"text": "premise", "pair": "hypothesis", "label": "label"}
    assert task.labels == ("0", "1", "2")
    assert task.notes[0] == "texts from 'premise' and 'hypothesis', label from 'label'"
    assert given_dev(table, kind="pair-classification") == task
    assert "two texts are needed" in problem(rows(*"abab"), kind="pair-classification")
    table[2]["hypothesis"] = " "
    assert problem(table) == f"the rows given, row 3: the second text is empty. {SKIP}"


def test_regression() -> None:
    task = given_dev(rows("0.5", 3, 4.25, "1e1"))
    assert (task.kind, task.labels, task.metric) == ("regression", (), "pearson")
    assert [row.label for row in task.train] == [0.5, 3.0, 4.25, 10.0]
    assert "regression" in task.notes
    assert given_dev(rows(*range(60))).kind == "regression"
    commas = given_dev(rows("0,5", "-3", "4,25", "0,125"))
    assert [row.label for row in commas.train] == [0.5, -3.0, 4.25, 0.125]
    assert given_dev(rows("1,250", "2,500", "1,250", "2,500")).kind == "classification"
    assert given_dev(rows(*range(60)), kind="classification").labels[9:12] == ("9", "10", "11")
    assert given_dev(rows(1, 2, 3), kind="regression").train[0].label == 1.0


def test_commas_that_may_part_classes_are_said() -> None:
    few = rows("0,2", "1,3", "2", "0,1")
    said = (
        "'0,1' in 'label' is read as the number 0.1; if it is the classes 0 and 1, "
        "say --kind multi-label"
    )
    assert said in given_dev(few).notes
    chosen = [given_dev(few, kind=kind) for kind in ("regression", "multi-label")]
    assert chosen[0].train[0].label == 0.2
    assert chosen[1].train[0].label == ("0", "2")
    many = given_dev(rows("0,1", "0,2", "1,2", "0,3", "2", "3"))
    assert (many.kind, many.labels) == ("multi-label", ("0", "1", "2", "3"))
    other = (
        "'0,1' in 'label' is read as the classes 0 and 1; if it is the number 0.1, "
        "say --kind regression"
    )
    assert other in many.notes
    plain = given_dev(rows("2,8", "4,6", "3,2", "5,0"))
    for notes in (plain.notes, *(task.notes for task in chosen)):
        assert not any("is read as" in note for note in notes)


def test_truth_values_have_one_name_in_every_form(tmp_path: Path) -> None:
    written = table(tmp_path / "rows.csv", [("text", "label"), ("a", "True"), ("b", "False")])
    for train, dev in ((rows(True, False), written), (written, rows(True, False))):
        task = load_task("t", train, dev=dev)
        assert {row.label for row in task.dev} == set(task.labels)
    assert "is not one of" in problem(rows("true", "no"), dev=rows("false"))


def test_a_positive_class() -> None:
    assert load_task("t", rows(*"abab"), dev=rows(*"ab")).positive == "b"
    task = load_task("t", rows(*"abcc"), dev=rows(*"ab"), positive="a", metric="f1")
    assert (task.positive, task.metric) == ("a", "f1")


def test_multi_label() -> None:
    task = given_dev(rows(["b", "a"], [], ["c"]))
    assert (task.kind, task.labels, task.metric) == ("multi-label", ("a", "b", "c"), "micro_f1")
    assert [row.label for row in task.train] == [("b", "a"), (), ("c",)]
    written = [{"text": f"t{i}", "labels": cell} for i, cell in enumerate(["b|a", "", "c", None])]
    task = given_dev(written)
    assert [row.label for row in task.train] == [("b", "a"), (), ("c",), ()]
    assert "multi-label, 3 labels, parted by '|'" in task.notes
    task = given_dev(rows("a, b", "b", ""), kind="multi-label")
    assert [row.label for row in task.train] == [("a", "b"), ("b",), ()]
    task = given_dev(rows('["a", "b"]', "[]"))
    assert [row.label for row in task.train] == [("a", "b"), ()]
    assert "multi-label, 2 labels" in task.notes
    assert problem(rows([], [])) == "the rows given: no row has a label in 'label'."


def test_multi_label_files_need_not_be_parted_alike() -> None:
    task = load_task("t", rows(["a", "b"], ["c"]), dev=rows("a;c", "b", '["a"]'))
    assert [row.label for row in task.dev] == [("a", "c"), ("b",), ("a",)]


def test_labels_are_strings() -> None:
    assert given_dev(rows(1, 1.0, "1.0", " 1 ", 2)).labels == ("1", "2")
    assert given_dev(rows(True, False)).labels == ("false", "true")
    assert sort_labels({"10", "9", "-1"}) == ("-1", "9", "10")
    assert sort_labels({"10", "9", "b", "B"}) == ("10", "9", "B", "b")


def test_label_names() -> None:
    for names in (["bad", "good"], {0: "bad", "1": "good"}, {0.0: "bad", 1: "good"}):
        task = load_task("t", rows(0, 1, "1.0"), dev=rows("good", 0), label_names=names)
        assert task.labels == ("bad", "good")
        assert [row.label for row in task.train] == ["bad", "good", "good"]
        assert [row.label for row in task.dev] == ["good", "bad"]
    many = given_dev(rows(*range(60)), label_names=[f"n{i}" for i in range(60)])
    assert many.kind == "classification"
    lists = given_dev(rows([0, 1], [1]), label_names=["bad", "good"])
    assert [row.label for row in lists.train] == [("bad", "good"), ("good",)]
    assert problem(rows(0, 1, 2), label_names=["bad", "good"]) == (
        f"the rows given, row 3: the label '2' is not in label_names (0, 1). {SKIP}"
    )
    assert problem(rows(0.5, 1), kind="regression", label_names=["a", "b"]) == (
        "label_names are for classes; the task is of kind regression."
    )


def test_frames_and_datasets() -> None:
    import datasets
    import pandas as pd

    frame = pd.DataFrame({"text": ["a", "b", "c"], "label": [1, 0, None]})
    assert (
        problem(frame)
        == f"the rows given, row 3: the label is missing (empty, null or NaN). {SKIP}"
    )
    assert given_dev(frame, skip_bad=True).train == [Example("a", "1"), Example("b", "0")]
    data = datasets.Dataset.from_pandas(frame.iloc[:2])
    assert given_dev(data).train == [Example("a", "1"), Example("b", "0")]


NAN = float("nan")
BAD_ROWS: dict[str, tuple[list[dict[str, object]], dict[str, Any], str]] = {
    "empty text": (
        [*rows(*"ab"), {"text": " \n", "label": "a"}],
        {},
        f"the rows given, row 3: the text is empty. {SKIP}",
    ),
    "more like it": (
        [*rows(*"ab"), *[{"text": "", "label": "a"}] * 4],
        {},
        f"the rows given, row 3: the text is empty, and 3 more rows like it. {SKIP}",
    ),
    "one more, and others": (
        [{"text": "", "label": "a"}, {"label": "b"}, *rows("a", None)],
        {},
        "the rows given, row 1: the text is empty, and 1 more row like it, "
        f"and 1 row with other problems. {SKIP}",
    ),
    "the first is named, whatever is wrong": (
        [*rows("a", None), {"text": "", "label": "a"}],
        {},
        "the rows given, row 2: the label is missing (empty, null or NaN), and 1 row with other "
        f"problems. {SKIP}",
    ),
    "missing label": (
        rows("a", "b", " "),
        {},
        f"the rows given, row 3: the label is missing (empty, null or NaN). {SKIP}",
    ),
    "NaN label": (
        rows("a", "b", NAN),
        {},
        f"the rows given, row 3: the label is missing (empty, null or NaN). {SKIP}",
    ),
    "no number": (
        rows(*(i + 0.5 for i in range(30)), "n/a"),
        {},
        "the rows given, row 31: the label 'n/a' is not a number. "
        f"For classes, say --kind classification. {SKIP}",
    ),
    "a comma that may stand for either": (
        rows("0,5", "1,250"),
        {"kind": "regression"},
        f"the rows given, row 2: the label '1,250' may be two numbers. Write 1250 or 1.250. {SKIP}",
    ),
    "underscores": (
        rows("0.5", "1_5"),
        {"kind": "regression"},
        "the rows given, row 2: the label '1_5' is not a number. "
        f"For classes, say --kind classification. {SKIP}",
    ),
    "NaN": (
        rows(0.5, "nan"),
        {"kind": "regression"},
        f"the rows given, row 2: the label 'nan' is not a finite number. {SKIP}",
    ),
    "infinity": (
        rows(0.5, float("inf")),
        {"kind": "regression"},
        f"the rows given, row 2: the label 'inf' is not a finite number. {SKIP}",
    ),
    "NaN as a number": (
        rows(0.5, NAN, 1.5),
        {"kind": "regression"},
        f"the rows given, row 2: the label is missing (empty, null or NaN). {SKIP}",
    ),
    "a list": (
        rows("a", ["b"]),
        {"kind": "classification"},
        f"the rows given, row 2: the label is a list: ['b']. Say --kind multi-label. {SKIP}",
    ),
    "zeros and ones": (
        rows([0, 1, 0], [1, 1, 0]),
        {},
        "the rows given, row 1: the list [0, 1, 0] has a number more than once, and 1 more row "
        "like it. List the classes that hold, by name or number, not zeros and ones. " + SKIP,
    ),
    "long label": (
        rows("a", "b" * 300),
        {},
        "the rows given, row 2: the label has 300 characters; 256 at most are read. "
        f"Say which column holds the label: --label-column. {SKIP}",
    ),
    "one class": (
        rows("a", "a"),
        {},
        "the rows given: every row has the label 'a' in 'label'. "
        "There is nothing to learn from one value. Give rows with others too.",
    ),
    "one number": (
        rows(0.5, 0.5),
        {},
        "the rows given: every row has the label 0.5 in 'label'. "
        "There is nothing to learn from one value. Give rows with others too.",
    ),
    "one class or the other as zeros and ones": (
        rows([1, 0], [0, 1], [1, 0]),
        {},
        "the rows given: every row has the same labels in 'label': 0, 1. There is nothing to learn "
        "from that. List the classes that hold, by name or number, not zeros and ones.",
    ),
    "names that are no text": (
        [{"text": "a", 7: "b"}],
        {},
        "the rows given, row 1: the name of a column is 7, not a string. "
        'Give rows such as {"text": "…", "label": "…"}.',
    ),
    "unknown label in dev": (
        rows("ham", "spam"),
        {"dev": rows("ham", "sapm")},
        "the rows given, row 2: the label 'sapm' is not one of the task's: ham, spam. "
        "Did you mean 'spam'? " + SKIP,
    ),
    "unknown label in test": (
        rows(["a"], ["b"]),
        {"dev": rows(["a"]), "test": rows(["a"], ["a", "c"])},
        "the rows given, row 2: the label 'c' is not one of the task's: a, b. Is it the right "
        f"column (--label-column)? Codes are named by --label-names A,B,… {SKIP}",
    ),
    "no such column in dev": (
        rows(*"ab"),
        {"dev": [{"text": "a", "Label": "b"}]},
        "the rows given: there is no column 'label', the label column of train. "
        "Its columns are 'text', 'Label'. Did you mean 'Label'?",
    ),
    "no rows in dev": (
        rows(*"ab"),
        {"dev": []},
        "the rows given: there are no rows. Give at least one, below the header.",
    ),
    "nothing left": (
        [{"text": "", "label": "a"}],
        {"skip_bad": True},
        "the rows given: no row is left. Mend some of them.",
    ),
    "nothing left of dev": (
        rows(*"ab"),
        {"skip_bad": True, "dev": [{"text": "", "label": "a"}]},
        "the rows given: no row is left. Mend some of them.",
    ),
    "too few to cut": (
        rows(*"abab"),
        {},
        "The 4 rows of train are too few to cut dev and test from. "
        "Give more rows (three different texts of a class at least), or give dev.",
    ),
    "no such positive class": (
        rows(*"ab"),
        {"positive": "c"},
        "positive is 'c', and the labels are: a, b. It names the class whose f1 is reported.",
    ),
    "numbers that are nearly one": (
        rows(1.7e9, 1.7e9 + 1.5, 1.7e9 + 3),
        {"kind": "regression"},
        "the rows given: the numbers from 1.7e+09 to 1.7e+09 are nearly one, as a model sees them, "
        "in 'label'. Subtract what they have in common, such as 1.7e+09.",
    ),
    "a number past single precision": (
        rows(0.5, 1e31),
        {},
        "the rows given: 1e+31 is too large a number to learn in 'label'. "
        "Give it in a larger unit.",
    ),
    "kind": (
        rows(*"ab"),
        {"kind": "ranking"},
        "kind is 'ranking'. Choose from: classification, multi-label, regression, span, "
        "pair-classification.",
    ),
    "span from rows": (
        rows(*"ab"),
        {"kind": "span"},
        "the rows given: not a span task. Give SQuAD's form in a .json file.",
    ),
}


@pytest.mark.parametrize(("train", "options", "said"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_rows(train: object, options: dict[str, Any], said: str) -> None:
    assert problem(train, **options) == said


def test_bad_rows_of_a_file(tmp_path: Path) -> None:
    cells = [("text", "label"), ("two\nlines", "a"), ("fine", "b"), ("", "a"), ("x", "b", "c")]
    path = table(tmp_path / "reviews.csv", cells)
    assert problem(path) == (
        "reviews.csv, row 3 (line 5): the text is empty, and 1 row with other problems. " + SKIP
    )
    task = given_dev(path, skip_bad=True)
    assert task.train == [Example("two\nlines", "a"), Example("fine", "b")]
    left_out = (
        "left out 2 bad rows: reviews.csv, row 3 (line 5): the text is empty, "
        "and 1 row with other problems"
    )
    assert [note for note in task.notes if "left out" in note] == [left_out, left_out]


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_module, "MAX_LABELS", 3)
    assert problem(rows(*"abcd")) == (
        "the rows given: 'label' holds 4 different labels; 3 at most can be learnt. "
        "Is it the right column? Say which: --label-column."
    )


def test_columns_and_delimiters_are_announced(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.csv",
        [("who", "what"), ("x", "a long text"), ("y", "another text")],
        delimiter=";",
    )
    notes = given_dev(path).notes
    assert notes[:2] == (
        "a.csv: cells are parted by semicolons",
        "text from 'what', label from 'who': chosen by what they hold",
    )


def test_labels_share_one_string() -> None:
    task = given_dev(
        [{"text": str(i), "label": "".join(["la", "bel", str(i % 2)])} for i in range(9)]
    )
    assert len({id(row.label) for row in task.train}) == 2


def squad(path: Path, contexts: int) -> Path:
    paragraphs = [
        {
            "context": f"Fact {i} is here.",
            "qas": [
                {
                    "id": f"{i}-{j}",
                    "question": f"Which fact, {j}?",
                    "answers": [{"text": f"Fact {i}", "answer_start": 0}],
                }
                for j in range(2)
            ],
        }
        for i in range(contexts)
    ]
    path.write_text(json.dumps({"data": [{"title": "facts", "paragraphs": paragraphs}]}))
    return path


def test_span_tasks(tmp_path: Path) -> None:
    path = squad(tmp_path / "facts.json", 30)
    task = load_task("facts", path)
    assert (task.kind, task.labels, task.metric) == ("span", (), "f1")
    assert [len(split) for split in (task.train, task.dev, task.test)] == [48, 6, 6]
    assert task.notes == (
        "span",
        "dev: 6 rows cut from train, test: 6 rows cut from train (by context, seed 0)",
    )
    contexts = [{row.pair for row in split} for split in (task.train, task.dev, task.test)]
    assert [len(each) for each in contexts] == [24, 3, 3]
    assert len(load_task("facts", path, kind="span", dev=path).train) == 60
    assert problem(path, kind="regression") == (
        "facts.json is read as a span task, not as regression. "
        "Give rows as .csv, .tsv, .jsonl or .parquet."
    )
    assert problem(path, dev=tmp_path / "facts.csv") == (
        "facts.csv: not a span task. Give SQuAD's form in a .json file."
    )
    assert problem(tmp_path / "none.json").startswith("There is no file ")
    assert problem(path, skip_bad=True, text_column="x").startswith(
        "text_column, skip_bad: a span task is read from SQuAD's form"
    )


@settings(max_examples=60, deadline=None)
@given(
    table=st.lists(
        st.tuples(st.text(min_size=1, max_size=10), st.sampled_from("abc")), min_size=1, max_size=40
    )
)
def test_no_row_is_lost(table: list[tuple[str, str]]) -> None:
    """Whatever the texts: each is in one split, or an error says why not."""
    source = [{"text": text, "label": label} for text, label in table]
    try:
        task = load_task("t", source)
    except DataError as error:
        said = error.message
    else:
        said = ""
        found = sorted([*task.train, *task.dev, *task.test])
        assert found == sorted(Example(text, label) for text, label in table)
        assert {row.label for row in task.train} == set(task.labels)
    if any(not text.strip() for text, _ in table):
        assert "the text is empty" in said
    elif len({label for _, label in table}) == 1:
        assert "every row has the label" in said
    elif said:
        assert "too few to cut" in said
        assert len({text for text, _ in table}) < 10
