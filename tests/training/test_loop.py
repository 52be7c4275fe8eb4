"""The loop learns, keeps the best epoch, obeys its seed, carries on exactly, frees the base."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch
from torch import nn

from adapterbank.errors import ConfigError, TrainingDiverged, UnsupportedBase
from adapterbank.model import products
from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import fingerprint, load_encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.batches import Encoded
from adapterbank.training.evaluate import logits_of, predictions_of, scores_of
from adapterbank.training.loop import Epoch, Run, Step
from adapterbank.training.optimizer import make_optimizer, set_rate
from adapterbank.training.recipe import Recipe
from adapterbank.training.rows import Rows, prepare
from adapterbank.training.start import seeded_model
from tiny import ARCHITECTURES, save_base
from training.toy import NUMBERS, TAGGED, TASK, started


@pytest.fixture(scope="module", params=["bert", "roberta", "mpnet"])
def encoder(request, tmp_path_factory):
    folder = save_base(tmp_path_factory.mktemp("base"), request.param)
    return load_encoder(str(folder), pooling="mean")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_encoder(str(save_base(tmp_path_factory.mktemp("base"), "bert")), pooling="mean")


def copies(model):
    return {name: tensor.clone() for name, tensor in model.tensors().items()}


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


@pytest.mark.parametrize(("name", "rate"), [("adapters", 5e-3), ("full", 2e-3), ("top-k", 5e-3)])
def test_a_simple_task_is_learnt(encoder, name, rate) -> None:
    before = encoder.fingerprint
    recipe = Recipe(rate, epochs=16, batch_size=8)
    with started(encoder, recipe, Method(name)) as (model, run):
        events = list(run.events())
        steps = [e for e in events if isinstance(e, Step)]
        assert len(steps) == steps[0].steps == 16 * 7  # 54 rows in batches of 8
        assert fmean(e.loss for e in steps[-7:]) < 0.8 * fmean(e.loss for e in steps[:7])
        rows = prepare(encoder, TASK, TASK.test, 64)
        predictions = predictions_of(TASK, rows, logits_of(model, rows))
        assert scores_of(TASK, TASK.test, predictions)["accuracy"] > 0.75
    assert fingerprint(encoder.model, encoder.stored) == before


@pytest.mark.parametrize(
    ("task", "metric"), [(NUMBERS, "pearson"), (TAGGED, "micro_f1")], ids=["regression", "tags"]
)
def test_other_kinds_are_learnt(bert, task, metric) -> None:
    with started(bert, Recipe(1e-2, epochs=25, batch_size=8), task=task) as (model, run):
        list(run.events())
        rows = prepare(bert, task, task.test, 64)
        scores = scores_of(task, task.test, predictions_of(task, rows, logits_of(model, rows)))
    assert scores[metric] > 0.8
    if metric == "pearson":  # in the targets' own units, though they are in thousands
        assert scores["mean_absolute_error"] < 400


def test_the_number_of_threads_changes_rounding_only(bert) -> None:
    """With tensors large enough for torch to share them out."""
    draw = np.random.default_rng(0)
    ids = [draw.integers(5, 15, size=length) for length in draw.integers(30, 60, size=64)]
    rows = Rows((), Encoded.of(ids, [np.zeros_like(i) for i in ids]), torch.arange(64) % 2)
    found = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        with TaskModel(bert, "classification", 2) as model:
            run = Run(model, rows, Recipe(1e-3, epochs=2), lambda: {"accuracy": 0.0}, "accuracy")
            list(run.events())
            found.append(copies(model))
    torch.set_num_threads(before)
    one, two = found
    for name in one:
        torch.testing.assert_close(one[name], two[name], atol=1e-5, rtol=1e-4)


def test_the_best_epoch_is_kept(encoder) -> None:
    with started(encoder, Recipe(3e-2, epochs=6, batch_size=8)) as (_, run):
        epochs = [e for e in run.events() if isinstance(e, Epoch)]
        best = max(e.dev["accuracy"] for e in epochs)
        assert run.score()["accuracy"] == best
        assert [e for e in epochs if e.best][-1].dev["accuracy"] == best
        assert run.best_epoch == max(e.epoch for e in epochs if e.dev["accuracy"] == best)


def test_same_seed_same_tensors_other_seed_other_tensors(encoder) -> None:
    runs = []
    for seed in (1, 1, 2):
        with started(encoder, Recipe(1e-3, epochs=2, batch_size=8, seed=seed)) as (model, run):
            list(run.events())
            runs.append(copies(model))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


METHODS = [Method(), Method("full"), Method(adapter=AdapterConfig(norm="batch"))]


@pytest.mark.parametrize("method", METHODS, ids=["adapters", "full", "batch-norm"])
def test_a_run_that_goes_on_ends_in_the_same_tensors(encoder, method) -> None:
    recipe = Recipe(1e-2, epochs=3, batch_size=16)
    states = []
    with started(encoder, recipe, method) as (model, run):
        for _ in run.events():
            tensors, facts = run.state()
            kept = {name: tensor.clone() for name, tensor in tensors.items()}
            states.append((kept, json.dumps(facts)))
        whole, history = copies(model), run.history
    assert len(states) == 3 * (4 + 1)
    for tensors, facts in states[::2]:
        with started(encoder, recipe, method) as (model, run):
            torch.manual_seed(99)  # what others draw in between changes nothing
            run.restore(tensors, json.loads(facts))
            list(run.events())
            assert same(copies(model), whole)
            assert run.history == history


def test_pieces_of_a_batch_give_the_gradient_of_the_whole(encoder) -> None:
    gradients = []
    for accumulate in (1, 3):
        recipe = Recipe(1e-3, batch_size=16, accumulate=accumulate)
        with started(encoder, recipe) as (model, run), run.ready():
            model.eval()  # no dropout: it would differ from piece to piece
            loss = run.backward(list(range(0, 40, 3)))
            gradients.append((loss, {n: p.grad.clone() for n, p in model.trained().items()}))
    (one, whole), (other, pieces) = gradients
    assert one == pytest.approx(other, rel=1e-5)
    for name, gradient in whole.items():
        torch.testing.assert_close(pieces[name], gradient, rtol=1e-3, atol=1e-6)


def test_recomputed_activations_give_the_same_gradients(encoder) -> None:
    if encoder.model.config.model_type == "mpnet":
        with (
            started(encoder, Recipe(1e-3, checkpointing=True)) as (_, run),
            pytest.raises(UnsupportedBase, match="MPNetModel cannot recompute"),
        ):
            list(run.events())
        return
    gradients = []
    for checkpointing in (False, True):
        recipe = Recipe(1e-3, checkpointing=checkpointing)
        with started(encoder, recipe) as (model, run), run.ready():
            model.train()
            assert model.base.is_gradient_checkpointing is checkpointing
            torch.manual_seed(5)
            run.backward(list(range(12)))
            gradients.append({n: p.grad.clone() for n, p in model.trained().items()})
        assert not encoder.model.is_gradient_checkpointing
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("method", ["adapters", "full", "top-k"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_bf16_products_on_every_architecture(name, method, native, tmp_path, monkeypatch) -> None:
    if native and not products.multiplies_halves():
        pytest.skip("this processor has no instructions for it")
    monkeypatch.setattr(products, "multiplies_halves", lambda: native)
    monkeypatch.setattr(products, "NARROW", 8)  # tiny layers are wide enough
    encoder = load_encoder(str(save_base(tmp_path, name)), pooling="mean")
    found = []
    for precision in ("fp32", "bf16"):
        recipe = Recipe(1e-3, products=precision)
        with started(encoder, recipe, Method(method)) as (model, run), run.ready():
            model.eval()
            loss = run.backward(list(range(12)))
            gradient = torch.cat([p.grad.flatten() for p in model.trained().values()])
            assert gradient.dtype == torch.float32
            found.append((loss, gradient))
    (exact, whole), (rounded, near) = found
    assert exact != rounded, "nothing was rounded"
    assert exact == pytest.approx(rounded, rel=0.02)
    assert torch.cosine_similarity(whole, near, dim=0) > 0.99


def test_bf16_leaves_adapters_and_heads_alone(bert) -> None:
    wide = Method("adapters", AdapterConfig(size=products.NARROW))
    with started(bert, Recipe(1e-3, products="bf16"), wide) as (model, run), run.ready():
        own = [*model.attachment.modules(), *model.head.modules()]
        assert not any("forward" in vars(module) for module in own if isinstance(module, nn.Linear))


def test_a_run_says_how_it_multiplies(bert, monkeypatch) -> None:
    for native, meant in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(products, "multiplies_halves", lambda native=native: native)
        with started(bert, Recipe(1e-3)) as (model, run):
            assert run.recipe.products == meant
            assert model.mixed is (meant == "bf16")
    with pytest.raises(ConfigError, match="products"):
        Recipe(1e-3, products="fp8")


def test_it_stops_when_dev_no_longer_improves(bert) -> None:
    with started(bert, Recipe(1e-9, epochs=9, batch_size=32, patience=2)) as (_, run):
        scores = iter([0.5, 0.7, 0.6, 0.65, 0.9])
        run.score = lambda: {"accuracy": next(scores)}
        epochs = [e for e in run.events() if isinstance(e, Epoch)]
    assert [e.dev["accuracy"] for e in epochs] == [0.5, 0.7, 0.6, 0.65]
    assert run.best_epoch == 2


def test_a_step_limit_ends_the_run_in_the_middle_of_an_epoch(bert) -> None:
    with started(bert, Recipe(1e-3, epochs=9, batch_size=8, max_steps=10)) as (_, run):
        events = list(run.events())
    assert [type(e).__name__ for e in events] == ["Step"] * 7 + ["Epoch"] + ["Step"] * 3 + ["Epoch"]
    assert events[-2].steps == 10


def test_a_loss_that_is_no_number_is_an_error(bert) -> None:
    with started(bert, Recipe(1e-3, batch_size=8)) as (model, run):
        with torch.no_grad():
            model.head.linear.weight.fill_(float("inf"))
        with pytest.raises(
            TrainingDiverged, match=r"at step 1\. .*smaller learning rate than 0.001"
        ):
            list(run.events())


def test_logits_come_in_the_order_of_the_rows(encoder, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.model.task_model.TOKENS_AT_ONCE", 40)
    with seeded_model(encoder, TASK, Method(), Recipe(1e-3)) as model:
        rows = prepare(encoder, TASK, TASK.train, 64)
        together = logits_of(model, rows)
        alone = [model.logits(*rows.encoded.take([i])) for i in range(len(rows))]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-4, atol=1e-5)


def test_the_rate_rises_and_falls_linearly() -> None:
    recipe = Recipe(0.1, warmup=0.1)
    optimizer = make_optimizer([torch.nn.Parameter(torch.ones(2, 2))], recipe)
    rates = []
    for step in range(101):
        set_rate(optimizer, recipe, step, 100)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates[:10] == pytest.approx([0.01 * i for i in range(1, 11)])
    assert rates[10] == pytest.approx(0.1)
    assert rates[55] == pytest.approx(0.05)
    assert rates[100] == 0.0


def test_vectors_do_not_decay() -> None:
    matrix, vector = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))
    groups = make_optimizer([matrix, vector], Recipe(0.1)).param_groups
    assert [(g["params"], g["weight_decay"]) for g in groups] == [([matrix], 0.01), ([vector], 0)]


def test_adam_of_the_paper_has_no_bias_correction() -> None:
    """Against the authors' update written out: m / (√v + ε) + decay·w, in double precision."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(4, 3))
    recipe = Recipe(0.05, bias_correction=False)
    optimizer = make_optimizer([weight], recipe)
    w = weight.detach().double().clone()
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    for step in range(20):
        gradient = torch.randn(4, 3)
        weight.grad = gradient.clone()
        set_rate(optimizer, recipe, step, 20)
        optimizer.step()
        g = gradient.double()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        rate = optimizer.param_groups[0]["lr"]
        w = w - rate * (m / (v.sqrt() + 1e-6) + 0.01 * w)
        torch.testing.assert_close(weight.detach().double(), w, rtol=1e-5, atol=1e-5)


def test_the_default_adam_is_the_usual_one() -> None:
    torch.manual_seed(0)
    mine, usual = (torch.nn.Parameter(torch.ones(3, 2)) for _ in range(2))
    optimizer = make_optimizer([mine], Recipe(0.05))
    reference = torch.optim.AdamW([usual], lr=0.05, eps=1e-6, weight_decay=0.01)
    for _ in range(5):
        mine.grad = torch.randn(3, 2)
        usual.grad = mine.grad.clone()
        optimizer.step()
        reference.step()
    torch.testing.assert_close(mine, usual)


@pytest.mark.parametrize(
    "fields",
    [{"learning_rate": 0}, {"epochs": 0}, {"batch_size": 0}, {"warmup": 2}, {"accumulate": 0},
     {"patience": -1}, {"max_steps": -1}],
)  # fmt: skip
def test_recipes_that_cannot_be(fields: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(fields))):
        replace(Recipe(1e-3), **fields)
