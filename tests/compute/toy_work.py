"""Work for the tests: does what its arguments say."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adapterbank.errors import DataError

Emit = Callable[[dict[str, Any]], None]


def work(arguments: dict[str, Any], emit: Emit) -> dict[str, Any]:
    result = globals()[arguments.pop("do")](emit, **arguments)
    return result or {}


def count(emit: Emit, to: int) -> dict[str, Any]:
    for number in range(to):
        emit({"number": number})
    return {"counted": to}


def echo(emit: Emit, text: str) -> dict[str, Any]:
    emit({"text": text})
    return {"text": text}


def meet(emit: Emit, folder: str, id: str, others: int) -> dict[str, Any]:
    """Wait until so many others are running too."""
    (Path(folder) / id).touch()
    while sum(1 for _ in Path(folder).iterdir()) <= others:
        time.sleep(0.01)
    return {}


def overlap(emit: Emit, folder: str, id: str) -> dict[str, Any]:
    """How many run at the same time as this one, itself included."""
    mark = Path(folder) / id
    mark.touch()
    time.sleep(0.05)
    seen = sum(1 for _ in Path(folder).iterdir())
    mark.unlink()
    return {"seen": seen}


def environment(emit: Emit, names: list[str]) -> dict[str, Any]:
    return {"nice": os.nice(0), **{name: os.environ.get(name) for name in names}}


def print_much(emit: Emit) -> dict[str, Any]:
    print("printed")
    sys.stdout.flush()
    os.write(1, b'{"done": {"forged": true}}\n')
    subprocess.run(["echo", "from a subprocess"], check=True)
    emit({"read": sys.stdin.read()})
    return {"ok": True}


def refuse(emit: Emit) -> dict[str, Any]:
    raise DataError("Row 3 has no label.", "Give it one.")


def stumble(emit: Emit) -> dict[str, Any]:
    return {"value": {}["missing"]}


def not_json(emit: Emit) -> dict[str, Any]:
    return {"value": {1, 2}}


def leave(emit: Emit, code: int, lines: int) -> dict[str, Any]:
    for number in range(lines):
        print("line", number, file=sys.stderr)
    sys.stderr.flush()
    os._exit(code)


def die(emit: Emit, number: int) -> dict[str, Any]:
    os.kill(os.getpid(), number)
    time.sleep(60)
    return {}


def hold(emit: Emit, lock: str, stubborn: bool = False) -> dict[str, Any]:
    """Hold a lock, together with a process of its own, until ended."""
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = Path(lock).open("w")  # noqa: SIM115 (held until the process ends)
    fcntl.flock(held, fcntl.LOCK_SH)
    subprocess.Popen(["sleep", "60"], pass_fds=[held.fileno()])
    emit({"holding": True})
    time.sleep(60)
    return {}


def linger(emit: Emit, lock: str) -> dict[str, Any]:
    """Done, with a thread that keeps the process alive and a fork that holds its pipes."""
    held = Path(lock).open("w")  # noqa: SIM115 (held until the process ends)
    fcntl.flock(held, fcntl.LOCK_SH)
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    threading.Thread(target=time.sleep, args=(60,)).start()
    return {"ok": True}


def orphan(emit: Emit) -> dict[str, Any]:
    """Die and leave a fork behind that holds the pipes."""
    if os.fork() == 0:
        time.sleep(60)
    os._exit(3)


def slowly(emit: Emit, folder: str, id: str) -> dict[str, Any]:
    """A second or two; how often it was begun."""
    marks = Path(folder)
    begun = len(list(marks.glob(f"{id}.*"))) + 1
    (marks / f"{id}.{begun}.begun").touch()
    time.sleep(3)
    return {"begun": begun}


def transform(emit: Emit, source: str, target: str) -> dict[str, Any]:
    """Write a file from another."""
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Path(source).read_text().upper())
    return {"in": source, "sees_unasked": (path.parent.parent / "unasked.txt").exists()}


def wait(emit: Emit) -> dict[str, Any]:
    """Until ended."""
    emit({"waiting": True})
    time.sleep(60)
    return {}
