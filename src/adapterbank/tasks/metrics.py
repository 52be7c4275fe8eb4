"""Scores of predictions, by kind of task. All are fractions, but for `mean_absolute_error`."""

from __future__ import annotations

import math
import re
import string
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from adapterbank.errors import DataError
from adapterbank.tasks.squad import has_unanswerable
from adapterbank.tasks.task import Example

METRICS: dict[str, str] = {
    "accuracy": "share of rows with the right label",
    "macro_f1": "F1 of each class, averaged over the classes",
    "micro_f1": "F1 over all labels of all rows together",
    "f1": "F1 of the positive class; for spans, of the words that answer and prediction share",
    "matthews": "correlation of true and predicted classes, from -1 to 1",
    "exact_match": "share of rows with all labels right, or of questions with a right answer",
    "pearson": "linear correlation of true and predicted values, from -1 to 1",
    "spearman": "correlation of the ranks of true and predicted values, from -1 to 1",
    "mean_absolute_error": "how far predicted values are from the true ones, on average",
    "answerable_exact_match": "exact_match over the questions that have an answer",
    "answerable_f1": "f1 over the questions that have an answer",
    "unanswerable_accuracy": "share of the questions without an answer that were left unanswered",
}
LOWER_IS_BETTER = frozenset({"mean_absolute_error"})
SHARES = frozenset({"accuracy", "exact_match"})  # of rows, so that `accuracy_error` is their noise


@dataclass(frozen=True)
class ClassRow:
    """How one class fares."""

    label: str
    rows: int
    """Rows that truly have this label."""
    precision: float
    recall: float
    f1: float
    most_confused_with: str
    """The wrong label that its rows got most often; empty if none."""


def metric_name(metric: str, positive: str) -> str:
    """With the class that it is about."""
    return f"{metric} ({positive})" if metric == "f1" and positive else metric


class AnswerScore(NamedTuple):
    """How one answer fares against the right ones."""

    exact_match: float
    f1: float


def classification_scores(
    gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str], positive: str = ""
) -> dict[str, float]:
    """accuracy, macro_f1 over the classes that occur, matthews; f1 of `positive` if it is given."""
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    true, guess = _numbers(gold, labels), _numbers(predicted, labels)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A single label was found")
        matthews = matthews_corrcoef(true, guess)
    scores = {
        "accuracy": float(accuracy_score(true, guess)),
        "macro_f1": float(f1_score(true, guess, average="macro", zero_division=0)),
        "matthews": float(matthews),
    }
    if positive:
        only = _numbers([positive], labels)
        f1 = f1_score(true, guess, labels=only, average="macro", zero_division=0)
        scores["f1"] = float(f1)
    return scores


def multi_label_scores(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> dict[str, float]:
    """micro_f1, macro_f1 over all labels, and exact_match: the share of rows that are all right."""
    import numpy as np
    from sklearn.metrics import f1_score

    true, guess = _indicators(gold, labels), _indicators(predicted, labels)
    # Column by column: scikit-learn would take a lone column for a task of two classes.
    by_label = [f1_score(true[:, i], guess[:, i], zero_division=0) for i in range(len(labels))]
    return {
        "micro_f1": float(f1_score(true.ravel(), guess.ravel(), zero_division=0)),
        "macro_f1": float(np.mean(by_label)),
        "exact_match": float((true == guess).all(axis=1).mean()),
    }


def regression_scores(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """pearson and spearman (0 where one side is constant), mean_absolute_error."""
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import mean_absolute_error

    _some(gold)
    return {
        "pearson": _correlation(pearsonr, gold, predicted),
        "spearman": _correlation(spearmanr, gold, predicted),
        "mean_absolute_error": float(mean_absolute_error(gold, predicted)),
    }


def span_scores(examples: Sequence[Example], predicted: Mapping[str, str]) -> dict[str, float]:
    """exact_match and f1 as SQuAD's scorers give them, answers by question id.

    The rules of v2.0 hold if some question has no answer, and the scores of both sorts of question
    come along; else those of v1.1. An id without a prediction counts: as "" in v2.0, as wrong in
    v1.1 (the scorer of v2.0 would leave the question out).
    """
    _some(examples)
    if len({example.id for example in examples}) < len(examples):
        raise DataError("Two questions have the same id.", "Give every question its own id.")
    no_answer = has_unanswerable(examples)
    missing = "" if no_answer else None
    scored = {
        example.id: answer_score(predicted.get(example.id, missing), example, no_answer)
        for example in examples
    }
    exact_match, f1 = _means(scored.values())
    scores = {"exact_match": exact_match, "f1": f1}
    if no_answer:
        answerable = [scored[example.id] for example in examples if example.answers]
        unanswerable = [scored[example.id] for example in examples if not example.answers]
        if answerable:
            exact_match, f1 = _means(answerable)
            scores |= {"answerable_exact_match": exact_match, "answerable_f1": f1}
        scores["unanswerable_accuracy"] = _means(unanswerable).exact_match
    return scores


def answer_score(text: str | None, example: Example, no_answer: bool) -> AnswerScore:
    """The best score of a text over the right answers; None: there is no prediction.

    `no_answer` says whether "" may be right (SQuAD v2.0). If so, right answers of nothing but
    articles and punctuation don't count.
    """
    if text is None:
        return AnswerScore(0.0, 0.0)
    words = _words(text)
    right = [_words(answer.text) for answer in example.answers]
    if no_answer:
        right = [each for each in right if each] or [[]]
        if not words or not right[0]:
            same = float(words in right)
            return AnswerScore(same, same)
    return AnswerScore(float(words in right), max(_overlap(each, words) for each in right))


def per_class(
    gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]
) -> list[ClassRow]:
    """A row for each label, in the order of the labels."""
    from sklearn.metrics import precision_recall_fscore_support

    counts = confusion(gold, predicted, labels)
    columns = precision_recall_fscore_support(
        _numbers(gold, labels),
        _numbers(predicted, labels),
        labels=range(len(labels)),
        zero_division=0,
    )
    return [
        ClassRow(
            label,
            int(rows),
            float(precision),
            float(recall),
            float(f1),
            _most_confused(i, counts[i], labels),
        )
        for i, (label, precision, recall, f1, rows) in enumerate(zip(labels, *columns, strict=True))
    ]


def per_label(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> list[ClassRow]:
    """The same of a multi-label task, where each label is right or wrong by itself."""
    true, guess = _indicators(gold, labels), _indicators(predicted, labels)
    columns = (true & guess).sum(axis=0), guess.sum(axis=0), true.sum(axis=0)
    return [
        ClassRow(
            label,
            rows,
            right / said if said else 0.0,
            right / rows if rows else 0.0,
            2 * right / (said + rows) if said + rows else 0.0,
            "",
        )
        for label, right, said, rows in zip(labels, *(c.tolist() for c in columns), strict=True)
    ]


def confusion(
    gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]
) -> list[list[int]]:
    """How many rows of each true label (outer list) got each label (inner list)."""
    from sklearn.metrics import confusion_matrix

    true, guess = _numbers(gold, labels), _numbers(predicted, labels)
    counts: list[list[int]] = confusion_matrix(true, guess, labels=range(len(labels))).tolist()
    return counts


def accuracy_error(accuracy: float, rows: int) -> float:
    """The standard error of a share that was measured on so many rows."""
    return math.sqrt(accuracy * (1 - accuracy) / rows)


def _numbers(labels_of_rows: Sequence[str], labels: Sequence[str]) -> list[int]:
    """The place of each row's label."""
    _some(labels_of_rows)
    _known(labels_of_rows, labels)
    places = {label: i for i, label in enumerate(labels)}
    return [places[label] for label in labels_of_rows]


def _indicators(rows: Sequence[Collection[str]], labels: Sequence[str]) -> Any:
    """Whether a row has a label: [rows, labels]."""
    import numpy as np

    _some(rows)
    _known((label for row in rows for label in row), labels)
    return np.array([[label in row for label in labels] for row in rows])


def _correlation(
    measure: Callable[..., Any], gold: Sequence[float], predicted: Sequence[float]
) -> float:
    """0 where it is undefined: one side is constant."""
    if min(len(set(gold)), len(set(predicted))) < 2:
        return 0.0
    with warnings.catch_warnings():  # of values that are nearly constant
        warnings.simplefilter("ignore")
        return float(measure(gold, predicted)[0])


def _some(rows: Sequence[Any]) -> None:
    if len(rows) == 0:
        raise DataError("There are no rows to score.")


def _known(found: Iterable[str], labels: Sequence[str]) -> None:
    unknown = sorted(set(found) - set(labels))
    if unknown:
        raise DataError(
            f"{unknown[0]!r} is not a label of this task.", f"Its labels: {', '.join(labels)}."
        )


def _most_confused(own: int, counts: Sequence[int], labels: Sequence[str]) -> str:
    wrong = [0 if i == own else count for i, count in enumerate(counts)]
    return labels[wrong.index(max(wrong))] if any(wrong) else ""


def _means(scores: Collection[AnswerScore]) -> AnswerScore:
    exact_match, f1 = (sum(column) / len(scores) for column in zip(*scores, strict=True))
    return AnswerScore(exact_match, f1)


_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def _words(text: str) -> list[str]:
    """The words that count: lower case, without punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def _overlap(right: Sequence[str], words: Sequence[str]) -> float:
    """F1 of two bags of words."""
    same = (Counter(right) & Counter(words)).total()
    return 2 * same / (len(right) + len(words)) if same else 0.0
