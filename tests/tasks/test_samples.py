"""The bundled tasks are what they are said to be."""

from __future__ import annotations

from collections import Counter

import pytest

from adapterbank.errors import DataError
from adapterbank.tasks.samples import SAMPLES, load_sample

LABELS = {
    "support": {"account", "billing", "delivery", "returns", "sales", "technical"},
    "reviews": {"mixed", "negative", "positive"},
    "questions": {"method", "number", "person", "place", "reason", "time"},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_sample(name: str) -> None:
    task = load_sample(name)
    assert set(task.labels) == LABELS[name]
    assert [len(split) for split in (task.train, task.dev, task.test)] == [300, 90, 90]
    every = [*task.train, *task.dev, *task.test]
    texts = [example.text.casefold().strip() for example in every]
    assert len(set(texts)) == len(texts)
    assert all(len(text.split()) >= 3 for text in texts)
    for split in (task.train, task.dev, task.test):
        counts = Counter(example.label for example in split)
        assert set(counts) == LABELS[name]
        assert len(set(counts.values())) == 1


def test_unknown_sample() -> None:
    with pytest.raises(DataError, match=r"no sample 'nope'.*support"):
        load_sample("nope")
