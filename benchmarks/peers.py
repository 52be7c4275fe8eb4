"""The systems we are measured against, each in an environment of its own.

`python benchmarks/peers.py` makes the environment (`make bench` does it by itself).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / ".venv-peers"
# `adapters` 1.3.0 pins Transformers 4.57, so it cannot live beside ours.
# What importing our package sets before torch is there; a peer gets none of it.
OURS_ALONE = ("GOMP_SPINCOUNT", "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
PACKAGES = ("torch==2.13.0", "adapters==1.3.0", "peft==0.21.2")


def environment() -> Path:
    """The peers' Python, made when it is not there yet."""
    python = ENVIRONMENT / "bin" / "python"
    done = ENVIRONMENT / ".complete"
    wanted = "\n".join(PACKAGES)
    if not done.is_file() or done.read_text() != wanted:
        print("making the peers' environment (once) …", file=sys.stderr)
        venv.create(ENVIRONMENT, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        done.write_text(wanted)
    return python


class Worker:
    """A process that runs batches and says how long each took."""

    def __init__(self, name: str, *arguments: str, python: Path | None = None) -> None:
        self.peak = 0.0
        """The most memory it has held, GB."""
        theirs = {k: v for k, v in os.environ.items() if k not in OURS_ALONE}
        self.process = subprocess.Popen(
            [python or sys.executable, HERE / "workers" / f"{name}.py", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=theirs if python else None,
        )

    def run(self, request: object) -> float:
        """Seconds of a step on what is asked for: rows of these lengths, for one."""
        pipe_in, pipe_out = self.process.stdin, self.process.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        print(json.dumps(request), file=pipe_in, flush=True)
        line = pipe_out.readline()
        if not line:
            raise RuntimeError(f"the worker ended: {self.process.args!r}")
        answer = json.loads(line)
        self.peak = answer["peak"]
        return float(answer["seconds"])

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait(timeout=60)


if __name__ == "__main__":
    print(environment())
