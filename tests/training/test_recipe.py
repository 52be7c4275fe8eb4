"""Two recipes by name: one to the paper's letter, one that suits the size of the data."""

from __future__ import annotations

import pytest

from adapterbank.errors import ConfigError
from adapterbank.order import make_order
from adapterbank.training.recipe import LEARNING_RATES, PAPER_LEARNING_RATES, make_recipe


def test_the_paper_to_the_letter() -> None:
    recipe = make_recipe("paper", "adapters", 3_000)
    assert recipe.batch_size == 32
    assert recipe.warmup == 0.1
    assert recipe.weight_decay == 0.01
    assert recipe.clip == 1.0
    assert recipe.max_length == 128
    assert recipe.bias_correction is False
    assert recipe.scale_targets is False
    assert recipe.patience == 0
    assert recipe.learning_rate in (3e-5, 3e-4, 3e-3)  # the paper's grid
    assert recipe.epochs in (3, 20)
    assert make_recipe("paper", "adapters", 100) == make_recipe("paper", "adapters", 10**6)


@pytest.mark.parametrize(
    ("rows", "epochs", "batch", "rate"),
    [(1, 15, 16, 2e-3), (200, 15, 16, 2e-3), (300, 11, 16, 2e-3), (1_000, 5, 16, 2e-3),
     (3_000, 4, 16, 1.2e-3), (4_000, 4, 16, 1e-3), (10_000, 3, 16, 1e-3), (20_000, 2, 32, 1e-3),
     (1_000_000, 2, 32, 1e-3)],
)  # fmt: skip
def test_the_default_suits_the_size_of_the_data(rows, epochs, batch, rate) -> None:
    recipe = make_recipe("default", "adapters", rows)
    assert (recipe.epochs, recipe.batch_size) == (epochs, batch)
    assert recipe.learning_rate == rate
    assert make_recipe("default", "full", rows).learning_rate == LEARNING_RATES["full"]


@pytest.mark.parametrize(
    ("rows", "size", "rate"),
    [(100, 1, 2e-3), (1_000, 128, 2e-3), (1_000, 256, 1.4e-3), (2_000, 256, 1e-3),
     (1_000, 512, 1e-3), (100, 4096, 1e-3)],
)  # fmt: skip
def test_large_adapters_take_smaller_steps(rows, size, rate) -> None:
    assert make_recipe("default", "adapters", rows, size=size).learning_rate == rate
    assert make_order(2, size=size).recipe_of(rows, "classification", 0).learning_rate == rate
    assert make_recipe("paper", "adapters", rows, size=size).learning_rate == 3e-4
    full = make_order(2, method="full", size=size).recipe_of(rows, "classification", 0)
    assert full.learning_rate == LEARNING_RATES["full"]


@pytest.mark.parametrize(
    ("layers", "width", "share"), [(2, 128, 1), (6, 384, 1), (6, 768, 2), (12, 768, 4)]
)
def test_larger_bases_take_smaller_steps(layers, width, share) -> None:
    """Smaller ones than those that were measured take no larger ones."""
    units = layers * width
    for method in ("adapters", "full", "top-k"):
        rate = make_recipe("default", method, 1_000, units=units).learning_rate
        assert rate == LEARNING_RATES[method] / share
        paper = make_recipe("paper", method, 1_000, units=units).learning_rate
        assert paper == PAPER_LEARNING_RATES[method]
    for method in ("head", "layer-norm"):
        rate = make_recipe("default", method, 9, units=units).learning_rate
        assert rate == LEARNING_RATES[method]
    assert (
        make_recipe("default", "adapters", 9, units=units, learning_rate=0.5).learning_rate == 0.5
    )


def test_single_settings_override() -> None:
    recipe = make_recipe("default", "full", 500, epochs=3, learning_rate=None, seed=7)
    assert (recipe.epochs, recipe.seed, recipe.learning_rate) == (3, 7, LEARNING_RATES["full"])
    assert make_recipe("default", "adapters", 500, "span").max_length == 384
    assert make_recipe("default", "adapters", 500, "span", max_length=64).max_length == 64


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"recipe is 'best'.*default, paper"):
        make_recipe("best", "adapters", 100)
