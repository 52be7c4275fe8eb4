"""Which task a text belongs to, by the statistics in each package."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from adapterbank.errors import DataError, PackageError
from adapterbank.serving.which_task import Router, nearest
from adapterbank.store.statistics import MAX_CENTRES, read_statistics, write_statistics
from adapterbank.training.statistics import CENTRES, summary_of
from serving.conftest import make_store
from serving.tasks import random_task

WIDTH = 32


def cloud(seed: int, rows: int, centres: int = 3, noise: float = 0.1) -> np.ndarray:
    """Unit vectors around a few directions of their own."""
    draw = np.random.default_rng(seed)
    middles = draw.standard_normal((centres, WIDTH))
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    found = middles[draw.integers(centres, size=rows)] + noise * draw.standard_normal((rows, WIDTH))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def kept(rows: np.ndarray) -> dict:
    """As it comes back from a manifest."""
    half = len(rows) // 2
    return json.loads(json.dumps(write_statistics(*summary_of(rows[:half], rows[half:]))))


@pytest.fixture(scope="module")
def clouds() -> dict[str, np.ndarray]:
    return {name: cloud(seed, 400) for seed, name in enumerate(("a", "b", "c", "d"))}


@pytest.fixture(scope="module")
def statistics(clouds):
    return {name: read_statistics(kept(rows[:300]), WIDTH) for name, rows in clouds.items()}


def test_a_text_goes_to_the_task_whose_texts_it_is_like(clouds, statistics) -> None:
    for name, rows in clouds.items():
        found = [nearest(row, statistics, 2) for row in rows[300:]]
        first = [routes[0] for routes in found if routes]
        assert np.mean([route.task == name for route in first]) > 0.98
        best = first[0]
        assert 0.5 < best.probability <= 1


def test_a_text_like_none_goes_nowhere(clouds, statistics) -> None:
    strange = cloud(99, 100)
    assert np.mean([nearest(row, statistics, 3) == [] for row in strange]) > 0.9
    own = [nearest(row, statistics, 3) == [] for name in clouds for row in clouds[name][300:]]
    assert np.mean(own) < 0.15  # with tasks this far apart, the tenth that FAR leaves out


def test_chances_add_up_and_come_in_order(clouds, statistics) -> None:
    routes = nearest(clouds["b"][301], statistics, 10)
    assert sum(each.probability for each in routes) == pytest.approx(1)
    assert [each.probability for each in routes] == sorted(
        (each.probability for each in routes), reverse=True
    )
    assert nearest(clouds["b"][301], {}, 3) == []


def test_statistics_are_small_and_nearly_what_they_were() -> None:
    rows = cloud(5, 2000, centres=50)
    summary = summary_of(rows[:1000], rows[1000:])
    assert len(summary.centres) == CENTRES
    found = read_statistics(json.loads(json.dumps(write_statistics(*summary))), WIDTH)
    assert (found.centres * summary.centres).sum(1).min() > 0.999
    assert (found.near, found.spread) == (summary.near, summary.spread)
    assert CENTRES <= MAX_CENTRES


def test_no_row_is_kept_by_itself() -> None:
    assert summary_of(cloud(1, 7), cloud(1, 20)) is None
    alone = np.concatenate([cloud(1, 290, centres=3), *(cloud(10 + i, 1) for i in range(10))])
    for rows in (alone, cloud(1, 8), cloud(1, 20), cloud(1, 300, centres=60)):
        centres = summary_of(rows, cloud(1, 20)).centres
        assert np.bincount((rows @ centres.T).argmax(1)).min() > 1
        assert (rows @ centres.T).max() < 0.9999


def test_a_task_with_all_but_one_text_leaves_the_others_their_chances(clouds, statistics) -> None:
    same = np.repeat(cloud(7, 1), 40, axis=0)
    twin = read_statistics(kept(same), WIDTH)
    assert twin.near == pytest.approx(1, abs=1e-5)
    with_twin = nearest(clouds["b"][301], {**statistics, "same": twin}, 10)
    assert all(np.isfinite(each.probability) for each in with_twin)
    assert with_twin[0] == nearest(clouds["b"][301], statistics, 1)[0]
    assert nearest(same[0], {**statistics, "same": twin}, 1)[0].task == "same"


@pytest.mark.parametrize(
    "change",
    [
        {"centres": "@@"},
        {"centres": "AAAA"},
        {"centres": ""},
        {"spread": 0.0},
        {"spread": "wide"},
        {"more": 1},
    ],
)
def test_damaged_statistics_are_refused(change) -> None:
    with pytest.raises(PackageError, match="feature statistics"):
        read_statistics(kept(cloud(1, 100)) | change, WIDTH)


def test_a_bank_routes(tmp_path, encoder, engine_on) -> None:
    """Single texts to tasks of single texts, pairs to tasks of pairs; tasks without statistics,
    of earlier packages, are passed by."""
    store = make_store(tmp_path / "bank", encoder, {"without": {}})
    engine = engine_on(store)
    texts = {"food": "a great meal", "film": "awful film"}
    for seed, (name, text) in enumerate(texts.items()):
        (answer,) = engine.answer([(None, text)])
        vector = np.array(answer.embedding, np.float32)
        vector /= np.linalg.norm(vector)
        manifest, tensors = random_task(encoder, seed)
        found = write_statistics(vector[None], 0.95, 0.02)
        store.publish(name, replace(manifest, statistics=found), tensors)
        pairs = replace(manifest, statistics=found, pair=True)
        store.publish(f"{name}-pairs", pairs, tensors)
    router = Router(engine)
    food, film, bad = router.route(["a great meal", "awful film", 7])
    assert (food[0].task, film[0].task) == ("food", "film")
    assert isinstance(bad, DataError)
    (pair,) = router.route([{"text_a": "a great meal", "text_b": "awful film"}])
    assert all(route.task.endswith("-pairs") for route in pair)
    store.remove("food")
    assert "food" not in [each.task for each in router.route(["a great meal"])[0]]
