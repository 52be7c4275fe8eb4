"""How a worker's process comes to be: a fresh Python, or a fork of one that is ready.

Both look the same from here: three pipes, a process group of its own, an exit code.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections import deque
from pathlib import Path
from typing import IO, Any, Protocol

# PyTorch, MKL, OpenBLAS and the tokenizers' Rust threads read these when they are loaded.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
# Looking for a GPU must not open it before a fork.
LOOK_ONLY = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "replace"}


class Child(Protocol):
    """A process that was started, or will be in a moment."""

    stdin: IO[str] | None
    stdout: IO[str] | None
    stderr: IO[str] | None
    returncode: int

    def started(self) -> int:
        """Its process id, as soon as it has one; 0 if it never will."""
        ...

    def send_to_group(self, number: signal.Signals) -> None:
        """Signal it and the processes it has started."""
        ...

    def wait(self) -> Any:
        """Until it is gone."""
        ...


class Start(Protocol):
    """A way to start workers."""

    def __call__(self, module: str) -> Child:
        """A worker that will be asked to run this module's work."""
        ...


class Fresh(subprocess.Popen[str]):
    """A Python of its own, from nothing."""

    def __init__(self, threads: int) -> None:
        super().__init__(
            _python("adapterbank.compute.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(threads),
            process_group=0,
            **TEXT,
        )

    def started(self) -> int:
        """As `Child` has it."""
        return self.pid

    def send_to_group(self, number: signal.Signals) -> None:
        """As `Child` has it."""
        _send_to_group(self.pid, number)


class Nursery:
    """Starts workers as forks of one process, which has imported their modules.

    It is started when it is first needed, anew should it die, and ends with this object.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._link: _Link | None = None

    def __call__(self, module: str) -> Forked:
        """As `Start` has it."""
        environment = _environment(self._threads)
        with self._lock:
            if self._link is None or self._link.broken:
                self._link = _Link(environment | LOOK_ONLY)
                weakref.finalize(self, self._link.close)
            return self._link.fork(module, environment)


class Forked:
    """A fork that was asked for."""

    returncode = -int(signal.SIGKILL)  # unless it is told

    def __init__(self) -> None:
        # The other ends go to the fork; ours are closed in every process that starts from here.
        stdin, mine_in = os.pipe()
        mine_out, stdout = os.pipe()
        mine_err, stderr = os.pipe()
        self.theirs = (stdin, stdout, stderr)
        self.stdin: IO[str] | None = os.fdopen(mine_in, "w", **TEXT)
        self.stdout: IO[str] | None = os.fdopen(mine_out, **TEXT)
        self.stderr: IO[str] | None = os.fdopen(mine_err, **TEXT)
        self._pid = 0
        self._lock = threading.Lock()
        self._settled = threading.Event()  # that it was forked, or won't be
        self._gone = threading.Event()

    def started(self) -> int:
        """As `Child` has it."""
        self._settled.wait()
        return self._pid

    def send_to_group(self, number: signal.Signals) -> None:
        """As `Child` has it. One that is not there yet will find nothing to do, and end."""
        with self._lock:
            if self._pid:
                _send_to_group(self._pid, number)
                return
            self._settled.set()
        self.end(-number)

    def wait(self) -> None:
        """As `Child` has it."""
        self._gone.wait()

    def begin(self, pid: int) -> None:
        """It was forked."""
        with self._lock:
            if not self._settled.is_set():
                self._pid = pid
                self._settled.set()

    def end(self, code: int) -> None:
        """It is gone."""
        if not self._gone.is_set():
            self.returncode = code
            self._settled.set()
            self._gone.set()


class _Link:
    """The nursery's process, and the socket to it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.broken = False
        self._lock = threading.Lock()
        self._asked: deque[Forked] = deque()
        self._living: dict[int, Forked] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                _python("adapterbank.compute.nursery"),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                process_group=0,  # Ctrl-C is for us, and we end it
            )
        threading.Thread(target=self._listen, daemon=True).start()

    def fork(self, module: str, environment: dict[str, str]) -> Forked:
        """Ask for a fork."""
        child = Forked()
        request = {"module": module, "environment": environment, "folder": str(Path.cwd())}
        try:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(request).encode()], child.theirs)
                self._asked.append(child)
        finally:
            for pipe in child.theirs:
                os.close(pipe)
        return child

    def close(self) -> None:
        """Let the process end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        while told := self._next():
            with self._lock:
                if "forked" in told:
                    child = self._asked.popleft()
                    self._living[told["forked"]] = child
                    child.begin(told["forked"])
                else:
                    self._living.pop(told["ended"]).end(told["code"])
        with self._lock:
            self.broken = True
        self._socket.close()
        # Its forks have nobody left who would tell of their end.
        for child in (*self._living.values(), *self._asked):
            child.send_to_group(signal.SIGKILL)
            child.end(-signal.SIGKILL)
        self._process.wait()

    def _next(self) -> dict[str, int]:
        try:
            return dict(json.loads(self._socket.recv(4096) or "{}"))
        except OSError:
            return {}


def _python(module: str) -> list[str]:
    return [sys.executable, "-P", "-m", module]  # -P: the current folder is not on the path


def _environment(threads: int) -> dict[str, str]:
    return os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))


def _send_to_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # gone just now
        os.killpg(pid, number)
