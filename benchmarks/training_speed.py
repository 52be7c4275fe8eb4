"""Training speed and memory against peers: the same base, the same texts, adapters of size 64.

    python benchmarks/training_speed.py [--base minilm|bert-base] [--batches 10] [--rounds 5]
                                        [--products fp32|bf16]

Batches of 32 with the text lengths of SST-2 and of RTE (ADAPTERBANK_DATA names the folder that has
them), dropout as the base has it, forward, backward, clipping and update. Every system runs in its
own process and environment. They take turns batch by batch, each with random batches, which is
everyone's default,
and with batches grouped by length, which a user of the peers can switch on. A batch's time is its
shortest over the rounds: that leaves out what other programs on the machine took. Speeds are real
tokens a second, divided by the mean length, since batches of one kind are not quite as long as
those of another. Then one more program is kept busy beside a step of each. `--products bf16` is
for processors that are fast at it: everyone multiplies in bfloat16, the peers by torch's autocast.
Writes `results/training_speed_BASE.json` and the picture in `docs/`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from adapterbank.model.wheel import minilm_folder
from lengths import batches_of, lengths_of
from peers import Worker, environment

SIZE = 64
SHAPES = {"bert-mini": (4, 256), "bert-medium": (8, 512), "bert-base": (12, 768)}  # layers, width
KINDS = ("random", "grouped")
TASKS = {"sst2": "SST-2", "rte": "RTE"}
OURS, FULL, ADAPTERS, LORA = "adapterbank", "full fine-tuning", "adapters 1.3.0", "peft, LoRA"
PEERS = {ADAPTERS: "adapters", LORA: "lora", FULL: "full"}
HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "images" / "training_speed.svg"
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", choices=["minilm", "bert-base"], default="minilm")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--products", choices=["fp32", "bf16"], default="fp32")
    options = parser.parse_args()
    with base_folder(options.base) as base:
        found = {
            name: measure(base, task, options.batches, options.rounds, options.products)
            for task, name in TASKS.items()
        }
    show(found)
    usual = options.products == "fp32"
    name = f"training_speed_{options.base}{'' if usual else '_bf16'}.json"
    (HERE / "results" / name).write_text(json.dumps(found, indent=2) + "\n")
    if options.base == "minilm" and usual:
        draw(found)


@contextmanager
def base_folder(name: str) -> Iterator[Path]:
    """The embedded base, or one of a published BERT's shape with random weights."""
    if name == "minilm":
        yield minilm_folder()
        return
    from transformers import AutoTokenizer, BertConfig, BertModel

    layers, width = SHAPES[name]
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=4 * width,
        num_attention_heads=width // 64,
    )
    with tempfile.TemporaryDirectory() as folder:
        AutoTokenizer.from_pretrained(minilm_folder()).save_pretrained(folder)
        BertModel(config).save_pretrained(folder)
        yield Path(folder)


def measure(base: Path, task: str, count: int, rounds: int, products: str) -> Figures:
    """Examples a second of each system, memory, and what they are to the machine's limit."""
    lengths = lengths_of(task)
    mean = sum(lengths) / len(lengths)
    kinds = batches_of(lengths, count)
    with ExitStack() as stack:
        workers = {OURS: stack.enter_context(Worker("ours", str(base), products))}
        for name, method in PEERS.items():
            worker = Worker("padded", method, str(base), products, python=environment())
            workers[name] = stack.enter_context(worker)
        peaks = {
            f"peak GB, {system}, {kind}": peak_of(worker, batches)
            for system, worker in workers.items()
            for kind, batches in kinds.items()  # a process keeps its memory: random ones come first
        }
        best = {(system, kind): [float("inf")] * count for system in workers for kind in kinds}
        limit = 0.0
        for turn in range(rounds):
            print(f"{TASKS[task]}: round {turn + 1} of {rounds}", file=sys.stderr)
            limit = max(limit, sgemm_limit())
            for i in range(count):
                for (system, kind), times in best.items():
                    # Twice: after the others' turns the first one finds its caches cold.
                    again = [workers[system].run(kinds[kind][i]) for _ in range(2)]
                    times[i] = min(times[i], *again)
        # A base of BERT's size would take the peers minutes a step.
        small = task == "sst2" and base == minilm_folder()
        beside = beside_a_busy_program(workers, kinds["random"]) if small else {}
    speeds = {
        f"{system}, {kind}": sum(map(sum, kinds[kind])) / sum(times) / mean
        for (system, kind), times in best.items()
    }
    shape = shape_of(base)
    shares = {
        f"share of sgemm, {kind}": sum(needed_gflop(shape, rows) for rows in batches)
        / sum(best[OURS, kind])
        / limit
        for kind, batches in kinds.items()
    }
    figures = {
        **speeds,
        "mean tokens": mean,
        "sgemm GFLOPS": limit,
        **shares,
        **peaks,
        **{f"beside a busy program, {name}": speed for name, speed in beside.items()},
    }
    return {name: round(value, 3) for name, value in figures.items()}


def peak_of(worker: Worker, batches: list[list[int]]) -> float:
    """The most memory that a worker has held after these batches, GB."""
    for batch in batches:
        worker.run(batch)
    return worker.peak


def beside_a_busy_program(workers: dict[str, Worker], batches: list[list[int]]) -> Figures:
    """Examples a second while one other program keeps a core busy."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        return {name: len(batches[0]) / worker.run(batches[0]) for name, worker in workers.items()}
    finally:
        busy.kill()
        busy.wait()


def sgemm_limit() -> float:
    """GFLOPS of a large matrix product, the best of a few."""
    import torch

    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = float("inf")
    for _ in range(4):
        began = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - began)
    return 2 * 2048**3 / best / 1e9


def shape_of(base: Path) -> tuple[int, int, int]:
    """Layers, width, inner width."""
    config = json.loads((base / "config.json").read_text())
    return config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]


def needed_gflop(shape: tuple[int, int, int], lengths: list[int]) -> float:
    """What the mathematics of one adapter step needs: real tokens, forward and backward.

    Frozen products run twice (forward, gradient of the input), adapters three times.
    """
    layers, d, inner = shape
    frozen = 2 * layers * (4 * d * d + 2 * d * inner)  # a token, once
    adapters = 2 * layers * 2 * 2 * d * SIZE
    attention = sum(2 * layers * 2 * d * length * length for length in lengths)
    return (sum(lengths) * (2 * frozen + 3 * adapters) + 3 * attention) / 1e9


def ratios(figures: Figures) -> Figures:
    """How many times as fast we are, and how much of the memory we need."""

    def ours_to(name: str, ours: str, theirs: str) -> float:
        return figures[f"{OURS}, {ours}"] / figures[f"{name}, {theirs}"]

    against = {
        f"against {name}, {kind} batches": ours_to(name, kind, kind)
        for name in PEERS
        for kind in KINDS
    }
    default = {
        f"our random against {name}, grouped": ours_to(name, "random", "grouped") for name in PEERS
    }
    memory = {
        f"memory to full fine-tuning's, {kind}": figures[f"peak GB, {OURS}, {kind}"]
        / figures[f"peak GB, {FULL}, {kind}"]
        for kind in KINDS
    }
    return {**against, **default, **memory}


def show(found: dict[str, Figures]) -> None:
    """A table with a column a task."""
    columns = {task: {**figures, **ratios(figures)} for task, figures in found.items()}
    print(f"{'':52}" + "".join(f"{task:>10}" for task in columns))
    for name in next(iter(columns.values())):
        cells = (f"{each[name]:.2f}" if name in each else "" for each in columns.values())
        print(f"{name:52}" + "".join(f"{cell:>10}" for cell in cells))


def draw(found: dict[str, Figures]) -> None:
    """Bars of examples a second, one panel a task."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "adapterbank"  # the same bytes for the same figures
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(found), figsize=(10, 3.2), sharey=True)
    for panel, (task, figures) in zip(panels, found.items(), strict=True):
        names = [
            name
            for name in figures
            if name.startswith((OURS, *PEERS)) and name.endswith(("random", "grouped"))
        ]
        speeds = [figures[name] for name in names]
        colours = ["#0072b2" if name.startswith(OURS) else "#999999" for name in names]
        panel.bar_label(panel.barh(names, speeds, color=colours), fmt="%.0f", padding=3)
        panel.set_title(f"{task}: {figures['mean tokens']:.0f} tokens a text", fontsize=10)
        panel.set_xlabel("training examples a second")
        panel.margins(x=0.15)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
