"""Windows lose nothing: right logits give the right answers back, with any sort of tokenizer."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from adapterbank.errors import BaseNotFound, ConfigError, UnsupportedBase
from adapterbank.model.wheel import minilm_folder
from adapterbank.tasks.metrics import span_scores
from adapterbank.tasks.spans import (
    SpanAnswer,
    Windows,
    best_spans,
    best_threshold,
    choose,
    make_windows,
    null_margin,
)
from adapterbank.tasks.task import Answer, Example

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "when", "where", "red", "blue", "boat", "sea", "."]


@cache
def words() -> Any:
    """A token a word, BERT's template, token types; none for "~"."""
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Replace("~", "")
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


@cache
def octets() -> Any:
    """A token a byte, RoBERTa's template with its double separator, no token types."""
    alphabet = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({sign: i for i, sign in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"]
    )


@cache
def pieces() -> Any:
    """Pieces of words: the tokenizer of the embedded base."""
    try:
        return AutoTokenizer.from_pretrained(minilm_folder())
    except BaseNotFound:
        return None


TOKENIZERS = [words, octets, pieces]


def tokenizer_of(make: Any) -> Any:
    tokenizer = make()
    if tokenizer is None:
        pytest.skip("the embedded base is not installed")
    return tokenizer


def asked(question: str, context: str, *answers: str, id: str = "") -> Example:
    found = tuple(Answer(answer, context.index(answer)) for answer in answers)
    return Example(question, pair=context, id=id, answers=found)


def starts_of(windows: Windows) -> np.ndarray:
    return windows.encoded.ends - windows.encoded.lengths


def perfect(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Logits of one at the targets."""
    start, end = np.zeros((2, len(windows.encoded.ids)), np.float32)
    start[starts_of(windows) + windows.targets[:, 0]] = 1
    end[starts_of(windows) + windows.targets[:, 1]] = 1
    return start, end


def pieces_of(windows: Windows) -> list[str]:
    """The text of each window's context."""
    return [
        windows.contexts[example][
            windows.offsets[tokens.start, 0] : windows.offsets[tokens.stop - 1, 1]
        ]
        for example, tokens in zip(windows.example, windows.context_tokens(), strict=True)
    ]


def test_windows_of_words() -> None:
    context = " ".join(f"w{i}" for i in range(40))
    examples = [asked("red boat", "blue sea ."), asked("when", context, "w16 w17 w18")]
    windows = make_windows(words(), examples, max_length=20, stride=4)
    # 20 tokens: [CLS] when [SEP] … [SEP] leaves 16 for the context, of which 4 come again.
    assert windows.example.tolist() == [0, 1, 1, 1]
    assert windows.encoded.lengths.tolist() == [8, 20, 20, 20]
    assert pieces_of(windows) == [
        "blue sea .",
        " ".join(f"w{i}" for i in range(16)),
        " ".join(f"w{i}" for i in range(12, 28)),
        " ".join(f"w{i}" for i in range(24, 40)),
    ]
    ids, types = windows.encoded.take([0])
    assert [WORDS[i] for i in ids[0]] == [
        *["[CLS]", "red", "boat", "[SEP]"],
        *["blue", "sea", ".", "[SEP]"],
    ]
    assert types[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert windows.places.tolist() == [[4, 7], [3, 19], [3, 19], [3, 19]]
    # w16 is not in the first window; in the second it is the fifth word after 3 tokens.
    assert windows.targets.tolist() == [[0, 0], [0, 0], [7, 9], [0, 0]]
    assert windows.targets.dtype == np.int64
    assert len(windows) == 4


def test_an_answer_cut_by_every_window_has_no_target() -> None:
    context = " ".join(f"w{i}" for i in range(30))
    answer = " ".join(f"w{i}" for i in range(10, 20))
    windows = make_windows(words(), [asked("when", context, answer)], max_length=20, stride=2)
    assert len(windows) == 2
    assert not windows.targets.any()


def test_double_separators_and_no_token_types() -> None:
    windows = make_windows(octets(), [asked("ab?", "cd ef", "ef")], max_length=30)
    assert windows.places.tolist() == [[6, 11]]  # <s> a b ? </s> </s> c …
    assert windows.encoded.lengths.tolist() == [12]
    assert windows.targets.tolist() == [[9, 10]]
    assert not windows.encoded.types.any()
    assert windows.offsets[9:11].tolist() == [[3, 4], [4, 5]]


def test_answers_in_the_middle_of_tokens_and_with_spaces_around() -> None:
    context = "the  seaside boat"
    examples = [
        Example("?", pair=context, answers=(Answer("side bo", 8),)),
        Example("?", pair=context, answers=(Answer("  seaside ", 3),)),
        Example("?", pair=" sea ", answers=(Answer(" sea ", 0),)),
    ]
    windows = make_windows(words(), examples)
    found = [choose(answers) for answers in best_spans(windows, *perfect(windows))]
    assert found == ["seaside boat", "seaside", "sea"]


def test_answers_at_the_edges_may_have_characters_without_a_token() -> None:
    context = "~sea" + " red" * 40 + " boat~"
    examples = [asked("?", context, "~sea"), asked("?", context, "boat~")]
    windows = make_windows(words(), examples, max_length=24)
    assert len(windows) > 4
    found = [choose(answers) for answers in best_spans(windows, *perfect(windows))]
    assert found == ["sea", "boat"]


def test_the_space_between_words_is_no_answer() -> None:
    windows = make_windows(octets(), [asked("?", "c d")])
    start, end = np.zeros((2, len(windows.encoded.ids)))
    space = windows.places[0, 0] + 1
    start[space] = end[space] = 9
    (answers,) = best_spans(windows, start, end)
    assert {answer.text for answer in answers} == {"c", "d", "c ", "c d"}
    assert sum(answer.probability for answer in answers) == pytest.approx(1)


def test_long_questions_are_cut() -> None:
    question, context = "red " * 500, "blue " * 30 + "boat " + "sea " * 300
    example = [asked(question, context, "boat")]
    windows = make_windows(words(), example)
    assert windows.places[:, 0].tolist() == [66] * len(windows)  # [CLS], 64 words, [SEP]
    assert windows.encoded.lengths.max() == 384
    assert choose(best_spans(windows, *perfect(windows))[0]) == "boat"
    windows = make_windows(words(), example, max_length=19)
    assert windows.places[:, 0].tolist() == [10] * len(windows)  # half of 16
    assert choose(best_spans(windows, *perfect(windows))[0]) == "boat"


@pytest.mark.parametrize("make", TOKENIZERS)
def test_the_smallest_windows_hold_any_question(make: Any) -> None:
    tokenizer = tokenizer_of(make)
    least = tokenizer.num_special_tokens_to_add(pair=True) + 16
    example = asked("🙂é" * 50, "日本 🙂 über " * 30 + "end", "end")
    windows = make_windows(tokenizer, [example], max_length=least)
    assert windows.encoded.lengths.max() <= least
    assert choose(best_spans(windows, *perfect(windows))[0]) == "end"
    with pytest.raises(ConfigError) as raised:
        make_windows(tokenizer, [example], max_length=least - 1)
    assert str(raised.value) == (
        f"max_length is {least - 1}; a question with its context needs at least {least} tokens."
    )


def test_no_questions_and_no_context() -> None:
    assert len(make_windows(words(), [])) == 0
    assert best_spans(make_windows(words(), []), [], []) == []
    windows = make_windows(words(), [asked("when", ""), asked("when", "sea", "sea")])
    none, some = best_spans(windows, *perfect(windows))
    assert none == []
    assert choose(none) == ""
    assert null_margin(none) == math.inf
    assert choose(some) == "sea"


def test_many_questions_are_tokenised_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [asked("when", "sea " * i + "boat", "boat") for i in range(1, 60)]
    whole = make_windows(words(), examples, max_length=24, stride=3)
    monkeypatch.setattr("adapterbank.tasks.spans.TOKENISED_AT_ONCE", 7)
    parts = make_windows(words(), examples, max_length=24, stride=3)
    assert len(whole) > 100
    for name in ("example", "places", "offsets", "targets"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    for name in ("ids", "types", "ends"):
        assert np.array_equal(getattr(whole.encoded, name), getattr(parts.encoded, name))


def test_slow_tokenizers_are_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(UnsupportedBase, match=r"need a base with a fast tokenizer"):
        make_windows(Slow(), [asked("when", "sea")])  # type: ignore[arg-type]


SIGNS = ["red", "blue", "boat", "über", "日本", "x1", "🙂", ".", "--", "extraordinary"]


def drawn_question(draw: random.Random, words: int) -> Example:
    """A context of so many words with an answer of up to three."""
    context, places = "", []
    for word in draw.choices(SIGNS, k=words):
        context += draw.choice([" ", "  ", "\n", "\t "])
        places.append((len(context), len(context) + len(word)))
        context += word
    first = draw.randrange(words)
    start, end = places[first][0], places[min(first + draw.randrange(3), words - 1)][1]
    question = " ".join(draw.choices(SIGNS, k=draw.randrange(40)))
    return Example(question, pair=context, answers=(Answer(context[start:end], start),))


questions = st.lists(
    st.builds(drawn_question, st.integers(0, 9999).map(random.Random), st.integers(1, 120)),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("make", TOKENIZERS)
@settings(max_examples=60, deadline=None)
@given(examples=questions, max_length=st.integers(24, 64), stride=st.integers(0, 40))
def test_perfect_logits_give_the_answer_back(
    make: Any, examples: list[Example], max_length: int, stride: int
) -> None:
    tokenizer = tokenizer_of(make)
    windows = make_windows(tokenizer, examples, max_length, stride)
    assert windows.encoded.lengths.max() <= max_length
    found = best_spans(windows, *perfect(windows), max_answer_tokens=max_length)
    for i, example in enumerate(examples):
        own = windows.targets[windows.example == i]
        if own.any():
            (answer,) = example.answers
            end = answer.start + len(answer.text)
            assert found[i][0][:4] == (answer.text, answer.start, end, 2)
        else:  # longer than what windows share, so that each of them may cut it
            assert len(own) > 1
            assert make is not words or stride < 2


def brute_force(
    windows: Windows, start: np.ndarray, end: np.ndarray, longest: int
) -> list[list[tuple[str, int, int, float]]]:
    """All answers of each question by trying all pairs of tokens."""
    found: list[dict[str, tuple[float, int, int]]] = [{} for _ in windows.contexts]
    for w, example in enumerate(windows.example):
        base, (a, b) = starts_of(windows)[w], windows.places[w]
        for i, j in itertools.product(range(a, b), repeat=2):
            if i <= j < i + longest:
                s, e = int(windows.offsets[base + i, 0]), int(windows.offsets[base + j, 1])
                text, score = windows.contexts[example][s:e], start[base + i] + end[base + j]
                key = (-float(score), s, e)
                found[example][text] = min(found[example].get(text, key), key)
    return [
        [(text, s, e, -minus) for text, (minus, s, e) in sorted(d.items(), key=lambda x: x[1])]
        for d in found
    ]


@settings(max_examples=40, deadline=None)
@given(examples=questions, seed=st.integers(0, 9999), longest=st.integers(1, 25))
def test_best_spans_are_the_best_of_all(examples: list[Example], seed: int, longest: int) -> None:
    windows = make_windows(words(), examples, 24, 4)
    draw = np.random.default_rng(seed)
    start, end = draw.integers(-20, 20, (2, len(windows.encoded.ids))) / 4
    expected = brute_force(windows, start, end, longest)
    every = best_spans(windows, start, end, n_best=10_000, max_answer_tokens=longest)
    assert [[answer[:4] for answer in answers] for answers in every] == expected
    few = best_spans(windows, start, end, n_best=3, max_answer_tokens=longest)
    for answers, right in zip(few, expected, strict=True):
        assert 1 <= len(answers) <= 3
        assert answers[0].score == right[0][3]
        scores = {text: score for text, _, _, score in right}
        assert {answer.text: answer.score for answer in answers}.items() <= scores.items()


def test_scores_probabilities_and_the_null_score() -> None:
    context = " ".join(["sea"] * 15 + ["boat"] + ["blue"] * 10)
    windows = make_windows(words(), [asked("when", context)], max_length=20, stride=2)
    assert windows.example.tolist() == [0, 0]
    start, end = np.full((2, len(windows.encoded.ids)), -50.0)
    first = starts_of(windows)
    start[first], end[first] = [1.0, 0.5], [2.0, 0.25]  # null scores 3 and 0.75
    boat = first[0] + windows.places[0, 0] + 15
    start[boat], end[boat] = 2.0, 1.5
    start[boat - 1] = 2.0 - math.log(2)
    for unanswerable, null in ((False, 0.0), (True, math.exp(0.75))):
        (answers,) = best_spans(windows, start, end, 2, 30, unanswerable=unanswerable)
        total = math.exp(3.5) * 1.5 + null
        assert answers == [
            SpanAnswer("boat", 60, 64, 3.5, pytest.approx(math.exp(3.5) / total), 0.75),
            SpanAnswer(
                "sea boat",
                56,
                64,
                pytest.approx(3.5 - math.log(2)),
                pytest.approx(math.exp(3.5) / 2 / total),
                0.75,
            ),
        ]
    assert null_margin(answers) == -2.75
    assert choose(answers) == choose(answers, -2.75) == "boat"
    assert choose(answers, -2.76) == ""


def test_huge_logits_have_probabilities() -> None:
    windows = make_windows(words(), [asked("when", "sea boat")])
    for size in (5000.0, -5000.0):
        logits = np.full(len(windows.encoded.ids), size)
        (answers,) = best_spans(windows, logits, logits, unanswerable=True)
        assert [answer.probability for answer in answers] == [pytest.approx(1 / 4)] * 3


def f1_at(
    examples: list[Example], margins: list[float], texts: list[str], threshold: float | None
) -> float:
    said = {
        example.id: choose([SpanAnswer(text, 0, 0, 0.0, 1.0, margin)], threshold)
        for example, margin, text in zip(examples, margins, texts, strict=True)
    }
    return span_scores(examples, said)["f1"]


_right, _said = st.sampled_from(["", "sea", "red boat"]), st.sampled_from(["sea", "boat"])
_rows = st.lists(st.tuples(_right, st.integers(-4, 4), _said), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(rows=_rows)
def test_the_threshold_has_the_best_f1(rows: list[tuple[str, int, str]]) -> None:
    examples = [
        asked("?", right, *[right] * bool(right), id=str(i)) for i, (right, _, _) in enumerate(rows)
    ]
    margins, texts = [float(margin) for _, margin, _ in rows], [text for _, _, text in rows]
    threshold = best_threshold(examples, margins, texts)
    if all(right for right, _, _ in rows):
        assert threshold is None
        return
    every = [f1_at(examples, margins, texts, t / 2) for t in range(-11, 11)]
    assert f1_at(examples, margins, texts, threshold) == pytest.approx(max(every))


def test_thresholds_by_hand() -> None:
    examples = [
        asked("?", "sea", "sea", id="1"),
        asked("?", "sea", id="2"),
        asked("?", "sea", id="3"),
    ]
    assert best_threshold(examples, [-1.5, 0.5, 2.0], ["sea"] * 3) == -1.5
    assert best_threshold(examples, [0.5, 0.5, 2.0], ["sea"] * 3) == -0.5  # a tie: gain 1, loss 1
    assert best_threshold(examples, [2.0, 0.5, -1.5], ["sea"] * 3) == -2.5
    assert best_threshold(examples[:1], [2.0], ["sea"]) is None
