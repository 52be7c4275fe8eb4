"""The adapter against its formula, its count and its start."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.errors import ConfigError
from adapterbank.model.adapter import ACTIVATIONS, Adapter
from adapterbank.model.config import AdapterConfig


def tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    """The paper's code, written out."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 96), m=st.integers(1, 96))
def test_parameters_are_2md_d_m(d: int, m: int) -> None:
    assert sum(p.numel() for p in Adapter(d, m).parameters()) == 2 * m * d + d + m


def test_equals_the_formula() -> None:
    torch.manual_seed(0)
    adapter = Adapter(12, 5, init_std=0.5).double()
    for bias in (adapter.down.bias, adapter.up.bias):
        torch.nn.init.normal_(bias)
    x = torch.randn(3, 7, 12, dtype=torch.float64)
    w1, b1, w2, b2 = (
        adapter.down.weight,
        adapter.down.bias,
        adapter.up.weight,
        adapter.up.bias,
    )
    expected = x + tanh_gelu(x @ w1.T + b1) @ w2.T + b2
    torch.testing.assert_close(adapter(x), expected, rtol=0, atol=1e-12)


def test_variants_equal_their_formulas() -> None:
    torch.manual_seed(0)
    x, source = torch.randn(2, 6, 8), torch.randn(2, 6, 8)

    plain = Adapter(8, 4, init_std=0.5)
    torch.testing.assert_close(plain(x, source), x + plain.bottleneck(source))

    gated = Adapter(8, 4, init_std=0.5, gate=True)
    torch.testing.assert_close(gated(x), x * (1 + gated.bottleneck(x)))

    deep = Adapter(8, 4, init_std=0.5, hidden_layers=3, activation="relu")
    hidden = torch.relu(deep.down(x))
    for linear in deep.inner:
        hidden = torch.relu(linear(hidden))
    torch.testing.assert_close(deep(x), x + deep.up(hidden))

    normed = Adapter(8, 4, init_std=0.5, norm="layer")
    centred = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(
        normed.bottleneck(x), Adapter.bottleneck(_without_norm(normed), centred)
    )

    batch = Adapter(8, 4, init_std=0.5, norm="batch").train()
    flat = x.flatten(0, 1)
    centred = ((flat - flat.mean(0)) / (flat.var(0, correction=0) + 1e-5).sqrt()).view_as(x)
    torch.testing.assert_close(
        batch.bottleneck(x), Adapter.bottleneck(_without_norm(batch), centred)
    )


def _without_norm(adapter: Adapter) -> Adapter:
    plain = Adapter(8, 4)
    plain.down, plain.up = adapter.down, adapter.up
    return plain


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_every_activation_is_the_named_one(name: str) -> None:
    x = torch.linspace(-3, 3, 13)
    oracle = {
        "gelu_tanh": tanh_gelu,
        "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
        "relu": lambda x: x.clamp(min=0),
        "tanh": torch.tanh,
        "swish": lambda x: x / (1 + torch.exp(-x)),
        "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
        "leaky_relu": lambda x: torch.where(x > 0, x, 0.01 * x),
        "identity": lambda x: x,
    }[name]
    torch.testing.assert_close(ACTIVATIONS[name](x), oracle(x))


@pytest.mark.parametrize("std", [1e-3, 1e-2, 1.0])
def test_start_is_a_normal_cut_off_at_two_deviations(std: float) -> None:
    torch.manual_seed(0)
    adapter = Adapter(256, 256, init_std=std)
    weights = torch.cat([adapter.down.weight.flatten(), adapter.up.weight.flatten()])
    assert weights.abs().max() <= 2 * std
    assert weights.abs().max() > 1.99 * std
    # A normal cut off at ±2σ has a standard deviation of 0.880 σ.
    assert weights.std().item() == pytest.approx(0.880 * std, rel=0.01)
    assert not adapter.down.bias.any()
    assert not adapter.up.bias.any()


@pytest.mark.parametrize(
    "fields",
    [
        {"size": 0},
        {"size": 2.5},
        {"size": True},
        {"activation": "geglu"},
        {"where": "everywhere"},
        {"insertion": "across"},
        {"norm": "group"},
        {"hidden_layers": 0},
        {"init_std": -1.0},
        {"init_std": float("nan")},
        {"init_std": float("inf")},
        {"init_std": "0.01"},
        {"size": 8_193},
        {"init_std": True},
        {"gate": 1},
        {"train_layer_norms": "False"},
        {"layers": ()},
        {"layers": (-1,)},
        {"layers": ["1", 2]},
        {"layers": [[0, 1]]},
        {"layers": {1, None}},
        {"layers": [1, True]},
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(fields: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(fields))):
        AdapterConfig(**fields)


def test_settings_of_numpys_are_numbers() -> None:
    config = AdapterConfig(size=np.int64(4), init_std=np.float64(0.5), layers=np.arange(2))
    assert config == AdapterConfig(size=4, init_std=0.5, layers=(0, 1))
    assert "np." not in repr(config)


def test_defaults_are_the_papers() -> None:
    config = AdapterConfig()
    assert (config.size, config.activation, config.init_std) == (64, "gelu_tanh", 1e-2)
    assert (config.where, config.insertion, config.train_layer_norms) == ("both", "serial", True)
