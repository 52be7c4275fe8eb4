"""The whole walk on a tiny base: events in order, nothing but train, dev and test where allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from adapterbank.errors import PackageError
from adapterbank.learn import Learnt, Order, Plan, data_digest, learn
from adapterbank.model.encoder import fingerprint, load_encoder
from adapterbank.model.methods import Method
from adapterbank.serving.predictor import Predictor
from adapterbank.store.package import Package, read_package
from adapterbank.store.store import find, publish
from adapterbank.tasks.report import DataReport
from adapterbank.tasks.task import Answer, Example, Task
from adapterbank.training.baselines import Baseline
from adapterbank.training.loop import Epoch, Step
from tiny import save_base
from training.toy import NUMBERS, TAGGED, TASK

SETTINGS = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-2, "max_length": 64}
CONTEXTS = [f"it was {word} the {thing}" for word in ("good", "bad") for thing in ("film", "book")]
QUESTIONS = tuple(
    Example(
        f"the {word} was it", None, context, f"{i}-{word}",
        (Answer(word, context.index(word)),) if word in context else (),
    )
    for i, context in enumerate(CONTEXTS * 3)
    for word in ("film", "book", "good")
)  # fmt: skip
SPANS = Task("spans", (), QUESTIONS, QUESTIONS[:9], QUESTIONS[9:15], kind="span")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(str(save_base(tmp_path_factory.mktemp("base"))), pooling="mean")


def learnt(encoder, task, order, **options) -> Learnt:
    *_, last = learn(encoder, task, order, **options)
    return last


@pytest.mark.parametrize("task", [TASK, NUMBERS, TAGGED, SPANS], ids=lambda task: task.kind)
def test_events_and_a_package_that_answers(encoder, task, tmp_path) -> None:
    before = encoder.fingerprint
    events = list(learn(encoder, task, Order(settings=SETTINGS)))
    kinds = [type(event) for event in events]
    assert kinds[:2] == [DataReport, Plan]
    assert kinds.count(Epoch) == 2
    assert kinds.count(Step) == events[1].steps
    assert kinds.count(Baseline) == (0 if task.kind == "span" else 2)
    last = events[-1]
    assert kinds[-1] is Learnt
    assert fingerprint(encoder.model, encoder.stored) == before

    manifest = publish(tmp_path, last.manifest, last.tensors)
    package = read_package(find(tmp_path, task.name))
    assert package.manifest == manifest
    assert manifest.kind == task.kind
    best = max(event.dev[task.metric] for event in events if isinstance(event, Epoch))
    assert manifest.dev[task.metric] == pytest.approx(best, abs=1e-4)
    assert set(manifest.baselines) == (
        set() if task.kind == "span" else {"n-grams", "frozen features"}
    )
    with Predictor(encoder, package) as predictor:
        answers = predictor.predict(task.test)
    assert [a.as_dict() for a in answers] == [p.as_dict() for p in last.predictions]
    if task.kind == "span":
        assert manifest.threshold is not None  # some questions have no answer
        for example, answer in zip(task.test, answers, strict=True):
            assert example.pair[answer.start or 0 : answer.end or 0] == answer.answer


def test_the_result_depends_on_neither_test_nor_the_baselines(encoder) -> None:
    order = Order(settings=SETTINGS)
    whole = learnt(encoder, TASK, order)
    for task, how in (
        (replace(TASK, test=TASK.train[:7]), order),
        (replace(TASK, test=()), order),
        (TASK, replace(order, baselines=False)),
    ):
        other = learnt(encoder, task, how)
        assert all(torch.equal(whole.tensors[n], other.tensors[n]) for n in whole.tensors)
        assert other.manifest.temperature == whole.manifest.temperature
    assert learnt(encoder, replace(TASK, test=()), order).manifest.test == {}


@pytest.mark.parametrize("minutes", [None, 0.02])
def test_a_run_that_was_stopped_goes_on(encoder, tmp_path, monkeypatch, minutes) -> None:
    monkeypatch.setattr("adapterbank.training.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("adapterbank.training.checkpoint.COST", 1e9)
    order = Order(settings=SETTINGS, baselines=False, minutes=minutes)
    seen = 0
    events = learn(encoder, TASK, order, runs=tmp_path)
    for event in events:
        seen += isinstance(event, Step)
        if seen == 2:
            break
        if isinstance(event, Plan):
            plan = event
    events.close()
    (state,) = tmp_path.iterdir()
    again = list(learn(encoder, TASK, order, runs=tmp_path, resume=True))
    assert sum(isinstance(event, Step) for event in again) == plan.steps - 2
    assert next(e for e in again if isinstance(e, Plan)).recipe == plan.recipe
    assert not state.exists()
    if minutes is None:
        whole = learnt(encoder, TASK, order)
        tensors = again[-1].tensors
        assert all(torch.equal(whole.tensors[n], tensors[n]) for n in whole.tensors)


def test_other_data_or_settings_are_another_run(encoder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.training.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("adapterbank.training.checkpoint.COST", 1e9)
    order = Order(settings=SETTINGS, baselines=False)
    events = learn(encoder, TASK, order, runs=tmp_path)
    next(event for event in events if isinstance(event, Epoch))
    events.close()
    others = [
        (replace(TASK, train=TASK.train[1:]), order),
        (TASK, replace(order, settings={**SETTINGS, "seed": 1})),
        (TASK, replace(order, method=Method("head"))),
    ]
    for task, how in others:
        events = learn(encoder, task, how, runs=tmp_path, resume=True)
        first = next(event for event in events if isinstance(event, Step))
        events.close()
        assert first.step == 1


def test_the_digest_is_of_every_row_and_label() -> None:
    changed = [
        replace(TASK, train=TASK.train[::-1]),
        replace(TASK, labels=TASK.labels[::-1]),
        replace(TASK, dev=TASK.dev[:-1]),
        replace(TASK, dev=TASK.dev[:-1], test=(TASK.dev[-1], *TASK.test)),
        replace(TASK, train=(TASK.train[0]._replace(pair=""), *TASK.train[1:])),
    ]
    digests = {data_digest(task) for task in (TASK, *changed)}
    assert len(digests) == 6
    assert data_digest(replace(TASK, name="other")) == data_digest(TASK)


def test_a_package_fits_its_own_base_alone(encoder, tmp_path) -> None:
    from tiny import tiny

    last = learnt(encoder, TASK, Order(settings=SETTINGS, baselines=False))
    model = tiny("bert", seed=1)
    other = load_encoder(str(save_base(tmp_path, model=model)), pooling="mean")
    with pytest.raises(PackageError, match=r"'toy' was learnt on .* A package fits its own base"):
        Predictor(other, Package(last.manifest, last.tensors))
