"""AdapterHub folders: exact round trips, refusals by name, and hostile files."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from adapterbank.errors import ConfigError, PackageError
from adapterbank.model.config import Activation, AdapterConfig
from adapterbank.store.adapterhub import BaseFacts, export_adapterhub, import_adapterhub
from adapterbank.store.adapterhub.settings import TO_HUB, reduction_factor
from adapterbank.store.manifest import (
    BaseRecord,
    DataRecord,
    Manifest,
    MethodRecord,
    ParameterRecord,
)
from adapterbank.store.package import Package, as_arrays, pack
from adapterbank.store.weights import adapter_shapes

D, M, LAYERS = 8, 3, 3
FROZEN = AdapterConfig(size=M, train_layer_norms=False)
FACTS = BaseFacts(
    name="bert-tiny",
    fingerprint="b" * 64,
    model_type="bert",
    width=D,
    layers=LAYERS,
    pooling="pooler",
    max_length=64,
    has_pooler=True,
    parameters=10_000,
    parameters_without_embeddings=5_000,
)
TRAIN = "Train the task with `adapterbank train`, or in AdapterHub with its double_seq_bn adapters."
DOWN = "bert.encoder.layer.0.attention.output.adapters.spam.adapter_down.0.weight"


def task(config: AdapterConfig | None = FROZEN, **changes: Any) -> Package:
    """A task with random tensors. Its head and LayerNorms follow from the manifest."""
    made = Manifest(
        task="shop/spam",
        created="2026-01-31T12:00:00Z",
        kind="classification",
        labels=("ham", "spam", "Müll?"),
        pair=False,
        metric="accuracy",
        dev={"accuracy": 0.9},
        method=MethodRecord("adapters" if config else "head"),
        adapter=config,
        pooling="pooler",
        max_length=32,
        recipe={"epochs": 3},
        data=DataRecord({"train": 10}, "a" * 64),
        base=BaseRecord(FACTS.name, FACTS.fingerprint),
        parameters=ParameterRecord(94, 0.5, 0.75),
    )
    manifest = replace(made, **changes)
    outputs = {"regression": 1, "span": 2}.get(manifest.kind, len(manifest.labels))
    shapes: dict[str, tuple[int, ...]] = {"head.weight": (outputs, D), "head.bias": (outputs,)}
    if config:
        for layer in config.layers or range(LAYERS):
            for site in ("attention", "output"):
                if config.where in ("both", site):
                    one = adapter_shapes(config, D).items()
                    shapes |= {f"layer.{layer}.{site}.{name}": shape for name, shape in one}
        if config.train_layer_norms:
            lowest = config.layers[0] if config.layers else 0
            norms = [
                f"layer.{n}.{s}" for n in range(lowest, LAYERS) for s in ("attention", "output")
            ]
            norms += [] if lowest else ["embeddings"]
            shapes |= {f"{n}.norm.{leaf}": (D,) for n in norms for leaf in ("weight", "bias")}
    draw = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    pack(manifest, tensors)  # a sound one
    return Package(manifest, as_arrays(tensors))


def export(package: Package, folder: Path, **changes: Any) -> list[str]:
    return export_adapterhub(package, FACTS, folder, **({"name": "spam"} | changes))


def bring(folder: Path, facts: BaseFacts = FACTS, **changes: Any) -> Any:
    return import_adapterhub(folder, facts, **({"task": "spam"} | changes))


def same(tensors: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    """The same names, and the same bits."""
    return tensors.keys() == others.keys() and all(
        tensor.numpy().tobytes() == others[name].numpy().tobytes()
        for name, tensor in tensors.items()
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "hub"
    export(task(), folder)
    return folder


@pytest.fixture
def hub(tmp_path: Path, exported: Path) -> Path:
    shutil.copytree(exported, tmp_path / "hub")
    return tmp_path / "hub"


def edit(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(file.read_text("utf-8"))
    change(values)
    file.write_text(json.dumps(values), "utf-8")


def settings(hub: Path, **changes: Any) -> None:
    edit(hub / "adapter_config.json", lambda values: values["config"].update(changes))


def head(hub: Path, **changes: Any) -> None:
    edit(hub / "head_config.json", lambda values: values["config"].update(changes))


def tensors_of(file: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def refusal(call: Callable[..., object], *args: Any, **kwargs: Any) -> PackageError:
    with pytest.raises(PackageError) as caught:
        call(*args, **kwargs)
    assert caught.value.hint
    return caught.value


# --- round trips


ROUND_TRIPS: dict[str, tuple[AdapterConfig, dict[str, Any]]] = {
    "plain": (FROZEN, {}),
    "two labels": (FROZEN, {"labels": ("b", "a"), "positive": "a"}),
    "first token": (FROZEN, {"pooling": "first"}),
    "multi-label": (FROZEN, {"kind": "multi-label", "metric": "micro_f1", "labels": ("x",)}),
    "regression": (FROZEN, {"kind": "regression", "metric": "pearson", "labels": ()}),
    "span": (FROZEN, {"kind": "span", "metric": "f1", "labels": (), "pair": True}),
    "some layers": (replace(FROZEN, layers=(0, 2)), {}),
    "attention": (replace(FROZEN, where="attention"), {}),
    "output": (replace(FROZEN, where="output"), {}),
    "wide": (replace(FROZEN, size=5 * D), {}),
    "parallel": (replace(FROZEN, insertion="parallel"), {}),
    "own norm": (replace(FROZEN, norm="layer"), {}),
    **{name: (replace(FROZEN, activation=name), {}) for name in get_args(Activation)},
    "layer norms": (replace(FROZEN, train_layer_norms=True), {}),
    "some layer norms": (replace(FROZEN, train_layer_norms=True, layers=(1,)), {}),
}


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_a_round_trip_is_exact(case: str, tmp_path: Path) -> None:
    config, changes = ROUND_TRIPS[case]
    package = task(config, **changes)
    export(package, tmp_path / "hub", layer_norms_beside=config.train_layer_norms)
    manifest, tensors, _ = bring(tmp_path / "hub", pair=package.manifest.pair)
    assert same(tensors, package.tensors)
    count = sum(tensor.numel() for tensor in tensors.values())
    assert manifest == replace(
        package.manifest,
        task="spam",
        created=manifest.created,
        dev={},
        max_length=FACTS.max_length,
        recipe={},
        data=DataRecord({}, ""),
        parameters=ParameterRecord(count, count / 100, count / 50),
        origin="adapterhub",
    )
    pack(manifest, tensors)


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_every_size_comes_back_from_its_factor(width: int, size: int) -> None:
    factor = json.loads(json.dumps(reduction_factor(width, size)))
    assert int(width // factor) == size
    assert factor == pytest.approx(width / size)


@pytest.mark.parametrize(
    ("model_type", "model_class", "place"),
    [
        ("bert", "BertAdapterModel", "bert.encoder.layer.2.attention.output"),
        ("deberta-v2", "DebertaV2AdapterModel", "deberta.encoder.layer.2.attention.output"),
        (
            "distilbert",
            "DistilBertAdapterModel",
            "distilbert.transformer.layer.2.attention_adapters",
        ),
        ("electra", "ElectraAdapterModel", "electra.encoder.layer.2.attention.output"),
        ("roberta", "RobertaAdapterModel", "roberta.encoder.layer.2.attention.output"),
        ("xlm-roberta", "XLMRobertaAdapterModel", "roberta.encoder.layer.2.attention.output"),
    ],
)
def test_each_architecture_has_its_places(
    model_type: str, model_class: str, place: str, tmp_path: Path
) -> None:
    facts = replace(FACTS, model_type=model_type)
    package = task()
    export_adapterhub(package, facts, tmp_path / "hub", name="spam")
    found = load_file(tmp_path / "hub" / "adapter.safetensors")
    ours = package.tensors["layer.2.attention.down.weight"]
    assert found[f"{place}.adapters.spam.adapter_down.0.weight"].equal(ours)
    config = json.loads((tmp_path / "hub" / "adapter_config.json").read_text())
    assert (config["model_class"], config["model_type"]) == (model_class, model_type)
    assert same(bring(tmp_path / "hub", facts)[1], package.tensors)


# --- what is written


def test_the_folder_is_as_adapterhub_writes_it(tmp_path: Path) -> None:
    package = task(replace(FROZEN, layers=(1,), where="output"))
    notes = export(package, tmp_path / "hub", name="spam_2")
    assert sorted(path.name for path in (tmp_path / "hub").iterdir()) == [
        "adapter.safetensors",
        "adapter_config.json",
        "head_config.json",
        "model_head.safetensors",
    ]
    described = {
        "hidden_size": D,
        "model_class": "BertAdapterModel",
        "model_name": "bert-tiny",
        "model_type": "bert",
        "name": "spam_2",
        "version": "adapters.1.3.0",
    }
    assert json.loads((tmp_path / "hub" / "adapter_config.json").read_text()) == described | {
        "config": {
            "adapter_residual_before_ln": False,
            "cross_adapter": False,
            "dropout": 0.0,
            "factorized_phm_W": True,
            "factorized_phm_rule": False,
            "hypercomplex_nonlinearity": "glorot-uniform",
            "init_weights": "bert",
            "init_weights_seed": None,
            "inv_adapter": None,
            "inv_adapter_reduction_factor": None,
            "is_parallel": False,
            "learn_phm": True,
            "leave_out": [0, 2],
            "ln_after": False,
            "ln_before": False,
            "mh_adapter": False,
            "non_linearity": "gelu_new",
            "original_ln_after": True,
            "original_ln_before": False,
            "output_adapter": True,
            "phm_bias": True,
            "phm_c_init": "normal",
            "phm_dim": 4,
            "phm_init_range": 0.0001,
            "phm_layer": False,
            "phm_rank": 1,
            "reduction_factor": D / M,
            "residual_before_ln": True,
            "scaling": 1.0,
            "shared_W_phm": False,
            "shared_phm_rule": True,
            "stochastic_depth": 0.0,
            "use_gating": False,
        }
    }
    assert '"scaling": 1.0' in (tmp_path / "hub" / "adapter_config.json").read_text()
    assert json.loads((tmp_path / "hub" / "head_config.json").read_text()) == described | {
        "config": {
            "activation_function": None,
            "bias": True,
            "dropout_prob": None,
            "head_type": "classification",
            "label2id": {"ham": 0, "spam": 1, "Müll?": 2},
            "layers": 1,
            "num_labels": 3,
            "use_pooler": True,
        }
    }
    assert load_file(tmp_path / "hub" / "adapter.safetensors").keys() == {
        f"bert.encoder.layer.1.output.adapters.spam_2.{part}.{leaf}"
        for part in ("adapter_down.0", "adapter_up")
        for leaf in ("weight", "bias")
    }
    assert load_file(tmp_path / "hub" / "model_head.safetensors").keys() == {
        "heads.spam_2.1.weight",
        "heads.spam_2.1.bias",
    }
    assert notes == [
        "The adapters and the head crossed number for number.",
        "To load it: AutoAdapterModel.from_pretrained(BASE), then "
        "model.load_adapter(FOLDER, use_safetensors=True, set_active=True).",
    ]


def test_a_head_on_the_mean_stays_behind(tmp_path: Path) -> None:
    notes = export(task(pooling="mean"), tmp_path / "hub")
    assert notes[0] == "The adapters crossed number for number."
    assert notes[1].startswith("The head did not cross: AdapterHub's heads read the pooler or the")
    names = sorted(path.name for path in (tmp_path / "hub").iterdir())
    assert names == ["adapter.safetensors", "adapter_config.json"]
    error = refusal(bring, tmp_path / "hub")
    assert error.message == "'hub' has no head (head_config.json), so it cannot answer anything."
    assert "with_head=True" in error.hint


def test_without_its_head_nothing_is_said_of_an_import(tmp_path: Path) -> None:
    package = task(AdapterConfig(size=M), pooling="mean")
    notes = export(package, tmp_path / "hub", layer_norms_beside=True)
    (said,) = [note for note in notes if "LayerNorms" in note]
    assert said.endswith("its answers differ from AdapterBank's.")


def test_notes_name_what_stays_behind(tmp_path: Path) -> None:
    notes = export(task(temperature=1.25), tmp_path / "1")
    assert "The temperature 1.25 stays behind: the same answers, with other probabilities." in notes
    span = task(kind="span", labels=(), metric="f1", threshold=0.5)
    notes = export(span, tmp_path / "2")
    assert any(note.startswith("The threshold 0.5 for giving no answer") for note in notes)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("minilm", "minilm"),
        ("google/bert", "google/bert"),
        ("/home/somebody/models/mine/", "mine"),
        ("./mine", "mine"),
        (r"C:\somebody\mine", "mine"),
    ],
)
def test_the_base_is_named_without_its_place(name: str, kept: str, tmp_path: Path) -> None:
    export_adapterhub(task(), replace(FACTS, name=name), tmp_path / "hub", name="spam")
    for file in ("adapter_config.json", "head_config.json"):
        text = (tmp_path / "hub" / file).read_text()
        assert json.loads(text)["model_name"] == kept
        assert kept in name or "somebody" not in text


# --- what is not exported


def test_trained_layer_norms_are_exported_only_if_asked_for(tmp_path: Path) -> None:
    package = task(AdapterConfig(size=M))
    error = refusal(export, package, tmp_path / "hub")
    assert error.message == (
        "Task 'shop/spam' has trained LayerNorms, which AdapterHub cannot hold."
    )
    assert "train it with frozen LayerNorms (train_layer_norms=False in Python)" in error.hint
    assert "--with-layer-norms" in error.hint
    assert not list(tmp_path.iterdir())
    notes = export(package, tmp_path / "hub", layer_norms_beside=True)
    assert (
        "The trained LayerNorms stand in layer_norms.safetensors, which AdapterHub will not read: "
        "its answers differ from AdapterBank's. An import here takes them up again."
    ) in notes
    norms = load_file(tmp_path / "hub" / "layer_norms.safetensors")
    assert norms.keys() == {name for name in package.tensors if ".norm." in name}
    assert len(norms) == 2 * (2 * LAYERS + 1)
    manifest, _, notes = bring(tmp_path / "hub")
    assert manifest.adapter.train_layer_norms
    assert "The trained LayerNorms came from layer_norms.safetensors." in notes


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"gate": True}, "gate"),
        ({"hidden_layers": 2}, "hidden_layers above 1"),
        ({"norm": "batch"}, "norm = batch"),
    ],
)
def test_variants_that_adapterhub_lacks_are_refused(
    changes: dict[str, Any], what: str, tmp_path: Path
) -> None:
    error = refusal(export, task(replace(FROZEN, **changes)), tmp_path / "hub")
    assert error.message == f"AdapterHub has no adapters with {what}."
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["full", "top-k", "layer-norm", "head"])
def test_other_methods_are_refused(method: Any, tmp_path: Path) -> None:
    package = task(None)
    manifest = replace(package.manifest, method=MethodRecord(method))
    error = refusal(export, replace(package, manifest=manifest), tmp_path / "hub")
    assert error.message == (
        f"Task 'shop/spam' was trained by the method {method}, and AdapterHub holds adapters."
    )


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "../a", "a b", "ä", "type", "keys", "training"])
def test_names_that_adapterhub_cannot_use_are_refused(name: str, tmp_path: Path) -> None:
    error = refusal(export, task(), tmp_path / "hub", name=name)
    assert error.message == f"{name!r} cannot be an adapter's name in AdapterHub."


@pytest.mark.parametrize("model_type", ["albert", "mpnet", "modernbert", "camembert"])
def test_other_architectures_are_refused_both_ways(model_type: str, hub: Path) -> None:
    facts = replace(FACTS, model_type=model_type)
    expected = f"Adapters of {model_type} encoders don't cross to or from AdapterHub."
    out = refusal(export_adapterhub, task(), facts, hub.with_name("new"), name="spam")
    assert out.message == refusal(bring, hub, facts).message == expected
    assert out.hint == "These do: bert, deberta-v2, distilbert, electra, roberta, xlm-roberta."


def test_a_task_of_another_base_is_refused(tmp_path: Path) -> None:
    facts = replace(FACTS, fingerprint="c" * 64, name="other")
    error = refusal(export_adapterhub, task(), facts, tmp_path / "hub", name="spam")
    assert error.message == (
        "Task 'shop/spam' was learnt on bert-tiny (bbbbbbbbbbbb), "
        "and this base is other (cccccccccccc)."
    )


def test_nothing_is_overwritten_and_nothing_left_half(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        error = refusal(export, task(), tmp_path / name)
        assert error.message == f"There is already something called {name!r}."
    error = refusal(export, task(), tmp_path / "no" / "hub")
    assert error.message == "The folder 'hub' could not be written: No such file or directory."

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    error = refusal(export, task(), tmp_path / "hub")
    assert error.message == "The folder 'hub' could not be written: No space left on device."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


# --- settings that come in


def test_what_changes_nothing_is_taken(hub: Path) -> None:
    def make_old(values: dict[str, Any]) -> None:
        config = values["config"]
        for key in [key for key in config if key.startswith("phm") or "ln_" in key]:
            del config[key]
        config |= {"attention_type": "sent-lvl-dynamic", "new_attention_norm": False}
        config |= {"invertible_adapter": None, "architecture": None, "dropout": 0.3}
        values["type"] = "text_task"

    edit(hub / "adapter_config.json", make_old)
    settings(hub, residual_before_ln=False, adapter_residual_before_ln=True, init_weights="mam")
    manifest, tensors, _ = bring(hub)
    assert manifest.adapter == FROZEN
    assert same(tensors, task().tensors)


REFUSED: dict[str, tuple[object, str]] = {
    "original_ln_before": (True, "adapters behind the base's LayerNorm, as seq_bn has them"),
    "original_ln_after": (False, "adapters without the base's LayerNorm behind them"),
    "residual_before_ln": ("post_add", "another skip connection"),
    "ln_after": (True, "a LayerNorm behind the bottleneck"),
    "use_gating": (True, "gates"),
    "inv_adapter": ("nice", "invertible adapters"),
    "invertible_adapter": ({"block_type": "nice"}, "invertible adapters"),
    "cross_adapter": (True, "adapters at cross-attention"),
    "phm_layer": (True, "Compacter's hypercomplex layers"),
    "stochastic_depth": (0.1, "stochastic depth"),
    "scaling": ("learned", "a trained scaling"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_settings_that_compute_something_else_are_refused_by_name(key: str, hub: Path) -> None:
    value, what = REFUSED[key]
    settings(hub, **{key: value})
    error = refusal(bring, hub)
    assert error.message == (
        f"adapter_config.json asks for {what} ({key} is {value!r}), which AdapterBank doesn't have."
    )
    assert error.hint == TRAIN


@pytest.mark.parametrize("method", ["lora", "prefix_tuning", "union", "reft", ["odd"]])
def test_other_methods_that_come_are_refused_by_name(method: object, hub: Path) -> None:
    settings(hub, architecture=method)
    error = refusal(bring, hub)
    assert error.message == (
        f"adapter_config.json describes another method, {method!r}; "
        "AdapterBank holds bottleneck adapters."
    )


UNTRANSLATABLE: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"novelty": 1}, "config has an unknown field, 'novelty'"),
    "activation": (
        {"non_linearity": "mish"},
        "non_linearity is 'mish', and must be one of gelu_new, gelu, relu, tanh, swish, sigmoid, "
        "leakyrelu, linear, gelu_pytorch_tanh, leaky_relu, silu",
    ),
    "no activation": (
        {"non_linearity": None},
        "config.non_linearity is None, and must be a text",
    ),
    "no site": (
        {"mh_adapter": False, "output_adapter": False},
        "it has no adapters: every site or layer is left out",
    ),
    "no layer": ({"leave_out": [0, 1, 2]}, "it has no adapters: every site or layer is left out"),
    "layers": ({"leave_out": [True]}, "config.leave_out[0] is True, and must be a whole number"),
    "scaling": ({"scaling": True}, "config.scaling is True, and must be a number"),
    "flag": ({"mh_adapter": "yes"}, "config.mh_adapter is 'yes', and must be true or false"),
    "factor": (
        {"reduction_factor": "16"},
        "config.reduction_factor is '16', and must be a number",
    ),
    "zero": ({"reduction_factor": 0}, "reduction_factor is 0, too small"),
    "negative": ({"reduction_factor": -2.0}, "reduction_factor is -2.0, too small"),
    "tiny": ({"reduction_factor": 1e-300}, "reduction_factor is 1e-300, too small"),
    "sizes": (
        {"reduction_factor": {"0": 2, "default": 8}},
        "its adapters have sizes 1, 4, and AdapterBank's have one size in all layers",
    ),
    "no default": (
        {"reduction_factor": {"0": 2, "1": 2}},
        "reduction_factor says nothing of layer 2",
    ),
    "a factor of a layer": (
        {"reduction_factor": {"default": None}},
        "config.reduction_factor is None, and must be a number",
    ),
}


@pytest.mark.parametrize("case", UNTRANSLATABLE)
def test_settings_that_cannot_be_translated(case: str, hub: Path) -> None:
    changes, problem = UNTRANSLATABLE[case]
    settings(hub, **changes)
    error = refusal(bring, hub)
    assert error.message == f"adapter_config.json cannot be translated: {problem}."


def test_numbers_without_end_are_refused(hub: Path) -> None:
    file = hub / "adapter_config.json"
    text = file.read_text()
    for number, problem in (
        ("1e999", "config.scaling is inf, and must be a number"),
        ("NaN", "NaN is not a number"),
    ):
        file.write_text(text.replace('"scaling": 1.0', f'"scaling": {number}'))
        assert problem in refusal(bring, hub).message


@pytest.mark.parametrize(
    "factor", [2, 2.0, {"default": 2}, {"0": 2, "1": 2.4, "2": 2, "9": 7}, {"1": 1.7, "default": 2}]
)
def test_reduction_factors_of_every_form(factor: Any, tmp_path: Path) -> None:
    package = task(replace(FROZEN, size=4))
    export(package, tmp_path / "hub")
    settings(tmp_path / "hub", reduction_factor=factor)
    if factor == {"0": 2, "1": 2.4, "2": 2, "9": 7}:  # 8 // 2.4 is 3
        assert "sizes 3, 4" in refusal(bring, tmp_path / "hub").message
    else:
        assert bring(tmp_path / "hub")[0].adapter.size == 4


def test_a_factor_above_the_width_means_size_1(tmp_path: Path) -> None:
    export(task(replace(FROZEN, size=1)), tmp_path / "hub")
    settings(tmp_path / "hub", reduction_factor=1000)
    assert bring(tmp_path / "hub")[0].adapter.size == 1


@pytest.mark.parametrize(
    ("said", "versioned", "meant"),
    [
        ("gelu", True, "gelu"),
        ("gelu", False, "gelu_tanh"),
        ("gelu_orig", False, "gelu"),
        ("gelu_new", False, "gelu_tanh"),
        ("ReLU", True, "relu"),
        ("silu", True, "swish"),
        ("leaky_relu", True, "leaky_relu"),
        ("gelu_pytorch_tanh", True, "gelu_tanh"),
    ],
)
def test_activations_and_what_they_meant(said: str, versioned: bool, meant: str, hub: Path) -> None:
    settings(hub, non_linearity=said)
    if not versioned:
        edit(hub / "adapter_config.json", lambda values: values.pop("version"))
    assert bring(hub)[0].adapter.activation == meant


def test_every_activation_crosses() -> None:
    assert TO_HUB.keys() == set(get_args(Activation))


@pytest.mark.parametrize("scaling", [2.0, 0.3, 4, -1.0])
def test_a_scaling_becomes_part_of_the_weights(scaling: float, hub: Path) -> None:
    settings(hub, scaling=scaling)
    _, tensors, notes = bring(hub)
    for name, tensor in task().tensors.items():
        assert tensors[name].equal(tensor * scaling if ".up." in name else tensor), name
    assert notes[0] == (
        f"The head crossed number for number; the adapters' scaling of {scaling:.4g} was "
        "multiplied into their upper projection, which computes the same up to rounding."
    )


def test_a_scaling_that_overflows_is_refused(hub: Path) -> None:
    settings(hub, scaling=1e39)
    assert refusal(bring, hub).message == (
        "The folder cannot become a task: it has values that are not finite once they are scaled."
    )


def test_parallel_adapters_leave_the_norm_before_unread(tmp_path: Path) -> None:
    package = task(replace(FROZEN, insertion="parallel"))
    export(package, tmp_path / "hub")
    settings(tmp_path / "hub", original_ln_before=True)
    manifest, tensors, _ = bring(tmp_path / "hub")
    assert manifest.adapter.insertion == "parallel"
    assert same(tensors, package.tensors)


# --- the base, the name, the head


@pytest.mark.parametrize("file", ["adapter_config.json", "head_config.json"])
def test_another_kind_of_base_is_refused_with_both(file: str, hub: Path) -> None:
    edit(hub / file, lambda values: values.update(hidden_size=768))
    assert refusal(bring, hub).message == (
        f"{file} is for a base with hidden_size 768, and bert-tiny has 8."
    )
    edit(hub / file, lambda values: values.update(model_type="roberta"))
    assert refusal(bring, hub).message == (
        f"{file} is for a base with model_type 'roberta', and bert-tiny has 'bert'."
    )
    edit(hub / file, lambda values: values.pop("model_type"))
    assert "model_type None" in refusal(bring, hub).message


@pytest.mark.parametrize(
    "name", ["", "../../etc", "a.b", "a/b", "a\\b", "a\nb", None, 7, "x" * 201]
)
@pytest.mark.parametrize("file", ["adapter_config.json", "head_config.json"])
def test_names_with_dots_or_slashes_are_refused(name: object, file: str, hub: Path) -> None:
    edit(hub / file, lambda values: values.update(name=name))
    error = refusal(bring, hub)
    assert error.message.startswith(f"{file} gives the name ")
    assert error.message.endswith(", and names hold no dots and no slashes.")
    assert len(error.message) < 250


def test_a_head_may_have_another_name(hub: Path) -> None:
    edit(hub / "head_config.json", lambda values: values.update(name="other"))
    file = hub / "model_head.safetensors"
    assert "which the settings don't account for" in refusal(bring, hub).message
    save_file({n.replace("spam", "other"): t for n, t in load_file(file).items()}, file)
    assert same(bring(hub)[1], task().tensors)


def test_tasks_names_are_checked(hub: Path) -> None:
    with pytest.raises(ConfigError, match="is not a task's name"):
        bring(hub, task="../spam")
    assert bring(hub, task="default/spam")[0].task == "spam"


def test_a_peft_folder_is_named(hub: Path) -> None:
    (hub / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    assert refusal(bring, hub).message == (
        "adapter_config.json describes an adapter of PEFT, 'LORA'."
    )


def test_a_fixed_head_is_refused_with_the_way_out(hub: Path) -> None:
    edit(
        hub / "head_config.json",
        lambda v: v.update(config=None, name=None, model_class="BertForSequenceClassification"),
    )
    error = refusal(bring, hub)
    assert error.message == (
        "head_config.json describes the fixed head of 'BertForSequenceClassification'."
    )
    assert "AutoAdapterModel" in error.hint


def test_settings_must_be_there(hub: Path) -> None:
    edit(hub / "adapter_config.json", lambda values: values.update(config="houlsby"))
    assert refusal(bring, hub).message == (
        "adapter_config.json has 'houlsby' in place of settings."
    )


@pytest.mark.parametrize("kind", ["tagging", "multiple_choice", "causal_lm", None])
def test_other_heads_are_refused_by_name(kind: object, hub: Path) -> None:
    head(hub, head_type=kind)
    assert refusal(bring, hub).message == (
        f"head_config.json describes a head of type {kind!r}; these cross: classification, "
        "multilabel_classification, question_answering."
    )


def test_a_head_of_two_layers_is_refused_by_name(hub: Path) -> None:
    head(hub, layers=2, activation_function="tanh")
    error = refusal(bring, hub)
    assert error.message == (
        "head_config.json describes a head of 2 layers, and AdapterBank's heads have one."
    )
    assert "layers=1 and activation_function=None" in error.hint


WRONG_HEADS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"novelty": 1}, "config has an unknown field, 'novelty'"),
    "too few labels": (
        {"label2id": {"a": 0, "b": 1}},
        "label2id doesn't give each of the 3 outputs one label",
    ),
    "one number twice": (
        {"label2id": {"a": 0, "b": 1, "c": 1}},
        "label2id doesn't give each of the 3 outputs one label",
    ),
    "a hole": (
        {"label2id": {"a": 0, "b": 1, "c": 3}},
        "label2id doesn't give each of the 3 outputs one label",
    ),
    "text": (
        {"label2id": {"a": "0", "b": 1, "c": 2}},
        "config.label2id.a is '0', and must be a whole number",
    ),
    "endless labels": (
        {"label2id": None, "num_labels": 10**12},
        "num_labels is 1000000000000, and may be 10,000 at most",
    ),
    "span": (
        {"head_type": "question_answering"},
        "a question_answering head has 2 outputs, not 3",
    ),
    "pooler": ({"use_pooler": "no"}, "config.use_pooler is 'no', and must be true or false"),
}


@pytest.mark.parametrize("case", WRONG_HEADS)
def test_heads_that_cannot_be_translated(case: str, hub: Path) -> None:
    changes, problem = WRONG_HEADS[case]
    head(hub, **changes)
    assert refusal(bring, hub).message == f"head_config.json cannot be translated: {problem}."


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (("", "b", "c"), "a label is empty or longer than 512 characters"),
        (("x" * 513, "b", "c"), "a label is empty or longer than 512 characters"),
    ],
)
def test_labels_satisfy_the_manifest(labels: Any, problem: str, hub: Path) -> None:
    head(hub, label2id={label: i for i, label in enumerate(labels)})
    assert refusal(bring, hub).message == f"The folder cannot become a task: {problem}."


def test_labels_go_by_their_numbers_and_are_not_trusted(hub: Path) -> None:
    head(hub, label2id={"c": 2, "a": 0, "b": 1})
    manifest, _, notes = bring(hub)
    assert manifest.labels == ("a", "b", "c")
    assert (
        "The labels are those of head_config.json. Maps of labels are often wrong: score labelled "
        "rows with `adapterbank evaluate spam --data FILE` before relying on them."
    ) in notes
    head(hub, label2id=None)
    manifest, _, notes = bring(hub)
    assert manifest.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert any(note.startswith("The labels are made up, as none came with the") for note in notes)


def test_notes_of_an_import(hub: Path) -> None:
    edit(hub / "adapter_config.json", lambda values: values.update(model_name="bert-base-cased"))
    (hub / "pytorch_adapter.bin").write_bytes(b"anything")
    assert bring(hub)[2] == [
        "The adapters and the head crossed number for number.",
        "pytorch_adapter.bin was not looked at: loading such a file can run code.",
        "It says that it was trained on 'bert-base-cased' and now stands on bert-tiny: AdapterHub "
        "keeps no digest of a base, so this was not checked.",
        "The labels are those of head_config.json. Maps of labels are often wrong: score labelled "
        "rows with `adapterbank evaluate spam --data FILE` before relying on them.",
        "AdapterHub doesn't say what it reads: here that is single texts of up to 64 tokens.",
    ]
    edit(hub / "adapter_config.json", lambda values: values.update(model_name=""))
    manifest, _, notes = bring(hub, pair=True)
    assert manifest.pair
    assert notes[2].startswith("It says that it was trained on some base and now stands on")
    assert "pairs of texts of up to 64 tokens" in notes[-1]


def test_a_head_on_the_pooler_needs_one(hub: Path) -> None:
    facts = replace(FACTS, has_pooler=False)
    error = refusal(bring, hub, facts)
    assert error.message == (
        "This head reads the base's pooler, and bert-tiny has none that was trained."
    )
    head(hub, use_pooler=False)
    assert bring(hub, facts)[0].pooling == "first"
    edit(hub / "head_config.json", lambda values: values["config"].pop("use_pooler"))
    assert bring(hub)[0].pooling == "first"


def test_a_head_without_bias_has_one_of_zeros(hub: Path) -> None:
    head(hub, bias=False)
    file = hub / "model_head.safetensors"
    assert "'heads.spam.1.bias', which the settings" in refusal(bring, hub).message
    tensors_of(file, lambda tensors: tensors.pop("heads.spam.1.bias"))
    assert bring(hub)[1]["head.bias"].tolist() == [0.0, 0.0, 0.0]
    head(hub, bias=True)
    assert refusal(bring, hub).message == (
        "model_head.safetensors lacks what AdapterBank calls head.bias."
    )


# --- tensors that come in


def test_old_names_and_missing_prefixes_are_known(hub: Path) -> None:
    file = hub / "adapter.safetensors"
    old = {
        name.removeprefix("bert.")
        .replace("attention.output.adapters", "attention.output.attention_text_lang_adapters")
        .replace(".output.adapters", ".output.layer_text_task_adapters"): tensor
        for name, tensor in load_file(file).items()
    }
    assert "encoder.layer.0.output.layer_text_task_adapters.spam.adapter_up.bias" in old
    save_file(old, file, {"format": "pt"})
    assert same(bring(hub)[1], task().tensors)


def test_half_precision_is_widened(hub: Path) -> None:
    for name in ("adapter.safetensors", "model_head.safetensors"):
        save_file({n: t.half() for n, t in load_file(hub / name).items()}, hub / name)
    assert same(bring(hub)[1], {n: t.half().float() for n, t in task().tensors.items()})


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64, torch.int8])
def test_other_numbers_are_refused(kind: torch.dtype, hub: Path) -> None:
    file = hub / "adapter.safetensors"
    tensors_of(file, lambda tensors: tensors.update({DOWN: tensors[DOWN].to(kind)}))
    names = {torch.bfloat16: "BF16", torch.float64: "F64", torch.int8: "I8"}
    assert refusal(bring, hub).message == (
        f"adapter.safetensors has numbers of type {names[kind]!r}, not F32 or F16."
    )


def test_mixed_precision_is_refused(hub: Path) -> None:
    file = hub / "adapter.safetensors"
    tensors_of(file, lambda tensors: tensors.update({DOWN: tensors[DOWN].half()}))
    assert "something other than a tensor of F16 numbers" in refusal(bring, hub).message


WRONG_TENSORS: dict[str, tuple[Callable[[dict[str, Tensor]], object], str]] = {
    "extra": (
        lambda t: t.update({"bert.pooler.dense.weight": torch.ones(D, D)}),
        "holds 'bert.pooler.dense.weight', which the settings don't account for",
    ),
    "another adapter": (
        lambda t: t.update({DOWN.replace("spam", "spam2"): torch.ones(M, D)}),
        f"holds {DOWN.replace('spam', 'spam2')!r}, which the settings don't account for",
    ),
    "layer too many": (
        lambda t: t.update({DOWN.replace("layer.0", "layer.3"): torch.ones(M, D)}),
        f"holds {DOWN.replace('layer.0', 'layer.3')!r}, which the settings don't account for",
    ),
    "leading zero": (
        lambda t: t.update({DOWN.replace("layer.0", "layer.00"): torch.ones(M, D)}),
        f"holds {DOWN.replace('layer.0', 'layer.00')!r}, which the settings don't account for",
    ),
    "upwards": (
        lambda t: t.update({"../" + DOWN: torch.ones(M, D)}),
        f"holds {'../' + DOWN!r}, which the settings don't account for",
    ),
    "missing": (
        lambda t: t.pop(DOWN),
        "lacks what AdapterBank calls layer.0.attention.down.weight",
    ),
    "shape": (
        lambda t: t.update({DOWN: torch.ones(D, M)}),
        f"holds {DOWN!r} with shape [8, 3], not [3, 8]",
    ),
    "NaN": (
        lambda t: t[DOWN].fill_(float("nan")),
        f"holds {DOWN!r} with values that are not finite",
    ),
    "infinity": (
        lambda t: t[DOWN].fill_(float("-inf")),
        f"holds {DOWN!r} with values that are not finite",
    ),
    "twice": (
        lambda t: t.update({DOWN.removeprefix("bert."): t[DOWN] + 1}),
        f"holds {DOWN.removeprefix('bert.')!r} twice, with different values",
    ),
}


@pytest.mark.parametrize("case", WRONG_TENSORS)
def test_wrong_tensors_are_refused(case: str, hub: Path) -> None:
    change, problem = WRONG_TENSORS[case]
    tensors_of(hub / "adapter.safetensors", change)
    message = refusal(bring, hub).message
    if case == "twice":  # in either order
        message = message.replace(repr(DOWN), repr(DOWN.removeprefix("bert.")))
    assert message == f"adapter.safetensors {problem}."


def test_the_two_names_of_an_own_norm_must_agree(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    package = task(replace(FROZEN, norm="layer"))
    export(package, hub)
    file = hub / "adapter.safetensors"
    one = "bert.encoder.layer.1.output.adapters.spam.adapter_norm_before.weight"
    other = one.replace("adapter_norm_before", "adapter_down.0")
    assert load_file(file)[one].equal(load_file(file)[other])
    tensors_of(file, lambda tensors: tensors.pop(one))
    assert same(bring(hub)[1], package.tensors)
    tensors_of(file, lambda tensors: tensors.update({one: tensors[other] * 2}))
    assert "twice, with different values" in refusal(bring, hub).message


WRONG_NORMS: dict[str, tuple[Callable[[dict[str, Tensor]], object], str]] = {
    "missing": (
        lambda t: t.pop("layer.1.output.norm.bias"),
        "The folder cannot become a task: it lacks 'layer.1.output.norm.bias'.",
    ),
    "top missing": (
        lambda t: [t.pop(name) for name in list(t) if name.startswith("layer.2.")],
        "The folder cannot become a task: it has LayerNorms up to layer 1, not 2.",
    ),
    "an adapter": (
        lambda t: t.update({"layer.0.attention.down.weight": torch.ones(M, D)}),
        "layer_norms.safetensors holds 'layer.0.attention.down.weight', "
        "which is not of a LayerNorm.",
    ),
    "head": (
        lambda t: t.update({"head.bias": torch.ones(3)}),
        "layer_norms.safetensors holds 'head.bias', which is not of a LayerNorm.",
    ),
    "long": (
        lambda t: t.update({"embeddings.norm.bias": torch.ones(2**16 + 1)}),
        "layer_norms.safetensors holds 'embeddings.norm.bias' with shape [65537].",
    ),
    "matrix": (
        lambda t: t.update({"embeddings.norm.bias": torch.ones(2, 2)}),
        "layer_norms.safetensors holds 'embeddings.norm.bias' with shape [2, 2].",
    ),
    "shape": (
        lambda t: t.update({"layer.0.output.norm.bias": torch.ones(D + 1)}),
        "The folder cannot become a task: it holds 'layer.0.output.norm.bias' with shape [9], "
        "not [8].",
    ),
    "layer too many": (
        lambda t: t.update(
            {
                f"layer.3.{s}.norm.{x}": torch.ones(D)
                for s in ("attention", "output")
                for x in ("weight", "bias")
            }
        ),
        "The folder cannot become a task: it has LayerNorms up to layer 3, not 2.",
    ),
}


@pytest.mark.parametrize("case", WRONG_NORMS)
def test_wrong_layer_norms_are_refused(case: str, tmp_path: Path) -> None:
    change, message = WRONG_NORMS[case]
    export(task(AdapterConfig(size=M, layers=(0, 1))), tmp_path / "hub", layer_norms_beside=True)
    assert bring(tmp_path / "hub")[0].adapter.train_layer_norms
    tensors_of(tmp_path / "hub" / "layer_norms.safetensors", change)
    assert refusal(bring, tmp_path / "hub").message == message


# --- hostile files


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ("adapter.safetensors", "pytorch_adapter.bin"),
        ("model_head.safetensors", "pytorch_model_head.bin"),
    ],
)
def test_pickles_are_refused_with_the_way_out(gone: str, left: str, hub: Path) -> None:
    (hub / gone).rename(hub / left)
    error = refusal(bring, hub)
    assert error.message == (f"'hub' holds {left}, which can run code when loaded, and no {gone}.")
    assert "model.save_adapter(folder, name, use_safetensors=True)" in error.hint
    (hub / left).unlink()
    assert (
        refusal(bring, hub).message == f"'hub' is not a whole AdapterHub folder: it has no {gone}."
    )


def test_other_folders_are_refused(tmp_path: Path) -> None:
    assert refusal(bring, tmp_path).message.endswith(
        "is not a whole AdapterHub folder: it has no adapter_config.json."
    )
    refusal(bring, tmp_path / "nothing")
    (tmp_path / "file").touch()
    assert "cannot be read: Not a directory" in refusal(bring, tmp_path / "file").message


FILES = ["adapter_config.json", "adapter.safetensors", "head_config.json", "model_head.safetensors"]


@pytest.mark.parametrize("name", FILES)
def test_links_folders_and_pipes_are_refused(name: str, hub: Path) -> None:
    file = hub / name
    aside = file.rename(hub.parent / "aside")
    file.symlink_to(aside)
    error = refusal(bring, hub)
    assert error.message.startswith(f"{name} of 'hub' cannot be read: Too many levels of symbolic")
    assert "`cp -rL`" in error.hint
    file.unlink()
    os.mkfifo(file)
    assert refusal(bring, hub).message == f"{name} of 'hub' cannot be read: it is not a file."
    file.unlink()
    file.mkdir()
    assert f"{name} of 'hub' cannot be read" in refusal(bring, hub).message


@pytest.mark.parametrize("name", ["adapter_config.json", "head_config.json"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "Expecting value"),
        (b"[]", "it is not an object"),
        (b'{"a": 1, "a": 2}', "a field stands there twice"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"\xff", "can't decode byte"),
        (b'{"x": "' + b"a" * 10**6 + b'"}', "it is longer than 1,000,000 bytes"),
    ],
)
def test_broken_descriptions_are_refused(
    name: str, content: bytes, problem: str, hub: Path
) -> None:
    (hub / name).write_bytes(content)
    message = refusal(bring, hub).message
    assert message.startswith(f"{name} cannot be read: ")
    assert problem in message
    assert len(message) < 200


def header(text: str, data: bytes = b"") -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(shape: Any, begin: int, end: int, kind: str = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("name", ["adapter.safetensors", "model_head.safetensors"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "has a header of 0 bytes"),
        (b"\x01", "has a header of 1 bytes"),
        (struct.pack("<Q", 2**63), "has a header of 9,223,372,036,854,775,808 bytes"),
        (struct.pack("<Q", 50_000_000) + b"{}", "has a header of 50,000,000 bytes"),
        (header("{"), "has a header that cannot be read"),
        (header("[]"), "has a header that is no list of tensors"),
        (header("[" * 100_000), "has a header that cannot be read: it is nested too deeply"),
        (header('{"a": {}, "a": {}}'), "a field stands there twice"),
        (header('{"a": 1}'), "describes 'a' as something other than a tensor of F32 numbers"),
        (header('{"a": {"dtype": ["F32"]}}'), "has numbers of type"),
        (
            header(json.dumps({"a": entry([10**12], 0, 4 * 10**12)})),
            "has 0 bytes of values where its header says 4,000,000,000,000",
        ),
        (header(json.dumps({"a": entry([2**62, 4], 0, 0)})), "something other than a tensor"),
        (
            header(json.dumps({"a": entry([1], 4, 8)}), b"12345678"),
            "a gap or an overlap before 'a'",
        ),
        (header(json.dumps({"a": entry([1], 0, 4)}), b"12345678"), "8 bytes of values where"),
        (header(json.dumps({"a": entry([1], 0, 4)}), b"1234"), "holds 'a', which the settings"),
        (header(json.dumps({"a" * 5000: entry([1], 0, 4)}), b"1234"), "aaa..., which the settings"),
    ],
)
def test_hostile_tensor_files_are_refused(
    name: str, content: bytes, problem: str, hub: Path
) -> None:
    (hub / name).write_bytes(content)
    message = refusal(bring, hub).message
    assert message.startswith(f"{name} ")
    assert problem in message
    assert "weights.safetensors" not in message
    assert len(message) < 300


def test_a_vast_sparse_file_is_refused_before_it_is_read(hub: Path) -> None:
    size = 2**40
    with (hub / "adapter.safetensors").open("wb") as file:
        file.write(header(json.dumps({DOWN: entry([size // 4], 0, size)})))
        start = file.tell()
        file.truncate(start + size)
    assert refusal(bring, hub).message == (
        f"adapter.safetensors holds {DOWN!r} with shape [{size // 4}], not [3, 8]."
    )


@pytest.mark.parametrize("name", FILES)
def test_a_cut_file_is_never_taken(name: str, hub: Path) -> None:
    whole = (hub / name).read_bytes()
    for length in (*range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 1):
        (hub / name).write_bytes(whole[:length])
        refusal(bring, hub)
