"""From texts to batches: tokenise once, then draw row numbers epoch by epoch."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from adapterbank.tasks.task import Example


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used."""

    def __call__(self, text: list[str], text_pair: list[str] | None, **options: Any) -> Any: ...


@dataclass(frozen=True)
class Encoded:
    """Token ids and token types of some texts, a list a row."""

    ids: list[list[int]]
    types: list[list[int]]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Iterable[int]) -> tuple[list[list[int]], list[list[int]]]:
        """Ids and types of these rows."""
        rows = list(rows)
        return [self.ids[row] for row in rows], [self.types[row] for row in rows]


def encode(tokenizer: Tokenizer, examples: Sequence[Example], max_length: int) -> Encoded:
    """Tokenise every text once, cut to `max_length` tokens."""
    pairs = [example.pair or "" for example in examples]
    found = tokenizer(
        [example.text for example in examples],
        pairs if any(pairs) else None,
        truncation=True,
        max_length=max_length,
        return_attention_mask=False,
        return_token_type_ids=True,
    )
    return Encoded(found["input_ids"], found["token_type_ids"])


def shuffled(count: int, size: int, draw: random.Random) -> list[list[int]]:
    """Random batches, as the paper trains. Packed batches cost no padding, whatever they mix."""
    rows = list(range(count))
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
