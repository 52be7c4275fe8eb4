"""Many tasks on one encoder at once: each part of a batch gets its own adapters and LayerNorms.

The encoder is lent for the length of a call. Its LayerNorms normalise without scale and shift, and
hooks put each task's own on; other hooks send each part of the batch through its adapters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from adapterbank.errors import AttachError
from adapterbank.model.adapter import Adapter
from adapterbank.model.config import AdapterConfig
from adapterbank.model.sites import Site, Sites

Norm = tuple[Tensor, Tensor | None]  # weight and, where the base's norms have one, bias


@dataclass(frozen=True)
class Overlay:
    """What one task puts on the encoder."""

    adapters: Mapping[str, Adapter]
    """By site: `layer.3.attention`."""
    norms: Mapping[str, Norm]
    """By name: `layer.3.output.norm`. The base's own stand where none is given."""
    parallel: bool = False
    """Its adapters read the sub-layer's input, not its output."""

    def lowest(self, layers: int) -> int:
        """The first layer that it changes; `layers` if none. With the embeddings' LayerNorm, all
        of them change."""
        if "embeddings.norm" in self.norms:
            return 0
        names = (name.split(".") for name in (*self.adapters, *self.norms))
        return min((int(name[1]) for name in names if name[0] == "layer"), default=layers)


def make_overlay(
    config: AdapterConfig | None, tensors: Mapping[str, Tensor], like: Tensor
) -> Overlay:
    """From a task's tensors by neutral name; they are copied to where `like` is."""
    adapters: dict[str, Adapter] = {}
    norms: dict[str, Norm] = {}
    for name, tensor in tensors.items():
        place, _, leaf = name.rpartition(".")
        if place.endswith(".norm") and leaf == "weight":
            bias = tensors.get(f"{place}.bias")
            norms[place] = (  # copied: a view would keep the whole weights file in memory
                tensor.to(like, copy=True),
                None if bias is None else bias.to(like, copy=True),
            )
        elif config is not None and name.endswith(".down.weight"):
            site = name.removesuffix(".down.weight")
            adapter = Adapter(
                tensor.shape[1],
                config.size,
                activation=config.activation,
                init_std=0.0,
                gate=config.gate,
                norm=config.norm,
                hidden_layers=config.hidden_layers,
            )
            with torch.no_grad():
                for part, values in (*adapter.named_parameters(), *adapter.named_buffers()):
                    values.copy_(tensors[f"{site}.{part}"])
            adapters[site] = adapter.to(like.device, like.dtype).eval().requires_grad_(False)
    return Overlay(adapters, norms, config is not None and config.insertion == "parallel")


@dataclass(frozen=True)
class Part:
    """A stretch of a batch that belongs to one task, or to none."""

    overlay: Overlay | None
    size: int
    """Tokens of a packed batch, rows of a padded one."""


def can_mix(base: PreTrainedModel, sites: Sites) -> bool:
    """Whether every LayerNorm acts on tokens of its own row. DeBERTa has one on relative
    positions, which all rows share."""
    return not any(f"{name}.norm" in sites.norm_paths(base) for name in sites.lower_norms)


@contextmanager
def mixed(base: PreTrainedModel, sites: Sites, parts: Sequence[Part], dim: int) -> Iterator[None]:
    """Within this block the encoder treats each part of a batch, along `dim`, as its task's."""
    overlays = [part.overlay for part in parts]
    sizes = [part.size for part in parts]
    names = {name for each in overlays if each for name in each.norms}
    with ExitStack() as stack:
        paths = sites.norm_paths(base)
        if names - paths.keys():
            raise AttachError(f"The encoder has no LayerNorm {min(names - paths.keys())!r}.")
        for name in names:
            stack.enter_context(_norm(base.get_submodule(paths[name]), name, overlays, sizes, dim))
        for index, layer in enumerate(sites.layer_modules(base)):
            for kind, site in (("attention", sites.attention), ("output", sites.output)):
                here = f"layer.{index}.{kind}"
                adapters = [each.adapters.get(here) if each else None for each in overlays]
                if any(adapters):
                    parallel = [each is not None and each.parallel for each in overlays]
                    stack.enter_context(_site(layer, site, adapters, parallel, sizes, dim))
        yield


@contextmanager
def _norm(
    norm: nn.Module, name: str, overlays: Sequence[Overlay | None], sizes: Sequence[int], dim: int
) -> Iterator[None]:
    own: Norm = (norm.weight, norm.bias)  # type: ignore[assignment]
    chosen = [each.norms.get(name, own) if each else own for each in overlays]
    counts = torch.tensor(sizes, device=own[0].device)
    shape = [1] * (3 - 1) + [-1]
    shape[dim] = sum(sizes)
    weight = torch.stack([weight for weight, _ in chosen]).repeat_interleave(counts, 0).view(shape)
    shift = None
    if own[1] is not None:
        biases = [bias for _, bias in chosen if bias is not None]
        shift = torch.stack(biases).repeat_interleave(counts, 0).view(shape)

    def scale(module: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor:
        del module, args
        return out * weight if shift is None else torch.addcmul(shift, out, weight)

    handle = norm.register_forward_hook(scale)
    norm.weight = norm.bias = None  # type: ignore[assignment]
    try:
        yield
    finally:
        norm.weight, norm.bias = own  # type: ignore[assignment]
        handle.remove()


@contextmanager
def _site(
    layer: nn.Module,
    site: Site,
    adapters: Sequence[Adapter | None],
    parallel: Sequence[bool],
    sizes: Sequence[int],
    dim: int,
) -> Iterator[None]:
    entered: list[Tensor] = []

    def remember(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del module
        entered[:] = [args[0] if args else kwargs["hidden_states"]]

    def adapt(module: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor:
        del module, args
        pieces = out.split(list(sizes), dim)
        sources = entered[0].split(list(sizes), dim) if entered else pieces
        return torch.cat(
            [
                piece if adapter is None else adapter(piece, source if beside else None)
                for adapter, beside, piece, source in zip(
                    adapters, parallel, pieces, sources, strict=True
                )
            ],
            dim,
        )

    handles = [layer.get_submodule(site.after).register_forward_hook(adapt)]
    if any(parallel):
        source = layer.get_submodule(site.source)
        handles.append(source.register_forward_pre_hook(remember, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
