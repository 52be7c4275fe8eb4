"""A service in a process of its own, as people run it, on loopback."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx


class Server:
    """`adapterbank serve` on a free port; `kill` and `start` again at will."""

    def __init__(self, bank: Path | str, log: Path, *options: str) -> None:
        self.bank, self.log, self.options = bank, log, options
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 60.0) -> None:
        """Start it, and wait until it is ready."""
        with self.log.open("ab") as log:
            place = ("--bank", str(self.bank), "--port", str(self.port))
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "adapterbank",
                    "serve",
                    *place,
                    "--job-nice",
                    "0",
                    *self.options,
                ],
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        end = time.monotonic() + seconds
        while not self.ready():
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < end, "it is not ready"
            time.sleep(0.05)

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """End it without a word."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = 40.0) -> int:
        """End it in order; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def requests(self) -> list[str]:
        """The log's lines of requests."""
        return [line for line in self.log.read_text().splitlines() if re.match(r"\{.time", line)]


@contextmanager
def served(bank: Path, folder: Path, *options: str) -> Iterator[Server]:
    server = Server(bank, folder / "log.txt", *options)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
