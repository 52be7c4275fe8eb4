"""What a unit of work leaves behind: a JSON file, whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record in place of any that is there."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
