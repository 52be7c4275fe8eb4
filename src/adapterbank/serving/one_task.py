"""One task on its own: base, adapters and head in one ONNX file, its tokenizer beside it.

The file takes what any tokenizer of the base gives (input_ids, attention_mask, token_type_ids) and
returns logits. Labels, kind and the rest stand in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adapterbank.errors import ConfigError, PackageError, UnsupportedBase
from adapterbank.model.encoder import Encoder
from adapterbank.model.probes import TOLERANCE, probe_rows
from adapterbank.serving.graph_builder import Builder, onnx_type
from adapterbank.store.disk import appearing
from adapterbank.store.manifest import Manifest
from adapterbank.store.mount import mount
from adapterbank.store.package import Package

if TYPE_CHECKING:
    from onnx import ModelProto

# Of adapters: the operation, whether it is ONNX Runtime's own, and its settings.
ACTIVATIONS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "gelu_tanh": ("FastGelu", True, {}),
    "gelu": ("Gelu", True, {}),
    "relu": ("Relu", False, {}),
    "tanh": ("Tanh", False, {}),
    "swish": ("QuickGelu", True, {"alpha": 1.0}),
    "sigmoid": ("Sigmoid", False, {}),
    "leaky_relu": ("LeakyRelu", False, {"alpha": 0.01}),
    "identity": ("Identity", False, {}),
}


def task_graph(encoder: Encoder, package: Package) -> ModelProto:
    """A task as one graph, logits out: [rows, outputs], or of a span task [rows, tokens, 2]."""
    return _OneTask(encoder, package).build()


class _OneTask(Builder):
    token = np.int64

    def __init__(self, encoder: Encoder, package: Package) -> None:
        super().__init__(encoder)
        self.manifest, self.tensors = package.manifest, package.arrays
        method = self.manifest.method.name
        if method in ("full", "top-k"):
            raise ConfigError(
                f"Task {self.manifest.task!r} has changed the base itself ({method}).",
                "Only adapters, LayerNorms and heads can be written as ONNX.",
            )
        adapter = self.manifest.adapter
        if adapter is not None and (adapter.norm != "none" or adapter.insertion == "parallel"):
            raise ConfigError(
                f"Task {self.manifest.task!r} has adapters of a form that has no ONNX graph.",
                "Those that stand in series and don't normalise have one.",
            )

    def build(self) -> ModelProto:
        x, lengths = self.encode()
        read = x if self.manifest.kind == "span" else self.pooled(x, lengths, self.manifest.pooling)
        head = self.op("MatMul", read, self.constant("head.weight", self.tensors["head.weight"].T))
        logits = self.op("Add", head, self.constant("head.bias", self.tensors["head.bias"]))
        made = self.model({"logits": logits})
        _describe(made, self.manifest)
        return made

    def lengths(self) -> str:
        mask = self.input("attention_mask", np.int64, "texts", "L")
        count = self.op("ReduceSum", mask, self.integers(1), keepdims=0)
        return self.op("Cast", count, to=onnx_type(np.int32))

    def after_embeddings(self, x: str, size: int) -> str:
        del size
        scale = self.norm("embeddings.norm", self.encoder.sites.embeddings_norm)
        return self.op("LayerNormalization", x, *scale, axis=-1, epsilon=self.eps)

    def after_sublayer(self, x: str, residual: str, index: int, site: str) -> str:
        del index
        path = self.encoder.sites.norm_paths(self.encoder.model)[f"{site}.norm"]
        scale = self.norm(f"{site}.norm", path)
        return self.op(
            "SkipLayerNormalization", self.adapted(x, site), residual, *scale, fused=True,
            epsilon=self.eps,
        )  # fmt: skip

    def norm(self, name: str, path: str) -> tuple[str, str]:
        """The task's LayerNorm, or the base's where the task has none."""
        weight, bias = (
            self.constant(
                f"{name}.{leaf}", self.tensors.get(f"{name}.{leaf}", self.weight(path, leaf))
            )
            for leaf in ("weight", "bias")
        )
        return weight, bias

    def adapted(self, x: str, site: str) -> str:
        """x + δ(x), or x + x·δ(x)."""
        adapter = self.manifest.adapter
        if adapter is None or f"{site}.down.weight" not in self.tensors:
            return x
        kind, fused, settings = ACTIVATIONS[adapter.activation]
        inner = [f"{site}.inner.{i}" for i in range(adapter.hidden_layers - 1)]
        delta = x
        for name in (f"{site}.down", *inner):
            delta = self.op(kind, self.of_task(delta, name), fused=fused, **settings)
        delta = self.of_task(delta, f"{site}.up")
        return self.op("Add", x, self.op("Mul", x, delta) if adapter.gate else delta)

    def of_task(self, x: str, name: str) -> str:
        """A linear map of the task."""
        weight = self.constant(f"{name}.weight", self.tensors[f"{name}.weight"].T)
        bias = self.constant(f"{name}.bias", self.tensors[f"{name}.bias"])
        return self.op("Add", self.op("MatMul", x, weight), bias)


def _describe(model: ModelProto, manifest: Manifest) -> None:
    """What a reader of the file needs to make answers of logits."""
    facts: Mapping[str, Any] = {
        "task": manifest.task,
        "kind": manifest.kind,
        "labels": list(manifest.labels),
        "max_length": manifest.max_length,
        "temperature": manifest.temperature,
        "threshold": manifest.threshold,
        "base": manifest.base.name,
    }
    for name, value in facts.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = name, json.dumps(value, ensure_ascii=False)


def export_onnx(encoder: Encoder, package: Package, path: Path) -> list[str]:
    """Write a task as `path` and the base's tokenizer beside it, once both agree with torch."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        raise ConfigError("ONNX is not installed.", "pip install 'adapterbank[serve]' brings it.")
    if path.suffix != ".onnx":
        raise ConfigError(f"{path.name!r} is no name for an ONNX file.", "Let it end with .onnx.")
    beside = path.with_suffix(".tokenizer.json")
    for each in (path, beside):
        if each.exists():
            raise PackageError(
                f"There is already something called {each.name!r}.", "Choose another name."
            )
    graph = task_graph(encoder, package).SerializeToString()
    off = _difference(encoder, package, graph)
    if not off <= TOLERANCE:
        raise UnsupportedBase(
            f"The ONNX graph of {package.manifest.task!r} is off by {off:.2g}; "
            f"{TOLERANCE:g} at most is rounding."
        )
    backend: Any = encoder.tokenizer.backend_tokenizer
    try:
        with appearing(beside) as file:
            file.write(backend.to_str().encode())
        with appearing(path) as file:
            file.write(graph)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise PackageError(
            f"{path.name!r} could not be written: {error.strerror or error}.",
            "Free some space, or choose another folder.",
        ) from error
    return [f"Its tokenizer is beside it: {beside.name}."]


def _difference(encoder: Encoder, package: Package, graph: bytes) -> float:
    """The largest between the graph's logits and torch's, on the base's probes."""
    import onnxruntime

    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    names = {each.name for each in session.get_inputs()}
    rows = probe_rows(encoder)
    with mount(encoder, package) as model:
        expected = [model.exact_logits([row]) for row in rows]
    worst = 0.0
    for row, wanted in zip(rows, expected, strict=True):
        ids = np.array([row], np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        (found,) = session.run(["logits"], {name: feed[name] for name in names})
        worst = max(worst, float(np.abs(found.reshape(wanted.shape) - wanted).max()))
    return worst
