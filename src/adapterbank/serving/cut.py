"""How rows are cut into runs: the way that is expected to take least.

Rows of a run are padded to the longest. Runs stand either one after the other, all threads sharing
every operation, or side by side, one thread each. Times are in tokens of one thread; the constants
were measured on `minilm` and two cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

RUN_TOKENS = 4096  # of a run on all threads at most: more fall out of the cache
RUN_COST = 15  # tokens that take as long as starting such a run
SHARED = 1.1  # how much longer operations take that are shared out, for waiting
ALONE_TOKENS, ALONE_COST = 256, 10  # the same on one thread: states stay in that core's cache
TRIES = 4  # numbers of runs for each thread: more of them are padded less, and come out more even


@dataclass(frozen=True)
class Run:
    """Rows that go through the encoder together."""

    size: int
    """Their class of bottlenecks."""
    rows: list[int]
    """Their numbers."""
    tokens: int
    """With what they are padded by."""


@dataclass(frozen=True)
class Cut:
    """Runs, and what they take."""

    runs: list[Run]
    side_by_side: bool
    time: float


def cut(classes: Mapping[int, Sequence[int]], lengths: Sequence[int], threads: int) -> Cut:
    """The quickest of some ways to cut all rows, which come by class."""
    ways = [one_by_one(classes, lengths, threads)]
    tokens = sum(lengths)
    least = max(1, -(-tokens // (threads * ALONE_TOKENS)))
    for runs_a_thread in range(least, least + TRIES):
        limit = -(-tokens // (threads * runs_a_thread))
        runs = _runs(classes, lengths, limit, ALONE_COST)
        ways.append(Cut(runs, True, _busiest([run.tokens + ALONE_COST for run in runs], threads)))
    return min(ways, key=lambda way: way.time)


def one_by_one(classes: Mapping[int, Sequence[int]], lengths: Sequence[int], threads: int) -> Cut:
    """Few runs, each on all threads."""
    runs = _runs(classes, lengths, RUN_TOKENS, RUN_COST)
    return Cut(runs, False, SHARED * sum(run.tokens + RUN_COST for run in runs) / threads)


def _runs(
    classes: Mapping[int, Sequence[int]], lengths: Sequence[int], limit: int, cost: int
) -> list[Run]:
    return [
        Run(size, run, len(run) * lengths[run[0]])
        for size, rows in classes.items()
        for run in _by_length(rows, lengths, limit, cost)
    ]


def _by_length(
    rows: Sequence[int], lengths: Sequence[int], limit: int, cost: int
) -> Iterator[list[int]]:
    """Rows by length, cut where padding would cost more than one more run does, and where a run
    would have more tokens than the limit. Rows of one length stay in their order."""
    run: list[int] = []
    waste = 0
    for row in sorted(rows, key=lambda row: -lengths[row]):
        if run:
            longest = lengths[run[0]]
            waste += longest - lengths[row]
            if waste > cost or (len(run) + 1) * longest > limit:
                yield run
                run, waste = [], 0
        run.append(row)
    if run:
        yield run


def _busiest(times: Sequence[int], threads: int) -> int:
    """When the last of the threads is done, each taking the longest run that is left."""
    loads = [0] * threads
    for time in sorted(times, reverse=True):
        loads[loads.index(min(loads))] += time
    return max(loads)
