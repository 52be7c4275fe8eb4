"""Many tasks in one batch, against peers: tokens a second through the encoder.

    python benchmarks/serving.py [--base minilm|bert-base] [--rounds 4] [--tasks 1000] [--only PART]

32 rows of 16, 32 and 128 tokens that belong to 1, 8 or 32 tasks with adapters of size 64. Peers run
in their own processes and environments: the adapters package with BatchSplit and one task after the
other, PEFT's LoRA with `adapter_names`, and the bare base in ONNX Runtime, as it comes and with a
part of the batch on each core. They take turns, and the shortest of the rounds counts. Then texts
of SST-2's lengths, single requests, bases of other sizes, and a bank of many tasks under Zipf
traffic, from text to label. Writes `results/serving_BASE.json` and the picture in `docs/`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from bank import one_task
from lengths import lengths_of
from peers import Worker, environment
from training_speed import SHAPES, base_folder, shape_of

ROWS = 32
SIZES = (32, 100, 320, 1000)  # of banks
LOADED = 1_000  # batches whose tasks are loaded first: traffic that has gone on for a while
WARM, MEASURED = 5, 100  # batches on each bank
LENGTHS = (16, 32, 128)
COUNTS = (1, 8, 32)
OURS, TORCH = "adapterbank", "adapterbank, torch"
BARE, BARE_CUT = "bare base, ONNX Runtime", "bare base, part on a core"
SPLIT, APART, LORA = "adapters, BatchSplit", "adapters, one by one", "peft, LoRA"
OWN = {OURS: "onnx", TORCH: "torch", BARE: "bare", BARE_CUT: "bare-cut"}
ON_EVERY_BASE = (f"{ROWS}×16, {ROWS} tasks", f"{ROWS}×128, {ROWS} tasks")
HERE = Path(__file__).parent
Figures = dict[str, float]
Request = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", choices=["minilm", *SHAPES], default="minilm")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--only", metavar="PART", help="and keep the last run's other figures")
    options = parser.parse_args()
    parts: dict[str, Callable[[], Figures]] = {
        "batches": lambda: measure(options.base, options.rounds)
    }
    if options.base == "minilm":
        parts["bases"] = lambda: measure_bases(options.rounds)
        parts["banks"] = lambda: measure_banks(options.tasks)
        parts["one-text"] = measure_one_text
        parts["fairness"] = measure_fairness
    if options.only not in (None, *parts):
        parser.error(f"--only {options.only}: parts are {', '.join(parts)}")
    results = HERE / "results" / f"serving_{options.base}.json"
    found: Figures = json.loads(results.read_text()) if options.only else {}
    for name, part in parts.items():
        if options.only in (None, name):
            found |= part()
    show(found)
    results.write_text(json.dumps(found, indent=2) + "\n")
    if options.base == "minilm":
        draw(found, [size for size in SIZES if size <= options.tasks])


def requests() -> dict[str, Request]:
    """Batches by what they show."""
    made: dict[str, Request] = {
        f"{ROWS}×{length}, {count} tasks": {"lengths": [length] * ROWS, "tasks": count}
        for length in LENGTHS
        for count in COUNTS
    }
    made["1×16, 1 tasks"] = {"lengths": [16], "tasks": 1}
    ragged = random.Random(0).sample(lengths_of("sst2"), ROWS)
    made["SST-2 lengths, 32 tasks"] = {"lengths": ragged, "tasks": ROWS}
    made["SST-2 lengths padded, 32 tasks"] = {"lengths": [max(ragged)] * ROWS, "tasks": ROWS}
    return made


def measure(base_name: str, rounds: int) -> Figures:
    """Milliseconds of each batch on each system."""
    asked = requests()
    with base_folder(base_name) as base, own_cache(base_name), ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker("serving_ours", kind, str(base)))
            for name, kind in OWN.items()
        }
        for name, method in ((SPLIT, "split"), (APART, "apart"), (LORA, "lora")):
            worker = Worker("serving_peers", method, str(base), python=environment())
            workers[name] = stack.enter_context(worker)
        best: Figures = {}
        for turn in range(rounds + 1):
            print(f"round {turn} of {rounds}", file=sys.stderr)
            # One batch on every system, then the next batch: the machine is not the same for long.
            for (name, request), (system, worker) in product(asked.items(), workers.items()):
                if name.startswith("1×") and system in (APART, BARE_CUT):
                    continue
                seconds = quickest(worker, request)
                key = f"{system}: {name}"
                best[key] = min(best.get(key, seconds), seconds)
    return {name: round(1e3 * seconds, 3) for name, seconds in best.items()}


def quickest(worker: Worker, request: Request) -> float:
    """Seconds of some runs in a row: the first finds the caches full of another system's."""
    rows: list[int] = request["lengths"]  # type: ignore[assignment]
    return min(worker.run(request) for _ in range(2 if len(rows) > 1 else 5))


@contextmanager
def own_cache(name: str) -> Iterator[None]:
    """A base of random weights is exported into a folder that goes with it."""
    if name == "minilm":
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ADAPTERBANK_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["ADAPTERBANK_CACHE"]


def measure_bases(rounds: int) -> Figures:
    """What is left of the bare base's speed, the quicker of its two ways, with 32 tasks in a batch,
    on bases of several sizes."""
    asked = {name: request for name, request in requests().items() if name in ON_EVERY_BASE}
    found: Figures = {}
    for base_name in ("bert-mini", "minilm", "bert-medium", "bert-base"):
        print(f"a base like {base_name}", file=sys.stderr)
        with base_folder(base_name) as base, own_cache(base_name), ExitStack() as stack:
            workers = [
                stack.enter_context(Worker("serving_ours", kind, str(base)))
                for kind in ("onnx", "bare", "bare-cut")
            ]
            layers, width, inner = shape_of(base)
            million = layers * (4 * width**2 + 2 * width * inner) / 1e6
            for name, request in asked.items():
                times = [[quickest(worker, request) for worker in workers] for _ in range(rounds)]
                ours, *bare = (min(taken) for taken in zip(*times, strict=True))
                found[f"{base_name}, {million:.1f} million: {name}"] = round(min(bare) / ours, 3)
    return found


def measure_banks(count: int) -> Figures:
    """From text to label on banks of 32 and of many tasks, Zipf traffic, 32 texts a batch."""
    from adapterbank.bank import Bank
    from adapterbank.model.encoder import load_encoder

    encoder = load_encoder()
    manifest, tensors = one_task(encoder)
    draw = np.random.default_rng(0)
    sentence = "the order never came and nobody answers my letters about the refund"
    words = sentence.split()
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        bank = Bank.create(Path(folder) / "bank", encoder)
        for i in range(count):
            bank.store.publish(f"t{i}", replace(manifest, note=f"task {i}"), tensors)
        sizes = [size for size in SIZES if size <= count]
        banks = {size: Bank.open(Path(folder) / "bank", memory=2**30) for size in sizes}
        times: dict[int, list[float]] = {size: [] for size in sizes}
        asked = dict.fromkeys(sizes, 0)

        def zipf(size: int) -> list[int]:
            """The tasks of a batch."""
            weights = 1 / np.arange(1, size + 1)
            found: list[int] = draw.choice(size, ROWS, p=weights / weights.sum()).tolist()
            return found

        for size, bank in banks.items():
            for _ in range(LOADED):
                for task in set(zipf(size)):
                    if (waiting := bank.engine.ask(f"t{task}", ["so"])) is not None:
                        waiting.release()
        before = {size: bank.engine.residency.counts.loads for size, bank in banks.items()}
        for turn in range(WARM + MEASURED):  # in turns: the machine is not the same for long
            for size, bank in banks.items():
                texts = [" ".join(draw.choice(words, 13)) for _ in range(ROWS)]
                tasks = zipf(size)
                asked[size] += len(set(tasks))
                batch = [(f"t{task}", text) for task, text in zip(tasks, texts, strict=True)]
                began = time.perf_counter()
                bank.predict_mixed(batch)
                if turn >= WARM:
                    times[size].append(time.perf_counter() - began)
        for size, bank in banks.items():
            found[f"bank of {size}: texts a second"] = round(ROWS / float(np.mean(times[size])), 1)
            residency = bank.engine.residency
            found[f"bank of {size}: tasks in memory"] = len(residency)
            found[f"bank of {size}: tasks of a batch that were there, share"] = round(
                1 - (residency.counts.loads - before[size]) / asked[size], 3
            )
            found[f"bank of {size}: MB a task"] = round(residency.bytes / len(residency) / 1e6, 3)
        banks.clear()
        bank = Bank.open(Path(folder) / "bank")
        cold: list[float] = []
        warm: list[float] = []
        for i in range(count - 1, count - 31, -1):
            for kept in (cold, warm):
                began = time.perf_counter()
                bank.predict(f"t{i}", [texts[0]])
                kept.append(time.perf_counter() - began)
        found["first answer of a task, ms over the second"] = round(
            1e3 * float(np.median(cold[1:]) - np.median(warm[1:])), 1
        )
    return found


def measure_one_text() -> Figures:
    """One text of 32 words, 16 tasks: what adapters from layer k on save."""
    from adapterbank.bank import Bank
    from adapterbank.model.encoder import load_encoder

    encoder = load_encoder()
    text = " ".join(["order", "never", "came", "and"] * 8)
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        bank = Bank.create(Path(folder) / "bank", encoder)
        names = {}
        for first in range(0, encoder.layers, 1):
            manifest, tensors = one_task(encoder, first)
            names[first] = [f"k{first}-{i}" for i in range(16)]
            for name in names[first]:
                bank.store.publish(name, replace(manifest, note=name), tensors)
        bank = Bank.open(Path(folder) / "bank")
        times: dict[int, list[float]] = {first: [] for first in names}
        for _ in range(13):  # in turns
            for first, tasks in names.items():
                began = time.perf_counter()
                bank.predict_all(text, tasks)
                times[first].append(time.perf_counter() - began)
        for first, taken in times.items():
            ms = round(1e3 * float(np.median(taken[3:])), 2)
            found[f"one text, 16 tasks from layer {first}: ms"] = ms
    return found


def measure_fairness(requests: int = 60) -> Figures:
    """A tenant that asks now and then, alone and beside one that floods the queue."""
    import threading

    from adapterbank.bank import Bank
    from adapterbank.errors import Busy
    from adapterbank.model.encoder import load_encoder
    from adapterbank.serving.batcher import Batcher

    encoder = load_encoder()
    manifest, tensors = one_task(encoder)
    text = " ".join(["order", "never", "came"] * 5)
    with tempfile.TemporaryDirectory() as folder:
        bank = Bank.create(Path(folder) / "bank", encoder)
        for name in ("light", "heavy"):
            bank.store.publish(name, replace(manifest, note=name), tensors)
        batcher = Batcher(Bank.open(Path(folder) / "bank").engine)
        stop = threading.Event()

        def flood() -> None:
            while not stop.is_set():
                try:
                    batcher.submit("heavy", [text] * 32, tenant="heavy")
                except Busy:  # as much waits as a tenant may have
                    time.sleep(0.01)

        def p95() -> float:
            waits = []
            for _ in range(requests):
                began = time.perf_counter()
                batcher.submit("light", [text], tenant="light").result()
                waits.append(time.perf_counter() - began)
                time.sleep(0.1)
            return 1e3 * float(np.percentile(waits, 95))

        p95()
        alone = p95()
        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        beside = p95()
        stop.set()
        for thread in threads:
            thread.join()
        batcher.close()
    return {
        "a light tenant, p95 alone: ms": round(alone, 1),
        "a light tenant, p95 beside a flood: ms": round(beside, 1),
    }


def draw(found: Figures, sizes: list[int]) -> None:
    """Tokens a second by the tasks in a batch, texts a second by the bank's size, and what of the
    bare base's speed is left by the base's size."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "adapterbank"  # the same bytes for the same figures
    from matplotlib import pyplot

    figure, (left, right, last) = pyplot.subplots(1, 3, figsize=(13, 3.6), width_ratios=(1.3, 1, 1))
    styles = {OURS: ("#0072b2", "o"), TORCH: ("#56b4e9", "s"), SPLIT: ("#d55e00", "^")}
    styles |= {LORA: ("#009e73", "v"), APART: ("#cc79a7", "D"), BARE: ("#000000", "x")}
    styles |= {BARE_CUT: ("#777777", "+")}
    for system, (colour, mark) in styles.items():
        speeds = [1e3 * ROWS * 16 / found[f"{system}: {ROWS}×16, {n} tasks"] for n in COUNTS]
        left.plot(COUNTS, speeds, marker=mark, color=colour, label=system)
    left.set_xscale("log", base=2)
    left.set_xticks(COUNTS, [str(n) for n in COUNTS])
    left.set_xlabel("tasks in a batch of 32 texts of 16 tokens")
    left.set_ylabel("tokens a second")
    left.set_ylim(bottom=0)
    left.legend(fontsize=7)
    speeds = [found[f"bank of {size}: texts a second"] for size in sizes]
    right.plot(sizes, speeds, marker="o", color="#0072b2")
    right.set_xscale("log")
    right.set_xticks(sizes, [f"{size:,}" for size in sizes])
    right.set_xlabel("tasks in the bank, Zipf traffic")
    right.set_ylabel("texts a second, text to label")
    right.set_ylim(0, 1.1 * max(speeds))
    for request, colour in zip(ON_EVERY_BASE, ("#0072b2", "#d55e00"), strict=True):
        points = [
            (float(name.split()[1]), share)
            for name, share in found.items()
            if name.startswith(("bert", "minilm")) and name.endswith(request)
        ]
        last.plot(*zip(*points, strict=True), marker="o", color=colour, label=request)
    last.set_xscale("log")
    last.minorticks_off()
    last.set_xticks([size for size, _ in points], [f"{size:.0f}" for size, _ in points])
    last.set_xlabel("base, millions outside the embeddings")
    last.set_ylabel("of the bare base's speed")
    last.set_ylim(0, 1.25)
    last.legend(fontsize=7, loc="lower right")
    for panel in (left, right, last):
        panel.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(HERE.parent / "docs" / "images" / "serving.svg", metadata={"Date": None})
    pyplot.close(figure)


def show(found: Figures) -> None:
    """Tokens a second of each system, and how many times ours are theirs."""
    systems = (*OWN, SPLIT, APART, LORA)
    print(f"{'tokens a second':34}" + "".join(f"{name:>26}" for name in systems))
    for name, request in requests().items():
        tokens = sum(request["lengths"])  # type: ignore[call-overload]
        cells = [found.get(f"{system}: {name}") for system in systems]
        line = "".join(f"{1e3 * tokens / ms:>26,.0f}" if ms else f"{'':>26}" for ms in cells)
        print(f"{name:34}{line}")
        ours = cells[0]
        ratios = "".join(f"{ms / ours:>26.2f}" if ms and ours else f"{'':>26}" for ms in cells)
        print(f"{'  ours to it':34}{ratios}")
    for name, value in found.items():
        if name.startswith(("bank", "bert", "minilm", "first", "one text", "a light")):
            print(f"{name:50}{value:>12}")


if __name__ == "__main__":
    main()
