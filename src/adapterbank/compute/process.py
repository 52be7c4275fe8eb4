"""One worker process: started, heard to its end, ended early if asked.

Three threads attend to it: the one that iterates over `events()`, one that keeps the last lines
of its standard error, and one that waits for its exit and then ends whatever it left running.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections import deque
from collections.abc import Iterator
from typing import IO, Any

from adapterbank.compute.protocol import Event, Work
from adapterbank.compute.start import Start

GRACE_SECONDS = 5.0  # from being asked to end to being killed
STDERR_LINES = 50
LINE_CHARACTERS = 2_000


class WorkerProcess:
    """Runs one unit of work, in a process group of its own."""

    def __init__(self, work: Work, start: Start, nice: int) -> None:
        self._work = work
        self._nice = nice
        self._ended = False
        self._gone = threading.Event()
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._process = start(work.module)
        self._stderr_reader = _in_thread(self._keep_stderr)
        _in_thread(self._await_exit)

    def events(self) -> Iterator[Event]:
        """From `started` to the last event; by then no process of the unit is left."""
        last = None
        if pid := self._process.started():
            yield Event(self._work.id, "started", {"pid": pid})
            self._send_request()
            for name, payload in _answers(_pipe(self._process.stdout)):
                if name == "event":
                    yield Event(self._work.id, "event", payload)
                elif last is None:
                    last = (name, payload)
                    _in_thread(self._kill_late)  # if something keeps it from exiting
            self._gone.wait()
            self._stderr_reader.join(1.0)  # a process that left the group may hold it open
        self._close()
        yield self._last_event(last)

    def end(self) -> None:
        """Ask it to end; kill it if it has not when the grace is over. Does not wait."""
        if not self._ended:
            self._ended = True
            self._signal(signal.SIGTERM)
            _in_thread(self._kill_late)

    def join(self) -> None:
        """Wait until no process of the unit is left."""
        self._gone.wait()

    def _send_request(self) -> None:
        request = {
            "module": self._work.module,
            "arguments": self._work.arguments,
            "nice": self._nice,
        }
        stdin = _pipe(self._process.stdin)
        # A worker that dies before it has read it all shows in its exit.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()

    def _keep_stderr(self) -> None:
        with _pipe(self._process.stderr) as stderr:
            for line in iter(lambda: stderr.readline(LINE_CHARACTERS), ""):
                self._stderr.append(line.rstrip("\n"))

    def _await_exit(self) -> None:
        self._process.wait()
        self._signal(signal.SIGKILL)
        self._gone.set()

    def _kill_late(self) -> None:
        if not self._gone.wait(GRACE_SECONDS):
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self._gone.is_set():
            self._process.send_to_group(number)

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                _pipe(pipe).close()

    def _last_event(self, answer: tuple[str, dict[str, Any]] | None) -> Event:
        name, payload = answer or ("failed", _died(self._process.returncode))
        if name == "done":
            return Event(self._work.id, "done", payload)
        if self._ended:
            return Event(self._work.id, "cancelled")
        return Event(self._work.id, "failed", payload | {"stderr": "\n".join(self._stderr)})


def _answers(lines: IO[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and payload of each line. A worker killed as it writes leaves half a line: no answer."""
    for line in lines:
        if not line.endswith("\n"):
            return
        try:
            yield from json.loads(line).items()
        except (ValueError, AttributeError):
            message = f"The worker wrote a line that is no answer: {line[:80]!r}."
            yield "failed", {"message": message, "hint": "", "kind": "WorkerError"}


def _died(code: int) -> dict[str, Any]:
    """The payload for a worker that ended without a word."""
    hint = ""
    if code < 0:
        message = f"The worker was ended by {_signal_name(-code)} before it had a result."
        if -code == signal.SIGKILL:
            hint = (
                "Often the machine ran out of memory: run fewer processes at once, "
                "or use a smaller batch or a shorter maximum length."
            )
    else:
        message = f"The worker ended with exit code {code} before it had a result."
    return {"message": message, "hint": hint, "kind": "WorkerDied"}


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _in_thread(target: Any) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # noqa: S101 (all three are made as pipes)
    return pipe
