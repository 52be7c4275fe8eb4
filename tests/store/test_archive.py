"""Archives of packages: exact, the same every time, and nothing hostile gets past the reader."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import sys
import tarfile
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.errors import PackageError
from adapterbank.store import archive as archive_module
from adapterbank.store.archive import GZIP, MAX_WEIGHTS, read_archive, write_archive
from adapterbank.store.manifest import (
    BaseRecord,
    DataRecord,
    Manifest,
    MethodRecord,
    ParameterRecord,
)
from adapterbank.store.package import Packed, pack, unpack

M, W = "manifest.json", "weights.safetensors"
MIB, GIB = 2**20, 2**30
MADE = Manifest(
    task="spam",
    created="2026-01-31T12:00:00Z",
    kind="classification",
    labels=("no", "ja, بله"),
    pair=False,
    metric="accuracy",
    dev={"accuracy": 0.9375},
    method=MethodRecord("head"),
    adapter=None,
    pooling="mean",
    max_length=128,
    recipe={"epochs": 3},
    data=DataRecord({"train": 10, "dev": 4}, "a" * 64),
    base=BaseRecord("minilm", "b" * 64),
    parameters=ParameterRecord(34, 0.5, 0.75),
)


def package(width: int = 16, **changes: Any) -> Packed:
    draw = torch.Generator().manual_seed(0)
    head = {"head.weight": torch.randn(2, width, generator=draw), "head.bias": torch.ones(2)}
    return pack(replace(MADE, **changes), head)


PACKED = package()
RAW, WEIGHTS = PACKED.files[M], PACKED.files[W]


def archived(packed: Packed = PACKED) -> bytes:
    file = io.BytesIO()
    write_archive(file, packed)
    return file.getvalue()


def gzipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        packed.write(content)
    return file.getvalue()


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


MANIFEST, TENSORS = member(M, RAW), member(W, WEIGHTS)


def tar(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as made:
        for info, content in members:
            made.addfile(info, io.BytesIO(content))
    return file.getvalue()


def open_end(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Members with nothing after them; their sizes may be a lie."""
    made = b""
    for info, content in members:
        plain = 0 <= info.size < 8 * GIB  # what the common form can say
        made += info.tobuf(tarfile.USTAR_FORMAT if plain else tarfile.GNU_FORMAT)
        made += content + bytes(-len(content) % tarfile.BLOCKSIZE)
    return made


def refusal(content: bytes, **limits: int) -> str:
    with pytest.raises(PackageError) as caught:
        read_archive(io.BytesIO(content), **limits)
    return caught.value.message


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- round trips


def test_round_trip_is_exact(tmp_path: Path) -> None:
    write_archive(tmp_path / "spam.tar.gz", PACKED)
    assert names(tmp_path) == ["spam.tar.gz"]
    found = read_archive(tmp_path / "spam.tar.gz")
    assert found == PACKED
    assert list(found.files) == list(PACKED.files) == [W, M]
    assert found.digest == PACKED.digest
    whole = unpack(lambda name: io.BytesIO(found.files[name]), PACKED.digest)
    assert whole.tensors["head.bias"].equal(torch.ones(2))


def test_the_bytes_are_the_same_wherever_and_whenever(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.tar.gz", PACKED)
    write_archive(tmp_path / "another name.tgz", PACKED)
    first = (tmp_path / "a.tar.gz").read_bytes()
    assert first == (tmp_path / "another name.tgz").read_bytes() == archived()
    assert first.startswith(GZIP)
    assert gzip.decompress(first) == tar(MANIFEST, TENSORS)


def test_common_tools_read_it() -> None:
    with tarfile.open(fileobj=io.BytesIO(archived())) as found:
        assert found.getnames() == [M, W]
        assert all(info.isreg() and info.mtime == info.uid == info.gid == 0 for info in found)
        content = found.extractfile(W)
        assert content is not None
        assert content.read() == WEIGHTS


@settings(max_examples=25, deadline=None)
@given(width=st.integers(1, 3000), task=st.text("abc", min_size=1, max_size=60))
def test_any_size_comes_back(width: int, task: str) -> None:
    packed = package(width, task=task)
    assert read_archive(io.BytesIO(archived(packed))) == packed


# --- what is refused

GNU_LONG = member("././@LongLink", b"manifest.json\0", type=tarfile.GNUTYPE_LONGNAME)
ELSEWHERE = "in the place of manifest.json"
HOSTILE: dict[str, tuple[bytes, str]] = {
    "parent": (tar(member(f"../{M}", RAW), TENSORS), f"holds '../manifest.json' {ELSEWHERE}"),
    "absolute": (tar(member(f"/{M}", RAW), TENSORS), f"holds '/manifest.json' {ELSEWHERE}"),
    "dot": (tar(member(f"./{M}", RAW), TENSORS), f"holds './manifest.json' {ELSEWHERE}"),
    "folder": (tar(member(f"spam/{M}", RAW), TENSORS), f"holds 'spam/manifest.json' {ELSEWHERE}"),
    "backslash": (
        tar(member(f"..\\{M}", RAW), TENSORS),
        f"holds '..\\\\manifest.json' {ELSEWHERE}",
    ),
    "capitals": (tar(member(M.upper(), RAW), TENSORS), f"holds 'MANIFEST.JSON' {ELSEWHERE}"),
    "no text": (
        tar(member("\udcff\x1b[2J", RAW), TENSORS),
        f"holds '\\udcff\\x1b[2J' {ELSEWHERE}",
    ),
    "second name": (
        tar(MANIFEST, member("/etc/passwd", WEIGHTS)),
        "holds '/etc/passwd' in the place of weights.safetensors",
    ),
    "long name": (
        tar(member("x" * 99, RAW), TENSORS),
        f"holds '{'x' * 60}…' {ELSEWHERE}",
    ),
    "prefix": (tar(member(f"{'d' * 90}/{'e' * 20}/{M}", RAW)), f"holds '{'d' * 60}…' {ELSEWHERE}"),
    "symbolic link": (
        tar(member(M, type=tarfile.SYMTYPE, linkname="/etc/passwd"), TENSORS),
        "holds 'manifest.json', a symbolic link",
    ),
    "hard link": (
        tar(MANIFEST, member(W, type=tarfile.LNKTYPE, linkname=M)),
        "holds 'weights.safetensors', a hard link",
    ),
    "device": (
        tar(member(M, type=tarfile.CHRTYPE, devmajor=1, devminor=5), TENSORS),
        "holds 'manifest.json', a device",
    ),
    "disk": (tar(member(M, type=tarfile.BLKTYPE), TENSORS), "holds 'manifest.json', a device"),
    "pipe": (tar(member(M, type=tarfile.FIFOTYPE), TENSORS), "holds 'manifest.json', a pipe"),
    "directory": (
        tar(member("spam", type=tarfile.DIRTYPE), MANIFEST, TENSORS),
        "holds 'spam', a folder",
    ),
    "sparse": (
        open_end(member(M, RAW, type=tarfile.GNUTYPE_SPARSE)) + tar(TENSORS),
        "holds 'manifest.json', a sparse file",
    ),
    "unknown type": (
        tar(member(M, RAW, type=b"Z"), TENSORS),
        "holds 'manifest.json', something other than a file",
    ),
    "old form": (tar(member(M, RAW, type=tarfile.AREGTYPE)), "holds 'manifest.json', a file in"),
    "pax name": (
        tar(member(M, RAW, pax_headers={"path": "../x"}), TENSORS, form=tarfile.PAX_FORMAT),
        "a header that can rename the next member",
    ),
    "pax size": (
        tar(member(M, RAW, pax_headers={"size": "1"}), TENSORS, form=tarfile.PAX_FORMAT),
        "a header that can rename the next member",
    ),
    "pax for all": (
        tar(member("pax", b"13 path=../x\n", type=tarfile.XGLTYPE), MANIFEST, TENSORS),
        "holds 'pax', a header that can rename the members",
    ),
    "GNU long name": (
        tar(GNU_LONG, MANIFEST, TENSORS),
        "holds '././@LongLink', a header that renames the next member",
    ),
    "manifest twice": (
        tar(MANIFEST, MANIFEST, TENSORS),
        "holds 'manifest.json' in the place of weights.safetensors",
    ),
    "weights twice": (
        tar(MANIFEST, TENSORS, TENSORS),
        "holds a third member, 'weights.safetensors'",
    ),
    "third": (
        tar(MANIFEST, TENSORS, member("run.py", b"print()")),
        "holds a third member, 'run.py'",
    ),
    "other order": (
        tar(TENSORS, MANIFEST),
        "holds 'weights.safetensors' in the place of manifest.json",
    ),
    "empty": (tar(), "lacks manifest.json"),
    "one": (tar(MANIFEST), "lacks weights.safetensors"),
    "empty manifest": (
        tar(member(M), TENSORS),
        "holds manifest.json of 0 bytes; it may have 1 to 4,194,304",
    ),
    "owner": (
        tar(member(M, RAW, uname="root"), TENSORS),
        "was not written by AdapterBank: the header of manifest.json is not as it writes it",
    ),
    "GNU tar": (
        tar(MANIFEST, TENSORS, form=tarfile.GNU_FORMAT),
        "was not written by AdapterBank: the header of manifest.json is not as it writes it",
    ),
    "time": (
        tar(MANIFEST, member(W, WEIGHTS, mtime=1)),
        "was not written by AdapterBank: the header of weights.safetensors is not as it writes it",
    ),
    "padding": (
        tar(MANIFEST, TENSORS).replace(RAW + b"\0", RAW + b"!"),
        "hides something between its members",
    ),
    "no end": (open_end(MANIFEST, TENSORS), "ends too early"),
    "short end": (tar(MANIFEST, TENSORS)[:-1], "ends too early"),
    "lone block": (tar(MANIFEST, TENSORS)[:-1] + b"!", "goes on after its end"),
    "longer": (tar(MANIFEST, TENSORS) + b"\0", "goes on after its end"),
    "another": (tar(MANIFEST, TENSORS) * 2, "goes on after its end"),
    "short content": (tar(MANIFEST, TENSORS)[:700], "ends too early"),
    "not tar": (b"hello " * 1000, "is not a tar file inside"),
    "nothing inside": (b"", "ends too early"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_members_are_refused(case: str) -> None:
    content, problem = HOSTILE[case]
    assert problem in refusal(gzipped(content))


NOT_GZIP: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not a gzip file"),
    "tar": (tar(MANIFEST, TENSORS), "is not a gzip file"),
    "zip": (b"PK\3\4" + bytes(100), "is not a gzip file"),
    "half a header": (GZIP[:5], "is a gzip file that AdapterBank didn't write"),
    "with a time": (
        gzip.compress(tar(MANIFEST, TENSORS), mtime=1),
        "is a gzip file that AdapterBank didn't write",
    ),
    "header alone": (GZIP, "is cut off"),
    "cut": (archived()[:-1], "is cut off"),
    "cut in the middle": (archived()[:200], "is cut off"),
    "wrong sum": (archived()[:-8] + bytes(8), "is damaged: it cannot be unpacked"),
    "no deflate": (GZIP + b"\xff" * 100, "is damaged: it cannot be unpacked"),
    "garbage after": (archived() + b"!", "goes on after its end"),
    "zeros after": (archived() + bytes(1000), "goes on after its end"),
    "a second one": (archived() * 2, "goes on after its end"),
    "an empty one after": (archived() + gzipped(b""), "goes on after its end"),
}


@pytest.mark.parametrize("case", NOT_GZIP)
def test_other_files_are_refused(case: str) -> None:
    content, problem = NOT_GZIP[case]
    assert refusal(content) == f"The archive {problem}."


@pytest.mark.parametrize("chunk", [1, 7, len(archived()) - len(GZIP)])
def test_the_end_is_found_wherever_the_reading_pauses(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(archive_module, "CHUNK", chunk)
    assert read_archive(io.BytesIO(archived())) == PACKED
    assert refusal(archived() + b"!") == "The archive goes on after its end."
    assert refusal(archived()[:-1]) == "The archive is cut off."


def test_the_message_names_the_file_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(gzipped(tar(MANIFEST)))
    with pytest.raises(PackageError) as caught:
        read_archive(tmp_path / "x.tar.gz")
    assert caught.value.message == "The archive 'x.tar.gz' lacks weights.safetensors."
    assert caught.value.hint == (
        "An archive of a package holds manifest.json and weights.safetensors and nothing else. "
        "Write it again with adapterbank export."
    )
    with pytest.raises(PackageError, match=r"archive 'no.tar.gz' cannot be read: No such file"):
        read_archive(tmp_path / "no.tar.gz")
    with pytest.raises(PackageError, match="cannot be read: Is a directory"):
        read_archive(tmp_path)


def test_the_package_inside_is_checked_like_any_other() -> None:
    other = package(17)
    mixed = refusal(gzipped(tar(MANIFEST, member(W, other.files[W]))))
    assert mixed == (
        f"The archive holds weights.safetensors of {len(other.files[W])} bytes, "
        f"and its manifest says {len(WEIGHTS)}."
    )
    changed = WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1])
    assert "weights.safetensors has digest" in refusal(gzipped(tar(MANIFEST, member(W, changed))))
    renamed = RAW.replace(b'"spam"', b'"spam2"')
    assert refusal(gzipped(tar(member(M, renamed), TENSORS))) == (
        "The manifest is not in order: it was changed after it was written."
    )
    lying = replace(PACKED.manifest, labels=("a", "b", "c")).to_json()
    assert "holds 'head.weight' with shape [2, 16], not [3, 16]" in refusal(
        gzipped(tar(member(M, lying), TENSORS))
    )


# --- damage


def outcome(content: bytes) -> Packed | None:
    try:
        return read_archive(io.BytesIO(content))
    except PackageError:
        return None


def test_every_changed_byte_is_found() -> None:
    whole = archived()
    for place, value in enumerate(whole):
        assert outcome(whole[:place] + bytes([value ^ 255]) + whole[place + 1 :]) is None, place


def test_a_changed_bit_is_found_or_means_nothing() -> None:
    """Deflate leaves a few bits unused, to the next whole byte."""
    whole, draw, harmless = archived(), random.Random(0), 0
    for place, value in enumerate(whole):
        bit = 1 << draw.randrange(8)
        found = outcome(whole[:place] + bytes([value ^ bit]) + whole[place + 1 :])
        assert found in (None, PACKED)
        harmless += found is not None
    assert harmless < 5


def test_every_cut_is_found() -> None:
    whole = archived()
    assert not any(outcome(whole[:length]) for length in range(len(whole)))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2000), st.sampled_from([bytes, gzipped, GZIP.__add__]))
def test_noise_is_refused_in_a_sentence(noise: bytes, dressed: Any) -> None:
    assert refusal(dressed(noise)).startswith("The archive ")


# --- limits


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


def bomb(start: bytes, gibibytes: int = 4) -> bytes:
    """A gzip file of `start` and then zeros, thousands of times larger inside."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    head = deflate.compress(start) + deflate.flush(zlib.Z_FULL_FLUSH)
    zeros = deflate.compress(bytes(MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)
    return GZIP + head + zeros * (1024 * gibibytes) + deflate.flush() + bytes(8)


def promising(size: int) -> bytes:
    """A manifest in order that says how large the weights are."""
    raw = replace(PACKED.manifest, weights_bytes=size).to_json()
    return open_end(member(M, raw), member(W, size=size))


BOMBS: dict[str, tuple[bytes, str]] = {
    "after the end": (tar(MANIFEST, TENSORS), "goes on after its end"),
    "manifest": (
        open_end(member(M, size=4 * GIB)),
        "holds manifest.json of 4,294,967,296 bytes; it may have 1 to 4,194,304",
    ),
    "manifest at the limit": (
        open_end(member(M, size=4 * MIB)),
        "The manifest is not in order",
    ),
    "weights": (
        promising(5 * GIB),
        "holds weights.safetensors of 5,368,709,120 bytes; it may have 1 to 4,294,967,296",
    ),
    "weights beyond what tar can say": (
        promising(2**60),
        "holds weights.safetensors of 1,152,921,504,606,846,976 bytes",
    ),
    "less than nothing": (open_end(member(M, size=-(2**40))), "of -1,099,511,627,776 bytes"),
    "weights that the manifest doesn't know": (
        open_end(MANIFEST, member(W, size=GIB)),
        "holds weights.safetensors of 1,073,741,824 bytes, and its manifest says",
    ),
}


@pytest.mark.parametrize("case", BOMBS)
def test_bombs_are_not_unpacked(case: str) -> None:
    start, problem = BOMBS[case]
    content = bomb(start)
    assert len(content) < 5 * MIB
    with memory_below(16 * MIB if case == "manifest at the limit" else 2 * MIB):
        assert problem in refusal(content)


def test_the_limit_is_the_readers() -> None:
    whole, size = archived(), len(WEIGHTS)
    assert read_archive(io.BytesIO(whole), max_weights=size) == PACKED
    assert refusal(whole, max_weights=size - 1) == (
        f"The archive holds weights.safetensors of {size} bytes; it may have 1 to {size - 1}."
    )


def test_nothing_is_unpacked_past_the_limit() -> None:
    """A bomb that its manifest announces costs what the reader allows, and no more."""
    within = bomb(promising(8 * MIB))
    with memory_below(32 * MIB):
        assert refusal(within, max_weights=8 * MIB) == "The archive goes on after its end."
    with memory_below(2 * MIB):
        assert "it may have 1 to 8,388,607" in refusal(within, max_weights=8 * MIB - 1)


def test_memory_is_bounded_by_the_weights() -> None:
    packed = package(MIB)  # 8 MiB of weights
    whole = archived(packed)
    with memory_below(4 * packed.bytes):
        read_archive(io.BytesIO(whole))


def test_what_nobody_could_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_WEIGHTS == 4 * GIB
    monkeypatch.setattr(archive_module, "MAX_WEIGHTS", len(WEIGHTS) - 1)
    file = io.BytesIO()
    with pytest.raises(PackageError) as caught:
        write_archive(file, PACKED)
    assert caught.value.message == (
        f"weights.safetensors has {len(WEIGHTS)} bytes, "
        f"and an archive holds at most {len(WEIGHTS) - 1}."
    )
    assert file.getvalue() == b""


# --- the disk

watched: list[str] | None = None


def watch(event: str, args: tuple[Any, ...]) -> None:
    changes = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "tempfile.mkstemp")
    written = event == "open" and isinstance(args[2], int) and args[2] & (os.O_RDWR | os.O_WRONLY)
    if watched is not None and (written or event in changes):
        watched.append(f"{event} {args[0]}")


sys.addaudithook(watch)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is written to the disk, anywhere, while the test runs."""
    found: list[str] = []
    read_archive(io.BytesIO(archived()))  # modules that are imported late may be compiled
    monkeypatch.setattr(sys.modules[__name__], "watched", found)
    yield found
    monkeypatch.undo()


def test_reading_writes_nothing(tmp_path: Path, writes: list[str]) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(archived())
    assert writes == [f"open {path}"]  # the watch works
    writes.clear()
    assert read_archive(path) == PACKED
    refused = [gzipped(content) for content, _ in HOSTILE.values()]
    refused += [content for content, _ in NOT_GZIP.values()]
    assert not any(outcome(content) for content in refused)
    assert writes == []
    assert names(tmp_path) == ["x.tar.gz"]


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_text("letters")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("x.tar.gz", "link"):
        with pytest.raises(PackageError, match=f"already something called '{name}'"):
            write_archive(tmp_path / name, PACKED)
    assert (tmp_path / "x.tar.gz").read_text() == "letters"
    assert names(tmp_path) == ["link", "x.tar.gz"]


STEPS = ["fsync", "rename", "fsync"]


class Disk:
    """Counts the calls that bring a file to the disk, and fails at one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.fail_at = -1
        self.error: BaseException = OSError(errno.ENOSPC, "No space left on device")
        for name in ("fsync", "rename"):
            patch.setattr(os, name, self.watched(name, getattr(os, name)))

    def watched(self, name: str, call: Any) -> Any:
        def run(*args: Any) -> Any:
            self.log.append(name)
            if len(self.log) - 1 == self.fail_at:
                raise self.error
            return call(*args)

        return run


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_it_is_on_the_disk_before_it_is_seen(tmp_path: Path, disk: Disk) -> None:
    write_archive(tmp_path / "x.tar.gz", PACKED)
    assert disk.log == STEPS


@pytest.mark.parametrize("step", range(len(STEPS)))
def test_a_failure_at_any_step_leaves_nothing(tmp_path: Path, disk: Disk, step: int) -> None:
    disk.fail_at = step
    with pytest.raises(PackageError) as caught:
        write_archive(tmp_path / "x.tar.gz", PACKED)
    assert caught.value.message == (
        "The archive 'x.tar.gz' could not be written: No space left on device."
    )
    assert caught.value.hint.startswith("Nothing was changed.")
    assert names(tmp_path) == []


def test_interrupted_it_cleans_up(tmp_path: Path, disk: Disk) -> None:
    disk.fail_at, disk.error = 0, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        write_archive(tmp_path / "x.tar.gz", PACKED)
    assert names(tmp_path) == []


class Broken(io.RawIOBase):
    """A connection that is gone."""

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    def write(self, content: Any) -> int:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


def test_broken_connections_and_missing_folders_are_told(tmp_path: Path) -> None:
    broken: Any = Broken()
    with pytest.raises(PackageError, match="The archive cannot be read: Connection reset by peer"):
        read_archive(broken)
    with pytest.raises(PackageError, match="The archive could not be written: Connection reset"):
        write_archive(broken, PACKED)
    with pytest.raises(PackageError, match=r"'x.tar.gz' could not be written: No such file"):
        write_archive(tmp_path / "missing" / "x.tar.gz", PACKED)
