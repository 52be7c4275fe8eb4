"""A base's tokenizer without the library around it: what `transformers` made, as one file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Encoding


class PlainTokenizer:
    """Answers as the Hugging Face tokenizer does that the file came from, for the calls that
    `tasks` makes. Safe to use from several threads."""

    is_fast = True

    def __init__(self, file: Path, truncation_side: str = "right") -> None:
        """What is too long is cut off at that side."""
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_padding()
        self._side = truncation_side
        self._lock = threading.Lock()  # how texts are cut is a state of the tokenizer

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Tokens that a text, or a pair, gets beside its own."""
        return int(self._tokenizer.num_special_tokens_to_add(pair))

    def __call__(
        self,
        text: Sequence[str],
        text_pair: Sequence[str] | None = None,
        *,
        truncation: bool | str = False,
        max_length: int = 0,
        stride: int = 0,
        add_special_tokens: bool = True,
        return_overflowing_tokens: bool = False,
        **_: Any,
    ) -> Tokenised:
        """Tokens of texts or pairs of texts."""
        texts: Any = text if text_pair is None else list(zip(text, text_pair, strict=True))
        with self._lock:
            if truncation:
                strategy = "longest_first" if truncation is True else truncation
                self._tokenizer.enable_truncation(
                    max_length, stride=stride, strategy=strategy, direction=self._side
                )
            else:
                self._tokenizer.no_truncation()
            found = self._tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        return Tokenised(found, return_overflowing_tokens)


class Tokenised:
    """Encodings by the names that Hugging Face gives their parts."""

    def __init__(self, found: Sequence[Encoding], with_rest: bool) -> None:
        self._sample: list[int] = []
        self._encodings: list[Encoding] = []
        for i, encoding in enumerate(found):
            pieces = [encoding, *(encoding.overflowing if with_rest else ())]
            self._encodings += pieces
            self._sample += [i] * len(pieces)

    def __getitem__(self, name: str) -> Any:
        if name == "overflow_to_sample_mapping":
            return self._sample
        leaf = {"input_ids": "ids", "token_type_ids": "type_ids", "offset_mapping": "offsets"}[name]
        return [getattr(encoding, leaf) for encoding in self._encodings]

    def sequence_ids(self, row: int) -> list[int | None]:
        """Which of a pair's texts each token is of; None for special tokens."""
        ids: list[int | None] = self._encodings[row].sequence_ids
        return ids
