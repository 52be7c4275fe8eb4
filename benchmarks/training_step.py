"""Training steps a second against the `adapters` package, on one base and the same lengths.

    python benchmarks/training_step.py [--rounds 5] [--batches 10]

Lengths are lognormal around 16 and around 48 tokens. Three systems take turns batch by batch:
`adapters` with random padded batches (its default), `adapters` with length-grouped batches (which
a user can switch on), and AdapterBank. Every system runs every batch once a round; a batch's time
is its shortest over the rounds, which leaves out what other programs on the machine took.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

import torch

from adapterbank.model.wheel import minilm_folder
from peers import Worker, environment

BATCH = 32
POOL = 3200  # examples that batches are drawn from
SIGMA = 0.6  # of the lognormal
LIMITS = (3, 128)


def lengths_around(median: int, seed: int = 0) -> list[int]:
    """Lognormal lengths with this median."""
    draw = random.Random(seed)
    drawn = (round(median * draw.lognormvariate(0.0, SIGMA)) for _ in range(POOL))
    return [min(max(length, LIMITS[0]), LIMITS[1]) for length in drawn]


def batches_of(lengths: list[int], count: int) -> list[list[int]]:
    """`count` batches spread evenly over the list."""
    whole = [lengths[i : i + BATCH] for i in range(0, len(lengths), BATCH)]
    step = len(whole) / count
    return [whole[int((i + 0.5) * step)] for i in range(count)]


def sgemm_limit() -> float:
    """GFLOPS of a large matrix product, the best of several."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = float("inf")
    for _ in range(12):
        began = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - began)
    return 2 * 2048**3 / best / 1e9


def needed_gflop(lengths: list[int]) -> float:
    """What the mathematics of one adapter step needs: real tokens, forward and backward.

    Frozen products run twice (forward, gradient of the input), adapters three times.
    """
    layers, d, inner, m = 6, 384, 1536, 64
    frozen = 2 * layers * (4 * d * d + 2 * d * inner)  # a token, once
    adapters = 2 * layers * 2 * 2 * d * m
    attention = sum(2 * layers * 2 * d * length * length for length in lengths)
    tokens = sum(lengths)
    return (tokens * (2 * frozen + 3 * adapters) + 3 * attention) / 1e9


def measure(median: int, rounds: int, count: int, python: Path) -> dict[str, float]:
    """Examples a second of each system at one length."""
    lengths = lengths_around(median)
    shuffled, grouped = batches_of(lengths, count), batches_of(sorted(lengths), count)
    runs = {"adapters, random": shuffled, "adapters, grouped": grouped, "adapterbank": grouped}
    best = {name: [float("inf")] * count for name in runs}
    with (
        Worker("adapters_houlsby", str(minilm_folder()), python=python) as peer,
        Worker("ours") as ours,
    ):
        for turn in range(rounds + 1):
            for name, batches in runs.items():
                worker = ours if name == "adapterbank" else peer
                for i, batch in enumerate(batches):
                    (seconds,) = worker.run([batch])
                    if turn:  # the first turn warms up
                        best[name][i] = min(best[name][i], seconds)
    speeds = {name: BATCH * count / sum(times) for name, times in best.items()}
    limit = sgemm_limit()
    reached = sum(map(needed_gflop, grouped)) / sum(best["adapterbank"])
    return {
        **speeds,
        "ratio to random": speeds["adapterbank"] / speeds["adapters, random"],
        "ratio to grouped": speeds["adapterbank"] / speeds["adapters, grouped"],
        "sgemm GFLOPS": limit,
        "share of sgemm": reached / limit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=10)
    arguments = parser.parse_args()
    python = environment()
    for median in (16, 48):
        result = measure(median, arguments.rounds, arguments.batches, python)
        rounded = {name: round(value, 2) for name, value in result.items()}
        print(json.dumps({"tokens": median, **rounded}))


if __name__ == "__main__":
    main()
