"""Feature statistics as a manifest holds them: directions, a byte a number."""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from adapterbank.errors import PackageError
from adapterbank.store.manifest import DAMAGED
from adapterbank.store.schema import decode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_CENTRES = 64


@dataclass(frozen=True)
class StatisticsRecord:
    """In JSON."""

    centres: str
    """Base64 of signed bytes, [centres, d]: each centre in units of its largest number's 127th
    part. Only its direction counts."""
    near: float
    spread: float


@dataclass(frozen=True)
class Statistics:
    """What a task's texts look like to the bare encoder."""

    centres: NDArray[np.float32]
    """[centres, d], each of length 1."""
    near: float
    """The mean cosine of unseen rows with their nearest centre."""
    spread: float
    """Its standard deviation."""


def write_statistics(centres: NDArray[np.float32], near: float, spread: float) -> dict[str, Any]:
    """As a manifest holds them."""
    import numpy as np

    largest = np.abs(centres).max(1, keepdims=True)
    values = np.round(127 * centres / largest).astype(np.int8)
    return asdict(StatisticsRecord(base64.b64encode(values.tobytes()).decode(), near, spread))


def read_statistics(found: dict[str, Any], width: int) -> Statistics:
    """Of a base of this width."""
    import numpy as np

    try:
        record: StatisticsRecord = decode(StatisticsRecord, found, "statistics")
        raw = base64.b64decode(record.centres, validate=True)
    except (ValueError, binascii.Error) as error:
        raise PackageError(f"The feature statistics are not in order: {error}.", DAMAGED) from error
    count, rest = divmod(len(raw), width)
    if rest or not 1 <= count <= MAX_CENTRES or not record.spread > 0:
        raise PackageError("The feature statistics have the wrong shape.", DAMAGED)
    values = np.frombuffer(raw, np.int8).reshape(count, width).astype(np.float32)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return Statistics(values / np.maximum(lengths, 1.0), record.near, record.spread)
