"""The whole model of one task: frozen base, what the method adds to it, and the head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adapterbank.errors import AttachError, UnsupportedBase
from adapterbank.model.attention import Bounds
from adapterbank.model.encoder import Encoder
from adapterbank.model.heads import Head, Kind, mean_pool, starts_of
from adapterbank.model.methods import Method, apply_method
from adapterbank.model.packing import Batch, packed_attention

TOKENS_AT_ONCE = 2048  # of a batch that is only read; larger ones fall out of the cache
Row = Sequence[int] | NDArray[Any]  # the tokens of one row


class TaskModel(nn.Module):
    """Token ids → logits. The encoder is lent: `release()`, or the end of a `with` block on the
    model, gives it back as it was."""

    def __init__(
        self, encoder: Encoder, kind: Kind, labels: int = 1, method: Method | None = None
    ) -> None:
        super().__init__()
        self.base = encoder.model
        self.sites = encoder.sites
        self.pooling = encoder.pooling
        self.padding = int(encoder.model.config.pad_token_id or 0)
        self.attachment = apply_method(
            self.base, method or Method(), with_pooler=self.pooling == "pooler"
        )
        like = next(self.base.parameters())
        self.head = Head(kind, encoder.width, labels).to(like.device, like.dtype)

    @property
    def device(self) -> torch.device:
        """Where the weights are, and batches go."""
        return self.head.linear.weight.device

    def forward(self, batch: Batch) -> Tensor:
        """Logits: [rows, outputs], or [tokens, 2] of a span head."""
        hidden = self.states(batch)
        logits: Tensor = self.head(
            hidden if self.head.kind == "span" else self.pool(hidden, batch.lengths)
        )
        return logits

    def states(self, batch: Batch) -> Tensor:
        """The states of the real tokens, rows laid end to end: [tokens, d]."""
        if batch.bounds is not None:
            hidden: Tensor = self.base(**batch.inputs, bounds=batch.bounds).last_hidden_state
            return hidden.squeeze(0)
        hidden = self.base(**batch.inputs).last_hidden_state
        return hidden[batch.inputs["attention_mask"].bool()]

    def pool(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """One vector a row: [tokens, d] → [rows, d]."""
        if self.pooling == "mean":
            return mean_pool(hidden, lengths)
        first = hidden[starts_of(lengths)]
        return first if self.pooling == "first" else self.sites.pool(self.base, first)

    def collate(
        self,
        rows: Sequence[Row],
        types: Sequence[Row] | None = None,
        *,
        packed: bool | None = None,
    ) -> Batch:
        """Token ids (and token types) of some rows as a batch: packed wherever the base packs."""
        lengths = [len(row) for row in rows]
        types = types if self.sites.token_types else None
        if self.sites.packs if packed is None else packed:
            inputs = {
                "input_ids": _end_to_end(rows),
                "position_ids": _end_to_end([range(length) for length in lengths])
                + ((self.padding + 1) if self.sites.positions_after_padding else 0),
            }
            if types is not None:
                inputs["token_type_ids"] = _end_to_end(types)
            return Batch(inputs, torch.tensor(lengths), Bounds(lengths)).to(self.device)
        inputs = {
            "input_ids": _padded(rows, self.padding),
            "attention_mask": _padded([[1] * length for length in lengths], 0),
        }
        if types is not None:
            inputs["token_type_ids"] = _padded(types, 0)
        return Batch(inputs, torch.tensor(lengths), None).to(self.device)

    @contextmanager
    def packing(self) -> Iterator[None]:
        """Within this block, packed batches run (on a base that packs; elsewhere no change)."""
        with packed_attention(self.base) if self.sites.packs else nullcontext():
            yield

    @contextmanager
    def recomputing(self) -> Iterator[None]:
        """Within this block, layers keep no activations and compute them again for gradients."""
        if not self.base.supports_gradient_checkpointing:
            raise UnsupportedBase(
                f"{type(self.base).__name__} cannot recompute its activations.",
                "Leave checkpointing out; a larger `accumulate` saves memory too.",
            )
        self.base.gradient_checkpointing_enable({"use_reentrant": False})
        try:
            yield
        finally:
            self.base.gradient_checkpointing_disable()

    def autocast(self) -> AbstractContextManager[object]:
        """bfloat16 for matrix products on a GPU that has it; single precision elsewhere."""
        if self.device.type == "cuda" and torch.cuda.is_bf16_supported():
            return torch.autocast("cuda", torch.bfloat16)
        return nullcontext()

    def logits(
        self, rows: Sequence[Row], types: Sequence[Row] | None = None
    ) -> NDArray[np.float32]:
        """Logits of any number of rows, in their order, dropout off: [rows, outputs], or
        [tokens, 2] of a span head, rows laid end to end."""
        with self.autocast():
            return self.exact_logits(rows, types)

    def exact_logits(
        self, rows: Sequence[Row], types: Sequence[Row] | None = None
    ) -> NDArray[np.float32]:
        """The same, in single precision on every device."""
        return self._read(rows, types, self.forward, by_token=self.head.kind == "span")

    def features(
        self, rows: Sequence[Row], types: Sequence[Row] | None = None
    ) -> NDArray[np.float32]:
        """What the head would read of any number of rows, in their order: [rows, d]."""
        with self.autocast():
            return self._read(
                rows, types, lambda batch: self.pool(self.states(batch), batch.lengths)
            )

    @torch.inference_mode()
    def _read(
        self,
        rows: Sequence[Row],
        types: Sequence[Row] | None,
        function: Callable[[Batch], Tensor],
        *,
        by_token: bool = False,
    ) -> NDArray[np.float32]:
        """Rows run sorted by length in batches of a bounded number of tokens, so memory stays
        bounded and padding, on a base that pads, small."""
        self.eval()
        parts: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(rows)
        with self.packing():
            for batch in _batches([len(row) for row in rows]):
                inputs = self.collate(
                    [rows[i] for i in batch], None if types is None else [types[i] for i in batch]
                )
                out = function(inputs).float().cpu()
                pieces = out.split(inputs.lengths.tolist()) if by_token else out.split(1)
                for i, piece in zip(batch, pieces, strict=True):
                    parts[i] = piece.numpy()
        return np.concatenate(parts) if parts else np.empty((0, 1), np.float32)

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """What trains, by group."""
        groups = self.attachment.parameter_groups()
        groups["head"] = list(self.head.parameters())
        return groups

    def trained(self) -> dict[str, nn.Parameter]:
        """What trains, by neutral name."""
        groups = [*self.attachment.named_groups().values()]
        groups.append({f"head.{n}": p for n, p in self.head.linear.named_parameters()})
        return {name: parameter for group in groups for name, parameter in group.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that makes this task, by neutral name: what trains, and the running
        statistics of adapters that normalise over batches."""
        return {
            name: tensor.detach()
            for name, tensor in [*self.trained().items(), *self.attachment.named_buffers()]
        }

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a task's tensors: exactly the names and shapes that `tensors()` has."""
        mine = self.tensors()
        wrong = [
            name
            for name in sorted({*mine, *tensors})
            if name not in mine or name not in tensors or mine[name].shape != tensors[name].shape
        ]
        if wrong:
            raise AttachError(
                f"{len(wrong)} tensors don't fit this model, {wrong[0]!r} among them.",
                "Give the tensors of the same base, method and labels.",
            )
        for name, tensor in mine.items():
            tensor.copy_(tensors[name])

    def release(self) -> None:
        """Take everything off the base again."""
        self.attachment.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers by length, at most `TOKENS_AT_ONCE` tokens a batch."""
    batch: list[int] = []
    tokens = 0
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if batch and tokens + lengths[row] > TOKENS_AT_ONCE:
            yield batch
            batch, tokens = [], 0
        batch.append(row)
        tokens += lengths[row]
    if batch:
        yield batch


def _end_to_end(rows: Sequence[Row]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.asarray(row, np.int64) for row in rows])[None])


def _padded(rows: Sequence[Row], filler: int) -> Tensor:
    padded = np.full((len(rows), max(len(row) for row in rows)), filler)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(padded)
