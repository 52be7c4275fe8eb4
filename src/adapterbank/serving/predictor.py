"""One task on an encoder, for reading: the plain way, and the reference for faster ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch

from adapterbank.errors import DataError
from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.serving.engine import read_any
from adapterbank.store.mount import mount
from adapterbank.store.package import Package
from adapterbank.tasks.batches import encode
from adapterbank.tasks.inputs import read_input
from adapterbank.tasks.predictions import Prediction, decode, decode_spans
from adapterbank.tasks.spans import make_windows
from adapterbank.tasks.task import Example


class Predictor:
    """A package put on its base. The encoder is lent; the end of a `with` block gives it back."""

    def __init__(self, encoder: Encoder, package: Package) -> None:
        self.encoder, self.manifest = encoder, package.manifest
        self.model = mount(encoder, package)

    def answer(self, inputs: Sequence[Any]) -> list[Prediction]:
        """Answers, one an input; one that cannot be read has its error in its place."""
        kind, pair = self.manifest.kind, self.manifest.pair
        return _each(inputs, lambda value: read_input(value, kind, pair), self.predict)

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answers, one an example."""
        tokenizer = self.encoder.tokenizer
        limit = min(self.manifest.max_length, self.encoder.max_length)
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


def embed(encoder: Encoder, inputs: Sequence[Any]) -> list[Prediction]:
    """What the bare encoder makes of texts and pairs of texts: one vector an input."""

    def vectors(examples: Sequence[Example]) -> list[Prediction]:
        rows = encode(encoder.tokenizer, examples, encoder.max_length)
        with torch.random.fork_rng(devices=[]):  # its head is not read
            model = TaskModel(encoder, "regression", method=Method("head"))
        with model:
            found = model.features(*rows.take())
        return [Prediction(embedding=tuple(row)) for row in found.tolist()]

    return _each(inputs, read_any, vectors)


def _each(
    inputs: Sequence[Any],
    read: Callable[[Any], Example],
    answer: Callable[[Sequence[Example]], list[Prediction]],
) -> list[Prediction]:
    """Answers for the inputs that can be read, errors for the others, each in its place."""
    found: list[Prediction | Example] = []
    for value in inputs:
        try:
            found.append(read(value))
        except DataError as error:
            found.append(Prediction(error=error))
    examples = [each for each in found if isinstance(each, Example)]
    answers = iter(answer(examples) if examples else ())
    return [next(answers) if isinstance(each, Example) else each for each in found]
