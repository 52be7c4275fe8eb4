"""The loop learns, keeps the best epoch, obeys its seed and gives the base back."""

from __future__ import annotations

from contextlib import contextmanager
from statistics import fmean

import pytest
import torch

from adapterbank.errors import ConfigError
from adapterbank.model.encoder import fingerprint, load_encoder
from adapterbank.model.methods import Method
from adapterbank.tasks.batches import encode
from adapterbank.tasks.task import Example, Task
from adapterbank.training.evaluate import accuracy, logits_of
from adapterbank.training.loop import Epoch, Step, seeded_model, train
from adapterbank.training.optimizer import make_optimizer, make_schedule
from adapterbank.training.recipe import Recipe
from tiny import save_base

GOOD, BAD, THINGS = ("good", "fine", "great"), ("bad", "poor", "awful"), ("film", "book", "meal")
EXAMPLES = tuple(
    Example(f"the {thing} was {word}" + " it was" * extra, label)
    for label, words in (("good", GOOD), ("bad", BAD))
    for word in words
    for thing in THINGS
    for extra in range(3)
)
TASK = Task("toy", ("bad", "good"), EXAMPLES, EXAMPLES[::4], EXAMPLES[1::4])


@pytest.fixture(scope="module", params=["bert", "roberta", "mpnet"])
def encoder(request, tmp_path_factory):
    folder = save_base(tmp_path_factory.mktemp("base"), request.param)
    return load_encoder(str(folder), pooling="mean")


@contextmanager
def learnt(encoder, recipe: Recipe, method: Method | None = None):
    with seeded_model(encoder, TASK, method or Method(), recipe) as model:
        yield model, list(train(model, encoder, TASK, recipe))


@pytest.mark.parametrize(("name", "rate"), [("adapters", 5e-3), ("full", 2e-3), ("top-k", 5e-3)])
def test_a_simple_task_is_learnt(encoder, name, rate) -> None:
    before = encoder.fingerprint
    with learnt(encoder, Recipe(rate, epochs=16, batch_size=8), Method(name)) as (model, events):
        steps = [e for e in events if isinstance(e, Step)]
        assert len(steps) == steps[0].steps == 16 * 7  # 54 rows in batches of 8
        assert fmean(e.loss for e in steps[-7:]) < 0.8 * fmean(e.loss for e in steps[:7])
        rows = encode(encoder.tokenizer, TASK.test, 64)
        assert accuracy(model, rows, torch.tensor(TASK.label_ids(TASK.test))) > 0.75
    assert fingerprint(encoder.model, encoder.stored) == before


def test_the_best_epoch_is_kept(encoder) -> None:
    with learnt(encoder, Recipe(3e-2, epochs=6, batch_size=8)) as (model, events):
        scores = [e.dev_accuracy for e in events if isinstance(e, Epoch)]
        rows = encode(encoder.tokenizer, TASK.dev, 64)
        assert accuracy(model, rows, torch.tensor(TASK.label_ids(TASK.dev))) == max(scores)
        best = [e for e in events if isinstance(e, Epoch) and e.best]
        assert best[-1].dev_accuracy == max(scores)


def test_same_seed_same_tensors_other_seed_other_tensors(encoder) -> None:
    runs = []
    for seed in (1, 1, 2):
        with learnt(encoder, Recipe(1e-3, epochs=2, batch_size=8, seed=seed)) as (model, _):
            runs.append([p.detach().clone() for group in model.groups().values() for p in group])
    assert all(torch.equal(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(runs[0], runs[2], strict=True))


def test_logits_come_in_the_order_of_the_rows(encoder) -> None:
    with seeded_model(encoder, TASK, Method(), Recipe(1e-3)) as model:
        rows = encode(encoder.tokenizer, TASK.train, 64)
        together = logits_of(model, rows, batch_size=7)
        with torch.inference_mode(), model.packing():
            alone = [model(model.collate(*rows.take([i]))) for i in range(len(rows))]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-5)


def test_schedule_rises_and_falls_linearly() -> None:
    recipe = Recipe(0.1, warmup=0.1)
    optimizer = make_optimizer([torch.nn.Parameter(torch.ones(2, 2))], recipe)
    schedule = make_schedule(optimizer, recipe, 100)
    rates = []
    for _ in range(100):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[:10] == pytest.approx([0.01 * i for i in range(1, 11)])
    assert rates[10] == pytest.approx(0.1)
    assert rates[55] == pytest.approx(0.05)
    assert optimizer.param_groups[0]["lr"] == 0.0


def test_vectors_do_not_decay() -> None:
    matrix, vector = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))
    groups = make_optimizer([matrix, vector], Recipe(0.1)).param_groups
    assert [(g["params"], g["weight_decay"]) for g in groups] == [([matrix], 0.01), ([vector], 0)]


@pytest.mark.parametrize(
    "fields", [{"learning_rate": 0}, {"epochs": 0}, {"batch_size": 0}, {"warmup": 2}]
)
def test_recipes_that_cannot_be(fields: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(fields))):
        Recipe(**{"learning_rate": 1e-3, **fields})
