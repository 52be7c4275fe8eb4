"""The whole model of one task: frozen base, what the method adds to it, and the head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Self

import torch
from torch import Tensor, nn

from adapterbank.model.attention import Bounds
from adapterbank.model.encoder import Encoder
from adapterbank.model.heads import Head, Kind, mean_pool, starts_of
from adapterbank.model.methods import Method, apply_method
from adapterbank.model.packing import Batch, packed_attention


class TaskModel(nn.Module):
    """Token ids → logits. The encoder is lent: `release()`, or the end of a `with` block on the
    model, gives it back as it was."""

    def __init__(
        self, encoder: Encoder, kind: Kind, labels: int = 1, method: Method | None = None
    ) -> None:
        super().__init__()
        self.base = encoder.model
        self.sites = encoder.sites
        self.pooling = encoder.pooling
        self.padding = int(encoder.model.config.pad_token_id or 0)
        self.attachment = apply_method(
            self.base, method or Method(), with_pooler=self.pooling == "pooler"
        )
        like = next(self.base.parameters())
        self.head = Head(kind, encoder.width, labels).to(like.device, like.dtype)

    def forward(self, batch: Batch) -> Tensor:
        """Logits: [rows, outputs], or [tokens, 2] of a span head."""
        hidden = self.states(batch)
        logits: Tensor = self.head(
            hidden if self.head.kind == "span" else self.pool(hidden, batch.lengths)
        )
        return logits

    def states(self, batch: Batch) -> Tensor:
        """The states of the real tokens, rows laid end to end: [tokens, d]."""
        if batch.bounds is not None:
            hidden: Tensor = self.base(**batch.inputs, bounds=batch.bounds).last_hidden_state
            return hidden.squeeze(0)
        hidden = self.base(**batch.inputs).last_hidden_state
        return hidden[batch.inputs["attention_mask"].bool()]

    def pool(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """One vector a row: [tokens, d] → [rows, d]."""
        if self.pooling == "mean":
            return mean_pool(hidden, lengths)
        first = hidden[starts_of(lengths)]
        return first if self.pooling == "first" else self.sites.pool(self.base, first)

    def collate(
        self,
        rows: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        *,
        packed: bool | None = None,
    ) -> Batch:
        """Token ids (and token types) of some rows as a batch: packed wherever the base packs."""
        lengths = [len(row) for row in rows]
        types = types if self.sites.token_types else None
        if self.sites.packs if packed is None else packed:
            inputs = {
                "input_ids": _end_to_end(rows),
                "position_ids": _end_to_end([range(length) for length in lengths])
                + ((self.padding + 1) if self.sites.positions_after_padding else 0),
            }
            if types is not None:
                inputs["token_type_ids"] = _end_to_end(types)
            return Batch(inputs, torch.tensor(lengths), Bounds(lengths))
        inputs = {
            "input_ids": _padded(rows, self.padding),
            "attention_mask": _padded([[1] * length for length in lengths], 0),
        }
        if types is not None:
            inputs["token_type_ids"] = _padded(types, 0)
        return Batch(inputs, torch.tensor(lengths), None)

    @contextmanager
    def packing(self) -> Iterator[None]:
        """Within this block, packed batches run (on a base that packs; elsewhere no change)."""
        with packed_attention(self.base) if self.sites.packs else nullcontext():
            yield

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """What trains, by group."""
        groups = self.attachment.parameter_groups()
        groups["head"] = list(self.head.parameters())
        return groups

    def release(self) -> None:
        """Take everything off the base again."""
        self.attachment.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _end_to_end(rows: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor([[value for row in rows for value in row]])


def _padded(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])
