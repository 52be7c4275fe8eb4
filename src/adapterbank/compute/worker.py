"""The process that runs one unit of work: `python -m adapterbank.compute.worker`.

    standard input   one JSON line: {"module", "arguments", "nice"}; then it stays open
    standard output  JSON lines: {"event": …}, and last {"done": …} or {"failed": …}
    standard error   everything else, the work's own prints included

When standard input closes, whoever started the work is gone, and the worker ends at once, with
every process it started.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO

from adapterbank.errors import AdapterBankError


def main() -> None:
    """Run what standard input asks for."""
    requests, answers = _take_pipes()
    line = requests.readline()
    if not line:  # called off
        return
    request = json.loads(line)
    threading.Thread(target=_end_with_parent, args=(requests.fileno(),), daemon=True).start()
    os.nice(request["nice"])
    lock = threading.Lock()

    def write(name: str, payload: dict[str, Any]) -> None:
        line = json.dumps({name: payload}).encode() + b"\n"
        with lock:
            answers.write(line)
            answers.flush()

    try:
        module = importlib.import_module(request["module"])
        write("done", module.work(request["arguments"], lambda event: write("event", event)))
    except Exception as error:
        write("failed", _described(error))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Both pipes under numbers of their own, so that no print and no subprocess touches them."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), os.fdopen(answers, "wb")


def _end_with_parent(requests: int) -> None:
    while os.read(requests, 4096):
        pass
    leads_a_group = os.getpgrp() == os.getpid()  # not when started by hand
    (os.killpg if leads_a_group else os.kill)(os.getpid(), signal.SIGKILL)


def _described(error: Exception) -> dict[str, str]:
    kind = type(error).__name__
    if isinstance(error, AdapterBankError):
        return {"message": error.message, "hint": error.hint, "kind": kind}
    traceback.print_exc(file=sys.stderr)
    return {"message": f"{kind}: {error}".rstrip(": "), "hint": "", "kind": kind}


if __name__ == "__main__":
    main()
