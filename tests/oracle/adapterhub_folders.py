"""Runs in the peers' environment: the `adapters` package loads folders of ours, or makes its own.

`argv`: folders, each with a `base`, a `batch.safetensors` and either `hub`, which is loaded, or
`wanted.json`, by which `hub` is made with random weights. The logits go to `outputs.safetensors`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from adapters import AutoAdapterModel, BnConfig, DoubleSeqBnConfig
from safetensors.torch import load_file, save_file


def load(model: Any, hub: Path) -> None:
    info: dict[str, Any] = {}
    name = model.load_adapter(str(hub), use_safetensors=True, set_active=True, loading_info=info)
    assert not any(info.values()), info
    assert model.active_head == name


def make(model: Any, hub: Path, wanted: dict[str, Any]) -> None:
    preset = DoubleSeqBnConfig().to_dict()
    model.add_adapter("task", config=BnConfig.from_dict(preset | wanted["adapter"]))
    model.add_prediction_head_from_config("task", wanted["head"])
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".adapters.task." in name or name.startswith("heads.task."):
                parameter.normal_(std=0.3)
    model.set_active_adapters("task")
    if wanted["adapter"].get("ln_before"):  # two names for one tensor, which it cannot save
        model.save_adapter(str(hub), "task")
        for old, new in (
            ("pytorch_adapter.bin", "adapter.safetensors"),
            ("pytorch_model_head.bin", "model_head.safetensors"),
        ):
            state = torch.load(hub / old, weights_only=True)
            save_file({key: value.clone() for key, value in state.items()}, hub / new)
            (hub / old).unlink()
    else:
        model.save_adapter(str(hub), "task", use_safetensors=True)


def make_old(hub: Path) -> None:
    """As early versions wrote it: no version, other names for the places of adapters."""
    config = json.loads((hub / "adapter_config.json").read_text())
    del config["version"]
    (hub / "adapter_config.json").write_text(json.dumps(config))
    state = load_file(hub / "adapter.safetensors")
    old = {
        name.removeprefix("bert.")
        .replace("attention.output.adapters.", "attention.output.attention_text_task_adapters.")
        .replace("output.adapters.", "output.layer_text_task_adapters."): tensor
        for name, tensor in state.items()
    }
    save_file(old, hub / "adapter.safetensors", {"format": "pt"})


for folder in map(Path, sys.argv[1:]):
    model = AutoAdapterModel.from_pretrained(folder / "base")
    if (folder / "wanted.json").exists():
        wanted = json.loads((folder / "wanted.json").read_text())
        make(model, folder / "hub", wanted)
        if wanted["old"]:
            make_old(folder / "hub")
            model = AutoAdapterModel.from_pretrained(folder / "base")
            load(model, folder / "hub")
    else:
        load(model, folder / "hub")
    model.eval()
    with torch.no_grad():
        out = model(**load_file(folder / "batch.safetensors"))
    if hasattr(out, "start_logits"):
        logits = torch.stack((out.start_logits, out.end_logits), -1)
    else:
        logits = out.logits
    save_file({"logits": logits.contiguous()}, folder / "outputs.safetensors")
