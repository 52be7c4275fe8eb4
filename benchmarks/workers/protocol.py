"""How a benchmark talks to a worker in another environment: JSON lines over pipes.

A worker imports this file and nothing else of ours, so it runs beside any set of packages. A
request is what `prepare` takes, the lengths of one batch's rows for one; the answer has the seconds
and the most memory that the process has held so far.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

VOCABULARY = (1000, 30000)  # ids of ordinary words in BERT's vocabulary


def token_rows(lengths: list[int]) -> list[list[int]]:
    """Random ids of these lengths, the same in every environment."""
    draw = random.Random(str(lengths))
    return [[draw.randrange(*VOCABULARY) for _ in range(length)] for length in lengths]


def serve(prepare: Callable[[Any], Any], step: Callable[[Any], object]) -> None:
    """Answer requests until the pipe closes. `prepare` makes a batch and is not timed."""
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print; the answers stay clean
    for line in sys.stdin:
        batch = prepare(json.loads(line))
        began = time.perf_counter()
        step(batch)
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # GB
        print(json.dumps({"seconds": seconds, "peak": peak}), file=answers, flush=True)
