"""Exports: of every architecture that has a graph, kept, checked, made again when damaged."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from adapterbank.errors import UnsupportedBase
from adapterbank.model.encoder import load_encoder
from adapterbank.serving.engine import open_engine
from adapterbank.serving.export import export_folder, find_export, make_export
from adapterbank.serving.graph import build_graph
from adapterbank.serving.graph_builder import LINEARS
from adapterbank.serving.passes import Passes, Rehearsal
from adapterbank.serving.predictor import Predictor
from serving.conftest import MEMORY, make_store
from serving.tasks import random_task
from tiny import ARCHITECTURES, save_base

TEXTS = ["the film was good", "a bad meal it was", "awful"]


@pytest.fixture(scope="module")
def base_of(tmp_path_factory):
    made = {}

    def load(name):
        if name not in made:
            made[name] = load_encoder(str(save_base(tmp_path_factory.mktemp(name), name)))
        return made[name]

    return load


@pytest.mark.parametrize("name", sorted(LINEARS))
def test_the_graph_gives_what_torch_gives(base_of, name) -> None:
    encoder = base_of(name)
    passes = Passes(encoder.fingerprint, lambda: encoder, memory=MEMORY)
    assert passes.onnx is not None
    assert Rehearsal(passes.onnx.export).difference(passes.onnx, passes.torch) < 1e-4


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_base_is_served(base_of, name, tmp_path) -> None:
    """Two tasks in one call, whichever way the base goes."""
    encoder = base_of(name)
    store = make_store(tmp_path / "bank", encoder, {"one": {}, "two": {"size": 3, "layers": (1,)}})
    engine = open_engine(store, lambda: encoder)
    found = engine.answer([(task, text) for text in TEXTS for task in ("one", "two")])
    for i, task in enumerate(("one", "two")):
        with Predictor(encoder, store.load(store.find(task))) as predictor:
            expected = predictor.answer(TEXTS)
        for mine, other in zip(found[i::2], expected, strict=True):
            np.testing.assert_allclose(
                list(mine.probabilities.values()), list(other.probabilities.values()), atol=1e-4
            )


def test_an_unknown_architecture_is_refused_by_name(base_of) -> None:
    with pytest.raises(UnsupportedBase, match="'modernbert' has no ONNX graph"):
        build_graph(base_of("modernbert"))


def test_an_export_is_made_once(encoder, engine_on, store, monkeypatch) -> None:
    engine_on(store).answer([("plain", TEXTS[0])])

    def never(*_):
        raise AssertionError("it was there")

    monkeypatch.setattr("adapterbank.serving.passes.make_export", never)
    passes = Passes(encoder.fingerprint, never, memory=MEMORY)
    assert passes.onnx is not None
    assert (
        passes.tokenizer(["the film"])["input_ids"] == encoder.tokenizer(["the film"])["input_ids"]
    )


@pytest.mark.parametrize(
    "file", ["graph.onnx", "weights.bin", "tokenizer.json", "own.safetensors", "base.json"]
)
def test_a_damaged_export_is_not_used(encoder, engine_on, store, file) -> None:
    engine_on(store).answer([("plain", TEXTS[0])])
    path = export_folder(encoder.fingerprint) / file
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    assert find_export(encoder.fingerprint) is None
    assert engine_on(store).answer([("plain", TEXTS[0])])[0].error is None
    assert find_export(encoder.fingerprint) is not None


def test_of_two_that_make_an_export_at_once_the_first_stays(encoder, tmp_path, monkeypatch) -> None:
    """Whoever was quicker uses it already."""
    monkeypatch.setenv("ADAPTERBANK_CACHE", str(tmp_path))
    folder = export_folder(encoder.fingerprint)
    kept = []

    def another_is_quicker(_):
        make_export(encoder, lambda _: True)
        kept.append(folder.stat().st_ino)
        return True

    assert make_export(encoder, another_is_quicker).folder == folder
    assert [folder.stat().st_ino] == kept
    (folder / "graph.onnx").write_bytes(b"")
    make_export(encoder, lambda _: True)
    assert find_export(encoder.fingerprint) is not None
    assert list(folder.parent.iterdir()) == [folder]


def test_without_a_place_for_the_export_torch_answers(
    encoder, engine_on, store, monkeypatch
) -> None:
    monkeypatch.setenv("ADAPTERBANK_CACHE", "/proc/nowhere")
    engine = engine_on(store)
    assert engine.passes.onnx is None
    assert engine.answer([("plain", "the film was good")])[0].error is None


def test_a_tokenizer_in_python_has_no_export(encoder) -> None:
    with pytest.raises(UnsupportedBase, match="tokenizer"):
        make_export(replace(encoder, tokenizer=object()), lambda _: True)


def test_an_export_that_disagrees_with_torch_is_not_kept(base_of, monkeypatch) -> None:
    encoder = base_of("electra")
    folder = export_folder(encoder.fingerprint)
    if folder.exists():
        folder.rename(folder.with_name("aside"))
    monkeypatch.setattr("adapterbank.serving.passes.TOLERANCE", 0.0)
    passes = Passes(encoder.fingerprint, lambda: encoder, memory=MEMORY)
    assert passes.onnx is None
    assert passes.bare is passes.torch
    assert not folder.exists()


def test_no_torch_is_imported_once_there_is_an_export(engine_on, store) -> None:
    import subprocess
    import sys

    engine_on(store).answer([("plain", TEXTS[0])])
    code = """
import sys, json
from adapterbank.serving.engine import open_engine
from adapterbank.store.store import Store
engine = open_engine(Store.open(sys.argv[1]), None)
found = engine.answer([(name, "the film was good") for name in ("plain", "head", "upper", None)])
assert all(each.error is None for each in found)
print(json.dumps([name for name in ("torch", "transformers") if name in sys.modules]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.files.local)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []


def test_one_task_as_one_file(encoder, tmp_path) -> None:
    import onnxruntime

    from adapterbank.serving.one_task import task_graph
    from adapterbank.store.package import Package, as_arrays
    from adapterbank.tasks.batches import encode
    from adapterbank.tasks.task import Example

    for seed, form in enumerate(
        [{}, {"kind": "span"}, {"gate": True}, {"hidden_layers": 2}, {"method": "head"}]
        + [{"activation": name} for name in ("gelu", "relu", "tanh", "swish", "sigmoid")]
        + [{"activation": name} for name in ("leaky_relu", "identity")]
    ):
        manifest, tensors = random_task(encoder, seed, **form)
        package = Package(manifest, as_arrays(tensors))
        session = onnxruntime.InferenceSession(task_graph(encoder, package).SerializeToString())
        pair = "a good book" if manifest.kind == "span" else None
        rows = encode(encoder.tokenizer, [Example(text, pair=pair) for text in TEXTS], 48)
        with Predictor(encoder, package) as predictor:
            expected = predictor.model.exact_logits(*rows.take())
        ids, types = rows.take()
        longest = max(map(len, ids))
        feed = {
            name: np.array([[*row, *[0] * (longest - len(row))] for row in some], np.int64)
            for name, some in (
                ("input_ids", ids),
                ("token_type_ids", types),
                ("attention_mask", [np.ones_like(row) for row in ids]),
            )
        }
        (found,) = session.run(["logits"], feed)
        if manifest.kind == "span":
            found = np.concatenate([each[: len(row)] for each, row in zip(found, ids, strict=True)])
        np.testing.assert_allclose(found, expected, atol=1e-4, err_msg=str(form))


def test_export_onnx_writes_a_task_and_its_tokenizer(encoder, tmp_path) -> None:
    import onnxruntime
    from tokenizers import Tokenizer

    from adapterbank.errors import ConfigError, PackageError
    from adapterbank.serving.one_task import export_onnx
    from adapterbank.store.package import Package, as_arrays

    manifest, tensors = random_task(encoder, 1)
    package = Package(manifest, as_arrays(tensors))
    (note,) = export_onnx(encoder, package, tmp_path / "mood.onnx")
    assert "mood.tokenizer.json" in note
    session = onnxruntime.InferenceSession(tmp_path / "mood.onnx")
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["labels"]) == ["no", "perhaps", "yes"]
    found = Tokenizer.from_file(str(tmp_path / "mood.tokenizer.json")).encode(TEXTS[0])
    feed = {
        "input_ids": np.array([found.ids]),
        "attention_mask": np.array([found.attention_mask]),
        "token_type_ids": np.array([found.type_ids]),
    }
    (logits,) = session.run(["logits"], feed)
    with Predictor(encoder, package) as predictor:
        (expected,) = predictor.answer(TEXTS[:1])
    assert manifest.labels[logits[0].argmax()] == expected.label

    with pytest.raises(PackageError, match="already something"):
        export_onnx(encoder, package, tmp_path / "mood.onnx")
    with pytest.raises(ConfigError, match=r"end with \.onnx"):
        export_onnx(encoder, package, tmp_path / "mood")
    full, changed = random_task(encoder, 2, method="full")
    with pytest.raises(ConfigError, match="changed the base itself"):
        export_onnx(encoder, Package(full, as_arrays(changed)), tmp_path / "full.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mood.onnx", "mood.tokenizer.json"]
