"""The whole model of one task: frozen base, what the method adds to it, and the head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adapterbank.errors import PackageError, UnsupportedBase
from adapterbank.model.attention import Bounds
from adapterbank.model.encoder import Encoder, Pooling
from adapterbank.model.heads import Head, Kind, mean_pool, starts_of
from adapterbank.model.methods import Method, apply_method
from adapterbank.model.packing import Batch, packed_attention
from adapterbank.model.prefix import (
    Known,
    can_skip,
    frozen_layers,
    room_for,
    skipping,
    states_entering,
)

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
        self.frozen = frozen_layers(self.base, self.sites, self.attachment.adapted)
        """Layers from the bottom that nothing trains in: their dropout is off."""
        self.base_frozen = not any(each.requires_grad for each in self.base.parameters())
        like = next(self.base.parameters())
        self.mixed = True
        """Whether a GPU may multiply in bfloat16."""
        self.head = Head(kind, encoder.width, labels).to(like.device, like.dtype)

    @property
    def device(self) -> torch.device:
        """Where the weights are, and batches go."""
        return self.head.linear.weight.device

    def train(self, mode: bool = True) -> Self:
        """Training mode, but for the layers that nothing trains in or below."""
        super().train(mode)
        if mode and self.base_frozen:
            self.base.eval()
        elif mode and self.frozen:
            self.base.get_submodule(self.sites.embeddings).eval()
            for layer in self.sites.layer_modules(self.base)[: self.frozen]:
                layer.eval()
        return self

    def forward(self, batch: Batch) -> Tensor:
        """Logits: [rows, outputs], or [tokens, 2] of a span head."""
        if batch.known is not None and self.base_frozen:
            read = batch.known
        else:
            read = self._head_input(batch)
        logits: Tensor = self.head(read)
        return logits

    def _head_input(self, batch: Batch) -> Tensor:
        """[rows, d], or of a span head [tokens, d]."""
        hidden = self.states(batch)
        return hidden if self.head.kind == "span" else self.pool(hidden, batch.lengths)

    def states(self, batch: Batch) -> Tensor:
        """The states of the real tokens, rows laid end to end: [tokens, d]."""
        if batch.bounds is None:
            hidden: Tensor = self.base(**batch.inputs).last_hidden_state
            return hidden[batch.inputs["attention_mask"].bool()]
        start: AbstractContextManager[None] = nullcontext()
        if batch.known is not None:
            start = skipping(self.base, self.sites, self.frozen, batch.known.unsqueeze(0))
        with start:
            hidden = self.base(**batch.inputs, bounds=batch.bounds).last_hidden_state
        return hidden.squeeze(0)

    @property
    def has_prefix(self) -> bool:
        """Whether something that comes before all that trains can be computed once a row."""
        return self.base_frozen or (self.frozen > 0 and can_skip(self.base, self.sites))

    @torch.inference_mode()
    def remember(self, rows: Sequence[Row], types: Sequence[Row] | None = None) -> Known | None:
        """What the frozen prefix makes of rows, each in the same way whatever is beside it in a
        batch later. None if there is no prefix, or no room."""
        if not self.has_prefix:
            return None
        self.eval()
        by_token = not self.base_frozen or self.head.kind == "span"
        ends = np.cumsum([len(row) if by_token else 1 for row in rows])
        starts = np.concatenate([[0], ends])
        values = room_for(int(starts[-1]), int(self.base.config.hidden_size))
        if values is None:
            return None
        with self.packing(), self.autocast():
            for chosen in token_batches([len(row) for row in rows]):
                batch = self._some(rows, types, chosen)
                found = self._head_input(batch) if self.base_frozen else self._reach(batch)
                sizes = batch.lengths.tolist() if by_token else 1
                for row, piece in zip(chosen, found.float().cpu().split(sizes), strict=True):
                    values[starts[row] : starts[row + 1]] = piece.numpy()
        return Known(values, starts if by_token else None)

    def _reach(self, batch: Batch) -> Tensor:
        layer = self.sites.layer_modules(self.base)[self.frozen]
        inputs = {**batch.inputs, "bounds": batch.bounds}
        return states_entering(self.base, layer, inputs).squeeze(0)

    def _some(
        self,
        rows: Sequence[Row],
        types: Sequence[Row] | None,
        chosen: Sequence[int],
        known: Known | None = None,
    ) -> Batch:
        return self.collate(
            [rows[i] for i in chosen],
            None if types is None else [types[i] for i in chosen],
            None if known is None else known.take(chosen),
        )

    def pool(self, hidden: Tensor, lengths: Tensor, pooling: Pooling | None = None) -> Tensor:
        """One vector a row, in the encoder's way or another: [tokens, d] → [rows, d]."""
        pooling = pooling or self.pooling
        if pooling == "mean":
            return mean_pool(hidden, lengths)
        first = hidden[starts_of(lengths)]
        return first if pooling == "first" else self.sites.pool(self.base, first)

    def collate(
        self,
        rows: Sequence[Row],
        types: Sequence[Row] | None = None,
        known: Tensor | None = None,
        *,
        packed: bool | None = None,
    ) -> Batch:
        """Token ids (and token types) of some rows as a batch: packed wherever the base packs.

        `known` is what the frozen prefix makes of them, where that was remembered.
        """
        lengths = [len(row) for row in rows]
        if known is not None and self.base_frozen:  # the head reads nothing else
            return Batch({}, torch.tensor(lengths), None, known).to(self.device)
        types = types if self.sites.token_types else None
        if self.sites.packs if packed is None else packed:
            inputs = {
                "input_ids": _end_to_end(rows),
                "position_ids": _end_to_end([range(length) for length in lengths])
                + ((self.padding + 1) if self.sites.positions_after_padding else 0),
            }
            if types is not None:
                inputs["token_type_ids"] = _end_to_end(types)
            return Batch(inputs, torch.tensor(lengths), Bounds(lengths), known).to(self.device)
        inputs = {
            "input_ids": _padded(rows, self.padding),
            "attention_mask": _padded([[1] * length for length in lengths], 0),
        }
        if types is not None:
            inputs["token_type_ids"] = _padded(types, 0)
        return Batch(inputs, torch.tensor(lengths), None, known).to(self.device)

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
        if self.mixed and self.device.type == "cuda" and torch.cuda.is_bf16_supported():
            return torch.autocast("cuda", torch.bfloat16)
        return nullcontext()

    def logits(
        self,
        rows: Sequence[Row],
        types: Sequence[Row] | None = None,
        known: Known | None = None,
    ) -> NDArray[np.float32]:
        """Logits of any number of rows, in their order, dropout off: [rows, outputs], or
        [tokens, 2] of a span head, rows laid end to end."""
        with self.autocast():
            return self._read(rows, types, self.forward, known, by_token=self.head.kind == "span")

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

    def token_states(
        self, rows: Sequence[Row], types: Sequence[Row] | None = None
    ) -> NDArray[np.float32]:
        """What a span head would read: the states of all tokens, rows end to end: [tokens, d]."""
        with self.autocast():
            return self._read(rows, types, self.states, by_token=True)

    @torch.inference_mode()
    def _read(
        self,
        rows: Sequence[Row],
        types: Sequence[Row] | None,
        function: Callable[[Batch], Tensor],
        known: Known | None = None,
        *,
        by_token: bool = False,
    ) -> NDArray[np.float32]:
        """Rows run sorted by length in batches of a bounded number of tokens, so memory stays
        bounded and padding, on a base that pads, small."""
        self.eval()
        parts: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(rows)
        with self.packing():
            for batch in token_batches([len(row) for row in rows]):
                inputs = self._some(rows, types, batch, known)
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
            raise PackageError(
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


def token_batches(lengths: Sequence[int]) -> Iterator[list[int]]:
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
