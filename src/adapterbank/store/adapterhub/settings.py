"""The settings of an adapter in AdapterHub's words and in ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from adapterbank.errors import PackageError
from adapterbank.model.config import Activation, AdapterConfig, Where
from adapterbank.store.adapterhub.places import CONFIG, BaseFacts, adapted_layers
from adapterbank.store.adapterhub.reading import TRAIN, shown
from adapterbank.store.schema import decode

MAX_SIZE = 2**20  # m, of a reduction factor that comes in

TO_HUB: dict[Activation, str] = {
    "gelu_tanh": "gelu_new",
    "gelu": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "swish": "swish",
    "sigmoid": "sigmoid",
    "leaky_relu": "leakyrelu",
    "identity": "linear",
}
FROM_HUB: dict[str, Activation] = {
    **{theirs: ours for ours, theirs in TO_HUB.items()},
    "gelu_pytorch_tanh": "gelu_tanh",
    "leaky_relu": "leaky_relu",
    "silu": "swish",
}
_BEFORE_VERSIONS = {"gelu": "gelu_new", "gelu_orig": "gelu"}  # what files without a version mean

# Settings that must have one of these values, and what any other asks for; the first value is
# AdapterHub's default. Below them, those that change nothing in a trained adapter, whatever they
# say, and those of early versions, which are not written any more.
_FIXED: dict[str, tuple[tuple[object, ...], str]] = {
    "original_ln_before": ((False,), "adapters behind the base's LayerNorm, as seq_bn has them"),
    "original_ln_after": ((True,), "adapters without the base's LayerNorm behind them"),
    "residual_before_ln": ((True, False), "another skip connection"),
    "ln_after": ((False,), "a LayerNorm behind the bottleneck"),
    "use_gating": ((False,), "gates"),
    "inv_adapter": ((None,), "invertible adapters"),
    "invertible_adapter": ((None,), "invertible adapters"),
    "cross_adapter": ((False,), "adapters at cross-attention"),
    "phm_layer": ((False,), "Compacter's hypercomplex layers"),
    "stochastic_depth": ((0.0, None), "stochastic depth"),
    "new_attention_norm": ((False,), "a LayerNorm of AdapterFusion"),
}
_WITHOUT_EFFECT: dict[str, object] = {
    "adapter_residual_before_ln": False,
    "init_weights": "bert",
    "init_weights_seed": None,
    "inv_adapter_reduction_factor": None,
    "dropout": 0.0,
    "phm_dim": 4,
    "factorized_phm_W": True,
    "shared_W_phm": False,
    "shared_phm_rule": True,
    "factorized_phm_rule": False,
    "phm_c_init": "normal",
    "phm_init_range": 0.0001,
    "learn_phm": True,
    "hypercomplex_nonlinearity": "glorot-uniform",
    "phm_rank": 1,
    "phm_bias": True,
}
_OF_EARLY_VERSIONS = {"attention_type", "invertible_adapter", "new_attention_norm"}


@dataclass(frozen=True)
class _Settings:
    """The settings that are translated."""

    mh_adapter: bool
    output_adapter: bool
    reduction_factor: object
    non_linearity: str
    ln_before: bool
    is_parallel: bool
    scaling: float
    leave_out: tuple[int, ...]


def settings_to_hub(config: AdapterConfig, facts: BaseFacts) -> dict[str, object]:
    """The settings of an adapter in AdapterHub's words."""
    for fine, what in (
        (not config.gate, "gate"),
        (config.hidden_layers == 1, "hidden_layers above 1"),
        (config.norm != "batch", "norm = batch"),
    ):
        if not fine:
            raise PackageError(
                f"AdapterHub has no adapters with {what}.",
                "Export the task in AdapterBank's own form, or train it without that.",
            )
    adapted = adapted_layers(config, facts)
    fixed = {key: values[0] for key, (values, _) in _FIXED.items()}
    settings: dict[str, object] = fixed | _WITHOUT_EFFECT
    return {key: value for key, value in settings.items() if key not in _OF_EARLY_VERSIONS} | {
        "mh_adapter": config.where in ("both", "attention"),
        "output_adapter": config.where in ("both", "output"),
        "reduction_factor": reduction_factor(facts.width, config.size),
        "non_linearity": TO_HUB[config.activation],
        "ln_before": config.norm == "layer",
        "is_parallel": config.insertion == "parallel",
        "scaling": 1.0,
        "leave_out": [layer for layer in range(facts.layers) if layer not in adapted],
    }


def settings_from_hub(
    settings: Mapping[str, Any], facts: BaseFacts, *, versioned: bool
) -> tuple[AdapterConfig, float]:
    """An adapter's settings in our words, and the factor that its output is scaled by."""
    _refuse_what_we_lack(settings)
    checked = {*_FIXED, *_WITHOUT_EFFECT, *_OF_EARLY_VERSIONS, "architecture"}
    defaults = {"ln_before": False, "is_parallel": False, "scaling": 1.0, "leave_out": []}
    rest = {key: value for key, value in settings.items() if key not in checked}
    try:
        found: _Settings = decode(_Settings, defaults | rest, "config")
        return _our_settings(found, facts, versioned), found.scaling
    except ValueError as error:
        raise PackageError(f"{CONFIG} cannot be translated: {error}.", TRAIN) from error


def _refuse_what_we_lack(settings: Mapping[str, Any]) -> None:
    architecture = settings.get("architecture")
    if architecture is not None:
        raise PackageError(
            f"{CONFIG} describes another method, {shown(architecture)}; "
            "AdapterBank holds bottleneck adapters.",
            TRAIN,
        )
    asked = {
        key: what
        for key, (values, what) in _FIXED.items()
        if settings.get(key, values[0]) not in values
    }
    if settings.get("is_parallel") is True:
        asked.pop("original_ln_before", None)  # not read in parallel
    if isinstance(settings.get("scaling"), str):
        asked["scaling"] = "a trained scaling"
    if asked:
        key, what = next(iter(asked.items()))
        raise PackageError(
            f"{CONFIG} asks for {what} ({key} is {shown(settings[key])}), "
            "which AdapterBank doesn't have.",
            TRAIN,
        )


def _our_settings(found: _Settings, facts: BaseFacts, versioned: bool) -> AdapterConfig:
    places: dict[tuple[bool, bool], Where] = {
        (True, True): "both",
        (True, False): "attention",
        (False, True): "output",
    }
    where = places.get((found.mh_adapter, found.output_adapter))
    adapted = tuple(layer for layer in range(facts.layers) if layer not in found.leave_out)
    if where is None or not adapted:
        raise ValueError("it has no adapters: every site or layer is left out")
    return AdapterConfig(
        size=_size(found.reduction_factor, adapted, facts.width),
        activation=_activation(found.non_linearity, versioned),
        layers=None if len(adapted) == facts.layers else adapted,
        where=where,
        insertion="parallel" if found.is_parallel else "serial",
        norm="layer" if found.ln_before else "none",
        train_layer_norms=False,
    )


def _activation(theirs: str, versioned: bool) -> Activation:
    name = theirs if versioned else _BEFORE_VERSIONS.get(theirs, theirs)
    if name.lower() not in FROM_HUB:
        raise ValueError(
            f"non_linearity is {shown(theirs)}, and must be one of {', '.join(FROM_HUB)}"
        )
    return FROM_HUB[name.lower()]


def reduction_factor(width: int, size: int) -> float:
    """d/m, so that AdapterHub's int(d // factor) gives m back."""
    factor = width / size
    return factor if width // factor == size else math.nextafter(factor, 0.0)


def _size(factor: object, adapted: Iterable[int], width: int) -> int:
    """m of a reduction factor, or of a map from layers to them: one for all."""
    factors = [factor]
    if isinstance(factor, dict):
        if missing := [n for n in adapted if str(n) not in factor and "default" not in factor]:
            raise ValueError(f"reduction_factor says nothing of layer {missing[0]}")
        factors = [factor.get(str(layer), factor.get("default")) for layer in adapted]
    sizes = set()
    for one in factors:
        number = decode(float, one, "config.reduction_factor")
        if not width / MAX_SIZE <= number:
            raise ValueError(f"reduction_factor is {shown(one)}, too small")
        sizes.add(max(1, int(width // number)))
    if len(sizes) > 1:
        raise ValueError(
            f"its adapters have sizes {', '.join(map(str, sorted(sizes)))}, "
            "and AdapterBank's have one size in all layers"
        )
    return sizes.pop()
