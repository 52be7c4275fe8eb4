"""How many machines serve a million tasks? A simulation from measured costs, checked on the engine.

    python benchmarks/simulate.py [--check-only] [--seconds 20]

First the engine's costs are measured here: seconds a batch, a token, a task in the batch, a task
loaded, bytes a task. Then real traffic goes through the real queue and engine on a small bank, and
the simulator is given the same arrivals: hit rate and latencies must agree. Then it is asked what
cannot be tried here. Writes `results/simulate.json` and the pictures of `docs/scale.md`.

What is simulated is one machine of a cluster at a time: requests of one text come at random, their
tasks by Zipf's law; a task that is not in memory is loaded by the thread that brings the request;
one worker takes whatever waits, up to a batch's tokens, whenever it is free.
"""

from __future__ import annotations

import argparse
import heapq
import json
import tempfile
import threading
import time
from collections import OrderedDict
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "simulate.json"
PICTURE = HERE.parent / "docs" / "images" / "scale.svg"
BATCH_TOKENS = 512
CORES = 2
WORDS = 13  # of a text
MILLION = 1_000_000


@dataclass(frozen=True)
class Costs:
    """What was measured on one machine."""

    batch_seconds: float
    token_seconds: float
    task_seconds: float
    """Of each different task in a batch."""
    request_seconds: float
    """Of everything around a request, outside the batch."""
    load_seconds: float
    """From a package on the disk to a task in memory."""
    task_bytes: float
    base_bytes: float
    tokens: float
    """Of a text, on average."""

    @property
    def capacity(self) -> float:
        """Texts a second, in full batches of as many tasks as texts."""
        texts = BATCH_TOKENS / self.tokens
        batch = self.batch_seconds + BATCH_TOKENS * self.token_seconds + texts * self.task_seconds
        return float(texts / batch)


@dataclass(frozen=True)
class Outcome:
    """What became of the requests."""

    p50_ms: float
    p99_ms: float
    hit_rate: float
    busy: float
    """Share of the time that the worker ran."""


def simulate(
    costs: Costs, arrivals: NDArray[np.float64], tasks: NDArray[np.int64], room: int
) -> Outcome:
    """One machine with room for so many tasks. The first fifth only warms it up."""
    memory: OrderedDict[int, float] = OrderedDict()
    ready: list[tuple[float, int]] = []
    cold: set[int] = set()
    hits = 0
    warm = len(arrivals) // 5
    for number, (at, task) in enumerate(zip(arrivals.tolist(), tasks.tolist(), strict=True)):
        if task in memory:
            memory.move_to_end(task)
            hits += number >= warm
            there = max(at, memory[task])  # it may be on its way
        else:
            if len(memory) >= room:
                memory.popitem(last=False)
            there = memory[task] = at + costs.load_seconds
            cold.add(number)
        heapq.heappush(ready, (there + costs.request_seconds, number))
    free, busy = 0.0, 0.0
    done = np.zeros(len(arrivals))
    most = max(1, int(BATCH_TOKENS / costs.tokens))
    while ready:
        free = max(free, ready[0][0])
        batch: list[int] = []
        while ready and ready[0][0] <= free and len(batch) < most:
            batch.append(heapq.heappop(ready)[1])
        different = len({int(tasks[number]) for number in batch})
        took = (
            costs.batch_seconds
            + len(batch) * costs.tokens * costs.token_seconds
            + different * costs.task_seconds
            # Loading has one of the cores that the batch would have had.
            + len(cold.intersection(batch)) * costs.load_seconds / CORES
        )
        free += took
        busy += took
        done[batch] = free
    waits = 1e3 * (done - arrivals)[warm:]
    p50, p99 = np.percentile(waits, [50, 99])
    share = busy / max(free, 1e-9)
    return Outcome(float(p50), float(p99), hits / max(1, len(arrivals) - warm), float(share))


def zipf(count: int, exponent: float) -> NDArray[np.float64]:
    """The chance of each task."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def traffic(
    rate: float, chances: NDArray[np.float64], requests: int, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """When requests come, and for which task."""
    draw = np.random.default_rng(seed)
    arrivals = np.cumsum(draw.exponential(1 / rate, requests))
    tasks = np.searchsorted(np.cumsum(chances), draw.random(requests))
    return arrivals, np.minimum(tasks, len(chances) - 1).astype(np.int64)


# --- what is asked


def machines_for(
    costs: Costs,
    rate: float,
    count: int,
    exponent: float,
    memory: float,
    p99_ms: float,
    *,
    sticky: bool,
    requests: int = 200_000,
) -> int | None:
    """The fewest machines that keep the latency. `sticky`: every task has a machine of its own
    among them; else any machine may be asked."""
    room = max(1, int((memory - costs.base_bytes) / costs.task_bytes))
    whole = zipf(count, exponent)

    def good(machines: int) -> bool:
        if sticky:  # dealt out by rank, as a hash would on average
            mine = whole[::machines] * machines
            share = mine / mine.sum()
        else:
            share = whole
        came = traffic(rate / machines, share, requests)
        found = simulate(costs, *came, room)
        return found.p99_ms <= p99_ms and found.busy < 0.98

    low = max(1, int(rate / costs.capacity))
    high = low
    while not good(high):
        low, high = high + 1, high * 2
        if high > 4 * rate:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle + 1, high)
    return high


def questions(costs: Costs) -> dict[str, object]:
    gib = 2.0**30
    memories = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    hit_rates = {
        str(exponent): [
            _hits(
                costs, zipf(MILLION, exponent), int((m * gib - costs.base_bytes) / costs.task_bytes)
            )
            for m in memories
        ]
        for exponent in (0.8, 1.0, 1.2)
    }
    rates = [100, 300, 1_000, 3_000, 10_000]
    machines = {
        name: [
            machines_for(costs, rate, MILLION, 1.0, 64 * gib, 250, sticky=sticky) for rate in rates
        ]
        for name, sticky in (("a task has its machine", True), ("any machine", False))
    }
    loads = [0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9]
    whole = zipf(MILLION, 1.0)
    by_load = [
        asdict(
            simulate(
                costs,
                *traffic(load * costs.capacity, whole, 200_000),
                int((64 * gib - costs.base_bytes) / costs.task_bytes),
            )
        )
        for load in loads
    ]
    return {
        "memory_gib": memories,
        "hit_rates": hit_rates,
        "rates": rates,
        "machines_64_gib_p99_250_ms": machines,
        "loads": loads,
        "by_load": by_load,
        "million_tasks_tib": MILLION * costs.task_bytes / 2**40,
        "million_models_tib": MILLION * costs.base_bytes / 2**40,
    }


def _hits(costs: Costs, chances: NDArray[np.float64], room: int) -> float:
    arrivals, tasks = traffic(costs.capacity, chances, 1_500_000)
    memory: OrderedDict[int, None] = OrderedDict()
    hits = 0
    warm = len(arrivals) // 2
    for number, task in enumerate(tasks.tolist()):
        if task in memory:
            memory.move_to_end(task)
            hits += number >= warm
        else:
            if len(memory) >= room:
                memory.popitem(last=False)
            memory[task] = None
    return hits / (len(arrivals) - warm)


# --- what is measured


def text_of(number: int) -> str:
    """Texts of one length, no two of a batch the same: what is the same is computed once."""
    vocabulary = ("order", "never", "came", "and", "nobody", "answers", "letters", "refund")
    digits = [(number // 8**place + place) % 8 for place in range(WORDS)]
    return " ".join(vocabulary[digit] for digit in digits)


def measure_costs(bank: object, names: list[str]) -> Costs:
    """A line through times of batches with more texts and more tasks."""
    from adapterbank.bank import Bank
    from adapterbank.serving.engine import Engine

    assert isinstance(bank, Bank)
    engine: Engine = bank.engine
    asked = engine.ask(names[0], [text_of(0)])
    assert asked is not None
    tokens = len(asked.rows[0].tokens)
    asked.release()
    rows, times = [], []
    for texts in (1, 4, 8, 16, 32):
        for different in sorted({1, texts // 2 or 1, texts}):
            batch = [(names[i % different], text_of(i)) for i in range(texts)]
            took = []
            for _ in range(15):
                began = time.perf_counter()
                engine.answer(batch)
                took.append(time.perf_counter() - began)
            rows.append([1.0, texts * tokens, different])
            times.append(float(np.median(took)))
    weights = 1 / np.array(times)  # small batches count as much as large ones
    table = np.array(rows)
    found, *_ = np.linalg.lstsq(table * weights[:, None], np.array(times) * weights, rcond=None)
    cold = []
    for name in names[-40:]:
        began = time.perf_counter()
        waiting = engine.ask(name, [text_of(1)])
        cold.append(time.perf_counter() - began)
        assert waiting is not None
        waiting.release()
    again = []
    for name in names[-40:]:
        began = time.perf_counter()
        waiting = engine.ask(name, [text_of(1)])
        again.append(time.perf_counter() - began)
        assert waiting is not None
        waiting.release()
    residency = engine.residency
    base = sum(p.numel() * 4 for p in bank.encoder.model.parameters())
    return Costs(
        batch_seconds=max(float(found[0]), 0.0),
        token_seconds=float(found[1]),
        task_seconds=max(float(found[2]), 0.0),
        request_seconds=float(np.median(again)),
        load_seconds=float(np.median(cold) - np.median(again)),
        task_bytes=residency.bytes / len(residency),
        base_bytes=float(base),
        tokens=float(tokens),
    )


def check(seconds: float) -> tuple[Costs, list[dict[str, object]]]:
    """Costs, and the same traffic through the real queue and through the simulator."""
    from adapterbank.bank import Bank
    from adapterbank.model.encoder import load_encoder
    from bank import one_task

    encoder = load_encoder()
    manifest, tensors = one_task(encoder)
    names = [f"t{i}" for i in range(300)]
    compared: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        bank = Bank.create(Path(folder) / "bank", encoder)
        for i, name in enumerate(names):
            bank.store.publish(name, replace(manifest, note=f"task {i}"), tensors)
        bank = Bank.open(Path(folder) / "bank", memory=2**30)
        costs = measure_costs(bank, names)
        for room, load in ((300, 0.5), (60, 0.5), (60, 0.8)):
            bank = Bank.open(Path(folder) / "bank", memory=int(room * costs.task_bytes) + 1)
            chances = zipf(len(names), 1.0)
            rate = load * costs.capacity
            arrivals, tasks = traffic(rate, chances, int(rate * seconds))
            real = drive(bank, names, arrivals, tasks)
            model = simulate(costs, arrivals, tasks, room)
            compared.append(
                {"tasks in memory": room, "load": load, "engine": real, "simulator": asdict(model)}
            )
            print(json.dumps(compared[-1]))
    return costs, compared


def drive(
    bank: object, names: list[str], arrivals: NDArray[np.float64], tasks: NDArray[np.int64]
) -> dict[str, float]:
    """Real requests at their times, through the queue."""
    from concurrent.futures import ThreadPoolExecutor

    from adapterbank.bank import Bank
    from adapterbank.serving.batcher import Batcher

    assert isinstance(bank, Bank)
    batcher = Batcher(bank.engine)
    waits = np.zeros(len(arrivals))
    left = threading.Semaphore(0)
    residency = bank.engine.residency
    began = time.monotonic() + 0.2
    warm = len(arrivals) // 5
    before = [0, 0]

    def ask(number: int) -> None:
        if number == warm:
            before[:] = residency.counts.hits, residency.counts.loads
        future = batcher.submit(names[tasks[number]], [text_of(number)], seconds=60)

        def told(_: object) -> None:
            waits[number] = time.monotonic() - began - arrivals[number]
            left.release()

        future.add_done_callback(told)

    with ThreadPoolExecutor(16) as pool:
        for number, at in enumerate(arrivals.tolist()):
            pause = began + at - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            pool.submit(ask, number)
        for _ in arrivals:
            left.acquire()
    batcher.close()
    hits, loads = residency.counts.hits - before[0], residency.counts.loads - before[1]
    p50, p99 = np.percentile(1e3 * waits[warm:], [50, 99])
    return {"p50_ms": float(p50), "p99_ms": float(p99), "hit_rate": hits / max(1, hits + loads)}


def draw(found: dict[str, object]) -> None:
    from adapterbank.figures.style import COLOURS, MARKERS, picture

    asked = found["questions"]
    assert isinstance(asked, dict)
    with picture(PICTURE, 10.5, 3.4) as figure:
        left, middle, right = figure.subplots(1, 3)
        for number, (exponent, rates) in enumerate(asked["hit_rates"].items()):
            left.plot(asked["memory_gib"], [100 * r for r in rates], f"{MARKERS[number]}-",
                      color=COLOURS[number], label=f"Zipf {exponent}")  # fmt: skip
        left.set_xscale("log", base=2)
        left.set_xticks(asked["memory_gib"], [str(m) for m in asked["memory_gib"]])
        left.set_xlabel("memory of a machine, GiB")
        left.set_ylabel("requests that find their task in memory, %")
        left.set_title("A million tasks")
        loads = [100 * load for load in asked["loads"]]
        middle.plot(loads, [o["p99_ms"] for o in asked["by_load"]],
                    "o-", color=COLOURS[0], label="p99")  # fmt: skip
        middle.plot(loads, [o["p50_ms"] for o in asked["by_load"]],
                    "s--", color=COLOURS[1], label="median")  # fmt: skip
        middle.set_xlabel("load, % of a machine's capacity")
        middle.set_yscale("log")
        middle.set_ylabel("milliseconds")
        middle.set_title("One machine, 64 GiB")
        for number, (name, machines) in enumerate(asked["machines_64_gib_p99_250_ms"].items()):
            points = [(r, m) for r, m in zip(asked["rates"], machines, strict=True) if m]
            right.plot(*zip(*points, strict=True), f"{MARKERS[number]}-", color=COLOURS[number],
                       label=name)  # fmt: skip
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xlabel("requests a second, all tasks together")
        right.set_ylabel("machines of two cores")
        right.set_title("p99 of 250 ms")
        for panel in (left, middle, right):
            panel.grid(axis="y")
            panel.legend(fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="of each check on the engine")
    parser.add_argument("--check-only", action="store_true")
    options = parser.parse_args()
    costs, compared = check(options.seconds)
    found: dict[str, object] = {
        "costs": asdict(costs),
        "capacity": costs.capacity,
        "check": compared,
    }
    if not options.check_only:
        found["questions"] = questions(costs)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")
        draw(found)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
