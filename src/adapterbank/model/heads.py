"""Task heads: from token states to logits and a loss.

The paper's head is one linear layer on the pooled text. Every head here takes the states of the
real tokens of a batch, laid end to end, and the lengths of its rows; it never sees padding.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from adapterbank.errors import ConfigError
from adapterbank.model.adapter import cut_normal_
from adapterbank.model.config import check_choice

Kind = Literal["classification", "multi-label", "regression", "span"]
HEAD_STD = 0.02  # section 3.1's code: truncated normal, bias 0
HEAD_DROPOUT = 0.1


class Head(nn.Module):
    """dropout → linear. Reads the pooled text [rows, d]; a span head reads tokens [tokens, d]."""

    def __init__(
        self,
        kind: Kind,
        width: int,
        labels: int = 1,
        *,
        dropout: float = HEAD_DROPOUT,
    ) -> None:
        """`labels` is the number of classes; a regression head has 1 output, a span head 2."""
        super().__init__()
        outputs = head_outputs(kind, labels)
        self.kind = kind
        self.shift, self.scale = 0.0, 1.0  # of a regression head in training: see `rescale`
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, outputs)
        cut_normal_(self.linear.weight, HEAD_STD)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """[rows or tokens, d] → [rows or tokens, outputs]."""
        out: Tensor = self.linear(self.dropout(features))
        return out if self.scale == 1.0 and self.shift == 0.0 else out * self.scale + self.shift

    def rescale(self, shift: float, scale: float) -> None:
        """Let a regression head's linear layer work in units of its targets' mean and deviation,
        so that its learning rate doesn't depend on whether they are stars or euros."""
        self.shift, self.scale = shift, scale

    @torch.no_grad()
    def unfold(self, shift: float, scale: float) -> None:
        """The same for a head that has learnt already: its outputs stay what they are."""
        self.linear.bias.sub_(shift).div_(scale)
        self.linear.weight.div_(scale)
        self.rescale(shift, scale)

    @torch.no_grad()
    def fold(self) -> None:
        """Move the scale into the linear layer: the same outputs, two tensors that say it all."""
        self.linear.weight.mul_(self.scale)
        self.linear.bias.mul_(self.scale).add_(self.shift)
        self.shift, self.scale = 0.0, 1.0

    def loss(self, logits: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
        """Mean loss over the rows of a batch.

        targets: class ids [rows]; 0/1 [rows, labels]; numbers [rows]; or for spans the first and
        last token [rows, 2], counted within the row.
        """
        match self.kind:
            case "classification":
                return F.cross_entropy(logits, targets)
            case "multi-label":
                return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
            case "regression":
                off = (logits.squeeze(-1) - targets.to(logits.dtype)) / self.scale
                return off.square().mean()
            case "span":
                return _span_loss(logits, targets, lengths)


def head_outputs(kind: Kind, labels: int) -> int:
    """The width of a head's output."""
    check_choice("kind", kind, get_args(Kind))
    if kind == "span":
        return 2  # start and end
    if kind == "regression":
        return 1
    least = 2 if kind == "classification" else 1
    if labels < least:
        raise ConfigError(f"A {kind} head needs at least {least} labels, and got {labels}.")
    return labels


def _span_loss(logits: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
    """Cross-entropy of start and of end over the tokens of each row, averaged."""
    rows = rows_of_tokens(lengths)
    places = torch.arange(len(rows), device=rows.device) - starts_of(lengths)[rows]
    dense = logits.new_full((len(lengths), int(lengths.max()), 2), float("-inf"))
    dense = dense.index_put((rows, places), logits)  # [rows, longest, 2]
    start, end = dense.unbind(-1)
    return (F.cross_entropy(start, targets[:, 0]) + F.cross_entropy(end, targets[:, 1])) / 2


def starts_of(lengths: Tensor) -> Tensor:
    """Where each row starts when rows are laid end to end: [rows]."""
    return lengths.cumsum(0) - lengths


def rows_of_tokens(lengths: Tensor) -> Tensor:
    """The row that each token belongs to: [tokens]."""
    return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)


def mean_pool(hidden: Tensor, lengths: Tensor) -> Tensor:
    """The mean state of each row's tokens: [tokens, d] → [rows, d]."""
    sums = hidden.new_zeros(len(lengths), hidden.shape[-1])
    sums = sums.index_add(0, rows_of_tokens(lengths), hidden)
    return sums / lengths.unsqueeze(-1)
