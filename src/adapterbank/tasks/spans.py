"""Span questions as windows of tokens, and answers back from the logits of those tokens.

A context that is too long for the encoder is read in windows that overlap. A window is one row for
the encoder: the question, then a piece of the context.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adapterbank.errors import ConfigError, UnsupportedBase
from adapterbank.tasks.batches import Encoded, Tokenizer
from adapterbank.tasks.metrics import answer_score
from adapterbank.tasks.squad import has_unanswerable
from adapterbank.tasks.task import Answer, Example

QUESTION_TOKENS = 64  # more of a question is cut off, so that room is left for its context
LEAST_TOKENS = 16  # of question and context together, without special tokens
TOKENISED_AT_ONCE = 1000  # questions; bounds the memory of Python's own lists of numbers


class SpanTokenizer(Tokenizer, Protocol):
    """The part of a fast Hugging Face tokenizer that is used."""

    is_fast: bool

    def num_special_tokens_to_add(self, pair: bool = False) -> int: ...


@dataclass(frozen=True)
class Windows:
    """All windows of some questions. Windows of one question stand together, in order."""

    contexts: tuple[str, ...]
    """Of each question."""
    encoded: Encoded
    example: NDArray[np.int64]
    """The number of each window's question: [windows]."""
    places: NDArray[np.int64]
    """First token of the context and the one after its last, within each window: [windows, 2]."""
    offsets: NDArray[np.int32]
    """Where each token starts and ends in its text, in characters: [tokens, 2]."""
    targets: NDArray[np.int64]
    """First and last token of the first answer, within each window; 0, 0 without: [windows, 2]."""

    def __len__(self) -> int:
        return len(self.example)

    def context_tokens(self) -> Iterator[slice]:
        """Where the context of each window stands among the tokens of all."""
        starts = self.encoded.ends - self.encoded.lengths
        for first, last in (self.places + starts[:, None]).tolist():
            yield slice(first, last)


class SpanAnswer(NamedTuple):
    """A piece of the context as an answer."""

    text: str
    start: int
    """In characters of the context."""
    end: int
    score: float
    """The sum of both logits."""
    probability: float
    """Among the answers in the list (and no answer, where that may be)."""
    null_score: float
    """What `score` would be for no answer at all."""


def make_windows(
    tokenizer: SpanTokenizer,
    examples: Sequence[Example],
    max_length: int = 384,
    stride: int = 128,
) -> Windows:
    """Tokenise questions with their contexts.

    Neighbouring windows share `stride` tokens of the context, or half of what `max_length` leaves
    for it if that is less.
    """
    if not tokenizer.is_fast:
        raise UnsupportedBase(
            "The tokenizer of this base cannot say where its tokens stand in the text.",
            "Span tasks need a base with a fast tokenizer (tokenizer.json).",
        )
    question_tokens, overlap = _room(tokenizer, max_length, stride)
    options = {
        "truncation": "only_second",
        "max_length": max_length,
        "stride": overlap,
        "return_overflowing_tokens": True,
        "return_token_type_ids": True,
    }
    parts = [_NO_WINDOWS]
    for first in range(0, len(examples), TOKENISED_AT_ONCE):
        some = examples[first : first + TOKENISED_AT_ONCE]
        questions = _shortened(tokenizer, [each.text for each in some], question_tokens)
        found = _tokenised(tokenizer, questions, [each.pair or "" for each in some], **options)
        parts.append(_Part.of(found, first))
    ids, types, lengths, example, places, offsets = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    windows = Windows(
        tuple(each.pair or "" for each in examples),
        Encoded(ids, types, np.cumsum(lengths)),
        example,
        places,
        offsets,
        np.zeros((len(example), 2), np.int64),
    )
    _set_targets(windows, examples)
    return windows


def best_spans(
    windows: Windows,
    start_logits: ArrayLike,
    end_logits: ArrayLike,
    n_best: int = 20,
    max_answer_tokens: int = 30,
    *,
    unanswerable: bool = False,
) -> list[list[SpanAnswer]]:
    """The best answers of each question over all its windows, best first.

    Logits are those of all tokens of all windows, laid end to end. Every span of up to
    `max_answer_tokens` tokens of context is compared. A text that stands in several places counts
    once, where it scores best. `unanswerable`: probabilities leave a share to no answer.
    A question whose context has no tokens gets an empty list.
    """
    starts, ends = np.asarray(start_logits, np.float64), np.asarray(end_logits, np.float64)
    spans: list[list[tuple[float, int, int]]] = [[] for _ in windows.contexts]
    for example, tokens in zip(windows.example.tolist(), windows.context_tokens(), strict=True):
        if tokens.start == tokens.stop:
            continue
        offsets = windows.offsets[tokens]
        scores, first, last = _best_pairs(starts[tokens], ends[tokens], n_best, max_answer_tokens)
        columns = (scores.tolist(), offsets[first, 0].tolist(), offsets[last, 1].tolist())
        spans[example].extend(zip(*columns, strict=True))
    null_scores = _null_scores(windows, starts, ends)
    return [
        _answers(context, found, null_score, n_best, unanswerable)
        for context, found, null_score in zip(windows.contexts, spans, null_scores, strict=True)
    ]


def choose(answers: Sequence[SpanAnswer], threshold: float | None = None) -> str:
    """The best answer's text, or "" if no answer scores higher by more than the threshold.

    Without a threshold every question is answered, as in SQuAD v1.1.
    """
    if not answers or (threshold is not None and null_margin(answers) > threshold):
        return ""
    return answers[0].text


def null_margin(answers: Sequence[SpanAnswer]) -> float:
    """By how much no answer scores higher than the best answer."""
    return answers[0].null_score - answers[0].score if answers else math.inf


def best_threshold(
    examples: Sequence[Example], null_minus_best: Sequence[float], texts: Sequence[str]
) -> float | None:
    """The threshold of `choose` with the highest F1 on these questions.

    `texts` are the best answers, given regardless of any threshold. None if every question has an
    answer, so that none should be left unanswered.
    """
    if not has_unanswerable(examples):
        return None
    margins = np.asarray(null_minus_best, np.float64)
    gains = np.array(
        [
            answer_score(text, example, True).f1 - answer_score("", example, True).f1
            for example, text in zip(examples, texts, strict=True)
        ]
    )
    order = np.argsort(margins, kind="stable")
    margins, totals = margins[order], np.cumsum(gains[order])
    # A threshold answers all questions of one margin or none of them.
    possible = np.flatnonzero(np.append(margins[1:] > margins[:-1], True))
    best = possible[np.argmax(totals[possible])]
    if totals[best] <= 0:
        return float(margins[0]) - 1  # below all: nothing is answered
    return float(margins[best])


class _Part(NamedTuple):
    """Some windows in arrays; see `Windows`."""

    ids: NDArray[np.int32]
    types: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    example: NDArray[np.int64]
    places: NDArray[np.int64]
    offsets: NDArray[np.int32]

    @classmethod
    def of(cls, found: Any, first_example: int) -> _Part:
        """From what a tokenizer gives."""
        rows = found["input_ids"]
        places = [_context_of(found.sequence_ids(row)) for row in range(len(rows))]
        return cls(
            np.fromiter(chain.from_iterable(rows), np.int32),
            np.fromiter(chain.from_iterable(found["token_type_ids"]), np.uint8),
            np.array([len(row) for row in rows], np.int64),
            np.array(found["overflow_to_sample_mapping"], np.int64) + first_example,
            np.array(places, np.int64),
            np.fromiter(
                chain.from_iterable(chain.from_iterable(found["offset_mapping"])), np.int32
            ).reshape(-1, 2),
        )


_NO_WINDOWS = _Part(
    np.zeros(0, np.int32),
    np.zeros(0, np.uint8),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros((0, 2), np.int64),
    np.zeros((0, 2), np.int32),
)


def _room(tokenizer: SpanTokenizer, max_length: int, stride: int) -> tuple[int, int]:
    """Tokens a question may have, and tokens of context that windows share."""
    special = tokenizer.num_special_tokens_to_add(pair=True)
    room = max_length - special
    if room < LEAST_TOKENS:
        raise ConfigError(
            f"max_length is {max_length}; a question with its context needs at least "
            f"{special + LEAST_TOKENS} tokens."
        )
    question = min(QUESTION_TOKENS, room // 2)
    return question, min(stride, (room - question) // 2)


def _shortened(tokenizer: SpanTokenizer, questions: list[str], limit: int) -> list[str]:
    """Questions cut after `limit` tokens."""
    found = _tokenised(
        tokenizer, questions, None, add_special_tokens=False, truncation=True, max_length=limit
    )
    return [
        question[: offsets[-1][1]] if len(offsets) >= limit else question
        for question, offsets in zip(questions, found["offset_mapping"], strict=True)
    ]


def _tokenised(
    tokenizer: SpanTokenizer, texts: list[str], pairs: list[str] | None, **options: Any
) -> Any:
    return tokenizer(
        texts,
        pairs,
        padding=False,
        return_attention_mask=False,
        return_offsets_mapping=True,
        **options,
    )


def _context_of(sequences: list[int | None]) -> tuple[int, int]:
    """First token of the second text and the one after its last."""
    count = sequences.count(1)
    first = sequences.index(1) if count else 0
    return first, first + count


def _set_targets(windows: Windows, examples: Sequence[Example]) -> None:
    numbers = windows.example
    opens = np.diff(numbers, prepend=-1) > 0
    closes = np.diff(numbers, append=len(examples)) > 0
    for row, tokens in enumerate(windows.context_tokens()):
        answers = examples[numbers[row]].answers
        if answers and tokens.start != tokens.stop:
            found = _tokens_of(answers[0], windows.offsets[tokens], opens[row], closes[row])
            if found:
                windows.targets[row] = windows.places[row, 0] + np.array(found)


def _tokens_of(
    answer: Answer, offsets: NDArray[np.int32], opens: bool, closes: bool
) -> tuple[int, int] | None:
    """First and last token of an answer, if it is all in the window; [context tokens, 2].

    The window that opens a context holds all from its first character, the one that closes it all
    to its last, also what the tokenizer has no tokens for.
    """
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    end = answer.start + len(answer.text.rstrip())
    if not ((opens or offsets[0, 0] <= start) and (closes or end <= offsets[-1, 1])):
        return None
    first = int(np.searchsorted(offsets[:, 1], start, "right"))
    last = int(np.searchsorted(offsets[:, 0], end, "left")) - 1
    return (first, last) if first <= last else None


def _best_pairs(
    starts: NDArray[np.float64], ends: NDArray[np.float64], n_best: int, max_tokens: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Scores, first and last tokens of the best spans of one window, in any order."""
    width = min(max_tokens, len(starts))
    beyond = np.full(width - 1, -np.inf)
    reach = np.lib.stride_tricks.sliding_window_view(np.concatenate([ends, beyond]), width)
    scores = (starts[:, None] + reach).ravel()  # [first token, tokens after it]
    count = min(n_best, len(scores))
    top = np.argpartition(scores, -count)[-count:]
    top = top[scores[top] > -np.inf]
    first, after = np.divmod(top, width)
    return scores[top], first, first + after


def _null_scores(
    windows: Windows, starts: NDArray[np.float64], ends: NDArray[np.float64]
) -> list[float]:
    """The score of no answer: of the first token, in the window where it is least."""
    first = windows.encoded.ends - windows.encoded.lengths
    scores = np.full(len(windows.contexts), np.inf)
    np.minimum.at(scores, windows.example, starts[first] + ends[first])
    return scores.tolist()


def _answers(
    context: str,
    spans: list[tuple[float, int, int]],
    null_score: float,
    n_best: int,
    unanswerable: bool,
) -> list[SpanAnswer]:
    best: dict[str, tuple[float, int, int]] = {}
    for score, start, end in sorted(spans, key=lambda span: (-span[0], span[1], span[2])):
        text = context[start:end]
        if text.strip():  # some tokenizers have tokens for the space between words
            best.setdefault(text, (score, start, end))
    kept = list(best.items())[:n_best]
    rivals = [score for _, (score, _, _) in kept] + [null_score] * unanswerable
    log_total = float(np.logaddexp.reduce(rivals)) if kept else 0.0
    return [
        SpanAnswer(text, start, end, score, math.exp(score - log_total), null_score)
        for text, (score, start, end) in kept
    ]
