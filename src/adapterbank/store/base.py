"""A base as banks and packages know it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from adapterbank.store.manifest import BaseRecord

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder


def base_record(encoder: Encoder) -> BaseRecord:
    """A folder is known by its full path, so that the bank can be used from anywhere."""
    place = Path(encoder.name).expanduser()
    name = str(place.resolve()) if place.is_dir() else encoder.name
    return BaseRecord(name, encoder.fingerprint)
