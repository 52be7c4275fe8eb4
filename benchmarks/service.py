"""The service against the engine it stands on: throughput, latency, training beside it, memory.

    python benchmarks/service.py [--seconds 15] [--requests 100000]

A bank of 32 tasks on `minilm` with adapters of size 64, texts of about 16 tokens. The engine
answers batches of 32 in this process; the service runs as people run it, and a load generator in a
process of its own sends requests over loopback, all on the same cores. Then: a job trains beside
requests at a steady rate, each on one thread; a start with 1,000 tasks in the bank; and so many
requests with an eye on the memory. Writes `results/service.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bank import one_task

HERE = Path(__file__).parent
TASKS, MANY = 32, 1000
WORDS = ("the", "order", "never", "came", "and", "nobody", "answers", "my", "late", "letters")
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bank = Path(folder) / "bank"
        make_bank(bank, TASKS)
        found = measure_speed(bank, options.seconds)
        found |= measure_beside_training(bank, options.seconds)
        found |= measure_memory(bank, options.requests)
        make_bank(bank, MANY)
        with served(bank) as (_, _, seconds):
            found["seconds to ready, 1,000 tasks"] = round(seconds, 2)
    for name, value in found.items():
        print(f"{name:60}{value:>12}")
    (HERE / "results" / "service.json").write_text(json.dumps(found, indent=2) + "\n")


def make_bank(place: Path, count: int) -> None:
    """So many tasks of one size, each a package of its own."""
    from adapterbank.bank import Bank
    from adapterbank.model.encoder import load_encoder

    encoder = load_encoder()
    manifest, tensors = one_task(encoder)
    store = Bank.open(place).store
    for i in range(len(list(store.tasks())), count):
        store.publish(f"t{i}", replace(manifest, note=f"task {i}"), tensors)


def texts(count: int) -> list[str]:
    """Texts of about 16 tokens."""
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, 14)) for _ in range(count)]


def requests(texts_each: int, count: int = 512) -> list[dict[str, Any]]:
    """Requests for tasks in turn."""
    some = texts(count * texts_each)
    return [
        {
            "path": f"/v1/tasks/t{i % TASKS}/predict",
            "body": {"inputs": some[i * texts_each : (i + 1) * texts_each]},
        }
        for i in range(count)
    ]


@contextmanager
def served(bank: Path, *options: str) -> Iterator[tuple[int, int, float]]:
    """A service: its port, its process id, and the seconds until it was ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.perf_counter()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "adapterbank",
            "serve",
            "--bank",
            bank,
            "--port",
            str(port),
            *options,
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        while not _ready(port):
            time.sleep(0.02)
        yield port, process.pid, time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def load(
    port: int, clients: int, seconds: float, asked: list[dict[str, Any]], rate: float = 0.0
) -> dict[str, Any]:
    """What the load generator saw."""
    arguments = map(str, (port, clients, seconds, rate))
    ran = subprocess.run(
        [sys.executable, HERE / "workers" / "load.py", *arguments],
        input="\n".join(map(json.dumps, asked)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seen: dict[str, Any] = json.loads(ran.stdout)
    assert set(seen["statuses"]) == {"200"}, seen["statuses"]
    return seen


def percentile(seen: dict[str, Any], share: float) -> float:
    return round(float(np.percentile(seen["ms"], share)), 2)


def measure_speed(bank: Path, seconds: float) -> Figures:
    """Texts a second of the engine and of the service, and one client's latency over both."""
    from adapterbank.serving.open import open_bank_engine

    found: Figures = {}
    engine = open_bank_engine(bank)
    asked = [(f"t{i % TASKS}", text) for i, text in enumerate(texts(2048))]
    batches = [asked[i : i + 32] for i in range(0, len(asked), 32)]
    for batch in batches[:8]:
        engine.answer(batch)
    began = time.perf_counter()
    for batch in batches:
        engine.answer(batch)
    found["engine, texts a second"] = round(len(asked) / (time.perf_counter() - began), 1)
    single = []
    for task, text in asked[:200]:
        began = time.perf_counter()
        engine.answer([(task, text)])
        single.append(1e3 * (time.perf_counter() - began))
    found["engine, one text, ms"] = round(float(np.median(single)), 2)
    del engine
    with served(bank, "--no-jobs") as (port, _, ready):
        found["seconds to ready, 32 tasks"] = round(ready, 2)
        load(port, 8, 3.0, requests(1))  # warm
        for each in (8, 1):
            seen = load(port, 64, seconds, requests(each))
            rate = each * len(seen["ms"]) / seen["seconds"]
            name = f"64 clients, {each} texts a request"
            found[f"{name}: texts a second"] = round(rate, 1)
            found[f"{name}: of the engine's"] = round(rate / found["engine, texts a second"], 3)
            found[f"{name}: p50 ms"] = percentile(seen, 50)
            found[f"{name}: p99 ms"] = percentile(seen, 99)
        seen = load(port, 1, min(seconds, 5.0), requests(1))
        found["one client, ms"] = percentile(seen, 50)
        added = percentile(seen, 50) - found["engine, one text, ms"]
        found["one client, ms over the engine's"] = round(added, 2)
    return found


def measure_beside_training(bank: Path, seconds: float) -> Figures:
    """Requests at a steady rate, with and without a job beside them, a thread each."""
    found: Figures = {}
    with served(bank, "--threads", "1", "--job-threads", "1") as (port, _, _):
        load(port, 8, 3.0, requests(1))
        idle = load(port, 4, seconds, requests(1), rate=10.0)
        found["10 requests a second, idle: p95 ms"] = percentile(idle, 95)
        alone = job_speed(port, 30.0)
        found["job alone: steps a second"] = round(alone, 3)
        id = start_job(port)
        first = steps(port, id, wait=True)
        began = time.perf_counter()
        busy = load(port, 4, 30.0, requests(1), rate=10.0)
        took = time.perf_counter() - began
        beside = (steps(port, id) - first) / took
        cancel(port, id)
        found["10 requests a second, beside a job: p95 ms"] = percentile(busy, 95)
        found["… times idle's"] = round(percentile(busy, 95) / percentile(idle, 95), 2)
        found["job beside requests: of its speed alone"] = round(beside / alone, 3)
    return found


def job_speed(port: int, seconds: float) -> float:
    """Steps a second of a job that has its thread for itself."""
    id = start_job(port)
    first = steps(port, id, wait=True)
    began = time.perf_counter()
    time.sleep(seconds)
    speed = (steps(port, id) - first) / (time.perf_counter() - began)
    cancel(port, id)
    return speed


def start_job(port: int) -> str:
    """A job that takes long enough."""
    rows = "\n".join(["text,label", *(f"{text} {i},{i % 3}" for i, text in enumerate(texts(600)))])
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(rows)
        file.flush()
        from adapterbank import Client

        with Client(f"http://127.0.0.1:{port}") as client:
            options: dict[str, Any] = {"kind": "classification", "epochs": 500, "baselines": False}
            return str(client.train("job", file.name, **options)["id"])


def steps(port: int, id: str, wait: bool = False) -> int:
    """How many steps a job has told of."""
    from adapterbank import Client

    with Client(f"http://127.0.0.1:{port}") as client:
        last = 0
        for event in client.follow(id):
            if event.get("event") == "step":
                last = int(event["step"])
                if wait:
                    return last
            elif event.get("event") == "job" and not wait:
                return last  # all that there were so far have come
    return last


def cancel(port: int, id: str) -> None:
    from adapterbank import Client

    with Client(f"http://127.0.0.1:{port}") as client:
        client.cancel(id)
        while client.job(id)["state"] == "running":
            time.sleep(0.1)


def measure_memory(bank: Path, count: int) -> Figures:
    """The process's memory after a tenth of the requests, and after all of them."""
    with served(bank, "--no-jobs") as (port, process, _):
        marks = []
        done = 0
        for share in (0.1, 1.0):
            while done < share * count:
                done += len(load(port, 64, 10.0, requests(1))["ms"])
            marks.append(resident_mb(process))
    return {
        "requests sent": done,
        "MB after a tenth of them": marks[0],
        "MB after all of them": marks[1],
    }


def resident_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


if __name__ == "__main__":
    main()
