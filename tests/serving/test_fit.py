"""A package that does not fit the base fails its own rows alone, wherever it would have run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapterbank.errors import PackageError
from adapterbank.model.encoder import load_encoder
from adapterbank.serving.batcher import Batcher
from adapterbank.serving.fit import check_fit
from adapterbank.serving.passes import Passes
from adapterbank.serving.predictor import Predictor
from adapterbank.store.package import Package, as_arrays
from serving.conftest import MEMORY, make_store
from serving.tasks import random_task
from tiny import ARCHITECTURES, save_base

TEXT = "the film was good"
SOUND = {"good": {}, "relu": {"activation": "relu"}, "whole": {"method": "full"}}
FORMS = ({}, {"activation": "relu"}, {"method": "layer-norm"})


def narrow(tensors):
    """As of a base half as wide."""
    return {
        name: tensor[tuple(slice(16 if n == 32 else n) for n in tensor.shape)].clone()
        for name, tensor in tensors.items()
    }


def more_layers(tensors):
    last = {n.replace("layer.3", "layer.4"): t for n, t in tensors.items() if "layer.3" in n}
    return {**tensors, **last}


def fewer_layers(tensors):
    return {name: tensor for name, tensor in tensors.items() if "layer.3" not in name}


def other_embeddings(tensors):
    return {n: t[:7].clone() if n.startswith("embeddings") else t for n, t in tensors.items()}


def another_norm(tensors):
    one = tensors["layer.0.output.norm.bias"]
    return {**tensors, "extra.norm.weight": one, "extra.norm.bias": one}


def without_biases(tensors):
    return {name: tensor for name, tensor in tensors.items() if not name.endswith(".norm.bias")}


def without_embeddings(tensors):
    return {n: t for n, t in tensors.items() if "word_embeddings" not in n}


CHANGES = (
    narrow, more_layers, fewer_layers, other_embeddings, another_norm, without_biases
)  # fmt: skip


@pytest.mark.parametrize("onnx", [True, False], ids=["onnx", "torch"])
@pytest.mark.parametrize(
    ("form", "change"),
    [
        *((form, change) for form in FORMS for change in CHANGES),
        ({"method": "head"}, narrow),
        ({"train_layer_norms": False}, fewer_layers),
        ({"layers": (1,)}, fewer_layers),
        ({"kind": "span", "method": "head"}, narrow),
        ({"method": "full"}, without_embeddings),
        ({"method": "full"}, narrow),
    ],
)
def test_a_misfit_spoils_its_own_rows_alone(
    form, change, onnx, encoder, tmp_path, engine_on
) -> None:
    store = make_store(tmp_path / "bank", encoder, SOUND)
    manifest, tensors = random_task(encoder, 9, **form)
    store.publish("bad", manifest, change(tensors))
    engine = engine_on(store, onnx=onnx)
    value = {"question": TEXT, "context": TEXT} if manifest.kind == "span" else TEXT
    inputs = [("good", TEXT), ("bad", value), ("relu", TEXT), ("whole", TEXT), (None, TEXT)]
    for order in (inputs, inputs[::-1]):
        found = dict(zip((name for name, _ in order), engine.answer(order), strict=True))
        assert isinstance(found.pop("bad").error, PackageError)
        assert [each.error for each in found.values()] == [None] * 4
    assert {each.pins for each in engine.residency._residents.values()} == {0}
    if manifest.method.name != "full":
        assert "bad" not in {each.entry.task for each in engine.residency._residents.values()}
        with pytest.raises(PackageError, match="does not fit the base"):
            engine.ask("bad", [value])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_base_s_own_tasks_fit(name, tmp_path) -> None:
    encoder = load_encoder(str(save_base(tmp_path / "base", name)))
    norms = Passes(encoder.fingerprint, lambda: encoder, memory=MEMORY, onnx=False).norms
    for form in (
        {},
        {"layers": (1,)},
        {"where": "output", "norm": "layer"},
        {"train_layer_norms": False},
        {"method": "layer-norm"},
        {"method": "head"},
        {"method": "full"},
        {"method": "top-k"},
    ):
        manifest, tensors = random_task(encoder, 0, **form)
        check_fit(Package(manifest, as_arrays(tensors)), norms)


def test_a_pooler_that_the_base_has_not(tmp_path) -> None:
    encoder = load_encoder(str(save_base(tmp_path / "base", "electra")))
    passes = Passes(encoder.fingerprint, lambda: encoder, memory=MEMORY, onnx=False)
    manifest, tensors = random_task(encoder, 0)
    with pytest.raises(PackageError, match="pooler"):
        passes.check(Package(replace(manifest, pooling="pooler"), as_arrays(tensors)))


@pytest.mark.parametrize("form", [{}, {"pair": True}, {"kind": "span"}, {"activation": "relu"}])
@pytest.mark.parametrize("onnx", [True, False], ids=["onnx", "torch"])
def test_longer_texts_than_the_base_reads_are_cut(form, onnx, encoder, tmp_path, engine_on) -> None:
    store = make_store(tmp_path / "bank", encoder, {"good": {}})
    manifest, tensors = random_task(encoder, 9, **form)
    store.publish("long", replace(manifest, max_length=500), tensors)
    long = "the film was good " * 60
    names = ("question", "context") if manifest.kind == "span" else ("text_a", "text_b")
    value = dict.fromkeys(names, long) if manifest.pair or manifest.kind == "span" else long
    good, found = engine_on(store, onnx=onnx).answer([("good", TEXT), ("long", value)])
    with Predictor(encoder, store.load(store.find("long"))) as predictor:
        (expected,) = predictor.answer([value])
    assert good.error is None
    assert found.error is None
    assert expected.error is None
    if manifest.kind == "span":
        assert found.answer == expected.answer
    else:
        np.testing.assert_allclose(
            list(found.probabilities.values()), list(expected.probabilities.values()), atol=1e-4
        )


@pytest.mark.parametrize(
    ("form", "length"), [({}, 1), ({}, 2), ({"pair": True}, 3), ({"kind": "span"}, 3)]
)
def test_no_room_for_a_text_is_refused(form, length, encoder, tmp_path, engine_on) -> None:
    store = make_store(tmp_path / "bank", encoder, {"good": {}})
    manifest, tensors = random_task(encoder, 9, **form)
    store.publish("short", replace(manifest, max_length=length), tensors)
    engine = engine_on(store)
    good, bad = engine.answer([("good", TEXT), ("short", TEXT)])
    assert good.error is None
    assert isinstance(bad.error, PackageError)
    assert "max_length" in bad.error.message
    batcher = Batcher(engine)
    try:
        with pytest.raises(PackageError, match="max_length"):
            batcher.submit("short", [TEXT])
    finally:
        batcher.close()
