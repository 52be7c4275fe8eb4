"""Baselines: what they reach, that they repeat, and that no test row has a say in them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from adapterbank.errors import ConfigError, DataError
from adapterbank.tasks.predictions import decode
from adapterbank.tasks.task import Answer, Example, Task
from adapterbank.training import baselines, linear, ngrams
from adapterbank.training.baselines import (
    Baseline,
    Limits,
    feature_baseline,
    ngram_baseline,
    rank,
    sample,
)
from adapterbank.training.evaluate import scores_of
from adapterbank.training.linear import STRENGTHS, fit_linear_map, linear_path
from adapterbank.training.ngrams import Texts, draw_settings

FILLERS = ["table", "window", "river", "stone", "cloud", "garden", "paper", "lamp", "road"]
FRUIT, TOOLS, BIRDS = ["apple", "pear", "plum"], ["hammer", "saw", "drill"], ["owl", "wren"]


def text(draw: random.Random, *more: str) -> str:
    words = [*draw.sample(FILLERS, 4), *more]
    draw.shuffle(words)
    return " ".join(words)


def split(make: Any, *sizes: int, seed: int = 0) -> list[list[Example]]:
    draw = random.Random(seed)
    return [[make(draw) for _ in range(size)] for size in sizes]


def topical(draw: random.Random) -> Example:
    label, words = draw.choice([("fruit", FRUIT), ("tools", TOOLS), ("birds", BIRDS)])
    return Example(text(draw, draw.choice(words)), label)


def noisy(draw: random.Random) -> Example:
    example = topical(draw)
    return example if draw.random() < 0.6 else example._replace(label="birds")


def paired(draw: random.Random) -> Example:
    first = draw.sample(FILLERS, 4)
    same = draw.random() < 0.5
    second = draw.sample(first, 4) if same else draw.sample(sorted({*FILLERS} - {*first}), 4)
    return Example(" ".join(first), "same" if same else "different", " ".join(second))


def tagged(draw: random.Random) -> Example:
    wanted = [draw.random() < 0.5 for _ in range(2)]
    words = [draw.choice(FRUIT)] * wanted[0] + [draw.choice(TOOLS)] * wanted[1]
    labels = ("fruit",) * wanted[0] + ("tools",) * wanted[1]
    return Example(text(draw, *words), labels)


def counted(draw: random.Random) -> Example:
    count = draw.randrange(6)
    return Example(text(draw, *["apple"] * count), float(count))


def task(make: Any, labels: tuple[str, ...], kind: Any = "classification", **more: Any) -> Task:
    return Task("made", labels, *split(make, 120, 40, 40), kind=kind, **more)


TOPICS = task(topical, ("birds", "fruit", "tools"))
NOISY = task(noisy, ("birds", "fruit", "tools"))
PAIRS = task(paired, ("different", "same"))
TAGS = task(tagged, ("fruit", "tools"), "multi-label")
NUMBERS = task(counted, (), "regression")
SPANS = Task("s", (), *split(lambda _: Example("q", answers=(Answer("a", 0),)), 2, 1, 1), "span")


def timeless(baseline: Baseline) -> Baseline:
    return replace(baseline, seconds=0.0)


# --- n-grams


def test_separable_texts_are_told_apart() -> None:
    baseline = ngram_baseline(TOPICS, tries=4)
    assert baseline.name == "n-grams"
    assert baseline.dev == baseline.test == {"accuracy": 1.0, "macro_f1": 1.0, "matthews": 1.0}
    assert baseline.description.endswith("; best of 4 settings on dev")
    assert 0 < baseline.seconds < 60


def test_pairs_are_told_apart_by_what_they_share() -> None:
    baseline = ngram_baseline(PAIRS, tries=4)
    assert baseline.test["accuracy"] == 1.0
    assert "f1" in baseline.test
    # Either text alone says nothing.
    alone = [
        [example._replace(pair=None) for example in examples]
        for examples in (PAIRS.train, PAIRS.dev, PAIRS.test)
    ]
    first = ngram_baseline(Task("alone", PAIRS.labels, *alone), tries=4)
    assert first.test["accuracy"] < 0.8


def test_every_label_is_told_by_itself() -> None:
    baseline = ngram_baseline(TAGS, tries=6)
    assert baseline.dev["micro_f1"] > 0.98
    assert baseline.test.keys() == {"micro_f1", "macro_f1", "exact_match"}


def test_labels_may_be_alone_or_never_seen() -> None:
    only = [
        [example._replace(label=tuple(set(example.label) & {"fruit"})) for example in examples]
        for examples in (TAGS.train, TAGS.dev, TAGS.test)
    ]
    lone = ngram_baseline(Task("lone", ("fruit",), *only, kind="multi-label"), tries=6)
    assert lone.test["micro_f1"] > 0.9
    more = replace(TAGS, labels=("fruit", "never", "tools"))
    for setting in draw_settings("multi-label", 6, 0):
        (scores,) = baselines._ngram_scores(more, setting, Texts(more.train, more.dev), 0)
        assert scores["micro_f1"] > 0.8, setting


def test_numbers_are_predicted() -> None:
    baseline = ngram_baseline(NUMBERS)
    assert baseline.test["pearson"] > 0.9
    assert "ridge regression" in baseline.description


@pytest.mark.parametrize("made", [NOISY, PAIRS, TAGS, NUMBERS], ids=["c", "p", "m", "r"])
def test_the_same_seed_gives_the_same(made: Task) -> None:
    once, again = ngram_baseline(made, tries=5), ngram_baseline(made, tries=5)
    assert timeless(once) == timeless(again)
    assert draw_settings(made.kind, 5, 0) != draw_settings(made.kind, 5, 1)


def test_test_rows_have_no_say() -> None:
    turned = {"birds": "fruit", "fruit": "tools", "tools": "birds"}
    others = [example._replace(label=turned[str(example.label)]) for example in NOISY.test]
    baseline, other = ngram_baseline(NOISY), ngram_baseline(replace(NOISY, test=others))
    assert other.description == baseline.description
    assert other.dev == baseline.dev
    assert other.test != baseline.test
    # Had they been looked at, another setting would have won.
    texts = Texts(NOISY.train, others)
    by_test = {
        str(setting): baselines._ngram_scores(NOISY, setting, texts, 0)[0]["accuracy"]
        for setting in draw_settings("classification", 12, 0)
    }
    assert by_test[baseline.description.split(";")[0]] < max(by_test.values())


def test_the_best_on_dev_is_chosen() -> None:
    for metric in ("accuracy", "macro_f1"):
        made = replace(NOISY, metric=metric)
        texts = Texts(made.train, made.dev)
        found = {
            str(setting): baselines._ngram_scores(made, setting, texts, 0)[0][metric]
            for setting in draw_settings("classification", 12, 0)
        }
        assert len(set(found.values())) > 2
        baseline = ngram_baseline(made)
        assert baseline.dev[metric] == max(found.values())
        assert found[baseline.description.split(";")[0]] == max(found.values())


def test_a_lower_error_ranks_higher() -> None:
    by_error = replace(NUMBERS, metric="mean_absolute_error")
    assert rank(by_error, {"mean_absolute_error": 0.5}) > rank(
        by_error, {"mean_absolute_error": 0.6}
    )
    assert rank(NUMBERS, {"pearson": 0.6}) > rank(NUMBERS, {"pearson": 0.5})


def test_without_labelled_test_rows_there_are_no_test_scores() -> None:
    assert ngram_baseline(replace(TOPICS, test=()), tries=1).test == {}
    unlabelled = [example._replace(label=None) for example in TOPICS.test]
    assert ngram_baseline(replace(TOPICS, test=unlabelled), tries=1).test == {}


def test_a_budget_ends_the_search() -> None:
    baseline = ngram_baseline(NOISY, budget_seconds=0.0)
    assert baseline.description.endswith("best of 1 settings on dev")
    assert baseline.test["accuracy"] > 0.5


def test_odd_data_is_no_obstacle(recwarn: pytest.WarningsRecorder) -> None:
    same = [example._replace(label="birds") for example in TOPICS.train]
    assert 0 < ngram_baseline(replace(TOPICS, train=same), tries=3).test["accuracy"] < 1
    few = replace(TOPICS, train=TOPICS.train[:3])  # no n-gram in two rows, perhaps
    assert ngram_baseline(few, tries=6).test["accuracy"] > 0
    smiles = [Example("🙂" if i % 2 else "🙁", "yn"[i % 2]) for i in range(20)]
    assert ngram_baseline(Task("o", ("n", "y"), smiles, smiles), tries=3).dev["accuracy"] == 1.0
    assert not [str(warning.message) for warning in recwarn]


def test_texts_without_words_are_named() -> None:
    empty = [example._replace(text=" ") for example in TOPICS.train]
    with pytest.raises(DataError, match="The training texts hold no words"):
        ngram_baseline(replace(TOPICS, train=empty), tries=2)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="There is no baseline for span tasks"):
        ngram_baseline(SPANS)
    with pytest.raises(ConfigError, match="There is no baseline for span tasks"):
        feature_baseline(*[np.zeros((2, 3), np.float32)] * 3, SPANS)
    with pytest.raises(ConfigError, match="tries is 0"):
        ngram_baseline(TOPICS, tries=0)


def test_every_way_of_counting_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted_ways: list[tuple[Sequence[Any], Any]] = []
    count = Texts._count

    def spy(self: Texts, grams: ngrams.Grams) -> Any:
        counted_ways.append((self.splits, grams))
        return count(self, grams)

    monkeypatch.setattr(Texts, "_count", spy)
    ngram_baseline(TOPICS, tries=12)
    searched = [grams for splits, grams in counted_ways if len(splits) == 2]
    assert sorted(searched) == sorted({*ngrams.WORDS, *ngrams.CHARACTERS})


def test_the_search_sees_a_part_of_large_data(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    make = Texts.__init__

    def spy(self: Texts, *splits: Sequence[Example]) -> None:
        seen.append([len(examples) for examples in splits])
        make(self, *splits)

    monkeypatch.setattr(Texts, "__init__", spy)
    monkeypatch.setattr(baselines, "SEARCH", Limits(30, 10**9, 10**9))
    monkeypatch.setattr(baselines, "FINAL", Limits(100, 10**9, 10**9))
    ngram_baseline(TOPICS, tries=1)
    assert seen == [[30, 30], [100, 40, 40]]


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=40),
    rows=st.integers(1, 50),
    characters=st.integers(1, 500),
    fits=st.integers(1, 200),
)
def test_samples_keep_within_their_limits(
    lengths: list[int], rows: int, characters: int, fits: int
) -> None:
    examples = [Example("x" * length, id=str(i)) for i, length in enumerate(lengths)]
    chosen = sample(TOPICS, examples, Limits(rows, characters, fits), seed=0)
    assert chosen == sample(TOPICS, examples, Limits(rows, characters, fits), seed=0)
    assert 1 <= len(chosen) <= max(1, min(rows, fits // 3))
    order = [int(example.id) for example in chosen]
    assert order == sorted(set(order))  # in the order given, none twice
    mean = sum(lengths) / len(lengths)
    assert len(chosen) * mean <= characters or len(chosen) == 1
    everything = Limits(len(examples), 10**6, 3 * len(examples))
    assert sample(TOPICS, examples, everything, seed=0) is examples


# --- frozen features


def features(made: Task, seed: int = 0, noise: float = 0.5) -> list[Any]:
    """Vectors that say something of the label, off centre and on different scales."""
    draw = np.random.default_rng(seed)
    directions = draw.normal(size=(max(1, len(made.labels)), 6))
    scales, centre = 10.0 ** np.arange(-2, 4), draw.normal(size=6) * 5
    found = []
    for examples in (made.train, made.dev, made.test):
        match made.kind:
            case "regression":
                truth = np.array([[float(example.label)] for example in examples])
            case _:
                wanted = [
                    example.label if made.kind == "multi-label" else (example.label,)
                    for example in examples
                ]
                truth = np.array(
                    [[2.0 * (label in row) for label in made.labels] for row in wanted]
                )
        vectors = truth @ directions + noise * draw.normal(size=(len(examples), 6))
        found.append(((vectors + centre) * scales).astype(np.float32))
    return found


@pytest.mark.parametrize(
    ("made", "metric"),
    [(TOPICS, "accuracy"), (PAIRS, "accuracy"), (TAGS, "exact_match"), (NUMBERS, "pearson")],
    ids=["three", "two", "many", "number"],
)
def test_features_that_say_it_all_are_read(made: Task, metric: str) -> None:
    found = features(made, noise=0.05)
    baseline = feature_baseline(*found, made)
    assert baseline.name == "frozen features"
    assert baseline.test[metric] > 0.99


def test_the_strength_is_chosen_on_dev_and_nothing_else() -> None:
    found = features(NOISY, noise=3.0)
    targets = np.array(NOISY.label_ids(NOISY.train))
    by_strength = {
        strength: scores_of(NOISY, NOISY.dev, decode(NOISY.kind, NOISY.labels, each(found[1])))
        for strength, each in zip(
            STRENGTHS, linear_path(found[0], targets, "classification", 3), strict=True
        )
    }
    best = max(STRENGTHS, key=lambda strength: by_strength[strength]["accuracy"])
    assert len({scores["accuracy"] for scores in by_strength.values()}) > 1
    baseline = feature_baseline(*found, NOISY)
    assert baseline.description == (
        f"logistic regression on the frozen encoder's features (C={best:g})"
    )
    assert baseline.dev == by_strength[best]
    other = feature_baseline(*found[:2], found[2][::-1], NOISY)
    assert (other.description, other.dev) == (baseline.description, baseline.dev)
    assert other.test != baseline.test
    assert timeless(feature_baseline(*found, NOISY)) == timeless(baseline)
    none = feature_baseline(*found[:2], np.empty((0, 1), np.float32), replace(NOISY, test=()))
    assert none.test == {}


def reference(made: Task, strength: float) -> tuple[Any, Any, Any]:
    """Dev features, our map, and what scikit-learn decides on standardised features."""
    train, dev, _ = features(made, noise=1.0)
    targets = np.array(made.label_ids(made.train))
    standard = StandardScaler().fit(train)
    model = LogisticRegression(C=strength, tol=linear.TOLERANCE, max_iter=linear.MAX_ITERATIONS)
    model.fit(standard.transform(train).astype(np.float32), targets)
    linear_map = fit_linear_map(train, targets, made.kind, len(made.labels), strength)
    return dev, linear_map, model.decision_function(standard.transform(dev))


@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_standardising_is_folded_into_the_map(strength: float) -> None:
    dev, linear_map, decision = reference(TOPICS, strength)
    np.testing.assert_allclose(linear_map(dev), decision, atol=2e-3)
    dev, linear_map, decision = reference(PAIRS, strength)
    logits = linear_map(dev)
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], decision, atol=2e-3)
    np.testing.assert_allclose(logits[:, 1], -logits[:, 0], atol=1e-5)
    assert linear_map.weight.dtype == linear_map.bias.dtype == np.float32


def test_labels_and_numbers_are_folded_too() -> None:
    found = features(TAGS, noise=1.0)
    standard = StandardScaler().fit(found[0])
    table = np.array([[label in e.label for label in TAGS.labels] for e in TAGS.train])
    linear_map = fit_linear_map(found[0], table, "multi-label", 2, 0.3)
    for i in range(2):
        model = LogisticRegression(C=0.3, tol=linear.TOLERANCE)
        model.fit(standard.transform(found[0]).astype(np.float32), table[:, i])
        decision = model.decision_function(standard.transform(found[1]))
        np.testing.assert_allclose(linear_map(found[1])[:, i], decision, atol=2e-3)
    found = features(NUMBERS, noise=1.0)
    standard = StandardScaler().fit(found[0])
    numbers = np.array([example.label for example in NUMBERS.train])
    ridge = Ridge(linear.RIDGE / 0.3).fit(standard.transform(found[0]), numbers)
    linear_map = fit_linear_map(found[0], numbers, "regression", 1, 0.3)
    predicted = ridge.predict(standard.transform(found[1]))
    np.testing.assert_allclose(linear_map(found[1])[:, 0], predicted, atol=2e-3)


def test_a_path_leads_where_single_fits_do() -> None:
    found, targets = features(TOPICS, noise=1.0), np.array(TOPICS.label_ids(TOPICS.train))
    path = list(linear_path(found[0], targets, "classification", 3))
    for strength, linear_map in zip(STRENGTHS, path, strict=True):
        alone = fit_linear_map(found[0], targets, "classification", 3, strength)
        np.testing.assert_allclose(linear_map(found[1]), alone(found[1]), atol=0.02)


def test_classes_without_rows_are_unlikely() -> None:
    found, targets = features(PAIRS, noise=0.2), np.array(PAIRS.label_ids(PAIRS.train))
    two_of_four = fit_linear_map(found[0], targets * 2 + 1, "classification", 4, 0.3)
    logits = two_of_four(found[1])
    assert set(logits.argmax(1).tolist()) == {1, 3}
    assert np.array_equal(logits[:, [0, 2]], np.full((40, 2), -np.log(121), np.float32))
    assert not two_of_four.weight[[0, 2]].any()
    one = fit_linear_map(found[0], np.ones(120, int), "classification", 2, 0.3)
    assert (one(found[1]).argmax(1) == 1).all()
    table = np.array([[True, False, row % 2] for row in range(120)])
    always, never, _ = fit_linear_map(found[0], table, "multi-label", 3, 0.3)(found[1]).T
    assert (always > 4).all()
    assert (never < -4).all()


def test_features_that_never_change_do_no_harm() -> None:
    found, targets = features(PAIRS, noise=0.2), np.array(PAIRS.label_ids(PAIRS.train))
    found[0][:, 2] = 7.0
    linear_map = fit_linear_map(found[0], targets, "classification", 2, 0.3)
    assert np.isfinite(linear_map.weight).all()
    assert np.array_equal(linear_map(found[0]).argmax(1), targets)


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.array_equal(linear._some_rows(100, 1), np.arange(100))
    many = linear._some_rows(50_000, 1)
    assert len(many) == linear.MAX_ROWS == len(set(many.tolist()))
    assert np.array_equal(many, linear._some_rows(50_000, 1))
    assert len(linear._some_rows(50_000, 100)) == 3_000
    assert len(linear._some_rows(50_000, 10_000)) == 1_000
    found, targets = features(TOPICS), np.array(TOPICS.label_ids(TOPICS.train))
    monkeypatch.setattr(linear, "MAX_ROWS", 50)
    kept = linear._some_rows(120, 1)
    capped = fit_linear_map(found[0], targets, "classification", 3)
    monkeypatch.undo()
    chosen = fit_linear_map(found[0][kept], targets[kept], "classification", 3)
    assert np.array_equal(capped.weight, chosen.weight)
