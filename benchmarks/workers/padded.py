"""A training step of Transformers and what builds on it: padded batches, torch's AdamW.

Runs in the peers' environment: `padded.py METHOD BASE PRODUCTS`, where METHOD is `full`
(fine-tuning of everything), `adapters` (the adapters package's Houlsby preset at size 64) or `lora`
(PEFT's, rank 16 on queries and values), BASE a folder and PRODUCTS fp32, or bf16 for torch's
autocast.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from protocol import serve, token_rows

SIZE, RANK = 64, 16


def build(method: str, base: str) -> Any:
    """The model, ready to train."""
    if method == "adapters":
        from adapters import AutoAdapterModel, DoubleSeqBnConfig

        model = AutoAdapterModel.from_pretrained(base)
        factor = model.config.hidden_size / SIZE
        model.add_adapter("task", config=DoubleSeqBnConfig(reduction_factor=factor))
        model.add_classification_head("task", num_labels=2)
        model.train_adapter("task")
        return model
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=2)
    if method == "full":
        return model
    from peft import LoraConfig, get_peft_model

    targets = ["query", "value"]
    return get_peft_model(model, LoraConfig("SEQ_CLS", r=RANK, target_modules=targets))


torch.manual_seed(0)
method, base, products = sys.argv[1:]
model = build(method, base)
model.train()
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=1e-5)


def prepare(lengths: list[int]) -> Any:
    """A batch padded to its longest row."""
    rows = token_rows(lengths)
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "token_type_ids": torch.zeros_like(ids),
        "labels": torch.arange(len(rows)) % 2,
    }


def step(batch: dict[str, torch.Tensor]) -> None:
    """Forward, backward, clip, update."""
    with torch.autocast("cpu", torch.bfloat16, enabled=products == "bf16"):
        loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad()


serve(prepare, step)
