"""The process that units of work are forked from: `python -m adapterbank.compute.nursery`.

To import PyTorch and what comes with it takes seconds, often longer than a small task takes to
train. Here it is done once, and every unit begins as a copy of what is then in memory. Standard
input is a socket:

    in   {"module", "environment", "folder"}, with a unit's standard input, output and error
    out  {"forked": pid}, in the order of the requests; {"ended": pid, "code": …}, as units end

Nothing happens here but imports, so that there are no threads for a fork to lose and no device is
open. When the socket closes, whoever needs forks is gone, and so is this process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
from typing import Any

from adapterbank.compute import worker

MESSAGE_BYTES = 1 << 20


def main() -> None:
    """Fork what is asked for, until nobody is left to ask. Each fork goes on as a worker."""
    if _is_a_fork(socket.socket(fileno=0)):
        worker.main()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # Python's own way touches all that was imported, and so copies it


def _is_a_fork(link: socket.socket) -> bool:
    """Returns in every fork, and in this process at its end."""
    signal.signal(signal.SIGCHLD, lambda *_: _tell_who_ended(link))
    while True:
        message, pipes, _, _ = socket.recv_fds(link, MESSAGE_BYTES, 3)
        if not message:
            return False
        request = json.loads(message)
        _preload(request["module"])
        # Held back until it is told that the fork is there.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            link.detach()  # its number becomes standard input
            _take_over(request, pipes)
            return True
        with contextlib.suppress(OSError):  # both do it: neither may be too late
            os.setpgid(pid, pid)
        _send(link, {"forked": pid})
        for pipe in pipes:
            os.close(pipe)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _preload(name: str) -> None:
    """Import the module, and what it says is slow to import."""
    if name in sys.modules:
        return
    with contextlib.suppress(Exception):  # the unit meets it again, and tells of it
        module = importlib.import_module(name)
        getattr(module, "preload", lambda: None)()
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page it looks at


def _take_over(request: dict[str, Any], pipes: list[int]) -> None:
    """In the fork: be as a process that was started for the unit alone."""
    os.setpgid(0, 0)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])


def _tell_who_ended(link: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            _send(link, {"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _send(link: socket.socket, message: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # nobody is left to be told; the next read says so
        link.send(json.dumps(message).encode())


if __name__ == "__main__":
    main()
