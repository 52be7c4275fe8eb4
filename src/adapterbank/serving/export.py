"""A base as files that ONNX Runtime serves from, made once and kept: no torch is needed then.

    <cache>/exports/<fingerprint>-<versions>/
        graph.onnx   weights.bin   tokenizer.json   own.safetensors   base.json

The weights are a file of their own, which every session and every process maps into its memory.
`base.json` comes last and holds the digests of the others. An export is used only if it gave what
torch gives, to within the tolerance, when it was made.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapterbank.errors import UnsupportedBase
from adapterbank.serving.arena import Array, Form
from adapterbank.serving.tokenizer import PlainTokenizer
from adapterbank.store.disk import write_folder
from adapterbank.store.manifest import Pooling
from adapterbank.store.schema import decode
from adapterbank.store.sealed import seal, unseal

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder

GRAPH, WEIGHTS, TOKENIZER = "graph.onnx", "weights.bin", "tokenizer.json"
OWN, BASE = "own.safetensors", "base.json"
VERSION = 6  # of the graph that is built, and of what is kept beside it


@dataclass(frozen=True)
class ExportRecord:
    """What an export says of itself."""

    name: str
    fingerprint: str
    form: Form
    depth: int
    """Layers, each counted as often as it is used."""
    pooling: Pooling
    has_pooler: bool
    token_types: bool
    max_length: int
    vocabulary: int
    """Tokens it knows."""
    truncation_side: str
    """Where its tokenizer cuts what is too long: "left" or "right"."""
    files: dict[str, str]
    """The digest of each."""


@dataclass(frozen=True)
class Export:
    """An export that is there, checked."""

    folder: Path
    record: ExportRecord

    @property
    def graph(self) -> Path:
        """The base, as ONNX."""
        return self.folder / GRAPH

    @property
    def form(self) -> Form:
        """The shape that tasks' tensors have."""
        return self.record.form

    @property
    def depth(self) -> int:
        """Layers, each counted as often as it is used."""
        return self.record.depth

    @property
    def token_types(self) -> bool:
        """Whether the base reads them."""
        return self.record.token_types

    @cached_property
    def own(self) -> dict[str, Array]:
        """The base's LayerNorms, by neutral name, and the bias before each site."""
        from safetensors.numpy import load_file

        return load_file(self.folder / OWN)

    @cached_property
    def tokenizer(self) -> PlainTokenizer:
        """The base's."""
        return PlainTokenizer(self.folder / TOKENIZER, self.record.truncation_side)


def cache_folder() -> Path:
    """Where things are kept that can be made again."""
    return Path(os.environ.get("ADAPTERBANK_CACHE") or Path.home() / ".cache" / "adapterbank")


def export_folder(fingerprint: str) -> Path:
    """Where the export of a base is, if it has been made."""
    runtime = metadata.version("onnxruntime")
    return cache_folder() / "exports" / f"{fingerprint[:32]}-{VERSION}-{runtime}"


def find_export(fingerprint: str) -> Export | None:
    """The export of a base; None if there is none that is whole."""
    folder = export_folder(fingerprint)
    try:
        record: ExportRecord = decode(ExportRecord, unseal((folder / BASE).read_bytes()), "export")
        whole = record.fingerprint == fingerprint and all(
            _digest(folder / name) == digest for name, digest in record.files.items()
        )
    except (OSError, ValueError):
        return None
    return Export(folder, record) if whole else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_export(encoder: Encoder, agrees: Callable[[Export], bool]) -> Export:
    """Build the export of a base, and keep it if it agrees with torch. UnsupportedBase if it has
    no graph, or gives something else."""
    files, record = _build(encoder)
    folder = export_folder(encoder.fingerprint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export.", dir=folder.parent) as place:
        trial = Path(place) / "export"
        write_folder(trial, files)
        if not agrees(Export(trial, record)):
            raise UnsupportedBase(f"The ONNX graph of {encoder.name!r} gives other numbers.")
        with suppress(OSError):  # another process was quicker
            _put(trial, folder, encoder.fingerprint)
    found = find_export(encoder.fingerprint)
    if found is None:
        raise UnsupportedBase(f"The export of {encoder.name!r} could not be kept.")
    return found


def _put(trial: Path, folder: Path, fingerprint: str) -> None:
    """Give an export its name, which it takes from a damaged one, and from no other."""
    try:
        trial.rename(folder)
    except OSError:
        if find_export(fingerprint) is not None:
            return
        folder.rename(trial.with_name("damaged"))  # goes with the rest of the trial's folder
        trial.rename(folder)


def _build(encoder: Encoder) -> tuple[dict[str, bytes], ExportRecord]:
    from safetensors.numpy import save

    from adapterbank.serving.graph import biases_of, build_graph
    from adapterbank.serving.graph_builder import take_weights

    sites, model = encoder.sites, encoder.model
    norms = {
        f"{name}.{leaf}": parameter.detach().float().cpu().numpy()
        for name, path in sites.norm_paths(model).items()
        for leaf, parameter in model.get_submodule(path).named_parameters(recurse=False)
    }
    backend: Any = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if backend is None:  # written in Python: it needs the library that it comes with
        raise UnsupportedBase(f"The tokenizer of {encoder.name!r} cannot be exported.")
    graph = build_graph(encoder)
    weights = take_weights(graph, WEIGHTS)
    files = {
        GRAPH: graph.SerializeToString(),
        WEIGHTS: weights,
        TOKENIZER: backend.to_str().encode(),
        OWN: save({**norms, **biases_of(encoder)}),
    }
    record = ExportRecord(
        name=encoder.name,
        fingerprint=encoder.fingerprint,
        form=Form(encoder.layers, encoder.width, len(norms["embeddings.norm.weight"])),
        depth=int(model.config.num_hidden_layers),
        pooling=encoder.pooling,
        has_pooler=encoder.has_pooler,
        token_types=sites.token_types,
        max_length=encoder.max_length,
        vocabulary=int(model.config.vocab_size),
        truncation_side=str(encoder.tokenizer.truncation_side),
        files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    )
    return {**files, BASE: seal(asdict(record))}, record
