"""Training steps a second against the `adapters` package, on one base and the same examples.

    python benchmarks/training_step.py [--rounds 5] [--batches 10]

Lengths are lognormal around 16 and around 48 tokens. The systems take turns batch by batch:
`adapters` with random padded batches (its default), `adapters` with length-grouped batches (which
a user can switch on), and AdapterBank with random batches (its default) and with grouped ones. A
batch's time is its shortest over the rounds, which leaves out what other programs on the machine
took. Speeds are real tokens a second, divided by the mean length: batches of one kind are not quite
as long as those of another. Writes `results/training_step.json` and the picture in `docs/`.
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
HERE = Path(__file__).parent
RESULTS = HERE / "results" / "training_step.json"
PICTURE = HERE.parent / "docs" / "images" / "training_step.svg"


def lengths_around(median: int, seed: int = 0) -> list[int]:
    """Lognormal lengths with this median."""
    draw = random.Random(seed)
    drawn = (round(median * draw.lognormvariate(0.0, SIGMA)) for _ in range(POOL))
    return [min(max(length, LIMITS[0]), LIMITS[1]) for length in drawn]


def batches_of(lengths: list[int], count: int) -> tuple[list[list[int]], list[list[int]]]:
    """`count` random batches, and `count` grouped ones spread evenly over all lengths."""
    ordered = sorted(lengths)
    whole = [ordered[i : i + BATCH] for i in range(0, len(ordered), BATCH)]
    step = len(whole) / count
    grouped = [whole[int((i + 0.5) * step)] for i in range(count)]
    return [lengths[i * BATCH : (i + 1) * BATCH] for i in range(count)], grouped


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
    mean = sum(lengths) / len(lengths)
    shuffled, grouped = batches_of(lengths, count)
    runs = {
        "adapters, random": shuffled,
        "adapters, grouped": grouped,
        "adapterbank, random": shuffled,
        "adapterbank, grouped": grouped,
    }
    best = {name: [float("inf")] * count for name in runs}
    with (
        Worker("adapters_houlsby", str(minilm_folder()), python=python) as peer,
        Worker("ours") as ours,
    ):
        for turn in range(rounds + 1):
            for i in range(count):
                for name, batches in runs.items():
                    worker = ours if name.startswith("adapterbank") else peer
                    (seconds,) = worker.run([batches[i]])
                    if turn:  # the first turn warms up
                        best[name][i] = min(best[name][i], seconds)
    speeds = {
        name: sum(map(sum, batches)) / sum(best[name]) / mean for name, batches in runs.items()
    }
    limit = sgemm_limit()
    reached = sum(map(needed_gflop, shuffled)) / sum(best["adapterbank, random"])
    return {
        **speeds,
        "random to random": speeds["adapterbank, random"] / speeds["adapters, random"],
        "random to grouped": speeds["adapterbank, random"] / speeds["adapters, grouped"],
        "grouped to grouped": speeds["adapterbank, grouped"] / speeds["adapters, grouped"],
        "sgemm GFLOPS": limit,
        "share of sgemm": reached / limit,
    }


def draw(results: dict[int, dict[str, float]]) -> None:
    """Bars of examples a second, one panel a length."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "adapterbank"  # the same bytes for the same figures
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(results), figsize=(9, 2.6), sharey=True)
    colours = {"adapters": "#999999", "adapterbank": "#0072b2"}
    for panel, (median, result) in zip(panels, results.items(), strict=True):
        names = [name for name in result if ", " in name]
        bars = panel.barh(
            names, [result[n] for n in names], color=[colours[n.split(",")[0]] for n in names]
        )
        panel.bar_label(bars, fmt="%.0f", padding=3)
        panel.set_title(f"texts of about {median} tokens", fontsize=10)
        panel.set_xlabel("training examples a second")
        panel.margins(x=0.15)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=10)
    arguments = parser.parse_args()
    python = environment()
    results = {}
    for median in (16, 48):
        found = measure(median, arguments.rounds, arguments.batches, python)
        results[median] = {name: round(value, 2) for name, value in found.items()}
        print(json.dumps({"tokens": median, **results[median]}))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    PICTURE.parent.mkdir(exist_ok=True)
    draw(results)


if __name__ == "__main__":
    main()
