"""An attached model in other people's loops: Trainer and Accelerate."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

from adapterbank import AdapterConfig, attach
from tiny import CONFIGS, rows

ROWS = rows([3 + i % 10 for i in range(32)])
EXAMPLES = [
    {
        "input_ids": row + [0] * (12 - len(row)),
        "attention_mask": [1] * len(row) + [0] * (12 - len(row)),
        "labels": i % 2,
    }
    for i, row in enumerate(ROWS)
]


def attached():
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(CONFIGS["bert"])
    return model, attach(model, AdapterConfig(size=4))


def test_trainer_trains_the_groups_and_nothing_else(tmp_path) -> None:
    model, attachment = attached()
    named = {id(p) for group in attachment.parameter_groups().values() for p in group}
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=4,
            per_device_train_batch_size=8,
            learning_rate=1e-2,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
        ),
        train_dataset=EXAMPLES,
    )
    result = trainer.train()
    assert result.training_loss > 0
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == (id(parameter) not in named), name


def test_accelerate_prepares_and_trains_it() -> None:
    from accelerate import Accelerator

    model, attachment = attached()
    accelerator = Accelerator(cpu=True)
    trained = [p for group in attachment.parameter_groups().values() for p in group]
    before = [p.detach().clone() for p in trained]
    columns = {key: torch.tensor([row[key] for row in EXAMPLES]) for key in EXAMPLES[0]}
    data = [{key: column[i] for key, column in columns.items()} for i in range(len(EXAMPLES))]
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.AdamW(trained, lr=1e-2), DataLoader(data, batch_size=8)
    )
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
    assert all(not torch.equal(p, b) for p, b in zip(trained, before, strict=True))
    attachment.detach()
