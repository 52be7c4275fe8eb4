"""AdapterHub folders against the `adapters` package itself: the same logits on both sides."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from adapterbank.model.config import Activation, AdapterConfig
from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.store.adapterhub import BaseFacts, export_adapterhub, import_adapterhub
from adapterbank.store.manifest import (
    BaseRecord,
    DataRecord,
    Manifest,
    MethodRecord,
    ParameterRecord,
)
from adapterbank.store.package import Package, as_arrays
from tiny import padded, rows, save_base

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("adapterhub_folders.py")
ROWS = rows([7, 12, 3, 30])
TOLERANCE = 1e-5


SERIAL = AdapterConfig(size=7, train_layer_norms=False)


@dataclass(frozen=True)
class Case:
    """An adapter and a head on a tiny base."""

    base: str = "bert"
    pooling: Any = "pooler"
    kind: Any = "classification"
    labels: tuple[str, ...] = ("no", "yes", "perhaps")
    adapter: AdapterConfig = SERIAL


EXPORTED = {
    "bert": Case(),
    "roberta": Case("roberta", labels=("a", "b")),
    "xlm-roberta": Case("xlm-roberta"),
    "distilbert": Case("distilbert", "first"),
    "electra": Case("electra", "first"),
    "deberta-v2": Case("deberta-v2", "first"),
    "first token": Case(pooling="first"),
    "multi-label": Case(kind="multi-label", labels=("only",)),
    "regression": Case(kind="regression", labels=()),
    "span": Case(pooling="mean", kind="span", labels=()),
    "some layers": Case(adapter=replace(SERIAL, layers=(1, 3), where="attention")),
    "output alone": Case(adapter=replace(SERIAL, where="output", size=40)),
    "parallel": Case(adapter=replace(SERIAL, insertion="parallel")),
    "parallel distilbert": Case(
        "distilbert", "first", adapter=replace(SERIAL, insertion="parallel")
    ),
    "own norm": Case(adapter=replace(SERIAL, norm="layer")),
    "own norm, parallel": Case(adapter=replace(SERIAL, norm="layer", insertion="parallel")),
    **{name: Case(adapter=replace(SERIAL, activation=name)) for name in get_args(Activation)},
}

CLASSES = {"head_type": "classification", "layers": 1, "activation_function": None}
POOLED = CLASSES | {"num_labels": 3, "use_pooler": True, "label2id": {"a": 1, "b": 2, "c": 0}}
IMPORTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "houlsby": ("bert", {}, POOLED),
    "first token": ("roberta", {}, CLASSES | {"num_labels": 2}),
    "distilbert": ("distilbert", {"non_linearity": "gelu"}, CLASSES | {"num_labels": 2}),
    "scaled": ("bert", {"scaling": 3.7}, POOLED),
    "parallel": ("bert", {"is_parallel": True, "scaling": 4.0, "mh_adapter": False}, POOLED),
    "left out": ("bert", {"leave_out": [0, 2]}, POOLED),
    "factors by layer": ("bert", {"reduction_factor": {"1": 4, "default": 3.6}}, POOLED),
    "own norm": ("bert", {"ln_before": True}, POOLED),
    "residuals that change nothing": (
        "bert",
        {"residual_before_ln": False, "adapter_residual_before_ln": True, "dropout": 0.5},
        POOLED,
    ),
    "no bias": ("bert", {}, POOLED | {"bias": False}),
    "an activation that is not used": ("bert", {}, POOLED | {"activation_function": "tanh"}),
    "multi-label": ("bert", {}, POOLED | {"head_type": "multilabel_classification"}),
    "regression": ("bert", {}, CLASSES | {"num_labels": 1, "use_pooler": True}),
    "span": ("bert", {}, {"head_type": "question_answering", "num_labels": 2, "layers": 1}),
    "old": ("bert", {"non_linearity": "gelu"}, POOLED),
}


def facts_of(encoder: Encoder) -> BaseFacts:
    return BaseFacts(
        encoder.name,
        encoder.fingerprint,
        str(encoder.model.config.model_type),
        encoder.width,
        encoder.layers,
        encoder.pooling,
        encoder.max_length,
        encoder.has_pooler,
        1,
        1,
    )


def put_base(folder: Path, name: str, pooling: Any = None) -> Encoder:
    encoder = load_encoder(str(save_base(folder / "base", name)), pooling=pooling)
    save_file(padded(encoder.model, ROWS), folder / "batch.safetensors")
    return encoder


def logits_of(encoder: Encoder, manifest: Manifest, tensors: Mapping[str, Tensor]) -> Tensor:
    assert manifest.adapter is not None
    method = Method("adapters", manifest.adapter)
    with TaskModel(encoder, manifest.kind, max(1, len(manifest.labels)), method) as model:
        model.load_tensors(tensors)
        return torch.from_numpy(model.logits(ROWS))


def compare(folder: Path, kind: str, ours: Tensor, bare: Tensor) -> None:
    theirs = load_file(folder / "outputs.safetensors")["logits"]
    if kind == "span":
        mask = load_file(folder / "batch.safetensors")["attention_mask"].bool()
        theirs = theirs[mask]
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() < TOLERANCE
    assert (ours - bare).abs().max().item() > 0.05  # the adapters do something


def without_adapters(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.new_zeros(t.shape) if ".up." in name else t for name, t in tensors.items()}


def run(python: Path, folders: list[Path]) -> None:
    done = subprocess.run([python, SCRIPT, *folders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


# --- ours in AdapterHub


def export(case: Case, folder: Path) -> tuple[Tensor, Tensor]:
    folder.mkdir()
    encoder = put_base(folder, case.base, case.pooling)
    labels = max(1, len(case.labels))
    with TaskModel(encoder, case.kind, labels, Method("adapters", case.adapter)) as model:
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in model.trained().values():
                parameter.normal_(std=0.3)
        tensors = {name: tensor.clone() for name, tensor in model.tensors().items()}
    manifest = Manifest(
        task="spam",
        created="2026-01-31T12:00:00Z",
        kind=case.kind,
        labels=case.labels,
        pair=False,
        metric="accuracy",
        dev={},
        method=MethodRecord("adapters"),
        adapter=case.adapter,
        pooling=case.pooling,
        max_length=64,
        recipe={},
        data=DataRecord({}, ""),
        base=BaseRecord(encoder.name, encoder.fingerprint),
        parameters=ParameterRecord(1, 1.0, 1.0),
    )
    export_adapterhub(
        Package(manifest, as_arrays(tensors)), facts_of(encoder), folder / "hub", name="spam-1"
    )
    return (
        logits_of(encoder, manifest, tensors),
        logits_of(encoder, manifest, without_adapters(tensors)),
    )


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory, peers_python: Path
) -> dict[str, tuple[Path, Tensor, Tensor]]:
    root = tmp_path_factory.mktemp("exported")
    made = {}
    for number, (name, case) in enumerate(EXPORTED.items()):
        folder = root / str(number)
        made[name] = (folder, *export(case, folder))
    run(peers_python, [folder for folder, _, _ in made.values()])
    return made


@pytest.mark.parametrize("name", EXPORTED)
def test_adapterhub_gives_our_logits(name: str, exported: Any) -> None:
    folder, ours, bare = exported[name]
    compare(folder, EXPORTED[name].kind, ours, bare)


# --- AdapterHub's here


@pytest.fixture(scope="module")
def imported(
    tmp_path_factory: pytest.TempPathFactory, peers_python: Path
) -> dict[str, tuple[Path, Encoder]]:
    root = tmp_path_factory.mktemp("imported")
    made = {}
    for number, (name, (base, adapter, head)) in enumerate(IMPORTED.items()):
        folder = root / str(number)
        folder.mkdir()
        made[name] = (folder, put_base(folder, base))
        wanted = {"adapter": adapter, "head": head, "old": name == "old"}
        (folder / "wanted.json").write_text(json.dumps(wanted))
    run(peers_python, [folder for folder, _ in made.values()])
    return made


@pytest.mark.parametrize("name", IMPORTED)
def test_we_give_adapterhubs_logits(name: str, imported: Any) -> None:
    folder, encoder = imported[name]
    manifest, tensors, _ = import_adapterhub(folder / "hub", facts_of(encoder), task="spam")
    encoder = encoder.pooled(manifest.pooling)
    ours = logits_of(encoder, manifest, tensors)
    bare = logits_of(encoder, manifest, without_adapters(tensors))
    compare(folder, manifest.kind, ours, bare)
    if name == "old":  # in early versions, the word meant the other form
        assert manifest.adapter.activation == "gelu_tanh"
    if "label2id" in IMPORTED[name][2]:
        assert manifest.labels == ("c", "a", "b")
