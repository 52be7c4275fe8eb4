"""Whoever waits is served in turn, however much others bring."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adapterbank.serving.fair_queue import FairQueue


def filled(*things: tuple[str, str, str, int]) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for tenant, task, thing, cost in things:
        queue.put(tenant, task, thing, cost)
    return queue


def test_in_the_order_they_came_within_a_task() -> None:
    queue = filled(*(("a", "x", str(i), 1) for i in range(5)))
    assert queue.take(100) == ["0", "1", "2", "3", "4"]
    assert len(queue) == 0
    assert queue.cost == 0


def test_no_more_than_there_is_room_for_but_one_at_least() -> None:
    queue = filled(("a", "x", "large", 50), ("a", "x", "small", 1), ("a", "x", "next", 10))
    assert queue.take(5) == ["large"]
    assert queue.take(5) == ["small"]
    assert queue.cost == 10


def test_a_flood_delays_another_tenant_by_one_turn() -> None:
    queue = filled(*(("flood", "x", f"flood {i}", 10) for i in range(1000)))
    queue.take(200)
    queue.put("small", "y", "small", 10)
    assert "small" in queue.take(20)


def test_tokens_are_shared_evenly_and_not_turns() -> None:
    queue = filled(*(("long", "x", "long", 100) for _ in range(50)))
    for _ in range(500):
        queue.put("short", "y", "short", 10)
    taken = queue.take(1000)
    assert 4 <= taken.count("long") <= 6
    assert 40 <= taken.count("short") <= 60


def test_tasks_of_one_tenant_take_turns() -> None:
    queue = filled(*(("a", "flood", "flood", 10) for _ in range(100)))
    queue.put("a", "other", "other", 10)
    assert "other" in queue.take(30)


def test_a_pause_earns_nothing() -> None:
    """Who was away while others were served doesn't get all of that at once."""
    queue = filled(*(("busy", "x", "busy", 10) for _ in range(100)))
    queue.take(500)
    for _ in range(100):
        queue.put("back", "y", "back", 10)
    assert abs(queue.take(200).count("back") - 10) <= 1


def test_coming_back_at_once_earns_nothing_either() -> None:
    """Bringing one thing at a time doesn't make it the first in line every time."""
    queue = filled(*(("steady", "x", "steady", 1) for _ in range(1000)))
    served = 0
    for _ in range(20):
        queue.put("drip", "y", "drip", 100)
        served += queue.take(50).count("drip")
    assert served <= 11


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 50)), max_size=60
    ),
    st.integers(1, 120),
)
def test_nothing_is_lost_and_nothing_comes_twice(things, room) -> None:
    queue: FairQueue[int] = FairQueue()
    for i, (tenant, task, cost) in enumerate(things):
        queue.put(tenant, task, i, cost)
    taken: list[int] = []
    while len(queue):
        taken += queue.take(room)
    assert sorted(taken) == list(range(len(things)))
