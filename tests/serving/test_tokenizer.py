"""The plain tokenizer gives what the library's does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.serving.tokenizer import PlainTokenizer
from adapterbank.tasks.batches import encode
from adapterbank.tasks.spans import make_windows
from adapterbank.tasks.task import Example
from tiny import WORDS

TEXT = st.lists(st.sampled_from([*WORDS[5:], "unheard-of", "!"]), max_size=60).map(" ".join)


@pytest.fixture(scope="module")
def plain(encoder, tmp_path_factory) -> PlainTokenizer:
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    file.write_text(encoder.tokenizer.backend_tokenizer.to_str())
    return PlainTokenizer(file)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, st.none() | TEXT), min_size=1, max_size=5), st.integers(8, 40))
def test_the_same_tokens(encoder, plain, texts, limit) -> None:
    examples = [Example(text, pair=pair) for text, pair in texts]
    ours, theirs = (encode(each, examples, limit) for each in (plain, encoder.tokenizer))
    assert ours.ids.tolist() == theirs.ids.tolist()
    assert ours.types.tolist() == theirs.types.tolist()
    assert ours.ends.tolist() == theirs.ends.tolist()


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4), st.integers(20, 40))
def test_the_same_windows(encoder, plain, texts, limit) -> None:
    examples = [Example(question, pair=context) for question, context in texts]
    ours, theirs = (make_windows(each, examples, limit) for each in (plain, encoder.tokenizer))
    assert ours.encoded.ids.tolist() == theirs.encoded.ids.tolist()
    assert ours.example.tolist() == theirs.example.tolist()
    assert ours.places.tolist() == theirs.places.tolist()
    assert ours.offsets.tolist() == theirs.offsets.tolist()
