"""The plain tokenizer gives what the library's does."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.errors import ConfigError
from adapterbank.model.encoder import load_encoder
from adapterbank.serving.tokenizer import PlainTokenizer
from adapterbank.tasks.batches import encode
from adapterbank.tasks.spans import make_windows
from adapterbank.tasks.task import Example
from tiny import WORDS, save_base

TEXT = st.lists(st.sampled_from([*WORDS[5:], "unheard-of", "!"]), max_size=60).map(" ".join)


LONG = "the film was good " * 12


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


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, st.none() | TEXT), min_size=1, max_size=8))
def test_what_stands_beside_a_text_does_not_change_its_tokens(encoder, texts) -> None:
    examples = [Example(text, pair=pair) for text, pair in texts]
    together = encode(encoder.tokenizer, examples, 20).take()
    for i, example in enumerate(examples):
        alone = encode(encoder.tokenizer, [example], 20).take()
        assert [each[i].tolist() for each in together] == [each[0].tolist() for each in alone]


@pytest.mark.parametrize("kind", ["plain", "encoder"])
def test_threads_do_not_cut_each_other_s_texts(encoder, plain, kind) -> None:
    tokenizer = plain if kind == "plain" else encoder.tokenizer

    def lengths(limit):
        return {
            int(length)
            for _ in range(200)
            for length in encode(tokenizer, [Example(LONG)] * 4, limit).lengths
        }

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lengths, (6, 40, 6, 40))) == [{6}, {40}, {6}, {40}]


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_no_room_for_a_text_is_refused(encoder, plain, limit) -> None:
    for tokenizer in (plain, encoder.tokenizer):
        with pytest.raises(ConfigError, match=f"max_length is {limit}"):
            encode(tokenizer, [Example(LONG)], limit)


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_too_long_is_cut_at_the_same_side(tmp_path, side) -> None:
    folder = save_base(tmp_path / "base")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "truncation_side": side}))
    theirs = load_encoder(str(folder)).tokenizer
    file = tmp_path / "tokenizer.json"
    file.write_text(theirs.backend_tokenizer.to_str())
    ours = PlainTokenizer(file, theirs.truncation_side)
    single, pair = Example("good bad " * 9 + "film"), Example("a good book", pair=LONG)
    found, expected = (encode(each, [single, pair], 12).ids.tolist() for each in (ours, theirs))
    assert found == expected
    found, expected = (
        make_windows(each, [pair], 24).encoded.ids.tolist() for each in (ours, theirs)
    )
    assert found == expected
