"""Unpadded batches: real tokens only through every linear layer.

The tokens of all rows stand in one long row with their own positions, `[1, tokens]`. Linear layers,
LayerNorms and adapters then never see padding; only attention has to know where a row begins and
ends. It is told through Transformers' attention interface: `attention` below is registered there
under a name of ours (with its mask twin, without which the library drops masks in silence), and
the bounds of the batch travel to it as a keyword argument of the model's forward call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from adapterbank.errors import PackingError
from adapterbank.model.attention import Bounds, PackedAttention
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
    known: Tensor | None = None
    """What the frozen prefix makes of the rows, where it was computed before."""

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        inputs = {name: tensor.to(device) for name, tensor in self.inputs.items()}
        known = None if self.known is None else self.known.to(device)
        return Batch(inputs, self.lengths.to(device), self.bounds, known)


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
    """Transformers' attention interface for packed batches: [1, tokens, heads, width]."""
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
    # Not x[0]: the gradient of an element is a tensor of zeros with one part filled.
    q, k, v = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))  # [tokens, heads, width]
    rate = dropout if module.training else 0.0
    out: Tensor = PackedAttention.apply(  # type: ignore[no-untyped-call]
        q, k, v, bounds, scale, rate, sliding_window
    )
    return out.unsqueeze(0), None


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
