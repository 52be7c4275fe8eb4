"""The paper's findings on our own answers: yes, no, undecided, or open while runs are missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from adapterbank.studies.answers.common import lines
from adapterbank.studies.statements import STATEMENTS, Test
from adapterbank.studies.stream import LIST
from adapterbank.studies.study_file import FILE

MARK = "<!-- findings -->"  # in the README of a folder of studies: where they are to stand
WORDS: dict[bool | None, Literal["yes", "no", "undecided"]] = {
    True: "yes", False: "no", None: "undecided",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One statement, and what became of it."""

    statement: str
    study: str
    verdict: Literal["yes", "no", "undecided", "open"]
    """Open while runs of the study are missing."""
    figures: str


def findings_of(folder: Path) -> list[Finding]:
    """Every statement that the studies of a folder can speak to."""
    return [
        _judge(statement, folder / study, test)
        for statement, study, test in STATEMENTS
        if any((folder / study / name).is_file() for name in (FILE, LIST))
    ]


def _judge(statement: str, study: Path, test: Test) -> Finding:
    path = study / "answer.json"
    answer = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    done = answer.get("runs_done", len(answer.get("tasks", ())))  # a stream's runs are its tasks
    verdict = test(answer) if done else None
    if verdict is None:
        return Finding(statement, study.name, "open", "not run yet")
    if done < answer.get("runs_known", done):  # too early to judge
        return Finding(statement, study.name, "open", f"so far: {verdict[1]}")
    return Finding(statement, study.name, WORDS[verdict[0]], verdict[1])


def markdown(findings: list[Finding]) -> str:
    """One line a statement."""
    shown = {"yes": "yes", "no": "**no**", "undecided": "undecided", "open": ""}
    return lines(
        ["the paper's finding", "here?", "figures", "study"],
        [[f.statement, shown[f.verdict], f.figures, f.study] for f in findings],
        words=True,
    )
