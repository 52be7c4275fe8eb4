"""The weights file of a package: which tensors it must hold, and reading it without trust.

Before anything of its size is allocated, the file's header is read within bounds and compared
with what the manifest implies: names, shapes, types and places. How many layers the base has is
not known here; what it adds (names under `base.`, the width of the embeddings' LayerNorm) is
checked when the tensors meet the base.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any

from adapterbank.errors import PackageError
from adapterbank.model.config import AdapterConfig
from adapterbank.store.known_files import KnownFiles, identity_of
from adapterbank.store.manifest import DAMAGED, Manifest, MethodRecord, Precision
from adapterbank.store.schema import parse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WEIGHTS = "weights.safetensors"
MAX_TENSORS = 100_000
KNOWN_HEADER = 2**17  # bytes; longer ones are not remembered
MAX_HEADER = 200 * MAX_TENSORS  # bytes; an entry has about 100 beside its name

Shape = tuple[int, ...]
ADAPTER = re.compile(r"layer\.(\d{1,4})\.(?:attention|output)\.down\.weight")
_LAYER_NORM = re.compile(r"layer\.(\d{1,4})\.(?:attention|output)\.norm\.(?:weight|bias)")
_OTHER_NORM = re.compile(r"([a-z]+\.norm)\.(?:weight|bias)")
_OF_BASE = re.compile(r"base\.[A-Za-z0-9_.]{1,300}")


# The number type of each precision: its name in the file, and numpy's.
NUMBERS: dict[Precision, tuple[str, str]] = {"fp32": ("F32", "<f4"), "fp16": ("F16", "<f2")}


@dataclass(frozen=True)
class Form:
    """All of a manifest that its tensors follow from."""

    outputs: int
    """Of the head."""
    method: MethodRecord
    adapter: AdapterConfig | None
    precision: Precision

    @classmethod
    def of(cls, manifest: Manifest) -> Form:
        """The form of a task's tensors."""
        outputs = {"regression": 1, "span": 2}.get(manifest.kind, len(manifest.labels))
        return cls(outputs, manifest.method, manifest.adapter, manifest.precision)


def encode_weights(tensors: Mapping[str, NDArray[np.float32]], precision: Precision) -> bytes:
    """The bytes of the weights file, names sorted."""
    from safetensors.numpy import save

    kind = NUMBERS[precision][1]
    return save({name: tensors[name].astype(kind, copy=False) for name in sorted(tensors)})


def read_weights(
    file: BufferedIOBase, manifest: Manifest, known: KnownFiles | None = None
) -> dict[str, NDArray[np.float32]]:
    """The tensors of an open weights file, checked against its manifest: single precision.

    A file that is `known` to have been checked, and is the same still, is not hashed again.
    """
    import numpy as np

    identity = identity_of(file)
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size != manifest.weights_bytes:
        raise _damaged(f"has {size:,} bytes, and the manifest says {manifest.weights_bytes:,}")
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if length > min(MAX_HEADER, size - 8):
        raise _damaged(f"has a header of {length:,} bytes")
    header = file.read(length)
    data = size - 8 - length
    places = (_known_places if length <= KNOWN_HEADER else _places)(header, data, Form.of(manifest))

    values = np.empty(data, np.uint8).data  # unlike a bytearray, not filled with zeros
    file.readinto(values)
    if identity != identity_of(file):
        identity = None  # it was changed while it was read
    checked = known is not None and known.hold(identity, manifest.weights_sha256)
    if not checked:
        digest = hashlib.sha256(start + header)
        digest.update(values)
        if digest.hexdigest() != manifest.weights_sha256:
            raise _damaged(f"has digest {digest.hexdigest()}, not {manifest.weights_sha256}")
    kind = NUMBERS[manifest.precision][1]
    tensors = {
        name: np.frombuffer(values, kind, math.prod(shape), begin)
        .reshape(shape)
        .astype(np.float32, copy=False)
        for name, (shape, begin) in places.items()
    }
    if not checked:
        check_finite(tensors)
        if known is not None:
            known.add(identity, manifest.weights_sha256)
    return tensors


def read_header(header: bytes, data: int, precision: Precision) -> dict[str, tuple[Shape, int]]:
    """Shape and first byte of each tensor. Together they fill the `data` bytes without overlap."""
    try:
        entries = parse(header)
    except ValueError as error:
        raise _damaged(f"has a header that cannot be read: {error}") from error
    if not isinstance(entries, dict) or len(entries) > MAX_TENSORS:
        raise _damaged(f"has a header that is no list of at most {MAX_TENSORS:,} tensors")
    number, width = NUMBERS[precision][0], int(NUMBERS[precision][1][-1])
    places = {name: _place(name, entry, number, width) for name, entry in entries.items()}
    end = 0
    for name, (shape, begin) in sorted(places.items(), key=lambda item: item[1][1]):
        if begin != end:
            raise _damaged(f"has a gap or an overlap before {name[:100]!r}")
        end += width * math.prod(shape)
    if end != data:
        raise _damaged(f"has {data:,} bytes of values where its header says {end:,}")
    return places


def _places(header: bytes, data: int, form: Form) -> dict[str, tuple[Shape, int]]:
    places = read_header(header, data, form.precision)
    _check(form, {name: shape for name, (shape, _) in places.items()})
    return places


# Tasks of one form have the same header: it is understood and checked once.
_known_places = lru_cache(64)(_places)


def _place(name: str, entry: Any, number: str, width: int) -> tuple[Shape, int]:
    match entry:
        case {"dtype": str(found), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            sound = found == number and len(entry) == 3 and len(shape) <= 4
            sound = sound and all(type(length) is int and length > 0 for length in shape)
            if sound and end - begin == width * math.prod(shape):
                return tuple(shape), begin
    raise _damaged(f"describes {name[:100]!r} as something other than a tensor of {number} numbers")


def check_tensors(manifest: Manifest, shapes: Mapping[str, Shape]) -> None:
    """Refuse tensors other than those that the manifest's method, adapter and labels imply."""
    _check(Form.of(manifest), shapes)


def _check(form: Form, shapes: Mapping[str, Shape]) -> None:
    head = shapes.get("head.weight", ())
    if len(head) != 2:
        raise _damaged("has no matrix head.weight")
    outputs, width = form.outputs, head[1]
    expected: dict[str, Shape | None] = {"head.weight": (outputs, width), "head.bias": (outputs,)}
    if form.adapter is not None:
        expected |= _adapter_shapes(form.adapter, width, shapes)
    expected |= _norm_shapes(form, width, shapes)

    allowed_of_base = form.method.name in ("full", "top-k")
    of_base = {name for name in shapes if allowed_of_base and _OF_BASE.fullmatch(name)}
    missing = expected.keys() - shapes.keys()
    unknown = shapes.keys() - expected.keys() - of_base
    if missing:
        raise _damaged(f"lacks {min(missing)!r}")
    if allowed_of_base and not of_base:
        raise _damaged("lacks the base's own tensors")
    if unknown:
        raise _damaged(f"holds {min(unknown)[:100]!r}, which the manifest doesn't account for")
    for name, shape in expected.items():
        if shapes[name] != shape if shape is not None else len(shapes[name]) != 1:
            wanted = list(shape) if shape is not None else "one dimension"
            raise _damaged(f"holds {name!r} with shape {list(shapes[name])}, not {wanted}")


def _adapter_shapes(
    config: AdapterConfig, width: int, shapes: Mapping[str, Shape]
) -> dict[str, Shape | None]:
    layers = config.layers or range(1 + max(_layers(ADAPTER, shapes), default=0))
    sites = ("attention", "output") if config.where == "both" else (config.where,)
    if len(layers) * len(sites) * config.hidden_layers > MAX_TENSORS:
        raise _damaged(f"cannot hold that many adapters: {MAX_TENSORS:,} tensors at most")
    one = adapter_shapes(config, width)
    return {
        f"layer.{layer}.{site}.{name}": shape
        for layer in layers
        for site in sites
        for name, shape in one.items()
    }


def adapter_shapes(config: AdapterConfig, width: int) -> dict[str, Shape]:
    """The tensors of one adapter: m is the bottleneck's width, d the base's."""
    m, d = config.size, width
    shapes: dict[str, Shape] = {"down.weight": (m, d), "down.bias": (m,)}
    for i in range(config.hidden_layers - 1):
        shapes |= {f"inner.{i}.weight": (m, m), f"inner.{i}.bias": (m,)}
    shapes |= {"up.weight": (d, m), "up.bias": (d,)}
    # Not `norm`: a site's LayerNorm has that name.
    if config.norm != "none":
        shapes |= {"inner_norm.weight": (d,), "inner_norm.bias": (d,)}
    if config.norm == "batch":
        shapes |= {"inner_norm.running_mean": (d,), "inner_norm.running_var": (d,)}
    return shapes


def _norm_shapes(form: Form, width: int, shapes: Mapping[str, Shape]) -> dict[str, Shape | None]:
    """The LayerNorms that train: from the lowest layer to the highest, none left out."""
    method, adapter = form.method, form.adapter
    if method.name == "head" or (adapter and not adapter.train_layer_norms):
        return {}
    layers = _layers(_LAYER_NORM, shapes)
    highest = max([*layers, *_layers(ADAPTER, shapes)], default=0)
    if method.name == "top-k":
        lowest = highest - method.top_k + 1
        if lowest < 0:
            raise _damaged(f"lacks some of the top {method.top_k} layers")
    else:
        lowest = adapter.layers[0] if adapter and adapter.layers else 0
    norms = {
        f"layer.{layer}.{site}.norm"
        for layer in range(lowest, highest + 1)
        for site in ("attention", "output")
    }
    if "layer.0.attention.norm.weight" not in shapes:  # ModernBERT has none there
        norms.discard("layer.0.attention.norm")
    if lowest == 0 and method.name != "top-k":
        norms.add("embeddings.norm")
        norms |= {found[1] for found in map(_OTHER_NORM.fullmatch, shapes) if found}
    elif "final.norm.weight" in shapes:
        norms.add("final.norm")
    # A base's norms have biases, or none of them has.
    biased = any(name.endswith(".norm.bias") for name in shapes)
    return {
        f"{norm}.{leaf}": None if norm == "embeddings.norm" else (width,)
        for norm in norms
        for leaf in ("weight", "bias")[: 1 + biased]
    }


def _layers(pattern: re.Pattern[str], names: Iterable[str]) -> set[int]:
    return {int(found[1]) for found in map(pattern.fullmatch, names) if found}


def check_finite(tensors: Mapping[str, NDArray[np.float32]]) -> None:
    """Refuse NaN and infinity."""
    name = not_finite(tensors)
    if name is not None:
        raise _damaged(f"holds {name!r} with values that are not finite")


def not_finite(tensors: Mapping[str, NDArray[np.float32]]) -> str | None:
    """A tensor with NaN or infinity, by name."""
    import numpy as np

    return next((name for name, each in tensors.items() if not np.isfinite(each).all()), None)


def _damaged(problem: str) -> PackageError:
    return PackageError(f"{WEIGHTS} {problem}.", DAMAGED)
