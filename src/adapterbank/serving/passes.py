"""Which pass serves which task: ONNX Runtime where it can, torch where it must.

torch and the encoder are loaded only when something needs them: with an export at hand, tasks of
the standard form are served without either.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adapterbank.errors import PackageError, UnsupportedBase
from adapterbank.serving.export import Export, find_export, make_export
from adapterbank.serving.fit import Norms, check_fit
from adapterbank.serving.once import Once
from adapterbank.serving.rows import Array, Pass, Row
from adapterbank.store.manifest import Manifest, Pooling
from adapterbank.store.package import Package

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder
    from adapterbank.serving.onnx_pass import OnnxPass
    from adapterbank.serving.torch_pass import TorchPass, WholePass

log = logging.getLogger("adapterbank.serving")
GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
TOLERANCE = 1e-4  # between an export and torch


class Passes:
    """The ways to run tasks on one base."""

    def __init__(
        self,
        fingerprint: str,
        load: Callable[[], Encoder],
        *,
        lock: threading.RLock | None = None,
        memory: int,
        threads: int = 0,
        onnx: bool = True,
    ) -> None:
        """`load` gives the encoder in torch, and `lock` is held by whoever has it. `memory` is the
        room for tasks in bytes."""
        self._fingerprint, self._load = fingerprint, load
        self._lock = lock or threading.RLock()
        self._memory, self._threads = memory, threads
        self._wants_onnx = onnx and find_spec("onnxruntime") is not None
        # One that is there is opened without waiting for whoever has the encoder.
        self._kept = Once(lambda: self._open(find_export(self._fingerprint)))
        self._new = Once(lambda: self._open(self._export()), self._lock)
        self._torch = Once(self._make_torch, self._lock)
        self._whole = Once(self._make_whole, self._lock)
        self._norms = Once(self._norms_of_encoder, self._lock)

    def choose(self, manifest: Manifest) -> Pass:
        """The quickest pass that takes a task."""
        if self.onnx is not None and self.onnx.takes(manifest):
            return self.onnx
        return self.torch if self.torch.takes(manifest) else self.whole

    def check(self, package: Package) -> None:
        """Refuse a package that cannot run on the base."""
        manifest = package.manifest
        check_fit(package, self.norms)
        if manifest.pooling == "pooler" and not self.has_pooler:
            raise PackageError("The package reads the base's pooler, and the base has none.")
        pair = manifest.pair or manifest.kind == "span"
        special = self.tokenizer.num_special_tokens_to_add(pair)
        if manifest.max_length <= special:
            raise PackageError(
                f"The package's max_length is {manifest.max_length}; this base puts {special} "
                "tokens of its own around a text."
            )

    @property
    def bare(self) -> Pass:
        """The one for rows of no task."""
        return self.onnx or self.torch

    @property
    def tokenizer(self) -> Any:
        """The base's, safe to use from several threads."""
        return self._load().tokenizer if self.onnx is None else self.onnx.export.tokenizer

    @property
    def pooling(self) -> Pooling:
        """How the base makes one vector of a text."""
        return self._load().pooling if self.onnx is None else self.onnx.export.record.pooling

    @property
    def has_pooler(self) -> bool:
        """Whether the base holds a pooler."""
        return self._load().has_pooler if self.onnx is None else self.onnx.export.record.has_pooler

    @property
    def max_length(self) -> int:
        """The longest text in tokens."""
        return self._load().max_length if self.onnx is None else self.onnx.export.record.max_length

    @property
    def norms(self) -> Norms:
        """The shapes of the base's LayerNorms."""
        if self.onnx is None:
            return self._norms()
        own = self.onnx.export.own
        return {name: array.shape for name, array in own.items() if ".norm." in name}

    def _norms_of_encoder(self) -> Norms:
        encoder = self._load()
        return {
            f"{name}.{leaf}": tuple(parameter.shape)
            for name, path in encoder.sites.norm_paths(encoder.model).items()
            for leaf, parameter in encoder.model.get_submodule(path).named_parameters(recurse=False)
        }

    @property
    def onnx(self) -> OnnxPass | None:
        """ONNX Runtime; None where it isn't installed or has no graph of the base."""
        return self._kept() or self._new() if self._wants_onnx else None

    def _open(self, export: Export | None) -> OnnxPass | None:
        if export is None:
            return None
        from adapterbank.serving.onnx_pass import OnnxPass

        return OnnxPass(export, self._memory, self._threads)

    def _export(self) -> Export | None:
        if find_spec("onnx") is None:
            return None
        try:
            return make_export(self._load(), self._agrees)
        except UnsupportedBase:
            return None
        except OSError as error:  # no room, or no place that can be written to
            log.warning("The base's graph could not be kept, so torch answers: %s", error)
            return None

    def _agrees(self, export: Export) -> bool:
        """Whether an export gives what torch gives, with random tasks on random rows."""
        from adapterbank.serving.onnx_pass import OnnxPass

        rehearsal = Rehearsal(export)
        onnx = OnnxPass(export, self._memory, self._threads)
        return rehearsal.difference(onnx, self.torch) <= TOLERANCE

    @property
    def torch(self) -> TorchPass:
        """The reference."""
        return self._torch()

    def _make_torch(self) -> TorchPass:
        from adapterbank.serving.torch_pass import TorchPass

        return TorchPass(self._load(), self._lock)

    @property
    def whole(self) -> WholePass:
        """For tasks that changed the base itself."""
        return self._whole()

    def _make_whole(self) -> WholePass:
        from adapterbank.serving.torch_pass import WholePass

        return WholePass(self._load(), self._lock)


def on_cpu(device: str) -> bool:
    """Whether a device by name is the processor. torch is asked only if there may be another."""
    if device == "auto" and any(Path(place).exists() for place in GPU_DRIVERS):
        from adapterbank.model.encoder import find_device

        return find_device(device).type == "cpu"
    return device in ("auto", "cpu")


class Rehearsal:
    """A few tasks made up of random numbers, and rows for them."""

    def __init__(self, export: Export) -> None:
        draw = np.random.default_rng(0)
        form = export.form
        self.sizes = (4, 8)
        self.reads: tuple[Pooling | None, ...] = (None, "mean")
        self.tasks: list[dict[str, Array]] = []
        for size in self.sizes:
            tensors = {
                name: (value + 0.1 * draw.standard_normal(value.shape)).astype(np.float32)
                for name, value in export.own.items()
                if ".norm." in name
            }
            shapes = {
                "down.weight": (size, form.width),
                "down.bias": (size,),
                "up.weight": (form.width, size),
                "up.bias": (form.width,),
            }
            for layer in range(form.layers):
                for site in ("attention", "output"):
                    for name, shape in shapes.items():
                        values = 0.1 * draw.standard_normal(shape)
                        tensors[f"layer.{layer}.{site}.{name}"] = values.astype(np.float32)
            self.tasks.append(tensors)
        limit = min(64, export.record.max_length)
        words = draw.integers(0, export.record.vocabulary, (6, limit))
        self.texts = [words[i, : draw.integers(3, limit + 1)].astype(np.int32) for i in range(6)]

    def difference(self, onnx: OnnxPass, torch: TorchPass) -> float:
        """The largest between two passes."""
        from adapterbank.model.config import AdapterConfig

        found = []
        for each in (onnx, torch):
            seats = [
                each.seat_tensors(AdapterConfig(size), tensors)
                for size, tensors in zip(self.sizes, self.tasks, strict=True)
            ]
            every = [None, *seats]
            rows = [
                Row(text, np.zeros_like(text), every[(i + bool(reads)) % 3], reads)
                for i, text in enumerate(self.texts)
                for reads in self.reads
            ]
            found.append(each.run(rows))
        return max(float(np.abs(a - b).max()) for a, b in zip(*found, strict=True))
