"""Where AdapterHub keeps the tensors of an adapter and of a head, by kind of encoder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from adapterbank.errors import PackageError
from adapterbank.model.config import AdapterConfig
from adapterbank.store.manifest import Pooling

CONFIG = "adapter_config.json"
ADAPTER = "adapter.safetensors"
HEAD_CONFIG = "head_config.json"
HEAD = "model_head.safetensors"
LAYER_NORMS = "layer_norms.safetensors"  # ours: AdapterHub passes it by


@dataclass(frozen=True)
class BaseFacts:
    """What a crossing needs to know of the base."""

    name: str
    fingerprint: str
    model_type: str
    width: int
    layers: int
    pooling: Pooling
    max_length: int
    has_pooler: bool
    parameters: int
    parameters_without_embeddings: int


@dataclass(frozen=True)
class Architecture:
    """An encoder that both sides know and compute the same adapters for."""

    model_class: str
    prefix: str
    layers: str = "encoder.layer"
    sites: Mapping[str, str] = field(
        default_factory=lambda: {"attention": "attention.output", "output": "output"}
    )


# ALBERT is not among them: AdapterHub's adapter there reads the attention's input, not its output.
ARCHITECTURES = {
    "bert": Architecture("BertAdapterModel", "bert"),
    "deberta-v2": Architecture("DebertaV2AdapterModel", "deberta"),
    "distilbert": Architecture(
        "DistilBertAdapterModel",
        "distilbert",
        "transformer.layer",
        {"attention": "attention_adapters", "output": "output_adapters"},
    ),
    "electra": Architecture("ElectraAdapterModel", "electra"),
    "roberta": Architecture("RobertaAdapterModel", "roberta"),
    "xlm-roberta": Architecture("XLMRobertaAdapterModel", "roberta"),
}
_LEGACY = re.compile(r"\.(?:attention|layer)_text_(?:task|lang)_adapters\.")


def find_architecture(model_type: str) -> Architecture:
    """Where AdapterHub keeps the adapters of such an encoder."""
    if model_type not in ARCHITECTURES:
        raise PackageError(
            f"Adapters of {model_type} encoders don't cross to or from AdapterHub.",
            f"These do: {', '.join(ARCHITECTURES)}.",
        )
    return ARCHITECTURES[model_type]


def adapted_layers(config: AdapterConfig, facts: BaseFacts) -> tuple[int, ...]:
    """The layers that have adapters."""
    return config.layers or tuple(range(facts.layers))


def adapter_names(name: str, config: AdapterConfig, facts: BaseFacts) -> dict[str, str]:
    """From AdapterHub's name of each of an adapter's tensors to ours.

    The LayerNorm of a bottleneck has two names there.
    """
    place = find_architecture(facts.model_type)
    parts = {"adapter_down.0": "down", "adapter_up": "up"}
    if config.norm == "layer":
        parts = {
            "adapter_norm_before": "inner_norm",
            "adapter_down.0": "inner_norm",
            "adapter_down.1": "down",
            "adapter_up": "up",
        }
    return {
        f"{place.prefix}.{place.layers}.{layer}.{path}.adapters.{name}.{theirs}.{leaf}": (
            f"layer.{layer}.{site}.{ours}.{leaf}"
        )
        for layer in adapted_layers(config, facts)
        for site, path in place.sites.items()
        if config.where in ("both", site)
        for theirs, ours in parts.items()
        for leaf in ("weight", "bias")
    }


def current_name(found: str, facts: BaseFacts) -> str:
    """A tensor's name as of today: with the encoder's prefix, which may be missing, and without
    the words of early versions."""
    prefix = f"{find_architecture(facts.model_type).prefix}."
    found = _LEGACY.sub(".adapters.", found)
    return found if found.startswith(prefix) else prefix + found


def head_names(name: str) -> dict[str, str]:
    """From AdapterHub's name of each tensor of a head with one layer to ours."""
    return {f"heads.{name}.1.{leaf}": f"head.{leaf}" for leaf in ("weight", "bias")}
