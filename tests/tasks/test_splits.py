"""Cut rows are a partition by seed: duplicates on one side, every label still in train."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.tasks.splits import cut_rows, text_key
from adapterbank.tasks.task import Example, Kind, Label

WORDS = st.sampled_from(["one", "One", " one", "two", "three", "four five", "four  five", "six"])
NAMES = st.sampled_from("abcdef")
LABELS: dict[Kind, st.SearchStrategy[Label]] = {
    "classification": NAMES,
    "multi-label": st.lists(NAMES, unique=True, max_size=3).map(tuple),
    "regression": st.floats(0, 5),
    "span": st.none(),
}


def texts(count: int, label: Label, start: int = 0) -> list[Example]:
    return [Example(f"text {label} {i}", label) for i in range(start, start + count)]


def names(example: Example) -> tuple[str, ...]:
    label = example.label
    return label if isinstance(label, tuple) else (label,) if isinstance(label, str) else ()


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.sampled_from(list(LABELS)), parts=st.integers(1, 2))
def test_contract(data: st.DataObject, kind: Kind, parts: int) -> None:
    row = st.builds(
        Example,
        text=st.one_of(WORDS, st.text(min_size=1, max_size=3)),
        label=LABELS[kind],
        pair=st.none() if kind != "span" else WORDS,
    )
    examples = data.draw(st.lists(row, max_size=80))
    seed = data.draw(st.integers(0, 3))
    found = cut_rows(examples, kind, parts, seed)

    assert len(found) == parts + 1
    assert sorted(i for side in found for i in side) == list(range(len(examples)))
    assert all(side == sorted(side) for side in found)
    assert found == cut_rows(examples, kind, parts, seed)
    in_train = {name for i in found[0] for name in names(examples[i])}
    assert in_train == {name for example in examples for name in names(example)}
    sides = [
        {
            " ".join((examples[i].pair or "").casefold().split())
            if kind == "span"
            else " ".join(examples[i].text.casefold().split())
            for i in side
        }
        for side in found
    ]
    assert all(not a & b for k, a in enumerate(sides) for b in sides[k + 1 :])


def test_a_tenth_of_every_class() -> None:
    examples = [*texts(600, "a"), *texts(300, "b"), *texts(100, "c")]
    for side in cut_rows(examples, "classification", 2)[1:]:
        assert Counter(examples[i].label for i in side) == {"a": 60, "b": 30, "c": 10}


@pytest.mark.parametrize(("rows", "cut"), [(1, 0), (2, 0), (3, 1), (14, 1), (16, 2)])
def test_small_classes(rows: int, cut: int) -> None:
    examples = [*texts(200, "big"), *texts(rows, "small")]
    for side in cut_rows(examples, "classification", 2)[1:]:
        assert sum(examples[i].label == "small" for i in side) == cut


@pytest.mark.parametrize(
    ("classes", "rows", "cut"), [(2, 3, 2), (10, 3, 6), (50, 3, 30), (50, 4, 30), (400, 4, 160)]
)
def test_many_small_classes_leave_train_its_rows(classes: int, rows: int, cut: int) -> None:
    examples = [row for label in range(classes) for row in texts(rows, f"class {label}")]
    train, dev, test = cut_rows(examples, "classification", 2)
    assert (len(dev), len(test)) == (cut, cut)
    assert len({examples[i].label for i in train}) == classes
    if classes > cut:  # by chance, not by their order
        drawn = [{examples[i].label for i in cut_rows(examples, "classification", 2, s)[1]}
                 for s in (0, 1)]  # fmt: skip
        assert drawn[0] != drawn[1]


def test_no_more_than_two_thousand_rows() -> None:
    examples = [*texts(29_000, "a"), *texts(1_000, "b"), *texts(3, "c")]
    for side in cut_rows(examples, "classification", 2)[1:]:
        counts = Counter(examples[i].label for i in side)
        assert sum(counts.values()) == 2_000
        assert counts["b"] == 67
        assert counts["c"] == 1


def test_150_classes_are_all_on_every_side() -> None:
    examples = [row for label in range(150) for row in texts(20, f"class {label}")]
    train, dev, test = cut_rows(examples, "classification", 2)
    assert (len(train), len(dev), len(test)) == (2_400, 300, 300)
    for side in (train, dev, test):
        assert len({examples[i].label for i in side}) == 150


def test_seeds_differ() -> None:
    examples = [*texts(50, "a"), *texts(50, "b")]
    assert cut_rows(examples, "classification", 2, 0) != cut_rows(examples, "classification", 2, 1)


def test_the_order_of_hashes_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python salts the hashes of strings; a cut must be the same in every process."""
    examples = [*texts(50, "a"), *texts(50, "b")]
    expected = cut_rows(examples, "classification", 2)
    monkeypatch.setattr("adapterbank.tasks.splits.text_key", lambda each: f"{each.text[::-1]}")
    assert cut_rows(examples, "classification", 2) == expected


@pytest.mark.parametrize("seed", range(20))
def test_many_copies_of_one_text_stay_in_train(seed: int) -> None:
    examples = [*texts(7, "a"), *([Example("copy", "a")] * 93), *texts(50, "b")]
    train, dev, test = cut_rows(examples, "classification", 2, seed)
    assert sum(examples[i].text == "copy" for i in train) == 93
    for side in (dev, test):
        assert Counter(examples[i].label for i in side) == {"a": 2, "b": 5}


@pytest.mark.parametrize("seed", range(50))
def test_a_label_that_only_goes_with_rarer_ones_stays_in_train(seed: int) -> None:
    """Each of the rarer ones would give up two rows of three, whatever else they hold."""
    labels = [(f"rare {i}", *["common"] * (k == 0)) for i in range(4) for k in range(3)]
    examples = [Example(f"text {i}", label) for i, label in enumerate(labels)]
    train = cut_rows(examples, "multi-label", 2, seed)[0]
    assert "common" in {name for i in train for name in names(examples[i])}


def test_classes_of_few_texts_with_many_copies_give_the_smallest() -> None:
    examples = [Example(f"text {i}", label) for label in "ab" for i in "123" for _ in range(5)]
    examples = [row._replace(text=f"{row.text} {row.label}") for row in examples]
    sides = cut_rows(examples, "classification", 2)
    assert [len(side) for side in sides] == [10, 10, 10]


def test_regression_takes_from_the_whole_range() -> None:
    examples = [Example(f"text {i}", float(i)) for i in range(1_000)]
    for side in cut_rows(examples, "regression", 2)[1:]:
        tens = Counter(int(float(str(examples[i].label))) // 100 for i in side)
        assert tens == dict.fromkeys(range(10), 10)


def test_span_tasks_are_cut_by_context() -> None:
    examples = [Example(f"q{i}", pair=f"context {i // 4}") for i in range(200)]
    sides = cut_rows(examples, "span", 2)
    assert [len(side) for side in sides] == [160, 20, 20]
    contexts = [{examples[i].pair for i in side} for side in sides]
    assert [len(each) for each in contexts] == [40, 5, 5]


def test_text_key() -> None:
    assert text_key(Example("A  b\n", pair="C")) == text_key(Example("a b", "x", "c "))
    assert text_key(Example("a b", pair="c")) != text_key(Example("a", pair="b c"))
    assert text_key(Example("a", pair="")) != text_key(Example("", pair="a"))
