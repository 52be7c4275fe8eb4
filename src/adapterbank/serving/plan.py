"""The inputs of one run of the base's graph: which rows go where, and where each comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from adapterbank.serving.arena import BARE
from adapterbank.serving.rows import Row

NEVER = 1 << 30  # the layer from which a task that changes none on changes states


@dataclass(frozen=True)
class Place:
    """A task's slot in the arena of its class."""

    size: int
    slot: int
    lowest: int
    """The first layer that it changes, counted in the encoder's depth; the embeddings' LayerNorm
    changes with the first."""


@dataclass(frozen=True)
class Plan:
    """The inputs of a run that say which rows go where, and where each row comes out."""

    inputs: dict[str, NDArray[Any]]
    places: list[int]

    @classmethod
    def of(cls, rows: Sequence[Row], depth: int) -> Plan:
        """Rows with the same tokens are one text; a text is one row for each task that has changed
        it so far."""
        texts: dict[bytes, int] = {}
        number = [texts.setdefault(row.key, len(texts)) for row in rows]
        seats = [seat_of(row) for row in rows]

        def streams(layer: int) -> dict[tuple[int, int], int]:
            """What runs through a layer, by slot and text: rows of one slot stand together."""
            found = {
                (slot if lowest <= layer else BARE, text)
                for (slot, lowest), text in zip(seats, number, strict=True)
            }
            return {stream: place for place, stream in enumerate(sorted(found))}

        inputs: dict[str, NDArray[Any]] = {}
        before = streams(0)
        first = dict(zip(number, rows, strict=True))
        inputs |= _padded([first[text] for _, text in before])
        inputs["slots.embeddings"] = _groups(before)
        for layer in range(depth):
            now = streams(layer)
            came = [before.get(stream, before.get((BARE, stream[1]))) for stream in now]
            inputs[f"rows.{layer}"] = np.array(came, np.int64)
            inputs[f"slots.{layer}"] = _groups(now)
            before = now
        places = [
            before[slot if lowest < depth else BARE, text]
            for (slot, lowest), text in zip(seats, number, strict=True)
        ]
        return cls(inputs, places)


def seat_of(row: Row) -> tuple[int, int]:
    """Its slot, and the first layer that changes."""
    if row.seat is None:
        return BARE, NEVER
    place = cast(Place, row.seat)
    return place.slot, place.lowest


def _padded(rows: Sequence[Row]) -> dict[str, NDArray[np.int32]]:
    lengths = np.array([len(row.tokens) for row in rows], np.int32)
    ids = np.zeros((len(rows), lengths.max()), np.int32)
    types = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : lengths[i]] = row.tokens
        types[i, : lengths[i]] = row.types
    return {"input_ids": ids, "token_type_ids": types, "lengths": lengths}


def _groups(streams: dict[tuple[int, int], int]) -> NDArray[np.int64]:
    """The slot of each group: the largest groups of one size that fit all tasks."""
    slots = np.array([slot for slot, _ in streams], np.int64)
    _, counts = np.unique(slots, return_counts=True)
    return slots[:: math.gcd(*counts.tolist())]
