"""What a bank costs as it grows: opening, loading a task cold, publishing, listing, verifying.

    python benchmarks/bank.py [--tasks 10 100 1000] [--rounds 30]

Packages are those of `minilm` with adapters of size 64. "Cold" means that the task's files were
asked to leave the page cache first. Every figure is a median; imports and the base's own load are
not part of any. Results go to benchmarks/results/bank.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from adapterbank.bank import Bank
from adapterbank.learn import Learnt, learn
from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.order import make_order
from adapterbank.store.manifest import Manifest
from adapterbank.store.store import Store
from adapterbank.tasks.samples import SAMPLES, load_sample
from adapterbank.verify import verify

SIZE = 64
RESULTS = Path(__file__).parent / "results" / "bank.json"
Tensors = dict[str, torch.Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    encoder = load_encoder()
    manifest, tensors = one_task(encoder)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in options.tasks:
            home = Path(folder) / str(count)
            found[str(count)] = measure(home, count, options.rounds, encoder, manifest, tensors)
            print(count, json.dumps(found[str(count)]))
    first, last = str(options.tasks[0]), str(options.tasks[-1])
    ratio = found[last]["load cold ms"] / found[first]["load cold ms"]
    report = {**found, f"load at {last} to {first}": round(ratio, 2)}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def one_task(encoder: Encoder) -> tuple[Manifest, Tensors]:
    """A task of the bundled samples, hardly trained: its size is what counts."""
    order = make_order(encoder.layers, size=SIZE, epochs=1, baselines=False)
    learnt = list(learn(encoder, load_sample(SAMPLES[0]), order))[-1]
    assert isinstance(learnt, Learnt)
    return learnt.manifest, learnt.tensors


def measure(
    home: Path, count: int, rounds: int, encoder: Encoder, manifest: Manifest, tensors: Tensors
) -> dict[str, float]:
    """A bank of so many tasks."""
    store = Bank.create(home, encoder).store
    publishing = []
    for i in range(count):
        made = replace(manifest, note=f"task {i}")  # each its own package
        publishing.append(timed(partial(store.publish, f"t{i:04d}", made, tensors)))
    names = [f"t{i * count // rounds:04d}" for i in range(rounds)]
    entry = store.find(names[0])
    weights = home / "tasks/default/t0000/packages" / entry.version.package / "weights.safetensors"
    payload = sum(4 * tensor.numel() for tensor in tensors.values())
    some = names[:10]
    checking = timed(lambda: list(verify(store, encoder, some))) / len(some)
    return {
        "open ms": median(lambda _: Store.open(home), names),
        "load cold ms": median(lambda name: store.load(store.find(name)), names, cold=home),
        "load warm ms": median(lambda name: store.load(store.find(name)), names),
        "publish ms": round(1e3 * statistics.median(publishing), 2),
        "list names ms": round(1e3 * timed(lambda: list(store.tasks())), 2),
        "verify ms a task": round(1e3 * checking, 2),
        "weights over tensors": round(weights.stat().st_size / payload, 4),
        "manifest bytes": weights.with_name("manifest.json").stat().st_size,
    }


def median(act: Callable[[str], object], names: list[str], cold: Path | None = None) -> float:
    times = []
    for name in names:
        if cold is not None:
            forget(cold / "tasks" / "default" / name)
        times.append(timed(partial(act, name)))
    return round(1e3 * statistics.median(times), 3)


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def forget(folder: Path) -> None:
    """Ask the system to drop a folder's files from its page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


if __name__ == "__main__":
    main()
