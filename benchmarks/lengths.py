"""How long the texts of real tasks are, in tokens, and batches of such texts."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence

Batches = list[list[int]]  # the lengths of each batch's rows

BATCH = 32
LONGEST = 128
POOL = 3200  # texts that batches are drawn from
# Median, deviation of the logarithm: for machines that don't have the tasks' own texts.
STAND_INS = {"sst2": (10, 0.65), "rte": (60, 0.5)}


def lengths_of(task: str) -> list[int]:
    """Of texts drawn from a task of the catalogue, or lognormal ones where it isn't at hand."""
    draw = random.Random(0)
    if not os.environ.get("ADAPTERBANK_DATA"):
        print(f"ADAPTERBANK_DATA is not set: {task} has stand-in lengths", file=sys.stderr)
        median, sigma = STAND_INS[task]
        drawn = (round(median * draw.lognormvariate(0.0, sigma)) for _ in range(POOL))
        return [min(max(length, 3), LONGEST) for length in drawn]
    from adapterbank.model.encoder import load_encoder
    from adapterbank.tasks.batches import encode
    from adapterbank.tasks.known import known_task

    train = known_task(task).train
    examples = [train[i] for i in draw.sample(range(len(train)), min(POOL, len(train)))]
    found = encode(load_encoder().tokenizer, examples, LONGEST)
    return [int(length) for length in found.lengths]


def batches_of(lengths: Sequence[int], count: int) -> dict[str, Batches]:
    """`count` random batches, and `count` grouped by length, spread evenly over all lengths."""
    ordered = sorted(lengths)
    whole = [ordered[i : i + BATCH] for i in range(0, len(ordered) - BATCH + 1, BATCH)]
    step = len(whole) / count
    return {
        "random": [list(lengths[i * BATCH : (i + 1) * BATCH]) for i in range(count)],
        "grouped": [whole[int((i + 0.5) * step)] for i in range(count)],
    }
