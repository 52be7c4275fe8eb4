"""Products are those of the formula, forwards and backwards, in either precision."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from adapterbank.model import products
from adapterbank.model.products import fast_products, settled


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
    with fast_products(layer):
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
    with fast_products(layer):
        pass
    assert "forward" not in vars(layer)
    assert torch.equal(layer.weight, before)


def test_what_trains_or_is_narrow_stays_as_it_is() -> None:
    trains, narrow, double = nn.Linear(200, 200), frozen(64, 200), frozen(200, 200).double()
    for layer in (trains, narrow, double):
        with fast_products(layer):
            assert "forward" not in vars(layer)


def test_without_the_operation_nothing_changes(monkeypatch) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    layer = frozen(200, 200)
    with fast_products(layer):
        assert "forward" not in vars(layer)


def test_nothing_is_kept_for_a_gradient_that_nobody_wants() -> None:
    layer = frozen(200, 200)
    with fast_products(layer), torch.inference_mode():
        assert not layer(torch.randn(4, 200)).requires_grad


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).float()


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("width", [136, 400])
def test_bf16_is_the_formula_on_rounded_factors(native, trains, width, monkeypatch) -> None:
    if native and not products.multiplies_halves():
        pytest.skip("this processor has no instructions for it")
    monkeypatch.setattr(products, "multiplies_halves", lambda: native)
    layer = frozen(200, width).requires_grad_(trains)
    x = torch.randn(2, 300, 200, requires_grad=True)
    gradient = torch.randn(2, 300, width)
    weight = rounded(layer.weight.detach())
    wanted = rounded(x.detach()) @ weight.T + rounded(layer.bias.detach())
    with fast_products(layer, "bf16"):
        found = layer(x)
        found.backward(gradient.to(found.dtype))
    assert found.dtype == (torch.bfloat16 if width > 200 else torch.float32)
    # The result is rounded too: one part in 256 at the most.
    torch.testing.assert_close(found.float(), wanted, atol=1e-3, rtol=4e-3)
    torch.testing.assert_close(x.grad, rounded(gradient) @ weight, atol=1e-3, rtol=8e-3)
    assert not torch.equal(found.float(), layer(x)), (
        "as exact as single precision: nothing was rounded"
    )
    if trains:
        change = rounded(gradient).flatten(0, 1).T @ rounded(x.detach()).flatten(0, 1)
        torch.testing.assert_close(layer.weight.grad, change, atol=5e-2, rtol=8e-3)
        torch.testing.assert_close(layer.bias.grad, gradient.sum((0, 1)), atol=0.3, rtol=1e-2)
    assert "forward" not in vars(layer)


def test_both_ways_of_bf16_agree(monkeypatch) -> None:
    if not products.multiplies_halves():
        pytest.skip("this processor has one way only")
    layer, x = frozen(384, 384), torch.randn(500, 384)
    found = []
    for native in (True, False):
        monkeypatch.setattr(products, "multiplies_halves", lambda native=native: native)
        with fast_products(layer, "bf16"):
            found.append(layer(x))
    same = (found[0] == found[1]).float().mean()
    assert same > 0.99, "sums in another order may fall to the other side when they are rounded"


@pytest.mark.parametrize(("native", "meant"), [(True, "bf16"), (False, "fp32")])
def test_auto_is_what_the_processor_is_fast_at(native, meant, monkeypatch) -> None:
    monkeypatch.setattr(products, "multiplies_halves", lambda: native)
    cpu = torch.device("cpu")
    assert settled("auto", cpu) == meant
    assert settled("fp32", cpu) == "fp32"
    assert settled("bf16", cpu) == "bf16"
    assert settled("auto", torch.device("meta")) == "fp32"


def test_a_wide_middle_stays_rounded_between_two_products() -> None:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)).requires_grad_(False)
    x = torch.randn(50, 128, requires_grad=True)
    gradient = torch.randn(50, 128)
    (wanted,) = torch.autograd.grad(block(x), x, gradient)
    with fast_products(block, "bf16"):
        out = block(x)
        (found,) = torch.autograd.grad(out, x, gradient)
    assert (out.dtype, found.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(out, block(x), atol=5e-3, rtol=5e-2)
    torch.testing.assert_close(found, wanted, atol=5e-3, rtol=5e-2)


def test_what_stands_apart_is_not_rounded() -> None:
    whole = nn.ModuleDict({"base": frozen(128, 128), "own": nn.Linear(128, 128)})
    x = torch.randn(20, 128)
    exact = {name: layer(x) for name, layer in whole.items()}
    with fast_products(whole, "bf16", apart=whole["own"]):
        assert not torch.equal(whole["base"](x), exact["base"])
        assert torch.equal(whole["own"](x), exact["own"])
