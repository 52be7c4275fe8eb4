"""A file that was checked is not hashed again while it is the same, and always when it is not."""

from __future__ import annotations

import hashlib
import io
import os
import time

import pytest

from adapterbank.errors import PackageError
from adapterbank.store import known_files
from adapterbank.store.known_files import KnownFiles, identity_of
from adapterbank.store.package import unpack, write_package
from store.samples import manifest, tensors


@pytest.fixture
def folder(tmp_path):
    write_package(tmp_path / "1", manifest(), tensors())
    return tmp_path / "1"


@pytest.fixture
def hashed(monkeypatch):
    """The beginnings of weights that were hashed."""
    found = []
    real = hashlib.sha256

    def sha256(raw: bytes):
        if not raw.startswith(b"{"):  # which a manifest does
            found.append(raw)
        return real(raw)

    monkeypatch.setattr(hashlib, "sha256", sha256)
    return found


def read(folder, known):
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    return unpack(lambda name: (folder / name).open("rb"), digest, known)


def later(monkeypatch) -> None:
    """Let what was just written be old."""
    now = time.time() + 2 * known_files.SETTLED
    monkeypatch.setattr(known_files.time, "time", lambda: now)


def test_the_same_file_is_hashed_once(folder, monkeypatch, hashed) -> None:
    later(monkeypatch)
    known = KnownFiles()
    first = read(folder, known)
    again = read(folder, known)
    assert len(hashed) == 1
    assert {name: array.tobytes() for name, array in first.arrays.items()} == {
        name: array.tobytes() for name, array in again.arrays.items()
    }


def test_a_file_of_a_moment_ago_is_not_trusted(folder) -> None:
    known = KnownFiles()
    read(folder, known)
    with (folder / "weights.safetensors").open("rb") as file:
        identity = identity_of(file)
    digest = hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()
    assert not known.hold(identity, digest)


def test_a_changed_byte_is_found_even_if_the_time_is_set_back(folder, monkeypatch) -> None:
    later(monkeypatch)
    known = KnownFiles()
    read(folder, known)
    file = folder / "weights.safetensors"
    before = file.stat()
    time.sleep(0.05)  # another tick of the file system's clock
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(PackageError, match="digest"):
        read(folder, known)


def test_without_a_memory_every_file_is_hashed(folder, monkeypatch, hashed) -> None:
    later(monkeypatch)
    known = KnownFiles()
    for memory in (known, None, None):
        read(folder, memory)
    assert len(hashed) == 3


def test_what_is_no_file_has_no_identity() -> None:
    assert identity_of(io.BytesIO(b"x")) is None
    known = KnownFiles()
    known.add(None, "digest")
    assert not known.hold(None, "digest")


def test_old_files_are_forgotten_first(monkeypatch) -> None:
    monkeypatch.setattr(known_files, "MOST", 2)
    known = KnownFiles()
    names = [(1, i, 1, 0, 0) for i in range(3)]
    for name in names:
        known.add(name, "d")
    assert [known.hold(name, "d") for name in names] == [False, True, True]
