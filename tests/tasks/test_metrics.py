"""Scores worked out by hand, and the same numbers as scikit-learn where it has them."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from adapterbank.errors import DataError
from adapterbank.tasks.metrics import (
    LOWER_IS_BETTER,
    METRICS,
    ClassRow,
    accuracy_error,
    classification_scores,
    confusion,
    multi_label_scores,
    per_class,
    per_label,
    regression_scores,
    span_scores,
)
from adapterbank.tasks.task import METRICS_OF, Answer, Example

GOLD = ["cat", "cat", "cat", "dog", "dog", "owl"]
FOUND = ["cat", "dog", "dog", "dog", "cat", "owl"]
ANIMALS = ["cat", "dog", "owl", "yak"]


@pytest.fixture(autouse=True)
def _no_warnings() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_classification() -> None:
    scores = classification_scores(GOLD, FOUND, ANIMALS, positive="dog")
    assert scores == {
        "accuracy": pytest.approx(3 / 6),
        # cat: 1 right of 2 said and 3 true; dog: 1 of 3 and 2; owl: all. No yak: not counted.
        "macro_f1": pytest.approx((2 / 5 + 2 / 5 + 1) / 3),
        # (3·6 - (3·2 + 2·3 + 1·1)) / √((36 - 14)(36 - 14))
        "matthews": pytest.approx(5 / 22),
        "f1": pytest.approx(2 / 5),
    }
    assert set(scores) <= set(METRICS)


def test_classification_with_one_class() -> None:
    assert classification_scores(["cat"] * 3, ["cat"] * 3, ANIMALS) == {
        "accuracy": 1.0,
        "macro_f1": 1.0,
        "matthews": 0.0,
    }
    assert classification_scores(["cat"], ["cat"], ANIMALS, positive="yak")["f1"] == 0.0


def test_labels_must_be_known_and_rows_there() -> None:
    with pytest.raises(
        DataError, match=r"^'emu' is not a label of this task\. Its labels: cat, dog, owl, yak\.$"
    ):
        classification_scores(["emu"], ["cat"], ANIMALS)
    with pytest.raises(DataError, match=r"^'emu' is not a label"):
        multi_label_scores([["cat"]], [["cat", "emu"]], ANIMALS)
    for score in (classification_scores, multi_label_scores, confusion, per_class):
        with pytest.raises(DataError, match=r"^There are no rows to score\.$"):
            score([], [], ANIMALS)
    with pytest.raises(DataError, match="no rows"):
        regression_scores([], [])
    with pytest.raises(DataError, match="no rows"):
        span_scores([], {})


def test_per_class_and_confusion() -> None:
    assert confusion(GOLD, FOUND, ANIMALS) == [[1, 2, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0] * 4]
    assert per_class(GOLD, FOUND, ANIMALS) == [
        ClassRow("cat", 3, 1 / 2, pytest.approx(1 / 3), pytest.approx(2 / 5), "dog"),
        ClassRow("dog", 2, pytest.approx(1 / 3), 1 / 2, pytest.approx(2 / 5), "cat"),
        ClassRow("owl", 1, 1.0, 1.0, 1.0, ""),
        ClassRow("yak", 0, 0.0, 0.0, 0.0, ""),
    ]


def test_per_label() -> None:
    gold = [("cat", "dog"), ("owl",), (), ("cat",)]
    found = [{"dog", "cat"}, {"owl", "cat"}, set(), set()]
    assert per_label(gold, found, ANIMALS) == [
        ClassRow("cat", 2, 1 / 2, 1 / 2, 1 / 2, ""),
        ClassRow("dog", 1, 1.0, 1.0, 1.0, ""),
        ClassRow("owl", 1, 1.0, 1.0, 1.0, ""),
        ClassRow("yak", 0, 0.0, 0.0, 0.0, ""),
    ]
    assert per_label([("cat",), ()], [("cat",), ("cat",)], ["cat"]) == [
        ClassRow("cat", 1, 1 / 2, 1.0, pytest.approx(2 / 3), "")
    ]


def test_multi_label() -> None:
    gold = [("cat", "dog"), ("owl",), (), ("cat",)]
    found = [{"dog", "cat"}, {"owl", "cat"}, set(), set()]
    scores = multi_label_scores(gold, found, ANIMALS)
    assert scores == {
        "micro_f1": pytest.approx(2 * 3 / (4 + 4)),
        "macro_f1": pytest.approx((2 * 1 / (2 + 2) + 1 + 1 + 0) / 4),
        "exact_match": 2 / 4,
    }
    assert set(scores) <= set(METRICS)


def test_a_single_label_is_scored_on_its_own_rows_only() -> None:
    gold, found = [("spam",), (), (), ()], [("spam",), ("spam",), (), ()]
    scores = multi_label_scores(gold, found, ["spam"])
    assert scores["micro_f1"] == scores["macro_f1"] == pytest.approx(2 / 3)
    assert scores["exact_match"] == 3 / 4
    assert multi_label_scores([()], [()], ["spam"])["micro_f1"] == 0.0


_rows = st.lists(st.tuples(*[st.sets(st.sampled_from(ANIMALS))] * 2), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(rows=_rows)
def test_multi_label_agrees_with_scikit_learn(rows: list[tuple[set[str], set[str]]]) -> None:
    gold, found = zip(*rows, strict=True)
    columns = MultiLabelBinarizer(classes=ANIMALS).fit(gold)
    scores = multi_label_scores(gold, found, ANIMALS)
    for average in ("micro", "macro"):
        expected = f1_score(
            columns.transform(gold), columns.transform(found), average=average, zero_division=0
        )
        assert scores[f"{average}_f1"] == pytest.approx(expected)


def test_regression() -> None:
    scores = regression_scores([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 10.0])
    assert scores == {
        # deviations -1.5 -0.5 0.5 1.5 and -3 -2 -1 6: 14 / √(5 · 50)
        "pearson": pytest.approx(14 / math.sqrt(250)),
        "spearman": pytest.approx(1.0),
        "mean_absolute_error": pytest.approx(1.5),
    }
    assert set(scores) <= set(METRICS)
    assert set(scores) & LOWER_IS_BETTER == {"mean_absolute_error"}


@pytest.mark.parametrize(
    ("gold", "found", "error"),
    [
        ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], 2 / 3),
        ([2.0, 2.0], [1.0, 2.0], 0.5),
        ([2.0], [1.0], 1.0),
    ],
)
def test_correlation_with_a_constant_is_zero(
    gold: list[float], found: list[float], error: float
) -> None:
    scores = regression_scores(gold, found)
    assert scores == {
        "pearson": 0.0,
        "spearman": 0.0,
        "mean_absolute_error": pytest.approx(error),
    }


def test_nearly_constant_values_give_numbers_without_warnings() -> None:
    scores = regression_scores([1.0, 2.0, 3.0], [1.0, 1.0, 1.0 + 1e-15])
    assert all(math.isfinite(score) for score in scores.values())


def question(id: str, *answers: str) -> Example:
    return Example("?", pair="", id=id, answers=tuple(Answer(answer, 0) for answer in answers))


@pytest.mark.parametrize(
    ("right", "said", "exact_match", "f1"),
    [
        (["The Old Bridge"], "old  bridge.", 1, 1),
        (["the-old bridge"], "theold bridge", 1, 1),  # punctuation goes, words close up
        (["theory an sich"], "theory sich", 1, 1),  # articles are whole words
        (["another day"], "other day", 0, 1 / 2),
        (["red red wine"], "red wine wine", 0, 2 / 3),  # a word counts as often as both have it
        (["in May", "in May 1850"], "May 1850", 0, 4 / 5),  # the best of all answers
        (["in May"], "", 0, 0),
        (["a"], "the", 1, 0),  # no words at all on either side: equal, but nothing shared
    ],
)
def test_answers_where_each_question_has_one(
    right: list[str], said: str, exact_match: float, f1: float
) -> None:
    scores = span_scores([question("1", *right)], {"1": said})
    assert scores == {"exact_match": exact_match, "f1": pytest.approx(f1)}


def test_a_question_without_prediction_is_wrong() -> None:
    both = [question("1", "a"), question("2", "blue")]
    assert span_scores(both, {"2": "blue", "9": "not asked"}) == {"exact_match": 0.5, "f1": 0.5}


def test_answers_where_some_questions_have_none() -> None:
    examples = [
        question("full", "tall tower"),
        question("part", "tall tower", "the"),
        question("silent", "tower"),
        question("missing", "tower"),
        question("articles", "the"),  # counts as no answer, yet as answerable
        question("none"),
        question("left"),
        question("told"),
        question("article told"),
    ]
    said = {
        "full": "Tall tower!",
        "part": "tower",
        "silent": "",
        "articles": "",
        "none": "",
        "told": "tower",
        "article told": "the",
    }
    scores = span_scores(examples, said)
    assert scores == {
        "exact_match": pytest.approx((2 + 3) / 9),
        "f1": pytest.approx((2 + 2 / 3 + 3) / 9),
        "answerable_exact_match": pytest.approx(2 / 5),
        "answerable_f1": pytest.approx((2 + 2 / 3) / 5),
        "unanswerable_accuracy": pytest.approx(3 / 4),
    }
    assert set(scores) <= set(METRICS)


def test_only_questions_without_an_answer() -> None:
    assert span_scores([question("1"), question("2")], {"1": "", "2": "no"}) == {
        "exact_match": 0.5,
        "f1": 0.5,
        "unanswerable_accuracy": 0.5,
    }


def test_question_ids_are_unique() -> None:
    with pytest.raises(DataError, match=r"^Two questions have the same id\. Give every question"):
        span_scores([question(""), question("")], {})


def test_error_of_an_accuracy() -> None:
    assert accuracy_error(0.8, 100) == pytest.approx(0.04)
    assert accuracy_error(1.0, 7) == 0.0


def test_every_main_metric_is_described() -> None:
    assert {metric for each in METRICS_OF.values() for metric in each} <= set(METRICS)
    assert set(METRICS) >= LOWER_IS_BETTER
