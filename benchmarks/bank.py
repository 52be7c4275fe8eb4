"""What a bank costs as it grows: opening, loading a task cold, publishing, listing, verifying.

    python benchmarks/bank.py [--tasks 10 100 1000] [--rounds 60]

Packages are those of `minilm` with adapters of size 64. "Cold" means that the task's files were
asked to leave the page cache first. Every figure is a median; imports and the base's own load are
not part of any. Results go to benchmarks/results/bank.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from adapterbank.bank import Bank
from adapterbank.events import Learnt
from adapterbank.learn import learn
from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.order import make_order
from adapterbank.store.files import LocalFiles
from adapterbank.store.manifest import Manifest
from adapterbank.store.package import MANIFEST
from adapterbank.store.store import Store
from adapterbank.store.weights import WEIGHTS
from adapterbank.tasks.samples import SAMPLES, load_sample
from adapterbank.verify import verify

SIZE = 64
RESULTS = Path(__file__).parent / "results" / "bank.json"
Tensors = dict[str, torch.Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    encoder = load_encoder()
    manifest, tensors = one_task(encoder)
    with tempfile.TemporaryDirectory() as folder:
        found = {
            count: build(Path(folder) / str(count), count, encoder, manifest, tensors)
            for count in options.tasks
        }
        stores = {count: Store.open(Path(folder) / str(count)) for count in options.tasks}
        measure(stores, found, options.rounds, encoder)
    first, last = options.tasks[0], options.tasks[-1]
    ratio = found[last]["load cold ms"] / found[first]["load cold ms"]
    report = {**found, f"load cold, {last} to {first}": round(ratio, 2)}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def one_task(encoder: Encoder, first_layer: int = 0) -> tuple[Manifest, Tensors]:
    """A task of the bundled samples, hardly trained: its size is what counts."""
    order = make_order(
        encoder.layers, size=SIZE, epochs=1, baselines=False, first_layer=first_layer
    )
    learnt = list(learn(encoder, load_sample(SAMPLES[0]), order))[-1]
    assert isinstance(learnt, Learnt)
    return learnt.manifest, learnt.tensors


def build(
    home: Path, count: int, encoder: Encoder, manifest: Manifest, tensors: Tensors
) -> dict[str, float]:
    """A bank of so many tasks; what publishing took, and what a package weighs."""
    store = Bank.create(home, encoder).store
    times = []
    for i in range(count):
        made = replace(manifest, note=f"task {i}")  # each its own package
        times.append(timed(store.publish, name_of(i), made, tensors))
    digest = store.find(name_of(0)).version.package
    package = home / "tasks/default" / name_of(0) / "packages" / digest
    payload = sum(4 * tensor.numel() for tensor in tensors.values())
    return {
        "publish ms": milliseconds(times),
        "weights over tensors": round((package / WEIGHTS).stat().st_size / payload, 4),
        "manifest bytes": (package / MANIFEST).stat().st_size,
    }


def measure(
    stores: dict[int, Store], found: dict[int, dict[str, float]], rounds: int, encoder: Encoder
) -> None:
    """Banks of all sizes take turns, so that a slow moment of the machine falls on each."""
    times: dict[int, dict[str, list[float]]] = {count: defaultdict(list) for count in stores}
    draw = random.Random(0)
    for _ in range(rounds):
        for count, store in stores.items():
            name = name_of(draw.randrange(count))
            files = store.files
            assert isinstance(files, LocalFiles)
            here = times[count]
            here["open ms"].append(timed(Store.open, files.local))
            forget(files.local / "tasks" / "default" / name)
            here["load cold ms"].append(timed(load, store, name))
            here["load warm ms"].append(timed(load, store, name))
            here["verify ms a task"].append(timed(check, store, name, encoder))
    for count, store in stores.items():
        found[count] |= {what: milliseconds(each) for what, each in times[count].items()}
        found[count]["list names ms"] = milliseconds([timed(names, store)])


def name_of(number: int) -> str:
    return f"t{number:04d}"


def milliseconds(times: list[float]) -> float:
    return round(1e3 * statistics.median(times), 3)


def load(store: Store, name: str) -> object:
    return store.load(store.find(name))


def check(store: Store, name: str, encoder: Encoder) -> object:
    return list(verify(store, encoder, [name]))


def names(store: Store) -> object:
    return list(store.tasks())


def timed(act: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    act(*arguments)
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
