"""GLUE's tables are read as they are written, and its server gets what it expects."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.errors import DataError
from adapterbank.tasks.catalog import find
from adapterbank.tasks.glue import (
    SUBMISSIONS,
    read_glue_test,
    submission_name,
    tsv_rows,
    write_submission,
)
from adapterbank.tasks.task import Example


def test_quotes_are_characters(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes('\ufeffa\tb\r\n"open\tit\'s "so"\n\nx\t""\n'.encode())
    rows = tsv_rows(path)
    assert rows.columns == ("a", "b")
    assert [(row.number, row.line, row.values) for row in rows] == [
        (1, 2, {"a": '"open', "b": 'it\'s "so"'}),
        (2, 4, {"a": "x", "b": '""'}),
    ]


def test_a_table_without_rows(tmp_path: Path) -> None:
    for text in ("", "a\tb\n"):
        (tmp_path / "t.tsv").write_text(text)
        with pytest.raises(DataError, match=r"^t\.tsv.* no rows\."):
            tsv_rows(tmp_path / "t.tsv")


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("cola", "index\tsentence\n0\tLet it be.\n1\tBe it let.", ["Let it be.", "Be it let."]),
        ("sst2", 'index\tsentence\n0\tno "gem"', ['no "gem"']),
        (
            "mrpc",
            "\ufeffindex\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tHe left .\tHe went .",
            [("He left .", "He went .")],
        ),
        ("qqp", "id\tquestion1\tquestion2\n0\tWhy?\tHow?", [("Why?", "How?")]),
        ("qnli", "index\tquestion\tsentence\n0\tWho?\tAnn.", [("Who?", "Ann.")]),
        ("mnli", "index\tgenre\tsentence1\tsentence2\n0\tg\tA.\tB.", [("A.", "B.")]),
        # The diagnostic set, which MNLI answers.
        ("mnli", "index\tsentence1\tsentence2\n0\tA.\tB.", [("A.", "B.")]),
        ("rte", "index\tsentence1\tsentence2\n0\tA.\tB.\n1\tC.\tD.", [("A.", "B."), ("C.", "D.")]),
        ("wnli", "index\tsentence1\tsentence2\n0\tA.\tB.", [("A.", "B.")]),
        ("stsb", "index\tgenre\tsentence1\tsentence2\n0\tg\tA.\tB.", [("A.", "B.")]),
    ],
)
def test_unlabelled_test_sets(
    tmp_path: Path, name: str, lines: str, expected: list[str | tuple[str, str]]
) -> None:
    path = tmp_path / "test.tsv"
    path.write_text(f"{lines}\n", "utf-8")
    assert read_glue_test(find(name), path) == tuple(
        Example(each) if isinstance(each, str) else Example(each[0], pair=each[1])
        for each in expected
    )


def test_test_sets_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("index\tsentence\n0\tfine\n1\t \n")
    with pytest.raises(DataError, match=r"^test\.tsv, row 2 \(line 3\): the sentence is empty\.$"):
        read_glue_test(find("sst2"), path)
    with pytest.raises(DataError, match=r"^test\.tsv has no column 'sentence1'\. It has 'index', "):
        read_glue_test(find("rte"), path)
    path.write_text("index\tsentence\n0\tfine\n1\ttoo\tmany\n")
    with pytest.raises(DataError, match=r"^test\.tsv, row 2 \(line 3\): 3 tab-separated cells"):
        read_glue_test(find("sst2"), path)
    with pytest.raises(DataError, match=r"^airline is not a GLUE task\."):
        read_glue_test(find("airline"), path)


def test_names_of_the_files() -> None:
    names = [submission_name(task) for task in SUBMISSIONS]
    assert " ".join(names) == (
        "CoLA.tsv SST-2.tsv MRPC.tsv STS-B.tsv QQP.tsv MNLI-m.tsv MNLI-mm.tsv QNLI.tsv RTE.tsv "
        "WNLI.tsv AX.tsv"
    )
    with pytest.raises(DataError, match=r"^GLUE has no test set 'squad'\. Its test sets: cola, "):
        submission_name("squad")


@pytest.mark.parametrize(
    ("task", "predictions", "written"),
    [
        ("cola", ["acceptable", "unacceptable"], ["1", "0"]),
        ("sst2", ["positive", "negative"], ["1", "0"]),
        ("mrpc", ["equivalent", "not_equivalent"], ["1", "0"]),
        ("qqp", ["not_duplicate", "duplicate"], ["0", "1"]),
        ("wnli", ["entailment", "not_entailment"], ["1", "0"]),
        ("rte", ["entailment", "not_entailment"], ["entailment", "not_entailment"]),
        ("qnli", ["not_entailment"], ["not_entailment"]),
        ("mnli", ["neutral", "contradiction"], ["neutral", "contradiction"]),
        ("mnli_mismatched", ["entailment"], ["entailment"]),
        ("ax", ["neutral"], ["neutral"]),
        ("stsb", [2.34567, -0.2, -0.0, 5.01, 4], ["2.346", "0.000", "0.000", "5.000", "4.000"]),
    ],
)
def test_submissions(
    tmp_path: Path, task: str, predictions: list[str | float], written: list[str]
) -> None:
    path = tmp_path / submission_name(task)
    write_submission(path, task, predictions)
    lines = [f"{index}\t{label}\n" for index, label in enumerate(written)]
    assert path.read_bytes() == "".join(["index\tprediction\n", *lines]).encode()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_values_are_cut_to_the_scale(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("glue") / "STS-B.tsv"
    write_submission(path, "stsb", values)
    cells = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    assert [int(index) for index, _ in cells] == list(range(len(values)))
    for value, (_, text) in zip(values, cells, strict=True):
        assert abs(float(text) - min(max(value, 0), 5)) <= 0.0005
        assert not text.startswith("-")


@pytest.mark.parametrize(
    ("task", "predictions", "message"),
    [
        (
            "cola",
            ["acceptable", "1"],
            "Prediction 1 of cola is '1'. Its labels: unacceptable, acceptable.",
        ),
        ("rte", ["neutral"], "Prediction 0 of rte is 'neutral'. Its labels: "),
        ("stsb", [1.0, math.nan], "Prediction 1 of stsb is nan, not a number."),
        ("stsb", ["3"], "Prediction 0 of stsb is '3', not a number."),
    ],
)
def test_predictions_that_cannot_be(
    tmp_path: Path, task: str, predictions: list[str | float], message: str
) -> None:
    path = tmp_path / "out.tsv"
    path.write_text("before")
    with pytest.raises(DataError) as error:
        write_submission(path, task, predictions)
    assert str(error.value).startswith(message)
    assert path.read_text() == "before"


def test_the_file_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "RTE.tsv"
    path.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(DataError, match=r"RTE\.tsv cannot be written: No space left on device"):
            write_submission(path, "rte", ["entailment"])
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "before"
    with pytest.raises(DataError, match=r"cannot be written: No such file or directory\.$"):
        write_submission(tmp_path / "nowhere" / "RTE.tsv", "rte", ["entailment"])
