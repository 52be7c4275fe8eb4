"""One task on an encoder, for reading: the plain way, and the reference for faster ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from adapterbank.errors import PackageError
from adapterbank.model.adapter import AdapterConfig
from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.store.package import Package
from adapterbank.tasks.batches import encode
from adapterbank.tasks.predictions import Prediction, decode, decode_spans
from adapterbank.tasks.spans import make_windows
from adapterbank.tasks.task import Example


class Predictor:
    """A package put on its base. The encoder is lent; the end of a `with` block gives it back."""

    def __init__(self, encoder: Encoder, package: Package) -> None:
        manifest = package.manifest
        if manifest.base.fingerprint != encoder.fingerprint:
            raise PackageError(
                f"Task {manifest.task!r} was learnt on {manifest.base.name} "
                f"({manifest.base.fingerprint[:12]}), and this base is {encoder.name} "
                f"({encoder.fingerprint[:12]}).",
                "A package fits its own base alone.",
            )
        self.encoder, self.manifest = encoder, manifest
        record = manifest.method
        method = Method(record.name, manifest.adapter or AdapterConfig(), record.top_k)
        self.model = TaskModel(encoder, manifest.kind, max(1, len(manifest.labels)), method)
        self.model.load_tensors(package.tensors)

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answers, one an example."""
        tokenizer, limit = self.encoder.tokenizer, self.manifest.max_length
        if self.manifest.kind == "span":
            windows = make_windows(tokenizer, examples, limit)
            logits = self.model.logits(*windows.encoded.take())
            return decode_spans(windows, logits, self.manifest.threshold)
        logits = self.model.logits(*encode(tokenizer, examples, limit).take())
        return decode(self.manifest.kind, self.manifest.labels, logits, self.manifest.temperature)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.model.release()
