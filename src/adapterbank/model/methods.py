"""The paper's method and its baselines, each as a set of base parameters to train.

| method     | adapters | LayerNorms         | other base parameters        | head |
|------------|----------|--------------------|------------------------------|------|
| adapters   | yes      | yes                | none                         | yes  |
| full       | no       | yes                | all that the output reads    | yes  |
| top-k      | no       | in the top layers  | the top k layers and above   | yes  |
| layer-norm | no       | yes                | none                         | yes  |
| head       | no       | no                 | none                         | yes  |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch import nn

from adapterbank.errors import ConfigError
from adapterbank.model.attach import Attachment, attach, norm_names, norms_beside
from adapterbank.model.config import AdapterConfig, check_choice, check_count
from adapterbank.model.sites import Sites, base_model, sites_of

MethodName = Literal["adapters", "full", "top-k", "layer-norm", "head"]


@dataclass(frozen=True)
class Method:
    """What trains on the frozen base."""

    name: MethodName = "adapters"
    adapter: AdapterConfig = field(default_factory=AdapterConfig)
    """The adapters, for the method of that name."""
    top_k: int = 1
    """How many of the top layers train, for top-k ("variable fine-tuning" in the paper)."""

    def __post_init__(self) -> None:
        check_choice("method", self.name, get_args(MethodName))
        check_count("top_k", self.top_k)

    def __str__(self) -> str:
        detail = {"adapters": f" {self.adapter.size}", "top-k": f" {self.top_k}"}
        return self.name + detail.get(self.name, "")


def make_method(
    name: MethodName, depth: int, *, top_k: int = 1, first_layer: int = 0, **adapter: Any
) -> Method:
    """A method from plain settings, for a base of `depth` layers.

    `first_layer` is the lowest layer with adapters; `adapter` are fields of its AdapterConfig.
    """
    if type(first_layer) is not int or not 0 <= first_layer < depth:
        raise ConfigError(f"first_layer is {first_layer!r}; this base has layers 0 to {depth - 1}.")
    if name == "top-k" and isinstance(top_k, int) and top_k > depth:
        raise ConfigError(f"top_k is {top_k}, and this encoder has {depth} layers.")
    if first_layer:
        if adapter.get("layers") is not None:
            raise ConfigError(
                f"first_layer is {first_layer}, and layers is {adapter['layers']}.",
                "Both say which layers have adapters: give one of them.",
            )
        adapter["layers"] = tuple(range(first_layer, depth))
    return Method(name, AdapterConfig(**adapter), top_k)


def apply_method(model: nn.Module, method: Method, *, with_pooler: bool = True) -> Attachment:
    """Make `method`'s parameters of the model trainable and freeze the rest.

    `with_pooler` says whether the base's pooler is read at all; one that is not stays frozen.
    """
    if method.name == "adapters":
        return attach(model, method.adapter)
    return Attachment(model, trained_names(model, method, with_pooler=with_pooler))


def trained_names(model: nn.Module, method: Method, *, with_pooler: bool = True) -> set[str]:
    """The base parameters that a method trains (adapters and head come on top)."""
    base = base_model(model)
    sites = sites_of(base.config)
    every = {name for name, _ in base.named_parameters()}
    if not with_pooler and sites.pooler:
        every = {name for name in every if not name.startswith(f"{sites.pooler}.")}
    match method.name:
        case "full":
            return every
        case "top-k":
            return _top(base, sites, method.top_k, every)
        case "layer-norm":
            return norm_names(base, sites, 0)
        case "adapters":
            return norms_beside(base, sites, method.adapter)
        case "head":
            return set()


def _top(base: nn.Module, sites: Sites, top_k: int, every: set[str]) -> set[str]:
    layers = sites.layer_paths(base)
    if top_k > len(layers):
        raise ConfigError(f"top_k is {top_k}, and this encoder has {len(layers)} layers.")
    above = [*layers[-top_k:], *sites.upper_norms.values()]
    if sites.pooler:
        above.append(sites.pooler)
    return {name for name in every if any(name.startswith(f"{path}.") for path in above)}
