"""How rows are cut into runs: little padding, and as much to do for every thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

RUN_TOKENS = 4096  # of a run on all threads at most: more fall out of the cache
RUN_COST = 24  # tokens that take as long as starting one more such run
ALONE_TOKENS, ALONE_COST = 256, 8  # of a run on one thread: its states stay in that core's cache
LEAST = 32  # tokens for each thread, or all of them are quicker together
UNEVEN = 1.05  # of an equal share: the most that the busiest thread may have


def cut_runs(lengths: Sequence[int], limit: int, cost: int) -> Iterator[list[int]]:
    """Row numbers by length, cut where padding would cost more than one more run does, and where a
    run would have more tokens than the limit. Rows of one length stay in their order."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    run: list[int] = []
    waste = 0
    for i in order:
        if run:
            longest = lengths[run[0]]
            waste += longest - lengths[i]
            if waste > cost or (len(run) + 1) * longest > limit:
                yield run
                run, waste = [], 0
        run.append(i)
    if run:
        yield run


def limits_apart(tokens: int, threads: int) -> Iterator[int]:
    """Limits that may give every thread as much to do, the coarse one first; none for so few tokens
    that all threads are quicker together."""
    if tokens >= LEAST * threads:
        runs = threads * -(-tokens // (ALONE_TOKENS * threads))
        yield -(-tokens // runs)
        yield -(-tokens // (2 * runs))


def is_even(costs: Sequence[int], threads: int) -> bool:
    """Whether threads that take the next run when they are done with one end at about one time."""
    loads = [0] * threads
    for cost in sorted(costs, reverse=True):
        loads[loads.index(min(loads))] += cost
    return max(loads) * threads <= UNEVEN * sum(costs)
