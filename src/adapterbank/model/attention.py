"""Attention within the rows of a packed batch.

Rows of about one length form a group, and a group attends as one small dense batch. The groups of a
batch lie end to end in a few large tensors, so that gathering, dropout and scaling are one
operation for all of them. The forward and backward passes are written out: each tensor is gathered
once, straight into the layout that the batched products want, and only what the backward pass reads
is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from adapterbank.model.dropout import Coins

CACHED = 1 << 18  # pairs of places whose scores are worked on at a time: a megabyte


@dataclass(frozen=True)
class Group:
    """n rows of at most L tokens."""

    tokens: Tensor
    """The token at each of the n × L places: [n, L]. Places past a row's end point at its first
    token: at another row's, a number there that is not finite would come in with weight 0."""
    real: Tensor | None
    """Which places hold a token of their row: [n, L]; None if all do."""

    def real_by_head(self, heads: int) -> Tensor:
        """Which places are real, once a head: [n · heads · L]."""
        real = torch.ones_like(self.tokens, dtype=torch.bool) if self.real is None else self.real
        return real[:, None, :].expand(-1, heads, -1).flatten()

    def mask(self, window: int | None) -> Tensor | None:
        """Added to the scores, 0 or -inf: [n or 1, 1 or L, L]; None if every token sees all."""
        longest = self.tokens.shape[1]
        allowed = None if self.real is None else self.real[:, None, :]  # [n, 1, L]
        if window is not None and window <= longest:
            place = torch.arange(longest)
            near = (place[:, None] - place).abs() < window  # [L, L]
            allowed = near[None] if allowed is None else allowed & near
            if self.real is not None:  # a place past the end may be far from every token
                allowed = allowed | ~self.real[:, :, None]
        if allowed is None:
            return None
        return torch.zeros(allowed.shape).masked_fill_(~allowed, float("-inf"))


@dataclass(frozen=True)
class Part:
    """Some rows and heads of a group, and where they stand among all: few enough that everything
    done to their scores stays in the processor's cache."""

    group: int
    heads: slice
    """Which of the group's n · heads."""
    longest: int
    vectors: slice
    pairs: slice

    def rows(self, x: Tensor) -> Tensor:
        """Of all groups' vectors [places, width], these: [heads, L, width]."""
        return x[self.vectors].view(-1, self.longest, x.shape[-1])

    def square(self, x: Tensor) -> Tensor:
        """Of all groups' pairs [pairs], these: [heads, L, L]."""
        return x[self.pairs].view(-1, self.longest, self.longest)

    def scratch(self, x: Tensor) -> Tensor:
        """Room of as many pairs at the start of x: [heads, L, L]."""
        return x[: self.pairs.stop - self.pairs.start].view(-1, self.longest, self.longest)


class Layout:
    """How the groups lie end to end, for a number of heads."""

    def __init__(self, groups: Sequence[Group], tokens: int, heads: int, device: torch.device):
        self.groups, self.tokens, self.heads, self.device = groups, tokens, heads, device
        self.parts = list(self._parts())
        self.pairs = self.parts[-1].pairs.stop
        self.most = max(part.pairs.stop - part.pairs.start for part in self.parts)
        """Pairs of the largest part."""
        head = torch.arange(heads)[:, None]
        places = [(group.tokens[:, None] * heads + head).flatten() for group in groups]
        real = torch.cat([group.real_by_head(heads) for group in groups])
        self.places = torch.cat(places).to(device)
        """Where each vector comes from among all tokens' heads: [places]."""
        # As a number: torch multiplies by truth values several times more slowly.
        self.real = None if bool(real.all()) else real[:, None].to(device, torch.float32)
        """1 at places that hold a token of their row, else 0: [places, 1]; None if all do."""
        kept = real.nonzero().squeeze(-1).to(device)
        self.back = torch.empty(tokens * heads, dtype=torch.long, device=device)
        """Where each token's heads stand among the places: [tokens · heads]."""
        self.back[self.places[kept]] = kept
        self._masks: dict[tuple[int | None, torch.dtype], list[Tensor | None]] = {}

    def _parts(self) -> Iterator[Part]:
        vector = pair = 0
        for number, group in enumerate(self.groups):
            rows, longest = group.tokens.shape
            step = max(1, CACHED // longest**2)
            for first in range(0, rows * self.heads, step):
                heads = slice(first, min(first + step, rows * self.heads))
                count = heads.stop - first
                ends = vector + count * longest, pair + count * longest**2
                yield Part(number, heads, longest, slice(vector, ends[0]), slice(pair, ends[1]))
                vector, pair = ends

    def masks(self, window: int | None, dtype: torch.dtype) -> list[Tensor | None]:
        """Of each part, what is added to its scores: [heads or 1, 1 or L, L]."""
        key = (window, dtype)
        if key not in self._masks:
            of_groups = [
                mask if mask is None else self._by_head(mask).to(self.device, dtype)
                for mask in (group.mask(window) for group in self.groups)
            ]
            self._masks[key] = [_some_heads(of_groups[p.group], p.heads) for p in self.parts]
        return self._masks[key]

    def _by_head(self, mask: Tensor) -> Tensor:
        return mask.repeat_interleave(self.heads, dim=0) if len(mask) > 1 else mask

    def gather(self, x: Tensor) -> Tensor:
        """[tokens, heads, width] → [places, width]."""
        return x.reshape(-1, x.shape[-1]).index_select(0, self.places)

    def scatter(self, x: Tensor) -> Tensor:
        """[places, width] → [tokens, heads, width]."""
        return x.index_select(0, self.back).view(self.tokens, self.heads, -1)


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
        self._layouts: dict[tuple[int, torch.device], Layout] = {}

    def layout(self, heads: int, device: torch.device) -> Layout:
        """How the groups lie end to end."""
        key = (heads, device)
        if key not in self._layouts:
            self._layouts[key] = Layout(self.groups, self.tokens, heads, device)
        return self._layouts[key]

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
        tokens = starts[rows][:, None] + torch.where(real, places, 0)
        return Group(tokens, None if bool(real.all()) else real)


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
        layout = bounds.layout(query.shape[1], query.device)
        q, k, v = (layout.gather(x) for x in (query, key, value))
        attended, out = q.new_empty(layout.pairs), torch.empty_like(v)
        coins = Coins(dropout) if dropout else None
        dropped, signs = (q.new_empty(layout.most), torch.empty(layout.most)) if coins else (q, q)
        rise = coins.scale if coins else 1.0
        for part, mask in zip(layout.parts, layout.masks(window, q.dtype), strict=True):
            scores = kept = part.square(attended)
            if mask is None:
                _product(part.rows(q), part.rows(k).mT, scores, scale)
            else:
                torch.baddbmm(mask, part.rows(q), part.rows(k).mT, alpha=scale, out=scores)
            torch.softmax(scores, -1, out=scores)
            if coins:  # the signs of what was attended keep what was dropped
                kept = part.scratch(dropped)
                scores.mul_(coins.fill(part.scratch(signs), -1.0, 1.0).to(scores))
                torch.clamp_min(scores, 0, out=kept)
            _product(kept, part.rows(v), part.rows(out), rise)
        ctx.layout, ctx.scale, ctx.rise, ctx.dropout = layout, scale, rise, dropout
        ctx.save_for_backward(q, k, v, attended)
        return layout.scatter(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        layout: Layout = ctx.layout
        q, k, v, attended = ctx.saved_tensors
        d_out = layout.gather(gradient)
        if layout.real is not None:
            d_out.mul_(layout.real)  # places past the end give nothing back
        d_query, d_key, d_value = (torch.empty_like(x) for x in (q, k, v))
        room, more = (q.new_empty(layout.most) for _ in range(2))
        for part in layout.parts:
            y, d = part.square(attended), part.scratch(room)
            _product(part.rows(d_out), part.rows(v).mT, d)
            if ctx.dropout:
                kept = torch.clamp_min(y, 0, out=part.scratch(more))
                _product(kept.mT, part.rows(d_out), part.rows(d_value), ctx.rise)
                torch.ops.aten.threshold_backward.grad_input(d, y, 0, grad_input=d)
                y = torch.abs(y, out=kept)
            else:
                _product(y.mT, part.rows(d_out), part.rows(d_value), ctx.rise)
            torch._softmax_backward_data(d, y, -1, y.dtype, grad_input=d)
            _product(d, part.rows(k), part.rows(d_query), ctx.scale * ctx.rise)
            _product(d.mT, part.rows(q), part.rows(d_key), ctx.scale * ctx.rise)
        found = (layout.scatter(d) for d in (d_query, d_key, d_value))
        return *found, None, None, None, None


def _some_heads(mask: Tensor | None, heads: slice) -> Tensor | None:
    return mask if mask is None or len(mask) == 1 else mask[heads]


def _product(a: Tensor, b: Tensor, out: Tensor, scale: float = 1.0) -> None:
    torch.baddbmm(out, a, b, beta=0, alpha=scale, out=out)
