"""The `adapters` package's own trainer with length-grouped batches, as a user would run it.

Runs in the peers' environment: `adapters_trainer.py BASE DATA RATE`, where DATA is a JSON file of
tokenised rows with label ids, `{"train": [[ids, types, label] ...], "dev": ..., "labels": n}`.
Prints JSON lines: seconds of training so far, dev accuracy.
"""

# mypy: ignore-errors
# It is written for the peers' versions of these packages, not for ours.

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from adapters import AdapterTrainer, AutoAdapterModel
from transformers import AutoTokenizer, DataCollatorWithPadding, TrainerCallback, TrainingArguments

BASE, DATA, RATE = sys.argv[1:]
EPOCHS, BATCH, CURVE = 6, 32, 15  # the package's own examples train six epochs; a score every 15
answers, sys.stdout = sys.stdout, sys.stderr


class Clock(TrainerCallback):
    """Seconds spent in steps, whatever is done between them left out."""

    seconds = 0.0
    began = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds += time.perf_counter() - self.began

    def on_evaluate(self, *_: Any, metrics: dict[str, float], **__: Any) -> None:
        found = {"seconds": self.seconds, "score": metrics["eval_accuracy"]}
        print(json.dumps(found), file=answers, flush=True)


def rows_of(rows: list[tuple[list[int], list[int], int]]) -> list[dict[str, Any]]:
    """As the trainer takes them."""
    return [{"input_ids": ids, "token_type_ids": types, "labels": y} for ids, types, y in rows]


data = json.loads(Path(DATA).read_text())
torch.manual_seed(0)
tokenizer = AutoTokenizer.from_pretrained(BASE)
model = AutoAdapterModel.from_pretrained(BASE)
model.add_adapter("task", config="double_seq_bn")
model.add_classification_head("task", num_labels=data["labels"])
model.train_adapter("task")
with tempfile.TemporaryDirectory() as folder:
    AdapterTrainer(
        model=model,
        args=TrainingArguments(
            folder,
            learning_rate=float(RATE),
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            group_by_length=True,
            eval_strategy="steps",
            eval_steps=CURVE,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        ),
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=rows_of(data["train"]),
        eval_dataset=rows_of(data["dev"]),
        compute_metrics=lambda p: {
            "accuracy": float((np.asarray(p.predictions).argmax(-1) == p.label_ids).mean())
        },
        callbacks=[Clock()],
    ).train()
