"""Adapters of one's own loop, kept in a folder: what comes back is what was learnt, or an error."""

from __future__ import annotations

import copy
import errno
import json
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification

from adapterbank import AdapterConfig, Method, apply_method, attach, load_adapters, save_adapters
from adapterbank.errors import AttachError, ConfigError, PackageError
from adapterbank.store.attached import SETTINGS, TENSORS
from adapterbank.store.sealed import seal
from tiny import ARCHITECTURES, CONFIGS, padded, rows

FORMS = [
    AdapterConfig(size=4, init_std=0.3),
    AdapterConfig(size=4, init_std=0.3, layers=(1,), norm="batch", hidden_layers=2),
    AdapterConfig(size=4, init_std=0.3, insertion="parallel", gate=True, train_layer_norms=False),
]


def classifier(name: str = "bert", labels: int = 3, seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    config = copy.deepcopy(CONFIGS[name])
    config.num_labels = labels
    return AutoModelForSequenceClassification.from_config(config).eval()


def answers(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(**padded(model, rows([5, 9, 1]))).logits


def trained(model: torch.nn.Module, config: AdapterConfig) -> object:
    """As after some steps: everything that trains is elsewhere."""
    adapters = attach(model, config)
    with torch.no_grad():
        for tensor in adapters.tensors().values():
            tensor += 0.1 * torch.rand_like(tensor)
    return adapters


@pytest.mark.parametrize("config", FORMS, ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_was_learnt_comes_back(name: str, config: AdapterConfig, tmp_path: Path) -> None:
    model, other = classifier(name), classifier(name)
    save_adapters(trained(model, config), tmp_path / "mine")
    before = torch.get_rng_state()
    adapters = load_adapters(other, tmp_path / "mine")
    assert torch.equal(torch.get_rng_state(), before)
    assert adapters.config == config
    assert torch.equal(answers(other), answers(model))
    adapters.detach()
    assert torch.equal(answers(other), answers(classifier(name)))


def test_a_head_for_other_labels_stays(tmp_path: Path) -> None:
    model, other = classifier(), classifier(labels=5)
    adapters = trained(model, FORMS[0])
    save_adapters(adapters, tmp_path / "mine")
    with pytest.raises(PackageError, match=r"2 of the tensors .*'head.classifier.bias'"):
        load_adapters(other, tmp_path / "mine")
    assert all(parameter.requires_grad for parameter in other.parameters())  # left as it was
    head = other.classifier.weight.clone()
    found = load_adapters(other, tmp_path / "mine", head=False)
    assert torch.equal(other.classifier.weight, head)
    learnt, mine = found.tensors(), adapters.tensors()
    assert all(torch.equal(learnt[name], mine[name]) for name in mine if "head." not in name)
    with pytest.raises(PackageError, match="do not fit this model"):
        load_adapters(AutoModel.from_config(CONFIGS["albert"]), tmp_path / "mine", head=False)


def test_saved_again_it_is_the_later_one(tmp_path: Path) -> None:
    model = classifier()
    adapters = trained(model, FORMS[0])
    for _ in range(2):
        adapters.tensors()["layer.0.output.up.bias"] += 1
        save_adapters(adapters, str(tmp_path / "deep" / "mine"))
    other = classifier()
    load_adapters(other, tmp_path / "deep" / "mine")
    assert torch.equal(answers(other), answers(model))


def test_what_else_is_in_a_folder_is_not_lost(tmp_path: Path) -> None:
    adapters = trained(classifier(), FORMS[0])
    mine, empty = tmp_path / "mine", tmp_path / "empty"
    empty.mkdir()
    for folder in (mine, empty):
        save_adapters(adapters, folder)
        load_adapters(classifier(), folder)
    (mine / "labels.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"other things than adapters, 'labels.json'.*within it"):
        save_adapters(adapters, mine)
    assert (mine / "labels.json").read_text() == "{}"
    for name in ("file", "link"):
        place = tmp_path / name
        place.write_text("") if name == "file" else place.symlink_to(empty)
        with pytest.raises(ConfigError, match="is there, and is no folder"):
            save_adapters(adapters, place)
    with pytest.raises(PackageError, match=r"could not be written to .*name a folder"):
        save_adapters(adapters, tmp_path / "file" / "mine")


def test_a_head_with_parts_of_any_name_comes_back(tmp_path: Path) -> None:
    models = []
    for _ in range(2):
        models.append(classifier())
        down, up = torch.nn.Linear(32, 7), torch.nn.Linear(7, 3)
        models[-1].classifier = torch.nn.Sequential(OrderedDict(down=down, up=up))
    save_adapters(trained(models[0], FORMS[0]), tmp_path / "mine")
    load_adapters(models[1], tmp_path / "mine")
    assert torch.equal(answers(models[0]), answers(models[1]))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_no_number_is_not_saved(value: float, tmp_path: Path) -> None:
    adapters = trained(classifier(), FORMS[0])
    save_adapters(adapters, tmp_path / "mine")
    kept = (tmp_path / "mine" / TENSORS).read_bytes()
    adapters.tensors()["layer.0.output.up.bias"][0] = value
    with pytest.raises(PackageError, match=r"'layer.0.output.up.bias' .*not finite.*lower"):
        save_adapters(adapters, tmp_path / "mine")
    assert (tmp_path / "mine" / TENSORS).read_bytes() == kept


@pytest.mark.parametrize("name", [".", "", "mine/.."])
def test_the_folder_that_it_runs_in_does_not_give_way(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"this runs in.*Name one within it"):
        save_adapters(trained(classifier(), FORMS[0]), name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_read_is_said(tmp_path, monkeypatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    adapters = trained(classifier(), FORMS[0])
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(PackageError, match=r"could not be written to .*: Permission denied"):
        save_adapters(adapters, tmp_path)


def test_methods_without_adapters_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"apply_method made them.*save_pretrained"):
        save_adapters(apply_method(classifier(), Method("layer-norm")), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def reseal(folder: Path, **changes: object) -> None:
    values = json.loads((folder / SETTINGS).read_text())
    del values["digest"]
    values["adapter"] |= {key: each for key, each in changes.items() if key in values["adapter"]}
    values |= {key: each for key, each in changes.items() if key not in values["adapter"]}
    (folder / SETTINGS).write_bytes(seal(values))


def change_tensors(folder: Path, name: str, value: torch.Tensor) -> None:
    save_file(load_file(folder / TENSORS) | {name: value}, folder / TENSORS)


DAMAGE = {
    "no settings": (lambda f: (f / SETTINGS).unlink(), "holds no adapters.json with"),
    "no tensors": (lambda f: (f / TENSORS).unlink(), "holds no adapters.json with"),
    "a changed byte": (
        lambda f: (f / SETTINGS).write_text((f / SETTINGS).read_text().replace("0.3", "0.2")),
        "it was changed after it was written",
    ),
    "cut off": (lambda f: (f / TENSORS).write_bytes((f / TENSORS).read_bytes()[:-9]), "bytes of"),
    "empty": (lambda f: (f / TENSORS).write_bytes(b""), "its header has|header"),
    "a size of its own": (lambda f: reseal(f, size=8_000), "its settings are not those"),
    "an endless size": (lambda f: reseal(f, size=10**13), r"at most 8,192\. Save them again"),
    "endless layers": (lambda f: reseal(f, hidden_layers=10**9), "its settings are not those"),
    "layers that are not there": (lambda f: reseal(f, layers=[9]), "names layer 9"),
    "another format": (lambda f: reseal(f, format=2), "its format is 2, and 1 is read"),
    "no number": (
        lambda f: change_tensors(f, "head.classifier.bias", torch.tensor([0, 0, torch.nan])),
        r"adapters\.safetensors holds 'head.classifier.bias' with values that are not finite",
    ),
    "a tensor too many": (
        lambda f: change_tensors(f, "layer.0.output.more", torch.ones(1)),
        "1 of the tensors .*'layer.0.output.more'",
    ),
    "whole numbers": (
        lambda f: change_tensors(f, "head.classifier.bias", torch.ones(3, dtype=torch.int32)),
        r"adapters\.safetensors describes .* something other than a tensor of F32",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_is_refused_and_the_model_left_alone(damage, message, tmp_path) -> None:
    save_adapters(trained(classifier(), FORMS[0]), tmp_path / "mine")
    damage(tmp_path / "mine")
    model = classifier()
    with pytest.raises((PackageError, ConfigError), match=message):
        load_adapters(model, tmp_path / "mine")
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert torch.equal(answers(model), answers(classifier()))


def with_statistics(seed: int = 0) -> torch.nn.Module:
    """A classifier whose own head normalises over batches."""
    model = classifier(seed=seed)
    head = torch.nn.Sequential(torch.nn.BatchNorm1d(32), model.classifier)
    head.register_buffer("passing", torch.ones(1), persistent=False)
    model.classifier = head
    return model.eval()


def test_statistics_of_the_models_own_head_come_back(tmp_path: Path) -> None:
    model, other = with_statistics(), with_statistics()
    before = {name: (id(each), each.clone()) for name, each in model.named_buffers()}
    unchanged = answers(model)
    adapters = attach(model, FORMS[0])
    model.train()
    for _ in range(3):
        answers(model)
    learnt = answers(model.eval())
    assert not torch.equal(learnt, unchanged)
    assert "head.classifier.passing" not in adapters.tensors()
    with adapters.disabled():
        assert torch.equal(answers(model), unchanged)
    assert torch.equal(answers(model), learnt)
    save_adapters(adapters, tmp_path / "mine")
    load_adapters(other, tmp_path / "mine")
    assert torch.equal(answers(other), learnt)
    steps = other.classifier[0].num_batches_tracked
    assert (steps.dtype, steps.item()) == (torch.int64, 3)
    adapters.detach()
    assert torch.equal(answers(model), unchanged)
    for name, each in model.named_buffers():
        assert id(each) == before[name][0]
        assert torch.equal(each, before[name][1])


# --- the model as it was, for a while


@pytest.mark.parametrize("config", FORMS, ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_disabled_the_model_computes_what_it_did_before(name: str, config: AdapterConfig) -> None:
    model = classifier(name)
    before = answers(model)
    adapters = trained(model, config)
    learnt = answers(model)
    trains = [p for p in model.parameters() if p.requires_grad]
    with adapters.disabled():
        assert torch.equal(answers(model), before)
    assert torch.equal(answers(model), learnt)
    now = [p for p in model.parameters() if p.requires_grad]
    assert [id(p) for p in now] == [id(p) for p in trains]  # an optimiser's are the same still


def test_an_error_within_brings_the_adapters_back() -> None:
    model = classifier()
    adapters = trained(model, FORMS[0])
    learnt = answers(model)
    with pytest.raises(ZeroDivisionError), adapters.disabled():
        _ = 1 / 0
    assert torch.equal(answers(model), learnt)
    adapters.detach()
    with pytest.raises(AttachError, match="not on the model any more"), adapters.disabled():
        pass


def test_a_block_within_a_block_ends_with_the_outer_one() -> None:
    model = classifier()
    before = answers(model)
    adapters = trained(model, FORMS[0])
    learnt = answers(model)
    with adapters.disabled():
        with adapters.disabled():
            assert torch.equal(answers(model), before)
        assert torch.equal(answers(model), before)
    assert torch.equal(answers(model), learnt)


def test_what_was_learnt_is_not_taken_from_a_model_that_does_without_it(tmp_path: Path) -> None:
    model = classifier()
    before = answers(model)
    adapters = trained(model, FORMS[0])
    learnt = answers(model)
    uses = (
        adapters.detach, adapters.tensors, adapters.parameter_groups,
        lambda: save_adapters(adapters, tmp_path / "mine"),
    )  # fmt: skip
    with adapters.disabled():
        for use in uses:
            with pytest.raises(AttachError, match=r"set aside.*after the block of disabled\(\)"):
                use()
        assert torch.equal(answers(model), before)
    assert torch.equal(answers(model), learnt)
    adapters.detach()
    assert torch.equal(answers(model), before)
    for use in uses:
        with pytest.raises(AttachError, match="not on the model any more"):
            use()
    assert not (tmp_path / "mine").exists()


def test_what_was_learnt_follows_a_model_that_moves_within_the_block() -> None:
    model = classifier()
    adapters = trained(model, FORMS[0])
    with adapters.disabled():
        model.double()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
    assert answers(model).dtype == torch.float64
