"""What attached adapters cost at inference in torch, over the bare base: 32 rows of 32 tokens.

    python benchmarks/inference_overhead.py [--rounds 60]

Bare and adapted passes take turns; each one's time is its median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from adapterbank import AdapterConfig, attach, load_encoder

ROWS, TOKENS = 32, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    bare, adapted = load_encoder().model, load_encoder().model
    attach(adapted, AdapterConfig(size=64))
    torch.manual_seed(0)
    ids = torch.randint(1000, 30000, (ROWS, TOKENS))  # ordinary words
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    times: dict[str, list[float]] = {"bare": [], "adapted": []}
    with torch.inference_mode():
        for turn in range(rounds + 5):
            for name, model in (("bare", bare), ("adapted", adapted)):
                began = time.perf_counter()
                model(**inputs)
                if turn >= 5:  # the first turns warm up
                    times[name].append(time.perf_counter() - began)
    middle = {name: statistics.median(found) for name, found in times.items()}
    print(
        json.dumps(
            {
                **{f"{name} ms": round(1e3 * value, 2) for name, value in middle.items()},
                "overhead percent": round(100 * (middle["adapted"] / middle["bare"] - 1), 1),
            }
        )
    )


if __name__ == "__main__":
    main()
