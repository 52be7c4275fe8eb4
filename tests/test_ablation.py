"""Ablation: the answers without some adapters are those of a model that never had them."""

from __future__ import annotations

import random
from copy import deepcopy

import pytest
import torch
from transformers import AutoModel, PreTrainedModel

from adapterbank.ablation import Ablation, Narrowed, Without, ablate
from adapterbank.bank import Bank
from adapterbank.cli.ablation import advice
from adapterbank.errors import ConfigError
from adapterbank.serving.predictor import Predictor
from adapterbank.store.mount import mount
from adapterbank.store.package import Package, pack
from adapterbank.tasks.samples import load_sample
from adapterbank.tasks.task import Example, Task
from adapterbank.training.evaluate import logits_of, predictions_of, scores_of
from adapterbank.training.rows import prepare
from tiny import CONFIGS, WORDS, roughened, save_base

TASK = load_sample("support")
# An epoch on a tiny random base need not teach anything here.
pytestmark = pytest.mark.filterwarnings("ignore:All 90 rows")


@pytest.fixture(scope="module")
def bank(tmp_path_factory) -> Bank:
    base = save_base(tmp_path_factory.mktemp("base"))
    return Bank.open(tmp_path_factory.mktemp("bank"), str(base))


@pytest.fixture(scope="module")
def package(bank) -> Package:
    """Adapters that matter: their weights are drawn, not trained."""
    bank.learn("support", TASK, epochs=1, size=4, baselines=False)
    learnt = bank.store.load(bank.store.find("support"))
    torch.manual_seed(0)
    tensors = {
        name: torch.randn_like(tensor)
        if ".up." in name or ".down." in name or "head" in name
        else tensor
        for name, tensor in learnt.tensors.items()
    }
    return pack(learnt.manifest, tensors).unpack()


@pytest.fixture(scope="module")
def examples(bank, package) -> list[Example]:
    """Texts with the task's own answers as labels, so that every other answer costs."""
    with Predictor(bank.encoder, package) as predictor:
        answers = predictor.predict(TASK.test)
    return [row._replace(label=a.label) for row, a in zip(TASK.test, answers, strict=True)]


def score_of(bank: Bank, package: Package, examples: list[Example], change) -> float:
    """The slow way: a package of its own, with tensors changed."""
    tensors = {name: tensor.clone() for name, tensor in package.tensors.items()}
    change(tensors)
    manifest = package.manifest
    other = pack(manifest, tensors).unpack()
    task = Task(manifest.task, manifest.labels, (), examples, (), manifest.kind, manifest.metric)
    rows = prepare(bank.encoder, task, examples, manifest.max_length)
    with mount(bank.encoder, other) as model:
        answers = predictions_of(task, rows, logits_of(model, rows))
    return scores_of(task, examples, answers)[task.metric]


def test_a_score_without_some_layers_is_that_of_a_model_without_their_adapters(
    bank, package, examples
) -> None:
    found = ablate(bank.encoder, package, examples)
    layers = bank.encoder.layers
    assert found.layers == tuple(range(layers))
    assert len(found.without) == layers * (layers + 1) // 2
    assert found.whole == 1
    scores = {found.whole}
    for first, last in ((0, 0), (1, 2), (0, layers - 1)):

        def gone(tensors, first=first, last=last) -> None:
            for name, tensor in tensors.items():
                if ".up." in name and first <= int(name.split(".")[1]) <= last:
                    tensor.zero_()

        assert found.score_without(first, last) == score_of(bank, package, examples, gone)
        scores.add(found.score_without(first, last))
    assert len(scores) > 1  # removing something does change something


def taking_turns() -> PreTrainedModel:
    """An ALBERT of four layers that run in the order 0 1 0 1 2 3 2 3."""
    config = deepcopy(CONFIGS["albert"])
    config.inner_group_num = 2
    torch.manual_seed(0)
    return roughened(AutoModel.from_config(config)).eval()


@pytest.mark.parametrize(
    ("architecture", "layers"),
    [
        *[(each, None) for each in ("bert", "albert", "deberta-v2", "modernbert", "mpnet")],
        *[(each, (1, 3)) for each in ("bert", "deberta-v2", "modernbert", "mpnet")],
        *[("albert whose layers take turns", each) for each in (None, (1, 3))],
    ],
)
def test_passes_that_begin_where_another_left_off_answer_the_same(
    architecture, layers, tmp_path
) -> None:
    """Whatever comes between layers, and whichever have adapters: numbers, to the last bit."""
    name, _, turns = architecture.partition(" ")
    model = taking_turns() if turns else None
    bank = Bank.open(tmp_path / "bank", str(save_base(tmp_path / "base", name, model)))
    drawing = random.Random(0)
    texts = [" ".join(drawing.choices(WORDS[5:], k=drawing.randint(1, 40))) for _ in range(90)]
    rows = [{"text": text, "label": drawing.gauss(0, 1)} for text in texts]
    bank.learn(
        "scores", rows, kind="regression", metric="mean_absolute_error", epochs=1, size=4,
        layers=layers, baselines=False,
    )  # fmt: skip
    learnt = bank.store.load(bank.store.find("scores"))
    torch.manual_seed(0)
    package = pack(
        learnt.manifest,
        {name: torch.randn_like(tensor) / 2 for name, tensor in learnt.tensors.items()},
    ).unpack()
    examples = [Example(text, 0.0) for text in texts]
    found = ablate(bank.encoder, package, examples)
    for each in found.without:

        def gone(tensors, each=each) -> None:
            for name, tensor in tensors.items():
                if ".up." in name and each.first <= int(name.split(".")[1]) <= each.last:
                    tensor.zero_()

        assert each.score == score_of(bank, package, examples, gone)
    assert len({found.whole, *(each.score for each in found.without)}) == len(found.without) + 1


def test_the_strongest_units_are_those_that_are_kept(bank, package, examples) -> None:
    found = ablate(bank.encoder, package, examples)
    assert [each.size for each in found.narrowed] == [2, 1]

    def narrow(tensors) -> None:
        for name in [n for n in tensors if n.endswith(".up.weight")]:
            up, down = tensors[name], tensors[name.replace(".up.", ".down.")]
            strength = (up**2).sum(0).sqrt() * (down**2).sum(1).sqrt()
            for unit in range(4):
                if (strength > strength[unit]).sum() >= 2:
                    up[:, unit] = 0

    assert found.narrowed[0].score == score_of(bank, package, examples, narrow)


def test_the_encoder_and_the_package_are_as_they_were(bank, package) -> None:
    before = {name: tensor.clone() for name, tensor in package.tensors.items()}
    base = {name: tensor.clone() for name, tensor in bank.encoder.model.state_dict().items()}
    ablate(bank.encoder, package, TASK.test)
    assert all(torch.equal(package.tensors[name], tensor) for name, tensor in before.items())
    after = bank.encoder.model.state_dict()
    assert after.keys() == base.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in base.items())


def test_progress_is_told_to_its_end(bank, package) -> None:
    told: list[tuple[int, int]] = []
    found = ablate(bank.encoder, package, TASK.test[:8], lambda *now: told.append(now))
    of = 1 + len(found.without) + len(found.narrowed)
    assert told == [(i, of) for i in range(1, of + 1)]


def test_a_task_without_adapters_has_none_to_remove(bank) -> None:
    bank.learn("heads", TASK, method="head", epochs=1, baselines=False)
    package = bank.store.load(bank.store.find("heads"))
    with pytest.raises(ConfigError, match="trained by head: it has no adapters"):
        ablate(bank.encoder, package, TASK.test)


def found_of(
    costs: dict[int, float], sizes: dict[int, float], metric: str = "accuracy"
) -> Ablation:
    """An ablation whose layers from 0 to n cost so much."""
    sign = 1 if metric == "mean_absolute_error" else -1
    return Ablation(
        metric, 100, tuple(costs), 0.8, 0.5,
        tuple(Without(0, last, 0.8 + sign * cost) for last, cost in costs.items()),
        tuple(Narrowed(size, 0.8 + sign * cost) for size, cost in sizes.items()),
    )  # fmt: skip


@pytest.mark.parametrize("metric", ["accuracy", "mean_absolute_error"])
def test_advice_names_what_can_be_spared(metric) -> None:
    found = found_of({0: 0.0, 1: 0.004, 2: 0.3}, {16: 0.001, 8: 0.003, 4: 0.1}, metric)
    assert [word for line in advice(found) for word in line.split() if word[0] == "-"] == [
        "--first-layer",
        "--size",
    ]
    assert "--first-layer 2" in advice(found)[0]
    assert "--size 8" in advice(found)[1]
    assert "nothing to spare" in advice(found_of({0: 0.1, 1: 0.2}, {2: 0.1}, metric))[0]
    assert "--method head" in advice(found_of({0: 0.0, 1: 0.001}, {}, metric))[0]


def test_the_constant_answer(bank, package) -> None:
    rows = list(TASK.test)
    random.Random(0).shuffle(rows)
    labels = [row.label for row in rows]
    most = max(map(labels.count, labels)) / len(labels)
    found = ablate(bank.encoder, package, rows)
    assert found.metric == "accuracy"
    assert found.constant == pytest.approx(most)
