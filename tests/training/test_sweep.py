"""Grids, their trials, and a choice that looks at dev alone."""

from __future__ import annotations

import math

import pytest

from adapterbank.errors import ConfigError
from adapterbank.training.sweep import GRIDS, check_grid, rank, read_grid, standard_error, trials


def test_the_papers_grids() -> None:
    glue = trials(read_grid("paper-glue"), 5)
    assert len(glue) == 3 * 2 * 3 * 5
    assert {t.settings["learning_rate"] for t in glue} == {3e-5, 3e-4, 3e-3}
    assert {t.settings["epochs"] for t in glue} == {3, 20}
    assert {t.settings["size"] for t in glue} == {8, 64, 256}
    assert {t.settings["recipe"] for t in glue} == {"paper"}
    assert {t.seed for t in glue} == set(range(5))
    extra = trials(read_grid("paper-extra"), 1)
    assert len(extra) == 4 * 6 * 3


@pytest.mark.parametrize("name", GRIDS)
def test_named_grids_are_valid(name) -> None:
    assert check_grid(read_grid(name), name)
    every = trials(read_grid(name), 2)
    assert len({t.id for t in every}) == len(every)


def test_settings_of_one_method_do_not_multiply_the_others() -> None:
    grid = {"method": ["adapters", "full", "top-k"], "size": [8, 64], "top_k": [1, 2, 3]}
    found = [t.settings for t in trials(grid, 1)]
    assert found.count({"method": "full"}) == 1
    assert len(found) == 2 + 1 + 3
    assert {"method": "adapters", "size": 8} in found
    assert {"method": "top-k", "top_k": 3} in found


def test_ids_depend_on_settings_and_seed_alone() -> None:
    one, two = (trials({"size": [8], "epochs": [3]}, 2) for _ in range(2))
    assert [t.id for t in one] == [t.id for t in two]
    assert one[0].id != one[1].id
    swapped = trials({"epochs": [3], "size": [8]}, 1)
    assert swapped[0].id == one[0].id


def test_a_grid_from_a_file(tmp_path) -> None:
    (tmp_path / "g.toml").write_text("learning_rate = [1e-3, 3e-3]\nsize = [8]\n")
    assert len(trials(read_grid(str(tmp_path / "g.toml")), 3)) == 6


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no axis"),
        ("sizes = [8]", "unknown axis 'sizes'"),
        ("size = 8", r"size is 8\. Give a list"),
        ("size = []", r"size is \[\]"),
        ("size = [", "cannot be read"),
    ],
)
def test_grids_that_cannot_be(tmp_path, content, message) -> None:
    (tmp_path / "g.toml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_grid(str(tmp_path / "g.toml"))


def test_unknown_grids() -> None:
    with pytest.raises(ConfigError, match=r"no grid 'fast'\. Grids: quick, methods, paper-glue"):
        read_grid("fast")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_grid("none.toml")
    with pytest.raises(ConfigError, match="10,100 trials; 10,000 at most"):
        trials({"seed_of_something": list(range(101))}, 100)


def record(id: str, size: int, seed: int, dev: float, test: float, trained: int = 100) -> dict:
    return {
        "id": id,
        "settings": {"size": size},
        "seed": seed,
        "dev": {"accuracy": dev, "mean_absolute_error": dev},
        "test": {"accuracy": test, "mean_absolute_error": test},
        "trained_parameters": trained,
    }


RECORDS = [
    record("a", 8, 0, 0.80, 0.99),
    record("b", 8, 1, 0.90, 0.10),
    record("c", 64, 0, 0.86, 0.50),
    record("d", 64, 1, 0.88, 0.60),
]


def test_the_best_mean_on_dev_wins_whatever_test_says() -> None:
    first, second = rank(RECORDS, "accuracy")
    assert first.settings == {"size": 64}
    assert first.dev == pytest.approx(0.87)
    assert first.dev_error == pytest.approx(0.01)  # half the difference of two, over √2·√½
    assert first.best_trial == "d"
    assert first.test == pytest.approx(0.55)
    assert second.trials == ("a", "b")
    flipped = [{**r, "test": {"accuracy": 1 - r["test"]["accuracy"]}} for r in RECORDS]
    assert rank(flipped, "accuracy")[0].settings == {"size": 64}


def test_lower_wins_where_lower_is_better() -> None:
    first, _ = rank(RECORDS, "mean_absolute_error")
    assert first.settings == {"size": 8}
    assert first.best_trial == "a"


def test_of_equals_the_smaller_wins() -> None:
    equal = [record("a", 64, 0, 0.9, 0.5, 640), record("b", 8, 0, 0.9, 0.5, 80)]
    assert rank(equal, "accuracy")[0].settings == {"size": 8}


def test_standard_error() -> None:
    assert standard_error([1.0]) is None
    assert standard_error([1.0, 2.0, 4.0]) == pytest.approx(math.sqrt(7 / 3 / 3))
