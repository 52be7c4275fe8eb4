"""How a benchmark talks to a worker in another environment: JSON lines over pipes.

A worker imports this file and nothing else of ours, so it runs beside any set of packages. A
request is `[[length, ...], ...]`, a list a batch; the answer is each batch's seconds.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

VOCABULARY = (1000, 30000)  # ids of ordinary words in BERT's vocabulary


def token_rows(lengths: list[int], seed: int) -> list[list[int]]:
    """Random ids of these lengths, the same in every environment."""
    draw = random.Random(seed)
    return [[draw.randrange(*VOCABULARY) for _ in range(length)] for length in lengths]


def serve(prepare: Callable[[list[list[int]]], Any], step: Callable[[Any], None]) -> None:
    """Answer requests until the pipe closes. `prepare` makes a batch and is not timed."""
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print; the answers stay clean
    ready: dict[str, Any] = {}
    for line in sys.stdin:
        seconds = []
        for number, lengths in enumerate(json.loads(line)):
            key = json.dumps(lengths)
            if key not in ready:
                ready[key] = prepare(token_rows(lengths, seed=number))
            began = time.perf_counter()
            step(ready[key])
            seconds.append(time.perf_counter() - began)
        print(json.dumps(seconds), file=answers, flush=True)
