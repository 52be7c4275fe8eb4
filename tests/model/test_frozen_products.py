"""Products with frozen weights are those of the formula, forwards and backwards."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from adapterbank.model.frozen_products import frozen_products


def frozen(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs, bias=bias).requires_grad_(False)


@pytest.mark.parametrize("shape", [(1, 200), (1, 7, 200), (3, 50, 200), (2049, 200)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_formula_both_ways(shape, bias) -> None:
    layer = frozen(200, 136, bias)
    x = torch.randn(shape, requires_grad=True)
    plain = layer(x)
    gradient = torch.randn_like(plain)
    (wanted,) = torch.autograd.grad(plain, x, gradient)
    with frozen_products(layer):
        assert "forward" in vars(layer)
        found = layer(x)
        (got,) = torch.autograd.grad(found, x, gradient)
        # A gradient that is no block of memory of its own.
        (turned,) = torch.autograd.grad(layer(x), x, gradient.mT.contiguous().mT)
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(turned, wanted, atol=1e-5, rtol=1e-5)


def test_the_layer_is_its_own_again() -> None:
    layer = frozen(200, 200)
    before = layer.weight.clone()
    with frozen_products(layer):
        pass
    assert "forward" not in vars(layer)
    assert torch.equal(layer.weight, before)


def test_what_trains_or_is_narrow_stays_as_it_is() -> None:
    trains, narrow, double = nn.Linear(200, 200), frozen(64, 200), frozen(200, 200).double()
    for layer in (trains, narrow, double):
        with frozen_products(layer):
            assert "forward" not in vars(layer)


def test_without_the_operation_nothing_changes(monkeypatch) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    layer = frozen(200, 200)
    with frozen_products(layer):
        assert "forward" not in vars(layer)


def test_nothing_is_kept_for_a_gradient_that_nobody_wants() -> None:
    layer = frozen(200, 200)
    with frozen_products(layer), torch.inference_mode():
        assert not layer(torch.randn(4, 200)).requires_grad
