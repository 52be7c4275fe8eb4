"""Labelled rows for a task that is in the bank."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapterbank.store.manifest import Manifest
    from adapterbank.tasks.labelled import Labelled


def labelled_rows(
    manifest: Manifest, data: str, *, label_names: str | None = None, **reading: Any
) -> Labelled:
    """The rows of a file, read as `read_labelled` is told; what is left out is said."""
    from adapterbank.tasks.labelled import read_labelled

    found = read_labelled(
        data,
        manifest.kind,
        manifest.labels,
        pairs=manifest.pair,
        known=manifest.columns,
        label_names=[each.strip() for each in label_names.split(",")] if label_names else None,
        **reading,
    )
    for note in found.notes:
        print(note, file=sys.stderr)
    return found
