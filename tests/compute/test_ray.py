"""The same work on a Ray cluster of two nodes, all of it on loopback."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from adapterbank.compute.carry import Carrier
from adapterbank.compute.protocol import Event, Work
from compute.conftest import MEMORY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]


@pytest.fixture
def compute(cluster) -> Any:
    from adapterbank.compute.ray import RayCompute

    return RayCompute()


def toy(unit: str, do: str, **arguments: Any) -> Work:
    return Work(unit, "toy_work", {"do": do, **arguments})


def kinds(events: list[Event], unit: str) -> list[str]:
    return [event.kind for event in events if event.id == unit]


def test_units_tell_and_end_as_on_one_machine(compute) -> None:
    works = [toy("a", "count", to=3), toy("b", "refuse"), toy("c", "die", number=9)]
    events = list(compute.run(works))
    assert kinds(events, "a") == ["started", "event", "event", "event", "done"]
    assert [e.payload for e in events if e.id == "a"][1:] == [
        {"number": 0}, {"number": 1}, {"number": 2}, {"counted": 3},
    ]  # fmt: skip
    (refused,) = [e.payload for e in events if e.id == "b" and e.kind == "failed"]
    assert (refused["message"], refused["hint"]) == ("Row 3 has no label.", "Give it one.")
    (died,) = [e.payload for e in events if e.id == "c" and e.kind == "failed"]
    assert died["kind"] == "WorkerDied"


def gone(pid: int) -> bool:
    """Whether a process ends soon."""
    deadline = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_unit_is_cancelled_promptly(compute) -> None:
    pid, began = 0, 0.0
    for event in compute.run([toy("w", "wait")]):
        if event.kind == "started":
            pid = event.payload["pid"]
        if event.kind == "event":
            began = time.monotonic()
            assert compute.cancel("w")
    assert event.kind == "cancelled"
    assert time.monotonic() - began < 15
    assert gone(pid)
    assert not compute.cancel("w")


def test_closing_ends_what_runs(compute) -> None:
    events = compute.run([toy("w", "wait")])
    pid = 0
    for event in events:
        pid = event.payload.get("pid", pid)
        if event.kind == "event":
            break
    events.close()
    assert gone(pid)


def test_a_unit_whose_node_is_lost_is_done_elsewhere(cluster, compute, tmp_path) -> None:
    lost = cluster.add_node(
        num_cpus=4, resources={"third": 1}, node_ip_address="127.0.0.1", object_store_memory=MEMORY
    )
    marks = tmp_path / "marks"
    marks.mkdir()
    works = [toy(f"u{i}", "slowly", folder=str(marks), id=f"u{i}") for i in range(6)]
    ended: list[Event] = []
    killed = False
    for event in compute.run(works):
        if event.last:
            ended.append(event)
        if not killed and len(list(marks.glob("*.begun"))) >= 6:  # all run, most on the third
            cluster.remove_node(lost, allow_graceful=False)
            killed = True
    assert killed
    assert sorted(event.id for event in ended) == [work.id for work in works]
    assert {event.kind for event in ended} == {"done"}
    # What was finished before is not done again; what was lost was begun twice.
    again = {event.payload["begun"] for event in ended}
    assert again == {1, 2}


def test_files_travel_through_a_url(cluster, tmp_path) -> None:
    """Machines that share no folder: what a unit reads and writes goes through the store."""
    from adapterbank.compute.ray import RayCompute

    folder = tmp_path / "unit"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "in.txt").write_text("seven")
    (folder / "unasked.txt").write_text("stays")
    url = f"file://{tmp_path}/store"
    work = Work(
        "u", "toy_work", {"do": "transform", "source": f"{folder}/data/in.txt",
                          "target": f"{folder}/out/there.txt"},
        folder=str(folder), inputs=["data/in.txt"],
    )  # fmt: skip
    *_, last = RayCompute(through=url).run([work])
    assert last.kind == "done", last.payload
    assert last.payload["in"] != f"{folder}/data/in.txt"  # it ran in a folder of its own
    assert not last.payload["sees_unasked"]
    assert (folder / "out" / "there.txt").read_text() == "SEVEN"
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


def test_a_unit_that_is_started_again_finds_what_it_wrote(tmp_path) -> None:
    carrier = Carrier(f"file://{tmp_path}/store")
    folder = tmp_path / "unit"
    folder.mkdir()
    (folder / "in").write_text("1")
    work = Work("u", "toy_work", {"path": f"{folder}/in"}, folder=str(folder), inputs=["in"])
    sent = carrier.send(work)
    assert str(folder) not in str(sent.arguments)
    with carrier.received(sent) as here:
        Path(here.folder, "state").write_text("half")
        Path(here.folder, ".hidden").write_text("x")
    with carrier.received(sent) as here:
        assert Path(here.folder, "state").read_text() == "half"
        assert not Path(here.folder, ".hidden").exists()
        Path(here.folder, "state").write_text("whole")
    carrier.collect(work)
    assert (folder / "state").read_text() == "whole"
    assert not (tmp_path / "store" / "u").exists()
