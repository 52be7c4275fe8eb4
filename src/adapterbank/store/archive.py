"""A package as one `.tar.gz`, for moving it between banks.

An archive has one form: the manifest, then the weights, as plain files without owner, rights or
time. Whatever else a tar or gzip file may hold is refused whole. Reading unpacks no further than
the sizes that were checked before, and writes nothing to the disk.
"""

from __future__ import annotations

import os
import tarfile
import zlib
from contextlib import nullcontext
from gzip import GzipFile
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from adapterbank.errors import PackageError
from adapterbank.store.disk import appearing
from adapterbank.store.manifest import DAMAGED, MAX_BYTES, Manifest
from adapterbank.store.package import MANIFEST, Packed
from adapterbank.store.weights import WEIGHTS, read_weights

MAX_WEIGHTS = 4 * 2**30
CHUNK = 2**18
LEVEL = 6  # of compression
GZIP = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # how it begins: no name, no time, no system
BLOCK, RECORD = tarfile.BLOCKSIZE, tarfile.RECORDSIZE

TYPES = {
    tarfile.AREGTYPE: "a file in an old form",
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.DIRTYPE: "a folder",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
    tarfile.GNUTYPE_LONGNAME: "a header that renames the next member",
    tarfile.GNUTYPE_LONGLINK: "a header that renames the next member",
    tarfile.XHDTYPE: "a header that can rename the next member",
    tarfile.XGLTYPE: "a header that can rename the members",
}


# --- writing


def write_archive(target: Path | BinaryIO, packed: Packed) -> None:
    """Write a package to a new file, whole or not at all, or to an open one."""
    if len(packed.files[WEIGHTS]) > MAX_WEIGHTS:
        raise PackageError(
            f"{WEIGHTS} has {len(packed.files[WEIGHTS]):,} bytes, and an archive holds at most "
            f"{MAX_WEIGHTS:,}.",
            "Export it as a folder.",
        )
    if isinstance(target, Path) and os.path.lexists(target):
        raise PackageError(
            f"There is already something called {target.name!r}.", "Choose another name."
        )
    try:
        with appearing(target) if isinstance(target, Path) else nullcontext(target) as file:
            _write(file, packed)
    except OSError as error:
        raise PackageError(
            f"{_named(target)} could not be written: {error.strerror or error}.",
            "Nothing was changed. Free some space, or choose a folder that can be written to.",
        ) from error


def _named(place: Path | BinaryIO) -> str:
    return f"The archive {place.name!r}" if isinstance(place, Path) else "The archive"


def _write(file: BinaryIO, packed: Packed) -> None:
    with (
        GzipFile("", "wb", LEVEL, file, mtime=0) as gzip,
        tarfile.open(fileobj=gzip, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name in (MANIFEST, WEIGHTS):
            content = packed.files[name]
            tar.addfile(_member(name, len(content)), BytesIO(content))


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


# --- reading


def read_archive(source: Path | BinaryIO, *, max_weights: int = MAX_WEIGHTS) -> Packed:
    """A package out of an archive, with every check of a package. Nothing is written to disk."""
    named = _named(source)
    try:
        with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
            return _read(file, max_weights)
    except OSError as error:
        raise PackageError(f"{named} cannot be read: {error.strerror or error}.") from error
    except zlib.error as error:
        raise PackageError(f"{named} is damaged: it cannot be unpacked.", DAMAGED) from error
    except _Refused as error:
        raise PackageError(
            f"{named} {error}.",
            f"An archive of a package holds {MANIFEST} and {WEIGHTS} and nothing else. Write it "
            "again with adapterbank export.",
        ) from error


class _Refused(Exception):
    """What an archive is or does that one of ours wouldn't."""


def _read(file: BinaryIO, max_weights: int) -> Packed:
    stream = _Stream(file)
    raw = _content(stream, _size(stream, MANIFEST, MAX_BYTES))
    manifest = Manifest.from_json(raw)
    size = _size(stream, WEIGHTS, max_weights)
    if size != manifest.weights_bytes:  # before so much is unpacked
        raise _Refused(
            f"holds {WEIGHTS} of {size:,} bytes, and its manifest says {manifest.weights_bytes:,}"
        )
    weights = _content(stream, size)
    _check_end(stream)
    read_weights(BytesIO(weights), manifest)
    return Packed(manifest, {WEIGHTS: weights, MANIFEST: raw})


def _size(stream: _Stream, name: str, limit: int) -> int:
    """Read the header of the next member, which must be that file, and give its size."""
    block = stream.read(BLOCK)
    if not any(block):
        raise _Refused(f"lacks {name}")
    found = _header(block)
    if found.type != tarfile.REGTYPE:
        kind = TYPES.get(found.type, "something other than a file")
        raise _Refused(f"holds {_short(found.name)}, {kind}")
    if found.name != name:
        raise _Refused(f"holds {_short(found.name)} in the place of {name}")
    if not 0 < found.size <= limit:
        raise _Refused(f"holds {name} of {found.size:,} bytes; it may have 1 to {limit:,}")
    if block != _member(name, found.size).tobuf(tarfile.USTAR_FORMAT):
        raise _Refused(
            f"was not written by AdapterBank: the header of {name} is not as it writes it"
        )
    return found.size


def _content(stream: _Stream, size: int) -> bytes:
    content = stream.read(size)
    if any(stream.read(-size % BLOCK)):
        raise _Refused("hides something between its members")
    return content


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise _Refused("is not a tar file inside") from error


def _check_end(stream: _Stream) -> None:
    """Two empty blocks, more of them to the end of the record, and then nothing."""
    block = stream.read(BLOCK)
    if any(block):
        raise _Refused(f"holds a third member, {_short(_header(block).name)}")
    left = BLOCK + -(stream.position + BLOCK) % RECORD
    if any(stream.read(left)) or not stream.ended():
        raise _Refused("goes on after its end")


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:60]}…")


class _Stream:
    """The content of a gzip file, unpacked no further than it is asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._inflate = file, zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._waiting = file.read(len(GZIP))
        if self._waiting[:2] != GZIP[:2]:
            raise _Refused("is not a gzip file")
        if self._waiting != GZIP:
            raise _Refused("is a gzip file that AdapterBank didn't write")
        self.position = 0

    def read(self, size: int) -> bytes:
        """Exactly so many bytes."""
        content = BytesIO()
        while (missing := size - content.tell()) > 0:
            if self._inflate.eof:
                raise _Refused("ends too early")
            content.write(self._some(min(missing, CHUNK)))
        self.position += size
        return content.getvalue()

    def ended(self) -> bool:
        """Whether there is nothing more, neither inside nor after it."""
        while not self._inflate.eof:
            if self._some(1):
                return False
        return not self._inflate.unused_data and not self._file.read(1)

    def _some(self, limit: int) -> bytes:
        """At most so many bytes; none where more of the file must be read first."""
        waiting = self._waiting or self._file.read(CHUNK)
        if not waiting:
            raise _Refused("is cut off")
        content = self._inflate.decompress(waiting, limit)
        self._waiting = self._inflate.unconsumed_tail
        return content
