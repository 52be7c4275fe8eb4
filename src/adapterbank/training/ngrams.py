"""n-grams of words and characters with linear models: a small random search without an encoder.

Each way of counting n-grams runs once over the texts, however many settings share it.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

from adapterbank.errors import DataError
from adapterbank.tasks.task import Example, Kind

Model = Literal["logistic regression", "linear SVM", "naive Bayes", "ridge regression"]
MODELS: dict[Kind, tuple[Model, ...]] = {
    "classification": ("logistic regression", "linear SVM", "naive Bayes"),
    "multi-label": ("logistic regression", "linear SVM", "naive Bayes"),
    "regression": ("ridge regression",),
}
# Powers of ten between which each model's strength is drawn.
STRENGTHS: dict[Model, tuple[float, float]] = {
    "logistic regression": (0.0, 2.0),
    "linear SVM": (-1.0, 0.7),
    "naive Bayes": (0.0, 2.0),
    "ridge regression": (-1.5, 0.5),
}
MAX_FEATURES = 100_000  # of one way of counting: the most frequent ones
WORD = r"\w+|[^\w\s]"  # punctuation counts, too


class Grams(NamedTuple):
    """One way of counting."""

    unit: Literal["word", "char_wb"]
    shortest: int
    longest: int

    def __str__(self) -> str:
        return f"{'words' if self.unit == 'word' else 'characters'} {self.shortest}-{self.longest}"


class Setting(NamedTuple):
    """One try of the search."""

    grams: tuple[Grams, ...]
    least_rows: int
    """n-grams of fewer training rows are left out."""
    dampened: bool
    """1 + log(count) in place of the count."""
    model: Model
    strength: float
    """How freely the model follows the data: C, or 1/α."""

    def __str__(self) -> str:
        return f"tf-idf of {' and '.join(map(str, self.grams))}, {self.model} ({self.strength:.3g})"


WORDS = (Grams("word", 1, 1), Grams("word", 1, 2))
CHARACTERS = (Grams("char_wb", 2, 4), Grams("char_wb", 3, 5))


def draw_settings(kind: Kind, tries: int, seed: int) -> list[Setting]:
    """Random settings, every model in turn."""
    draw = random.Random(seed)
    models = MODELS[kind]
    settings = []
    for i in range(tries):
        words, characters = draw.choice(WORDS), draw.choice(CHARACTERS)
        model = models[i % len(models)]
        settings.append(
            Setting(
                draw.choice([(words,), (characters,), (words, characters)]),
                draw.choice([1, 2]),
                draw.choice([True, False]),
                model,
                10 ** draw.uniform(*STRENGTHS[model]),
            )
        )
    return settings


class Texts:
    """The texts of some splits as matrices of features. The first split is trained on."""

    def __init__(self, *splits: Sequence[Example]) -> None:
        self.splits = splits
        self.pairs = splits[0][0].pair is not None
        self._counted: dict[Grams, list[list[Any]]] = {}

    def matrices(self, setting: Setting) -> list[Any]:
        """Features of each split: sparse, [rows, features]."""
        from scipy.sparse import hstack

        blocks = [block for grams in setting.grams for block in self._weighed(grams, setting)]
        if self.pairs:
            blocks.append(self._overlaps)
        return [hstack(parts, format="csr") for parts in zip(*blocks, strict=True)]

    def _weighed(self, grams: Grams, setting: Setting) -> list[list[Any]]:
        """tf-idf of each side, for each split."""
        from sklearn.feature_extraction.text import TfidfTransformer

        blocks = []
        for counts in self._counts(grams):
            rows_with = counts[0].getnnz(axis=0)
            kept = rows_with >= min(setting.least_rows, rows_with.max(initial=0))
            transformer = TfidfTransformer(sublinear_tf=setting.dampened).fit(counts[0][:, kept])
            blocks.append([transformer.transform(each[:, kept]) for each in counts])
        return blocks

    def _counts(self, grams: Grams) -> list[list[Any]]:
        """Counts of the text; of a pair, of either text and of what they share. By split."""
        if grams not in self._counted:
            self._counted[grams] = self._count(grams)
        return self._counted[grams]

    def _count(self, grams: Grams) -> list[list[Any]]:
        from sklearn.feature_extraction.text import CountVectorizer

        vectorizer = CountVectorizer(
            analyzer=grams.unit,
            ngram_range=(grams.shortest, grams.longest),
            max_features=MAX_FEATURES,
            **({"token_pattern": WORD} if grams.unit == "word" else {}),
        )
        by_split: list[list[Any]] = []
        for split in self.splits:
            texts = [text for side in self._sides(split) for text in side]
            counts = vectorizer.transform(texts) if by_split else _learn(vectorizer, texts)
            sides = [counts[: len(split)], counts[len(split) :]] if self.pairs else [counts]
            by_split.append([*sides, sides[0].minimum(sides[1])] if self.pairs else sides)
        return [list(side) for side in zip(*by_split, strict=True)]

    def _sides(self, split: Sequence[Example]) -> list[list[str]]:
        sides = [[example.text for example in split]]
        return [*sides, [example.pair or "" for example in split]] if self.pairs else sides

    @cached_property
    def _overlaps(self) -> list[Any]:
        """Of each pair, how much of either text is in the other: [rows, 4] a split."""
        import numpy as np
        from scipy.sparse import csr_matrix

        return [
            csr_matrix(np.array([_overlap(example) for example in split]).reshape(-1, 4))
            for split in self.splits
        ]


def _learn(vectorizer: Any, texts: list[str]) -> Any:
    try:
        return vectorizer.fit_transform(texts)
    except ValueError as error:  # the library's word for it: empty vocabulary
        raise DataError(
            "The training texts hold no words.", "Check which column holds the text."
        ) from error


def _overlap(example: Example) -> tuple[float, float, float, float]:
    first, second = set(example.text.lower().split()), set((example.pair or "").lower().split())
    shared, either = len(first & second), len(first | second)
    lengths = sorted((len(example.text), len(example.pair or "")))
    return (
        shared / max(either, 1),
        shared / max(len(first), 1),
        shared / max(len(second), 1),
        lengths[0] / max(lengths[1], 1),
    )


def fit(setting: Setting, kind: Kind, features: Any, targets: Any, seed: int) -> Any:
    """A fitted scikit-learn model."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import ComplementNB
    from sklearn.svm import LinearSVC

    if kind == "classification" and len(set(targets.tolist())) == 1:
        return DummyClassifier().fit(features, targets)
    match setting.model:
        case "logistic regression":
            model = LogisticRegression(
                C=setting.strength, solver="liblinear", dual=True, tol=1e-2, random_state=seed
            )
        case "linear SVM":
            model = LinearSVC(C=setting.strength, dual=True, random_state=seed)
        case "naive Bayes":
            model = ComplementNB(alpha=1 / setting.strength)
        case "ridge regression":
            model = Ridge(1 / setting.strength, solver="sparse_cg", random_state=seed)
    if kind == "multi-label" or setting.model in ("logistic regression", "linear SVM"):
        model = OneVsRestClassifier(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels without rows, fits that stop early
        return model.fit(features, targets)
