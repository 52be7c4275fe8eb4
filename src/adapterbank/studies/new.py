"""A study of one's own data, to begin with."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from unicodedata import normalize

from adapterbank.errors import ConfigError
from adapterbank.store.names import check_name
from adapterbank.tasks.load import load_task
from adapterbank.tasks.sources import local_file

BEGINNING = """\
# How good are adapters on these rows, how large need they be, and what else would do?
title = "{name}: adapters against other methods"
base = "minilm"
tasks = [{{{task}}}]
seeds = 3
train_rows = 1500  # 0: all of them
dev_rows = 500
reference = "full fine-tuning"
{baselines}
[[arm]]
name = "adapters 8"
size = 8
learning_rate = [1e-3, 2e-3, 4e-3]

[[arm]]
name = "adapters 32"
size = 32
learning_rate = [1e-3, 2e-3, 4e-3]

[[arm]]
name = "adapters 64"
size = 64
learning_rate = [1e-3, 2e-3, 4e-3]

[[arm]]
name = "top 2 layers"
method = "top-k"
top_k = 2
learning_rate = [1e-4, 2e-4, 4e-4]

[[arm]]
name = "full fine-tuning"
method = "full"
learning_rate = [5e-5, 1e-4, 2e-4]
"""

BASELINES = """
[[arm]]
name = "n-grams"
method = "n-grams"

[[arm]]
name = "frozen features"
method = "frozen features"
"""


def _name_after(stem: str) -> str:
    """A task's name that is like a file's: no letters but a to z, and one of them first."""
    plain = normalize("NFKD", stem.lower()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64].strip("-") or "rows"


def begin_study(folder: Path, train: Path, name: str = "", **reading: Any) -> Path:
    """Write its study.toml, once the rows can be read; they stay where they are. `reading` says
    how, as for `load_task`; the task is named after the file unless a `name` is given."""
    path = folder / "study.toml"
    if path.exists():
        raise ConfigError(f"There is a study in {folder} already.", "Name another folder.")
    rows = local_file(train)
    name = check_name(name or _name_after(rows.stem))
    given = {key: value for key, value in reading.items() if value}
    kind = load_task(name, rows, **given).kind
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(os.path.relpath(rows.resolve(), folder.resolve())).as_posix()
    entries = {"name": name, "train": place, **given}
    # A string or a truth value is written in TOML as it is in JSON.
    task = ", ".join(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in entries.items())
    baselines = "" if kind == "span" else BASELINES  # there are none for spans
    path.write_text(BEGINNING.format(name=name, task=task, baselines=baselines), "utf-8")
    return path
