"""From texts to batches: tokenise once, then draw row numbers epoch by epoch."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adapterbank.errors import ConfigError
from adapterbank.tasks.task import Example

TOKENISED_AT_ONCE = 10_000  # rows; bounds the memory of Python's own lists of numbers


Row = Sequence[int] | NDArray[Any]  # the tokens of one row


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used."""

    def __call__(self, text: list[str], text_pair: list[str] | None, **options: Any) -> Any: ...

    def num_special_tokens_to_add(self, pair: bool = False) -> int: ...


@dataclass(frozen=True)
class Encoded:
    """Token ids and token types of many texts, laid end to end: a few bytes a token."""

    ids: NDArray[np.int32]
    types: NDArray[np.uint8]
    ends: NDArray[np.int64]
    """Where each row ends."""

    @classmethod
    def of(cls, ids: Sequence[Row], types: Sequence[Row]) -> Encoded:
        """From a list or an array a row."""
        return cls(
            np.fromiter(chain.from_iterable(ids), np.int32),
            np.fromiter(chain.from_iterable(types), np.uint8),
            np.cumsum([len(row) for row in ids], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row."""
        return np.diff(self.ends, prepend=0)

    def take(
        self, rows: Iterable[int] | None = None
    ) -> tuple[list[NDArray[np.int32]], list[NDArray[np.uint8]]]:
        """Ids and types of these rows, or of all."""
        rows = range(len(self)) if rows is None else rows
        spans = [slice(self.ends[row - 1] if row else 0, self.ends[row]) for row in rows]
        return [self.ids[span] for span in spans], [self.types[span] for span in spans]


def encode(tokenizer: Tokenizer, examples: Sequence[Example], max_length: int) -> Encoded:
    """Tokenise every text once, cut to `max_length` tokens. Single texts and pairs may stand beside
    each other: each is encoded as it would be alone."""
    pairs = [example.pair is not None for example in examples]
    if len(set(pairs)) < 2:
        return _encode(tokenizer, examples, max_length)
    found: dict[int, tuple[Row, Row]] = {}
    for kind in (False, True):
        some = [i for i, pair in enumerate(pairs) if pair is kind]
        encoded = _encode(tokenizer, [examples[i] for i in some], max_length)
        found |= zip(some, zip(*encoded.take(), strict=True), strict=True)
    ids, types = zip(*(found[i] for i in range(len(examples))), strict=True)
    return Encoded.of(ids, types)


def _encode(tokenizer: Tokenizer, examples: Sequence[Example], max_length: int) -> Encoded:
    """The same for texts that are all single, or all pairs."""
    special = tokenizer.num_special_tokens_to_add(_of_pairs(examples))
    if max_length <= special:
        raise ConfigError(
            f"max_length is {max_length}; this base puts {special} tokens of its own around a text."
        )
    parts = [
        Encoded.of(found["input_ids"], found["token_type_ids"])
        for found in _tokenised(tokenizer, examples, truncation=True, max_length=max_length)
    ]
    if not parts:
        return Encoded.of([], [])
    starts = np.cumsum([0, *(len(part.ids) for part in parts[:-1])])
    return Encoded(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.types for part in parts]),
        np.concatenate([part.ends + start for part, start in zip(parts, starts, strict=True)]),
    )


def full_lengths(tokenizer: Tokenizer, examples: Sequence[Example]) -> list[int]:
    """Tokens of each text before any is cut."""
    return [
        len(row)
        for found in _tokenised(tokenizer, examples, truncation=False, verbose=False)
        for row in found["input_ids"]
    ]


def _tokenised(
    tokenizer: Tokenizer, examples: Sequence[Example], **options: Any
) -> Iterator[dict[str, list[list[int]]]]:
    pairs = _of_pairs(examples)
    for start in range(0, len(examples), TOKENISED_AT_ONCE):
        some = examples[start : start + TOKENISED_AT_ONCE]
        yield tokenizer(
            [example.text for example in some],
            [example.pair or "" for example in some] if pairs else None,
            return_attention_mask=False,
            return_token_type_ids=True,
            **options,
        )


def _of_pairs(examples: Sequence[Example]) -> bool:
    return any(example.pair is not None for example in examples)


def shuffled(lengths: Sequence[int], size: int, draw: random.Random) -> list[list[int]]:
    """Random batches, as the paper trains. Packed batches cost no padding, whatever they mix."""
    rows = list(range(len(lengths)))
    draw.shuffle(rows)
    return list(cut(rows, size))


def length_grouped(lengths: Sequence[int], size: int, draw: random.Random) -> list[list[int]]:
    """Batches of about one length in random order, for bases that pad.

    Rows are sorted within chunks of 50 batches, so batches differ from epoch to epoch.
    """
    rows = list(range(len(lengths)))
    draw.shuffle(rows)
    batches = [
        batch
        for chunk in cut(rows, 50 * size)
        for batch in cut(sorted(chunk, key=lambda row: lengths[row]), size)
    ]
    draw.shuffle(batches)
    return batches


def cut(rows: Sequence[int], size: int) -> Iterator[list[int]]:
    """Consecutive pieces of `size`, the last one shorter."""
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])
