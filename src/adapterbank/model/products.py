"""Matrix products of the encoder in training, faster on a CPU than its linear layers as they are.

A weight that never changes can be kept in blocks that fit the processor's cache, once for the
product itself and once for its gradient, and the bias is added on the way. A training step is 3 to
8 per cent faster for it; it takes twice the memory of the frozen weights.

In bfloat16 factors and results are rounded to eight bits, and sums are in single precision. So is
all that lies between products: states, LayerNorms, attention, adapters, gradients, updates; but not
what a layer makes wider than its input, which goes through an activation into the next product.
Processors with instructions for it are twice as fast at the products. Others compute the very same
rounding in single precision, so that a run means the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

Products = Literal["auto", "fp32", "bf16"]
NARROW = 128  # a side of a weight below which nothing is gained
ROWS = 1024  # for which the layout is chosen; any number may come
HALF = torch.bfloat16


def settled(products: Products, device: torch.device) -> Products:
    """What `auto` means on a device: bf16 where it is fast."""
    if products != "auto":
        return products
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    return "bf16" if device.type == "cpu" and multiplies_halves() else "fp32"


@lru_cache
def multiplies_halves() -> bool:
    """Whether this processor has instructions for products in bfloat16."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.cpu, "get_capabilities"):
        return False
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


@contextmanager
def fast_products(
    model: nn.Module, products: Products = "fp32", apart: nn.Module | None = None
) -> Iterator[None]:
    """Within this block the model's wide linear layers multiply as described above; those of
    `apart`, a part of it, do not."""
    half = products == "bf16"
    left = set() if apart is None else set(apart.modules())
    layers = [
        layer
        for layer in model.modules()
        if type(layer) is nn.Linear and _wide(layer) and layer not in left
    ]
    changed = []
    for layer in layers:
        if not layer.weight.requires_grad and _can_lay_out():
            layer.forward = _frozen(layer, half)  # type: ignore[method-assign]
        elif half:
            layer.forward = partial(_rounded, layer)  # type: ignore[method-assign]
        else:
            continue
        changed.append(layer)
    try:
        yield
    finally:
        for layer in changed:
            del layer.forward  # the class's own again


def _wide(layer: nn.Linear) -> bool:
    weight = layer.weight
    return (
        min(weight.shape) >= NARROW
        and weight.device.type == "cpu"
        and weight.dtype == torch.float32
    )


def _can_lay_out() -> bool:
    """Not part of torch's public face: without them the layers stay as they are."""
    return torch.backends.mkldnn.is_available() and all(
        hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


def _factor(x: Tensor) -> Tensor:
    """Rounded to bfloat16; as such where the processor multiplies it, else in single precision."""
    return x.to(HALF) if multiplies_halves() else x.to(HALF).float()


def _rounded(layer: nn.Linear, x: Tensor) -> Tensor:
    """A layer that trains: its weight is another one at every step."""
    bias = None if layer.bias is None else _factor(layer.bias)
    out = F.linear(_factor(x), _factor(layer.weight), bias).to(HALF)
    return out if _widens(layer) else out.float()


def _widens(layer: nn.Linear) -> bool:
    return layer.out_features > layer.in_features


def _frozen(layer: nn.Linear, half: bool) -> Any:
    weight: Tensor = layer.weight.detach()
    bias: Tensor | None = layer.bias
    result = torch.float32
    if half:
        result = HALF if _widens(layer) else torch.float32
        weight, bias = _factor(weight), None if bias is None else _factor(bias.detach())
    there, back = _laid_out(weight), _laid_out(weight.T)

    def forward(x: Tensor) -> Tensor:
        out: Tensor = _FrozenProduct.apply(x, there, back, bias, half, result)  # type: ignore[no-untyped-call]
        return out

    return forward


def _laid_out(weight: Tensor) -> Tensor:
    found: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
    return found


def _product(
    x: Tensor, weight: Tensor, bias: Tensor | None, half: bool, result: torch.dtype
) -> Tensor:
    factor = _factor(x) if half else x
    out: Tensor = torch.ops.mkldnn._linear_pointwise(factor, weight, bias, "none", [], "")
    return out.to(HALF).to(result) if half else out


class _FrozenProduct(torch.autograd.Function):
    """x · Wᵀ + b, with a gradient for x alone."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        there: Tensor,
        back: Tensor,
        bias: Tensor | None,
        half: bool,
        result: torch.dtype,
    ) -> Tensor:
        ctx.back, ctx.half, ctx.given = back, half, x.dtype
        return _product(x, there, bias, half, result)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        found = _product(gradient.contiguous(), ctx.back, None, ctx.half, ctx.given)
        return found, None, None, None, None, None
