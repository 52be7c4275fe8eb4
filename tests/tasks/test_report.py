"""The report counts what it says it counts, in plain lines."""

from __future__ import annotations

import json

import pytest

from adapterbank.tasks.report import Lengths, data_report
from adapterbank.tasks.task import Answer, Example, Task


def test_the_whole_report() -> None:
    train = [
        *[Example(f"ham {i}", "ham") for i in range(84)],
        *[Example(f"spam {i}", "spam") for i in range(4)],
        Example("Ham  1", "ham"),
        Example("spam 1", "ham"),
    ]
    dev = [Example("HAM 2", "ham"), Example("new", "spam")]
    task = Task("sms", ("ham", "spam"), train, dev, notes=("text from 'a', label from 'b'",))
    lengths = {"train": list(range(1, 91)), "dev": [10, 20]}
    report = data_report(task, lengths, 80)
    assert report.lines() == [
        "sms: classification; rows: train 90, dev 2",
        "text from 'a', label from 'b'",
        "2 labels in train: ham 86 (95.6%), spam 4 (4.4%)",
        "train texts, in tokens: median 45, 95 % up to 86, longest 90; 10 of 90 cut at 80",
        "dev texts, in tokens: median 10, 95 % up to 20, longest 20; none cut at 80",
        "warning: strong imbalance: 'ham' has 22 times the rows of 'spam'; "
        "look at F1, not accuracy alone",
        "warning: 1 label with fewer than 5 rows in train, such as 'spam'",
        "warning: dev has 2 rows: a score on so few may be off by up to 71 points",
        "warning: 2 texts more than once in train, 1 of them with different labels",
        "warning: 1 text of dev also in train: its score flatters",
    ]
    found = report.as_dict()
    assert json.loads(json.dumps(found)) == {
        "name": "sms",
        "kind": "classification",
        "max_length": 80,
        "rows": {"train": 90, "dev": 2},
        "classes": {"ham": 86, "spam": 4},
        "values": None,
        "unanswerable": None,
        "lengths": {
            "train": {
                "unit": "tokens",
                "texts": 90,
                "median": 45,
                "most": 86,
                "longest": 90,
                "cut": 10,
            },
            "dev": {
                "unit": "tokens",
                "texts": 2,
                "median": 10,
                "most": 20,
                "longest": 20,
                "cut": 0,
            },
        },
        "duplicates": 2,
        "conflicts": 1,
        "leaks": {"dev": 1},
        "notes": ["text from 'a', label from 'b'"],
        "warnings": list(report.warnings),
    }


def test_nothing_to_warn_of() -> None:
    train = [Example(f"text {i}", "ab"[i % 2]) for i in range(20)]
    dev = [Example("x", "a")] * 30
    report = data_report(Task("t", ("a", "b"), train, dev), None, 128)
    assert report.warnings == ()
    assert report.lengths["train"] == Lengths("characters", 20, 6, 7, 7, None)
    assert report.lines()[-1] == "dev texts, in characters: median 1, 95 % up to 1, longest 1"


@pytest.mark.parametrize(
    ("texts", "median", "most"), [(1, 1, 1), (2, 1, 2), (19, 10, 19), (20, 10, 19), (100, 50, 95)]
)
def test_lengths(texts: int, median: int, most: int) -> None:
    task = Task("t", ("a", "b"), [Example("x", "a")], ())
    lengths = data_report(task, {"train": range(texts, 0, -1)}, texts).lengths["train"]
    assert lengths == Lengths("tokens", texts, median, most, texts, 0)


@pytest.mark.parametrize(("largest", "warned"), [(100, False), (101, True)])
def test_imbalance(largest: int, warned: bool) -> None:
    train = [
        Example(f"{label} {i}", label) for label, n in (("a", largest), ("b", 5)) for i in range(n)
    ]
    report = data_report(Task("t", ("a", "b"), train, ()), None, 128)
    assert any("imbalance" in warning for warning in report.warnings) == warned


def test_many_classes() -> None:
    labels = tuple(f"c{i:03}" for i in range(150))
    train = [Example(f"{i} {k}", label) for i, label in enumerate(labels) for k in range(5 + i % 2)]
    line = data_report(Task("t", labels, train, ()), None, 128).lines()[1]
    assert line.startswith("150 labels in train: c001 6 (0.7%), c003 6 (0.7%), ")
    assert line.endswith(", and 140 more; the smallest is c148 5 (0.6%)")


def test_a_class_without_rows_is_a_small_one() -> None:
    train = [Example(f"t{i}", "a") for i in range(30)]
    warnings = data_report(Task("t", ("a", "b"), train, ()), None, 128).warnings
    assert warnings[1] == "1 label with fewer than 5 rows in train, such as 'b'"


def test_other_kinds() -> None:
    numbers = [Example(f"t{i}", i / 2) for i in range(11)]
    report = data_report(Task("t", (), numbers, (), kind="regression"), None, 128)
    assert report.values == (0.0, 2.5, 5.0)
    assert report.lines()[1] == "values in train: from 0 to 5, 2.5 on average"
    assert report.classes == {}

    many = [Example(f"t{i}", ("a", "b")[: i % 3]) for i in range(30)]
    report = data_report(Task("t", ("a", "b"), many, (), kind="multi-label"), None, 128)
    assert report.lines()[1] == "2 labels in train: a 20 (66.7%), b 10 (33.3%)"

    asked = [Example("q1", pair="c", answers=(Answer("c", 0),)), Example("q2", pair="c")]
    report = data_report(Task("t", (), asked, asked[:1], kind="span"), None, 128)
    assert report.lines() == [
        "t: span; rows: train 2, dev 1",
        "questions in train without an answer: 1",
        "train texts, in characters: median 3, 95 % up to 3, longest 3",
        "dev texts, in characters: median 3, 95 % up to 3, longest 3",
        "warning: dev has 1 row: a score on so few may be off by up to 100 points",
        "warning: 1 text of dev also in train: its score flatters",
    ]


@pytest.mark.parametrize("rows", [29, 30])
def test_few_rows_to_score_are_told(rows: int) -> None:
    examples = [Example(f"text {i}", "ab"[i % 2]) for i in range(100)]
    test = [example._replace(text=f"{example.text} again") for example in examples[:rows]]
    task = Task("t", ("a", "b"), examples, examples[:50], test)
    told = [warning for warning in data_report(task, None, 128).warnings if "test" in warning]
    said = ["test has 29 rows: a score on so few may be off by up to 19 points"]
    assert told == (said if rows < 30 else [])
    numbers = Task("n", (), [e._replace(label=1.0) for e in examples], test[:9], kind="regression")
    assert "dev has 9 rows: a score on so few is mostly chance" in (
        data_report(numbers, None, 128).warnings
    )


def test_labels_that_are_one_to_a_person_are_said() -> None:
    labels = ("BUG", "bug", "question", "by hand", "by  Hand")
    train = [Example(f"text {i}", label) for i, label in enumerate(labels * 9)]
    (alike,) = (
        warning
        for warning in data_report(Task("t", labels, train, train[:30]), None, 80).warnings
        if "case" in warning
    )
    assert alike == "labels that differ in case or spaces alone: 'BUG', 'bug'"
