"""Probes: fixed rows of tokens whose logits tell whether a task still gives what it gave.

The rows come from the base's vocabulary alone, the same for every task and never anybody's text.
One reference way of running them, in single precision, on one thread, one row at a time, makes the
logits the same to the last bit on the same software and processor.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from adapterbank.model.encoder import Encoder
from adapterbank.model.task_model import TaskModel

LENGTHS = (3, 9, 24)  # tokens, with the special ones at both ends
STRIDE = 7919  # a prime: walks through the vocabulary without a pattern
TOLERANCE = 1e-4  # of a logit, on other software or another processor


def probe_rows(encoder: Encoder) -> list[list[int]]:
    """The rows of a base."""
    tokenizer = encoder.tokenizer
    special = set(tokenizer.all_special_ids)
    words = [i for i in range(int(encoder.model.config.vocab_size)) if i not in special]
    first = _either(tokenizer.cls_token_id, tokenizer.bos_token_id)
    last = _either(tokenizer.sep_token_id, tokenizer.eos_token_id)
    rows = []
    for n, length in enumerate(LENGTHS):
        inner = length - len(first) - len(last)
        middle = [words[(n + 1) * STRIDE * (i + 1) % len(words)] for i in range(inner)]
        rows.append([*first, *middle, *last])
    return rows


def _either(*ids: int | None) -> list[int]:
    return [each for each in ids if each is not None][:1]


def probe_logits(model: TaskModel, rows: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
    """The logits of each row by the reference way, as one vector."""
    with _one_thread():
        return [model.exact_logits([row]).ravel() for row in rows]


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def processor(device: torch.device) -> str:
    """What decides, beside the software, how numbers are rounded."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
