"""The whole walk on a tiny base: events in order, nothing but train, dev and test where allowed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from adapterbank.errors import ConfigError, NotBetter, WrongBase
from adapterbank.events import Compared, Learnt, Plan, Resumed
from adapterbank.learn import going_on, learn, publish
from adapterbank.model.encoder import fingerprint, load_encoder
from adapterbank.model.methods import Method
from adapterbank.order import Earlier, Order, make_order
from adapterbank.serving.predictor import Predictor
from adapterbank.store.manifest import BaseRecord
from adapterbank.store.package import Package, as_arrays
from adapterbank.store.store import Store
from adapterbank.tasks.report import DataReport
from adapterbank.tasks.task import Answer, Example, Task
from adapterbank.training.baselines import Baseline
from adapterbank.training.loop import Epoch, Step
from adapterbank.training.pace import Pace
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

    store = Store.create(tmp_path, BaseRecord(encoder.name, encoder.fingerprint))
    package = store.load(publish(store, encoder, task.name, last))
    manifest = package.manifest
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


@pytest.mark.parametrize("minutes", [None, 1.0])
def test_a_run_that_was_stopped_goes_on(encoder, tmp_path, monkeypatch, minutes) -> None:
    if minutes is not None:  # a pace that lets a few epochs fit into the time, on any machine
        tokens = sum(len(example.text.split()) + 2 for example in TASK.train)
        monkeypatch.setattr("adapterbank.learn.measure_pace", lambda _: Pace(12 / tokens, 0.0))
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


def test_a_run_that_goes_on_tells_of_the_epochs_before(encoder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.training.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("adapterbank.training.checkpoint.COST", 1e9)
    order = Order(settings=SETTINGS, baselines=False)
    events = learn(encoder, TASK, order, runs=tmp_path)
    first = next(event for event in events if isinstance(event, Epoch))
    next(event for event in events if isinstance(event, Step))
    events.close()
    again = list(learn(encoder, TASK, order, runs=tmp_path, resume=True))
    assert [e.dev for e in again if isinstance(e, Resumed)] == [[first.dev]]
    assert [e.epoch for e in again if isinstance(e, Epoch)] == [2]


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
    digests = {task.digest() for task in (TASK, *changed)}
    assert len(digests) == 6
    assert replace(TASK, name="other").digest() == TASK.digest()


def test_the_class_whose_f1_is_the_metric_is_part_of_a_task() -> None:
    """Another class is another score, and another choice of the best epoch."""
    last, first = TASK.labels[-1], TASK.labels[0]
    task = replace(TASK, metric="f1", positive=last)
    assert replace(task, positive=first).digest() != task.digest()
    assert replace(TASK, metric="accuracy", positive=first).digest() == TASK.digest()


def test_contexts_longer_than_a_window_are_learnt(encoder) -> None:
    long = tuple(e._replace(pair=f"{e.pair} {'the bad book ' * 40}") for e in QUESTIONS)
    task = replace(SPANS, train=long, dev=long[:9], test=long[9:15])
    found = learnt(encoder, task, Order(settings=SETTINGS | {"epochs": 1}))
    assert found.manifest.statistics is not None


def test_one_number_to_learn_from_has_no_spread(encoder) -> None:
    task = replace(NUMBERS, train=NUMBERS.train[:1])
    found = learnt(encoder, task, Order(settings=SETTINGS, baselines=False))
    assert found.predictions[0].value == pytest.approx(NUMBERS.train[0].number, abs=1)
    assert found.manifest.statistics is None  # it would be that row


def test_statistics_can_be_left_out(encoder) -> None:
    order = Order(settings=SETTINGS, baselines=False)
    usual, without = (learnt(encoder, TASK, replace(order, statistics=s)) for s in (True, False))
    assert usual.manifest.statistics is not None
    same = {"statistics": None, "created": without.manifest.created}
    assert without.manifest == replace(usual.manifest, **same)
    assert all(torch.equal(usual.tensors[n], without.tensors[n]) for n in usual.tensors)


def test_a_package_fits_its_own_base_alone(encoder, tmp_path) -> None:
    from tiny import tiny

    last = learnt(encoder, TASK, Order(settings=SETTINGS, baselines=False))
    model = tiny("bert", seed=1)
    other = load_encoder(str(save_base(tmp_path, model=model)), pooling="mean")
    with pytest.raises(WrongBase, match=r"'toy' was learnt on .* A package fits its own base"):
        Predictor(other, Package(last.manifest, as_arrays(last.tensors)))


# --- going on from an earlier version


def earlier_of(encoder, task=TASK, **changes) -> Earlier:
    last = learnt(encoder, task, Order(settings={**SETTINGS, **changes}, baselines=False))
    return Earlier("toy@1", Package(last.manifest, as_arrays(last.tensors)))


def test_going_on_starts_where_the_earlier_version_ended(encoder) -> None:
    earlier = earlier_of(encoder)
    still = {**SETTINGS, "learning_rate": 1e-12}
    order = Order(Method("head"), settings=still, earlier=earlier, baselines=False)
    last = learnt(encoder, TASK, order)
    assert last.manifest.method.name == "adapters"  # the method goes on too
    assert last.manifest.origin == "toy@1"
    for name, tensor in earlier.package.tensors.items():
        assert torch.allclose(last.tensors[name], tensor, atol=1e-5), name
    assert last.compared == Compared(
        "toy@1", "accuracy", earlier.package.manifest.dev["accuracy"], last.manifest.dev["accuracy"]
    )
    assert not last.compared.worse


def test_new_labels_come_after_the_known_ones(encoder) -> None:
    earlier = earlier_of(encoder)
    fresh = tuple(e._replace(label="ok") for e in TASK.train[::5])
    wider = replace(TASK, labels=("bad", "good", "ok"), train=(*TASK.train, *fresh), positive="")
    wider = replace(wider, labels=("ok", "bad", "good"), dev=(*TASK.dev, *fresh[:4]))
    events = list(learn(encoder, wider, Order(settings=SETTINGS, earlier=earlier)))
    last = events[-1]
    assert last.manifest.labels == ("bad", "good", "ok")
    assert last.tensors["head.weight"].shape[0] == 3
    (compared,) = (event for event in events if isinstance(event, Compared))
    # The earlier version cannot know the third label: those rows of dev are wrong for it.
    known = sum(
        e.label == p.label
        for e, p in zip(TASK.dev, predicted(encoder, earlier.package, TASK.dev), strict=True)
    )
    assert compared.before == pytest.approx(known / len(wider.dev))


def predicted(encoder, package, examples):
    with Predictor(encoder, package) as predictor:
        return predictor.predict(examples)


def test_going_on_is_selected_by_what_was_asked_for(encoder) -> None:
    earlier = earlier_of(encoder, replace(TASK, metric="macro_f1"))
    order = Order(settings=SETTINGS, earlier=earlier, baselines=False)
    last = learnt(encoder, TASK, order)  # nothing was asked for: the usual metric of its kind
    assert (last.manifest.metric, last.compared.metric) == ("macro_f1", "macro_f1")
    last = learnt(encoder, replace(TASK, metric="matthews"), order)
    assert (last.manifest.metric, last.compared.metric) == ("matthews", "matthews")
    usual = replace(order, earlier=replace(earlier, metric="accuracy"))
    last = learnt(encoder, TASK, usual)  # the usual one, because it was asked for
    assert (last.manifest.metric, last.compared.metric) == ("accuracy", "accuracy")
    assert going_on(*going_on(usual, TASK)) == going_on(usual, TASK)
    twice = going_on(*going_on(order, replace(TASK, metric="matthews")))
    assert twice == going_on(order, replace(TASK, metric="matthews"))


def test_a_chosen_class_is_kept_when_more_come(encoder) -> None:
    fresh = tuple(e._replace(label="ok") for e in TASK.train[::5])
    three = replace(TASK, labels=("bad", "good", "ok"), train=(*TASK.train, *fresh))
    three = replace(three, positive="bad", metric="f1")
    order = Order(settings=SETTINGS, earlier=earlier_of(encoder, three))
    four = replace(three, labels=(*three.labels, "so-so"), positive="", metric="accuracy")
    found = going_on(order, four)[1]
    assert (found.positive, found.metric, found.labels[3]) == ("bad", "f1", "so-so")
    two = Order(settings=SETTINGS, earlier=earlier_of(encoder, replace(TASK, metric="f1")))
    found = going_on(two, replace(three, positive="", metric="accuracy"))[1]
    assert (found.positive, found.metric) == ("", "accuracy")


def test_a_metric_that_the_earlier_labels_do_not_allow(encoder) -> None:
    fresh = tuple(e._replace(label="ok") for e in TASK.train[::5])
    three = replace(TASK, labels=("bad", "good", "ok"), train=(*TASK.train, *fresh), positive="")
    order = Order(settings=SETTINGS, earlier=earlier_of(encoder, three))
    with pytest.raises(ConfigError, match=r"metric is 'f1'. This classification task has: acc"):
        learnt(encoder, replace(TASK, metric="f1"), order)


def test_going_on_with_numbers_keeps_their_scale(encoder) -> None:
    earlier = earlier_of(encoder, NUMBERS)
    shifted = replace(
        NUMBERS,
        train=tuple(e._replace(label=e.number * 3 + 7) for e in NUMBERS.train),
    )
    still = {**SETTINGS, "learning_rate": 1e-12}
    last = learnt(encoder, shifted, Order(settings=still, earlier=earlier, baselines=False))
    for name, tensor in earlier.package.tensors.items():
        assert torch.allclose(last.tensors[name], tensor, rtol=1e-4, atol=1e-3), name


def test_worse_is_not_published_unless_told(encoder, tmp_path) -> None:
    store = Store.create(tmp_path, BaseRecord(encoder.name, encoder.fingerprint))
    good = learnt(encoder, TASK, Order(settings={**SETTINGS, "epochs": 8}, baselines=False))
    entry = publish(store, encoder, "toy", good)
    earlier = Earlier(str(entry), store.load(entry))
    wrong = tuple(e._replace(label="good" if e.label == "bad" else "bad") for e in TASK.train)
    order = Order(settings={**SETTINGS, "epochs": 8}, earlier=earlier, baselines=False)
    last = learnt(encoder, replace(TASK, train=wrong), order)
    assert last.compared.worse
    with pytest.raises(NotBetter) as caught:
        publish(store, encoder, "toy", last)
    assert caught.value.message == (
        f"toy@1 stays: its accuracy on dev is {last.compared.before:.4f}, and after going on "
        f"{last.compared.after:.4f}."
    )
    assert store.record("toy").highest == 1
    assert str(publish(store, encoder, "toy", last, even_if_worse=True)) == "toy@2"


def test_other_forms_of_data_or_method_do_not_go_on(encoder) -> None:
    earlier = earlier_of(encoder)
    with pytest.raises(ConfigError, match="has kind classification, and this data has regression"):
        learnt(encoder, NUMBERS, Order(earlier=earlier))
    pairs = replace(TASK, train=[e._replace(pair="x") for e in TASK.train])
    with pytest.raises(ConfigError, match="has texts a row 1, and this data has 2"):
        learnt(encoder, pairs, Order(earlier=earlier))
    assert make_order(encoder.layers, earlier=earlier, size=64).earlier is earlier
    with pytest.raises(ConfigError, match="toy@1 has size 64, and size is to be 8"):
        make_order(encoder.layers, earlier=earlier, size=8)
    with pytest.raises(ConfigError, match="toy@1 has method adapters, and method is to be full"):
        make_order(encoder.layers, earlier=earlier, method="full")


# --- half precision


@pytest.mark.parametrize("task", [TASK, NUMBERS, TAGGED, SPANS], ids=lambda task: task.kind)
def test_half_precision_halves_the_package_and_answers_alike(encoder, task, tmp_path) -> None:
    store = Store.create(tmp_path, BaseRecord(encoder.name, encoder.fingerprint))
    settings = {**SETTINGS, "epochs": 4}
    whole = learnt(encoder, task, Order(settings=settings, baselines=False))
    half = learnt(encoder, task, Order(settings=settings, baselines=False, precision="fp16"))
    entry, other = publish(store, encoder, "a", whole), publish(store, encoder, "b", half)
    a, b = store.load(entry), store.load(other)
    assert b.manifest.precision == "fp16"
    assert b.manifest.weights_bytes < 0.6 * a.manifest.weights_bytes
    for name, tensor in a.tensors.items():
        assert torch.equal(b.tensors[name], tensor.half().float())
    # What was scored and probed is what is kept.
    assert [p.as_dict() for p in predicted(encoder, b, task.test)] == [
        p.as_dict() for p in half.predictions
    ]


def test_half_precision_is_refused_where_answers_would_change(encoder, monkeypatch) -> None:
    from adapterbank.training import judge

    load = judge.TaskModel.load_tensors

    def coarse(model, tensors) -> None:
        """As if half precision could not hold the numbers: what was rounded comes out negated."""
        rounded = all(torch.equal(t.half().float(), t) for t in tensors.values())
        load(model, {name: -t for name, t in tensors.items()} if rounded else tensors)

    monkeypatch.setattr(judge.TaskModel, "load_tensors", coarse)
    order = Order(settings={**SETTINGS, "epochs": 4}, baselines=False, precision="fp16")
    events = list(learn(encoder, TASK, order))
    (rounded,) = (event for event in events if isinstance(event, judge.Rounded))
    assert rounded.precision == "fp32"
    assert rounded.changed > 0
    assert rounded.after < rounded.before
    assert events[-1].manifest.precision == "fp32"
    assert events[-1].manifest.dev["accuracy"] == rounded.before


@pytest.mark.parametrize("task", [TASK, NUMBERS], ids=lambda task: task.kind)
def test_numbers_past_half_precision_s_range_stay_whole(encoder, task, monkeypatch) -> None:
    from adapterbank.training import judge

    round_if_it_holds = judge.round_if_it_holds

    def large(model, *rest):
        model.head.linear.bias.data[0] = 1e5
        return round_if_it_holds(model, *rest)

    monkeypatch.setattr("adapterbank.learn.round_if_it_holds", large)
    last = learnt(encoder, task, Order(settings=SETTINGS, baselines=False, precision="fp16"))
    assert last.manifest.precision == "fp32"
    assert last.tensors["head.bias"][0] == 1e5


def test_numbers_of_numpy_s_are_numbers() -> None:
    order = make_order(2, seed=np.int64(3), warmup=np.float32(0.5), gate=np.bool_(True))
    recipe = order.recipe_of(100, "classification", 0)
    assert (type(recipe.seed), type(recipe.warmup)) == (int, float)
    assert order.method.adapter.gate is True


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gate": 1}, "gate is 1; it must be True or False"),
        ({"train_layer_norms": "no"}, "train_layer_norms is 'no'; it must be True or False"),
        ({"init_std": "0.01"}, "init_std is '0.01'; it must be a number of at least 0"),
        ({"warmup": 2}, "warmup is 2; it must be a number from 0 to 1"),
        ({"weight_decay": "0"}, "weight_decay is '0'; it must be a number of at least 0"),
        ({"seed": 1.5}, "seed is 1.5; it is a whole number from 0 to 2,147,483,647"),
        ({"patience": True}, "patience is True; it is a whole number from 0"),
        ({"bias_correction": 0}, "bias_correction is 0; it must be True or False"),
        ({"minutes": "1"}, "minutes is '1'; it must be a number of at least 0"),
        ({"baselines": "no"}, "baselines is 'no'; it must be True or False"),
        ({"note": 5}, "note is a text of at most 10,000 characters"),
        ({"note": "a" * 10_001}, "note is a text of at most 10,000 characters"),
        ({"note": "\ud800"}, "note has half of a character"),
    ],
)
def test_what_no_package_could_hold_is_refused_first(settings, message) -> None:
    with pytest.raises(ConfigError, match=message):
        make_order(2, **settings).recipe_of(100, "classification", 0)


def test_settings_by_name() -> None:
    order = make_order(4, size=8, lr=0.5, first_layer=2, epochs=3, activation="relu", minutes=None)
    assert order.method.adapter.layers == (2, 3)
    assert (order.method.adapter.size, order.method.adapter.activation) == (8, "relu")
    assert order.settings == {"learning_rate": 0.5, "epochs": 3}
    assert make_order(4).method.adapter.size == 32
    assert make_order(4, layers=(1, 3)).method.adapter.layers == (1, 3)
    with pytest.raises(ConfigError, match="give one of them"):
        make_order(4, layers=(1, 3), first_layer=2)
    with pytest.raises(ConfigError, match="layers is 3; it takes layer numbers"):
        make_order(4, layers=3)
    with pytest.raises(ConfigError, match=r"no setting 'epoch'. Did you mean epochs\?"):
        make_order(4, epoch=1)
    with pytest.raises(ConfigError, match="precision is 'fp8'; choose one of fp32, fp16"):
        make_order(4, precision="fp8")
