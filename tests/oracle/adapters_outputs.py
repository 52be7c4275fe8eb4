"""Runs in the peers' environment: the `adapters` package with our weights in it.

`argv`: a folder with the base, `adapters.safetensors` (our names) and `batch.safetensors`; the
last hidden states go to `outputs.safetensors` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import adapters
import torch
from adapters import DoubleSeqBnConfig
from safetensors.torch import load_file, save_file
from transformers import AutoModel

folder = Path(sys.argv[1])
ours = load_file(folder / "adapters.safetensors")
model = AutoModel.from_pretrained(folder)
size, width = ours["layer.0.attention.down.weight"].shape
adapters.init(model)
config = DoubleSeqBnConfig(reduction_factor=width / size, non_linearity="gelu_new")
model.add_adapter("task", config=config)
model.set_active_adapters("task")
model.eval()

distilbert = model.config.model_type == "distilbert"
PLACES = {
    "attention": "attention_adapters" if distilbert else "attention.output",
    "output": "output_adapters" if distilbert else "output",
}
LINEARS = {"down": "adapter_down.0", "up": "adapter_up"}
state = model.state_dict()
for name, tensor in ours.items():
    _, layer, site, linear, leaf = name.split(".")
    stack = "transformer" if distilbert else "encoder"
    theirs = f"{stack}.layer.{layer}.{PLACES[site]}.adapters.task.{LINEARS[linear]}.{leaf}"
    assert state[theirs].shape == tensor.shape, theirs
    state[theirs].copy_(tensor)

with torch.no_grad():
    hidden = model(**load_file(folder / "batch.safetensors")).last_hidden_state
save_file({"hidden": hidden.contiguous()}, folder / "outputs.safetensors")
