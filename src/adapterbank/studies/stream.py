"""A study of a long stream: a folder with a `stream.toml` that lists tasks, as `stream` takes it.

Its runs are packages in a bank beside the studies, and its answer is the stream's own report.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from adapterbank.errors import ConfigError
from adapterbank.streams.report import columns, heading, rows, sentences
from adapterbank.studies.answers.common import lines

LIST = "stream.toml"
# What the page and the picture need of a report: not every check of every task.
KEPT = (
    "base", "tasks", "packages_identical", "predictions_identical", "problems", "set_aside",
    "parameters", "checked",
)  # fmt: skip


def is_stream(folder: Path) -> bool:
    """Whether a folder holds a stream rather than a grid of runs."""
    return (folder / LIST).is_file()


def answer_of(report: dict[str, Any]) -> dict[str, Any]:
    """A stream's report as a study keeps it."""
    kept = {name: report[name] for name in KEPT}
    return {"title": "Stream", **kept, "contrast": bool(report["contrast"]),
            "checks": bool(report["checks"])}  # fmt: skip


def read_answer(path: Path) -> dict[str, Any] | None:
    """What was kept; None before the first run."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None
    return found


def markdown(answer: dict[str, Any]) -> str:
    """The table of no forgetting, and what it comes to."""
    told = "\n".join(f"- {sentence}" for sentence in sentences(answer))
    return f"{heading(answer)}.\n\n{lines(columns(answer), rows(answer))}\n{told}\n"
