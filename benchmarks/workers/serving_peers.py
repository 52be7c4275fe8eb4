"""Rows of many tasks through the encoder, as others do it: `serving_peers.py METHOD BASE`.

METHOD is `split` (the adapters package, all tasks in one batch with BatchSplit), `apart` (the same
package, one task after the other) or `lora` (PEFT's `adapter_names`, rank 16). Heads are left out.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from protocol import serve, token_rows

SIZE, RANK, TASKS = 64, 16, 32
NAMES = [f"task{i}" for i in range(TASKS)]


def with_adapters(base: str) -> Any:
    """The base with a Houlsby adapter of size 64 for each task."""
    import adapters
    from transformers import AutoModel

    model = AutoModel.from_pretrained(base)
    adapters.init(model)
    factor = model.config.hidden_size / SIZE
    for name in NAMES:
        model.add_adapter(name, config=adapters.DoubleSeqBnConfig(reduction_factor=factor))
    return model


def with_lora(base: str) -> Any:
    """The base with a LoRA for each task."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModel

    config = LoraConfig("FEATURE_EXTRACTION", r=RANK, target_modules=["query", "value"])
    model = get_peft_model(AutoModel.from_pretrained(base), config, adapter_name=NAMES[0])
    for name in NAMES[1:]:
        model.add_adapter(name, config)
    return model


method, base = sys.argv[1:]
torch.manual_seed(0)
model = with_lora(base) if method == "lora" else with_adapters(base)
model.eval()


def prepare(request: dict[str, Any]) -> Any:
    """A batch padded to its longest row, rows of one task together."""
    rows, tasks = token_rows(request["lengths"]), request["tasks"]
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}, tasks


@torch.inference_mode()
def step(batch: tuple[dict[str, torch.Tensor], int]) -> None:
    """One pass over all rows."""
    inputs, tasks = batch
    rows = len(inputs["input_ids"])
    share = rows // tasks
    if method == "lora":
        model(**inputs, adapter_names=[NAMES[i // share] for i in range(rows)])
    elif method == "split":
        from adapters.composition import BatchSplit

        names = NAMES[:tasks]
        several = BatchSplit(*names, batch_sizes=[share] * tasks)
        model.set_active_adapters(several if tasks > 1 else names[0])
        model(**inputs)
    else:
        for i in range(tasks):
            model.set_active_adapters(NAMES[i])
            model(**{name: each[i * share : (i + 1) * share] for name, each in inputs.items()})


serve(prepare, step)
