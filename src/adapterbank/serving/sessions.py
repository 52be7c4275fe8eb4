"""The base's graph in ONNX Runtime: on all threads together, or one run on each.

Threads that share every operation wait for each other after each. A batch that can be cut into
runs of its own for every thread is done sooner that way, and a program beside it that takes a core
for a while holds up one run, not all of them. Both sessions map the same file of weights.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

SPIN = "10"  # microseconds: the next operation of a run comes within that, or not soon
Given = TypeVar("Given")
Found = TypeVar("Found")


class Sessions:
    """One graph for both ways."""

    def __init__(self, graph: Path, threads: int = 0) -> None:
        """0 threads: as many as there are cores."""
        self.threads = threads or _cores()
        self.together = open_session(graph, self.threads)
        """Every operation on all threads."""
        self._graph = graph
        self._opening = threading.Lock()

    def each(
        self, run: Callable[[InferenceSession, Given], Found], given: Sequence[Given]
    ) -> list[Found]:
        """Run each on a thread of its own, as many at once as there are threads."""
        with self._opening:
            session, pool = self._alone, self._pool
        return list(pool.map(lambda one: run(session, one), given))

    @cached_property
    def _alone(self) -> InferenceSession:
        return self.together if self.threads == 1 else open_session(self._graph, 1)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, "adapterbank-pass")


def open_session(graph: Path, threads: int) -> InferenceSession:
    """A session on the CPU. Threads that wait soon lie down to sleep, so that other programs and
    other parts of this one go on."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.spin_duration_us", SPIN)
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(
        graph,
        options,
        providers=["CPUExecutionProvider"],
        # Sum and LayerNorm in one operation run on one thread, three times as long as two.
        disabled_optimizers=["SkipLayerNormFusion"],
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
