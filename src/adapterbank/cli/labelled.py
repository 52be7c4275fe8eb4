"""Labelled rows for a task that is in the bank."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapterbank.store.manifest import Manifest
    from adapterbank.tasks.task import Example


def labelled_rows(
    manifest: Manifest,
    data: str,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    label_names: str | None = None,
    encoding: str = "utf-8",
) -> list[Example]:
    """The rows of a file. Columns are those that the task was trained on, unless given."""
    from adapterbank.tasks.load import read_examples

    known = manifest.columns if not data.endswith(".json") else {}
    return list(
        read_examples(
            data,
            manifest.kind,
            manifest.labels,
            pairs=manifest.pair,
            text_column=text_column or known.get("text"),
            pair_column=pair_column or known.get("pair"),
            label_column=label_column or known.get("label"),
            label_names=label_names.split(",") if label_names else None,
            encoding=encoding,
        )
    )
