"""Attention within the rows of a packed batch.

Rows of about one length form a group, and a group attends as one small dense batch. The forward
and backward passes are written out: each tensor is gathered once, straight into the layout that the
batched products want, and only what the backward pass reads is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from adapterbank.model.dropout import keep_mask


@dataclass(frozen=True)
class Group:
    """n rows of at most L tokens."""

    tokens: Tensor
    """The token at each of the n × L places: [n, L]. Places past a row's end point at token 0."""
    real: Tensor | None
    """Which places hold a token of their row: [n, L]; None if all do."""
    _masks: dict[tuple[int | None, int, torch.dtype], Tensor] = field(default_factory=dict)
    _places: dict[int, Tensor] = field(default_factory=dict)

    def places(self, heads: int) -> Tensor:
        """Where each vector of the group stands among all tokens' heads: [n · heads · L]."""
        if heads not in self._places:
            head = torch.arange(heads, device=self.tokens.device)[:, None]
            self._places[heads] = (self.tokens[:, None, :] * heads + head).flatten()
        return self._places[heads]

    def mask(self, window: int | None, heads: int, dtype: torch.dtype) -> Tensor:
        """Added to the scores, 0 or -inf: [1 or n · heads, 1 or L, 1 or L]."""
        key = (window, heads, dtype)
        if key not in self._masks:
            longest = self.tokens.shape[1]
            allowed = torch.ones(1, 1, 1, dtype=torch.bool, device=self.tokens.device)
            if self.real is not None:
                allowed = self.real[:, None, :]  # [n, 1, L]
            if window is not None and window <= longest:
                place = torch.arange(longest, device=self.tokens.device)
                allowed = allowed & ((place[:, None] - place).abs() < window)  # [n, L, L]
                if self.real is not None:  # a place past the end may be far from every token
                    allowed = allowed | ~self.real[:, :, None]
            mask = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
            mask.masked_fill_(~allowed, float("-inf"))
            if len(mask) > 1:
                mask = mask.repeat_interleave(heads, dim=0)
            self._masks[key] = mask
        return self._masks[key]


class Bounds:
    """Where the rows of a packed batch begin and end, made once and read by every layer."""

    # A group may hold rows down to this share of its longest: attention is a few per cent of the
    # work at ordinary lengths, and each further group costs a round of small operations.
    SPREAD = 0.65
    SHORT = 16  # below this length even a strongly padded attention is cheap

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = list(lengths)
        self.tokens = sum(self.lengths)
        ends = torch.tensor(self.lengths).cumsum(0)
        starts = ends - torch.tensor(self.lengths)
        self.groups = [self._group(rows, starts) for rows in self._similar_rows()]
        self._back: dict[int, Tensor] = {}

    def back(self, heads: int) -> Tensor:
        """Where each token's heads stand when the groups are laid end to end: [tokens · heads]."""
        if heads not in self._back:
            places = torch.cat([group.places(heads) for group in self.groups])
            kept = torch.cat([_kept(group, heads) for group in self.groups]).nonzero().squeeze(-1)
            back = torch.empty(self.tokens * heads, dtype=torch.long, device=places.device)
            back[places[kept]] = kept
            self._back[heads] = back
        return self._back[heads]

    def _similar_rows(self) -> Iterator[list[int]]:
        order = sorted(range(len(self.lengths)), key=lambda row: -self.lengths[row])
        group = [order[0]]
        for row in order[1:]:
            longest = self.lengths[group[0]]
            if longest > self.SHORT and self.lengths[row] < self.SPREAD * longest:
                yield group
                group = []
            group.append(row)
        yield group

    def _group(self, rows: list[int], starts: Tensor) -> Group:
        lengths = torch.tensor([self.lengths[row] for row in rows])
        places = torch.arange(int(lengths.max()))
        real = places < lengths[:, None]  # [n, L]
        tokens = torch.where(real, starts[rows][:, None] + places, 0)
        return Group(tokens, None if bool(real.all()) else real)


def _kept(group: Group, heads: int) -> Tensor:
    real = torch.ones_like(group.tokens, dtype=torch.bool) if group.real is None else group.real
    return real[:, None, :].expand(-1, heads, -1).flatten()


class PackedAttention(torch.autograd.Function):
    """softmax(q·kᵀ · scale)·v within each row: [tokens, heads, width of a head] all through."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bounds: Bounds,
        scale: float,
        dropout: float,
        window: int | None,
    ) -> Tensor:
        heads = query.shape[1]
        saved: list[Tensor | None] = []
        parts = []
        for group in bounds.groups:
            q, k, v = (_gather(x, group) for x in (query, key, value))  # [n · heads, L, width]
            mask = group.mask(window, heads, q.dtype)
            scores = torch.baddbmm(mask, q, k.mT, alpha=scale)  # [n · heads, L, L]
            attended = torch.softmax(scores, -1, out=scores)
            kept = keep_mask(attended.shape, dropout, attended.dtype) if dropout else None
            kept = kept if kept is None else kept.to(attended.device)
            parts.append(torch.bmm(attended if kept is None else attended * kept, v))
            saved += [q, k, v, attended, kept]
        ctx.bounds, ctx.scale = bounds, scale
        ctx.save_for_backward(*saved)
        return _scatter(parts, bounds, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        bounds, scale, saved = ctx.bounds, ctx.scale, ctx.saved_tensors
        heads = gradient.shape[1]
        parts: tuple[list[Tensor], ...] = ([], [], [])
        for i, group in enumerate(bounds.groups):
            q, k, v, attended, kept = saved[5 * i : 5 * i + 5]
            d_out = _gather(gradient, group)
            if group.real is not None:
                real = group.real.repeat_interleave(heads, dim=0).unsqueeze(-1)
                d_out.mul_(real)  # places past the end give nothing back
            dropped = attended if kept is None else attended * kept
            d_attended = torch.bmm(d_out, v.mT)
            if kept is not None:
                d_attended.mul_(kept)
            d_scores = torch._softmax_backward_data(d_attended, attended, -1, attended.dtype)
            d_scores.mul_(scale)
            for part, d in zip(
                parts,
                (torch.bmm(d_scores, k), torch.bmm(d_scores.mT, q), torch.bmm(dropped.mT, d_out)),
                strict=True,
            ):
                part.append(d)
        d_query, d_key, d_value = (_scatter(part, bounds, heads) for part in parts)
        return d_query, d_key, d_value, None, None, None, None


def _gather(x: Tensor, group: Group) -> Tensor:
    """[tokens, heads, width] → [n · heads, L, width]."""
    _, heads, width = x.shape
    rows, longest = group.tokens.shape
    vectors = x.reshape(-1, width).index_select(0, group.places(heads))
    return vectors.view(rows * heads, longest, width)


def _scatter(parts: list[Tensor], bounds: Bounds, heads: int) -> Tensor:
    """The groups' [n · heads, L, width] → [tokens, heads, width]."""
    width = parts[0].shape[-1]
    vectors = torch.cat([part.view(-1, width) for part in parts]) if len(parts) > 1 else parts[0]
    back = vectors.view(-1, width).index_select(0, bounds.back(heads))
    return back.view(bounds.tokens, heads, width)
