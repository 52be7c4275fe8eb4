"""Manifests are read once, as long as there is room for them."""

from __future__ import annotations

from adapterbank.service.manifests import Manifests
from adapterbank.store.entry import Entry
from adapterbank.store.manifest import Manifest
from adapterbank.store.record import Version
from store.samples import manifest


def test_as_many_are_remembered_as_there_is_room_for() -> None:
    read: list[str] = []

    def of(entry: Entry) -> Manifest:
        read.append(entry.task)
        return manifest(note="x" * (9_000 if entry.task == "long" else 0))

    room = 3 * len(repr(manifest())) + 100
    manifests = Manifests(of, room)
    entries = {name: Entry(name, Version(1, "a", 1, "")) for name in ("a", "b", "c", "d", "long")}
    for name in ("a", "b", "c", "a", "b", "c"):
        assert manifests(entries[name]).task == "shop/spam"
    assert read == ["a", "b", "c"]
    for name in ("d", "b", "a"):  # `a` had to go for `d`
        manifests(entries[name])
    assert read == ["a", "b", "c", "d", "a"]
    assert manifests(entries["long"]).note
    assert manifests._taken <= room
