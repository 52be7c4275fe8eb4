"""Unpadded batches: real tokens only through every linear layer.

The tokens of all rows stand in one long row with their own positions, `[1, tokens]`. Linear layers,
LayerNorms and adapters then never see padding; only attention has to know where a row begins and
ends. It is told through Transformers' attention interface: `attention` below is registered there
under a name of ours (with its mask twin, without which the library drops masks in silence), and
the bounds of the batch travel to it as a keyword argument of the model's forward call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from adapterbank.errors import PackingError
from adapterbank.model.dropout import dropout as drop
from adapterbank.model.sites import sites_of

NAME = "adapterbank_packed"


@dataclass(frozen=True)
class Batch:
    """Token sequences ready for the encoder, packed end to end or padded to the longest."""

    inputs: dict[str, Tensor]
    """What the encoder's forward takes. [1, tokens] if packed, else [rows, longest]."""
    lengths: Tensor
    """Real tokens of each row: [rows]."""
    bounds: Bounds | None
    """Where rows begin and end, for packed attention; None for a padded batch."""

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return Batch(
            {name: tensor.to(device) for name, tensor in self.inputs.items()},
            self.lengths.to(device),
            Bounds(self.bounds.lengths, device) if self.bounds else None,
        )


@dataclass(frozen=True)
class Group:
    """Rows of about one length, which attend as one small dense batch of n rows of L tokens."""

    tokens: Tensor
    """The packed place of each of the group's n·L places: [n·L]. Padding points at token 0."""
    shape: tuple[int, int]
    """(n, L)."""
    real: Tensor | None
    """Which of the n·L places hold a token: [n, L]; None if all do."""
    masks: dict[int | None, Tensor | None] = field(default_factory=dict)
    """What may attend to what, by sliding window: made when first asked for."""

    def mask(self, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """0 where a token may look and -inf where not: [n, 1, 1 or L, L], or None for all of it."""
        if window not in self.masks:
            allowed = None if self.real is None else self.real[:, None, None, :]
            if window is not None and window < self.shape[1]:
                places = torch.arange(self.shape[1], device=self.tokens.device)
                near = (places[:, None] - places[None, :]).abs() < window
                allowed = near if allowed is None else near & allowed
                if self.real is not None:  # a padded query far from every token: let it see all
                    allowed = allowed | ~self.real[:, None, :, None]
            self.masks[window] = (
                None
                if allowed is None
                else torch.zeros_like(allowed, dtype=dtype).masked_fill_(~allowed, float("-inf"))
            )
        return self.masks[window]


class Bounds:
    """Where the rows of a packed batch begin and end, made once and read by every layer."""

    # A group may hold rows down to this share of its longest: attention is a few per cent of the
    # work at ordinary lengths, and each further group costs a round of small operations.
    SPREAD = 0.6
    SHORT = 32  # below this length even a strongly padded attention is cheap

    def __init__(self, lengths: Sequence[int], device: torch.device | None = None) -> None:
        self.lengths = list(lengths)
        self.tokens = sum(self.lengths)
        starts = [0]
        for length in self.lengths:
            starts.append(starts[-1] + length)
        self.groups = [
            self._group([(starts[row], self.lengths[row]) for row in rows], device)
            for rows in self._similar_rows()
        ]
        # Where each packed token stands when the groups' places are laid end to end.
        places = torch.cat([group.tokens for group in self.groups])
        real = torch.cat(
            [
                group.real.flatten()
                if group.real is not None
                else torch.ones_like(group.tokens).bool()
                for group in self.groups
            ]
        )
        kept = real.nonzero().squeeze(-1)
        self.back = torch.empty(self.tokens, dtype=torch.long, device=device)
        self.back[places[kept]] = kept
        # Rows of one length in order: packed and dense are the same memory.
        self.dense = len(self.groups) == 1 and self.groups[0].real is None

    def _similar_rows(self) -> Iterator[list[int]]:
        if len(set(self.lengths)) == 1 or max(self.lengths) <= self.SHORT:
            yield list(range(len(self.lengths)))
            return
        order = sorted(range(len(self.lengths)), key=lambda row: -self.lengths[row])
        group = [order[0]]
        for row in order[1:]:
            longest = self.lengths[group[0]]
            if longest > self.SHORT and self.lengths[row] < self.SPREAD * longest:
                yield group
                group = []
            group.append(row)
        yield group

    @staticmethod
    def _group(rows: list[tuple[int, int]], device: torch.device | None) -> Group:
        starts = torch.tensor([start for start, _ in rows])
        lengths = torch.tensor([length for _, length in rows])
        longest = int(lengths.max())
        offsets = torch.arange(longest)
        real = offsets < lengths[:, None]  # [n, L]
        tokens = torch.where(real, starts[:, None] + offsets, 0).flatten()
        return Group(
            tokens.to(device), (len(rows), longest), None if real.all() else real.to(device)
        )


def attention(
    module: nn.Module,
    query: Tensor,  # [1, heads, tokens, width of a head]
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    bounds: Bounds | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention within each row of a packed batch: [1, tokens, heads, width of a head]."""
    if bounds is None:
        raise PackingError(
            "Packed attention was called without the bounds of the batch.",
            "Pass `bounds=` to the model, or leave the `packed_attention` block.",
        )
    if attention_mask is not None or query.shape[0] != 1 or query.shape[2] != bounds.tokens:
        raise PackingError(
            f"A packed batch is one row of {bounds.tokens} tokens without a mask; "
            f"this one is {query.shape[0]} × {query.shape[2]}."
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    packed = [x[0].transpose(0, 1) for x in (query, key, value)]  # [tokens, heads, width]
    parts = []
    for group in bounds.groups:
        q, k, v = (_rows(x, group, bounds.dense) for x in packed)  # [n, heads, L, width]
        mask = group.mask(sliding_window, q.dtype)
        attended = _attend(q, k, v, mask, scale, dropout if module.training else 0.0)
        parts.append(attended.transpose(1, 2).flatten(0, 1))  # [n·L, heads, width]
    out = parts[0] if len(parts) == 1 else torch.cat(parts)
    if not bounds.dense:
        out = out.index_select(0, bounds.back)
    return out.unsqueeze(0), None


def _rows(x: Tensor, group: Group, dense: bool) -> Tensor:
    n, longest = group.shape
    taken = x if dense else x.index_select(0, group.tokens)
    return taken.view(n, longest, *x.shape[1:]).transpose(1, 2)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, dropout: float
) -> Tensor:
    scores = (q * scale) @ k.transpose(-1, -2)  # [n, heads, L, L]
    if mask is not None:
        scores = scores + mask
    return drop(F.softmax(scores, dim=-1), dropout) @ v


def _no_mask(*args: Any, attention_mask: Tensor | None = None, **kwargs: Any) -> None:
    del args, kwargs
    if attention_mask is not None and not bool(attention_mask.all()):
        raise PackingError(
            "A packed batch has no padding, so it takes no attention mask.",
            "Leave the `packed_attention` block to run padded batches.",
        )


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, _no_mask)


@contextmanager
def packed_attention(base: PreTrainedModel) -> Iterator[None]:
    """Within this block the model takes packed batches, and only those."""
    if not sites_of(base.config).packs:
        raise PackingError(
            f"{base.config.model_type} has an attention of its own and takes padded batches only."
        )
    before = base.config._attn_implementation
    base.config._attn_implementation = NAME
    try:
        yield
    finally:
        base.config._attn_implementation = before
