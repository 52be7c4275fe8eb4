"""The frozen prefix: what is remembered is what would be computed, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapterbank.errors import PackingError
from adapterbank.model import prefix
from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import load_encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from tiny import ARCHITECTURES, roughened, save_base, tiny

ROWS = [[2, 7, 9, 3], [2, 5, 3], [2, 11, 12, 13, 14, 3], [2, 8, 3]]
UPPER = Method(adapter=AdapterConfig(size=4, layers=(2, 3)))
FROZEN = {
    "adapters above": (UPPER, 2),
    "adapters everywhere": (Method(adapter=AdapterConfig(size=4)), 0),
    "top one": (Method("top-k", top_k=1), 3),
    "top two": (Method("top-k", top_k=2), 2),
    "head": (Method("head"), 4),
    "full": (Method("full"), 0),
    "LayerNorms": (Method("layer-norm"), 0),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(str(save_base(tmp_path_factory.mktemp("base"))), pooling="mean")


def encoder_of(name: str, folder):
    return load_encoder(str(save_base(folder, name, roughened(tiny(name)))), pooling="mean")


@pytest.mark.parametrize("case", FROZEN)
def test_how_much_is_frozen(encoder, case) -> None:
    method, layers = FROZEN[case]
    with TaskModel(encoder, "classification", 2, method) as model:
        assert model.frozen == layers
        assert model.base_frozen == (case == "head")
        assert model.has_prefix == (layers > 0)
        model.train()
        modes = [layer.training for layer in model.sites.layer_modules(model.base)]
        assert modes == [False] * layers + [True] * (4 - layers)
        assert model.base.embeddings.training == (layers == 0)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("method", [UPPER, Method("top-k", top_k=1), Method("head")], ids=str)
def test_the_same_outputs_and_gradients(name, method, tmp_path) -> None:
    encoder = encoder_of(name, tmp_path)
    if encoder.layers < 4 and method is UPPER:
        pytest.skip("its layers are one")
    with TaskModel(encoder, "classification", 3, method) as model:
        known = model.remember(ROWS)
        if not model.has_prefix:
            assert known is None
            return
        assert known is not None
        targets = torch.tensor([0, 1, 2, 1])
        found = {}
        for what in ("computed", "remembered"):
            model.eval()
            given = known.take(range(4)) if what == "remembered" else None
            with model.packing():
                batch = model.collate(ROWS, None, given)
                logits = model(batch)
            model.head.loss(logits, targets, batch.lengths).backward()
            found[what] = [logits.detach(), *(p.grad.clone() for p in model.trained().values())]
            model.zero_grad()
        for a, b in zip(*found.values(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model.logits(ROWS), model.logits(ROWS, None, known), atol=1e-6)
        # The list of layers and the embeddings are whole again.
        assert len(model.sites.layer_modules(model.base)) == encoder.layers
        assert "forward" not in vars(model.base.get_submodule(model.sites.embeddings))


def test_rows_are_remembered_alike_whatever_stands_beside_them(encoder) -> None:
    with TaskModel(encoder, "classification", 2, UPPER) as model:
        known = model.remember(ROWS)
        assert known is not None
        turned = known.take([2, 0])
        assert turned.shape == (10, encoder.width)
        assert torch.equal(turned[6:], known.take([0]))
        with TaskModel.packing(model), torch.no_grad():
            layer = model.sites.layer_modules(model.base)[2]
            batch = model.collate([ROWS[2]])
            inputs = {**batch.inputs, "bounds": batch.bounds}
            alone = prefix.states_entering(model.base, layer, inputs)
        torch.testing.assert_close(turned[:6], alone[0], rtol=1e-5, atol=1e-6)


def test_a_span_head_reads_tokens(encoder) -> None:
    with TaskModel(encoder, "span", method=Method("head")) as model:
        known = model.remember(ROWS)
        assert known is not None
        assert known.values.shape == (16, encoder.width)
        np.testing.assert_allclose(model.logits(ROWS), model.logits(ROWS, None, known), atol=1e-6)


def test_what_is_too_large_for_memory_lies_in_a_file(encoder, monkeypatch) -> None:
    with TaskModel(encoder, "classification", 2, UPPER) as model:
        whole = model.remember(ROWS)
        monkeypatch.setattr(prefix, "IN_MEMORY", 100)
        spilt = model.remember(ROWS)
        assert isinstance(spilt.values, np.memmap)
        assert torch.equal(spilt.take([3, 1]), whole.take([3, 1]))

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(prefix.os, "posix_fallocate", full)
        assert model.remember(ROWS) is None


def test_the_encoder_is_whole_after_an_error(encoder) -> None:
    with TaskModel(encoder, "classification", 2, UPPER) as model:
        known = model.remember(ROWS)
        with pytest.raises(PackingError), model.packing():
            model(model.collate(ROWS, None, known.take([0])))
        np.testing.assert_allclose(model.logits(ROWS), model.logits(ROWS, None, known), atol=1e-6)
