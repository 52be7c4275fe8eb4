"""A queue that is fair between tenants, and within a tenant between its tasks.

Each has a clock that runs as it is served, one second a token. The one whose clock is furthest
behind is next. Who comes back after a pause starts where the others are: waiting earns no credit.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Lane(Generic[T]):
    """What waits under one name: lanes of its own, or at the end of the path the things."""

    clock: float = 0.0
    now: float = 0.0
    """The clock of the lane within that was served last."""
    lanes: dict[str, _Lane[T]] = field(default_factory=dict)
    idle: dict[str, float] = field(default_factory=dict)
    """The clocks of lanes that were served ahead of the others, and have nothing waiting."""
    things: deque[tuple[T, int]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        return bool(self.lanes or self.things)

    def put(self, path: tuple[str, ...], thing: T, cost: int) -> None:
        if not path:
            self.things.append((thing, cost))
            return
        name = path[0]
        if name not in self.lanes:
            self.lanes[name] = _Lane(max(self.now, self.idle.pop(name, 0.0)))
        self.lanes[name].put(path[1:], thing, cost)

    def next(self) -> tuple[T, int]:
        if not self.lanes:
            return self.things.popleft()
        name, lane = min(self.lanes.items(), key=lambda item: item[1].clock)
        thing, cost = lane.next()
        self.now = lane.clock
        lane.clock += cost
        if not lane:
            del self.lanes[name]
            self.idle = {each: clock for each, clock in self.idle.items() if clock > self.now}
            self.idle[name] = lane.clock
        return thing, cost

    def peek(self) -> int:
        """The cost of what is next."""
        if not self.lanes:
            return self.things[0][1]
        return min(self.lanes.values(), key=lambda lane: lane.clock).peek()


class FairQueue(Generic[T]):
    """Things with a cost, each of a tenant and a task. Not for several threads by itself."""

    def __init__(self) -> None:
        self._root: _Lane[tuple[str, T]] = _Lane()
        self.count = 0
        self.costs: Counter[str] = Counter()
        """Of what waits, by tenant."""

    @property
    def cost(self) -> int:
        """Of everything that waits."""
        return self.costs.total()

    def __len__(self) -> int:
        return self.count

    def put(self, tenant: str, task: str, thing: T, cost: int) -> None:
        """Let a thing wait."""
        self._root.put((tenant, task), (tenant, thing), cost)
        self.count += 1
        self.costs[tenant] += cost

    def take(self, room: int) -> list[T]:
        """The next things that fit into `room`; one at least."""
        taken: list[T] = []
        while self._root and (not taken or self._root.peek() <= room):
            (tenant, thing), cost = self._root.next()
            taken.append(thing)
            room -= cost
            self.count -= 1
            self.costs[tenant] -= cost
            if not self.costs[tenant]:
                del self.costs[tenant]
        return taken
