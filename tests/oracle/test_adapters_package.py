"""The whole model against the `adapters` package with the same weights, in its own environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from adapterbank import AdapterConfig, attach
from tiny import padded, rows, tiny

ROOT = Path(__file__).parents[2]
ORACLE = Path(__file__).with_name("adapters_outputs.py")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_same_weights_same_states(name: str, tmp_path, peers_python: Path) -> None:
    model = tiny(name)
    attachment = attach(model, AdapterConfig(size=8, init_std=0.3))
    groups = attachment.named_groups()
    with torch.no_grad():  # as after training: no bias is 0, no LayerNorm is the base's
        for parameter in (*groups["adapters"].values(), *groups["layer_norms"].values()):
            parameter.add_(torch.randn_like(parameter) * 0.2)
    batch = padded(model, rows([7, 12, 1, 30]))
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    adapters = {name: p.detach().clone() for name, p in groups["adapters"].items()}
    norms = {name: p.detach().clone() for name, p in model.named_parameters() if "orm" in name}
    attachment.detach()
    with torch.no_grad():  # AdapterHub keeps LayerNorms frozen: they become part of its base
        for norm_name, parameter in model.named_parameters():
            if norm_name in norms:
                parameter.copy_(norms[norm_name])
    model.save_pretrained(tmp_path)
    save_file(adapters, tmp_path / "adapters.safetensors")
    save_file(batch, tmp_path / "batch.safetensors")

    done = subprocess.run(
        [peers_python, ORACLE, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = load_file(tmp_path / "outputs.safetensors")["hidden"]
    real = batch["attention_mask"].bool()
    assert (hidden - theirs)[real].abs().max().item() < 1e-5
    assert hidden[real].std() > 0.1
