"""Beyond the paper: the same packages with numbers of half the size."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from adapterbank.studies.answers.common import about, lines, progress_note
from adapterbank.studies.study import Study
from adapterbank.studies.table import table_of


def compute(study: Study) -> dict[str, Any]:
    """Means over seeds of what the probe measured."""
    table = table_of(study)
    found = {}
    for task, cell in table.cells[study.arms[0].name].items():
        probes = [record["fp16"] for record in cell.records]
        metric = table.metric(task)
        found[task] = {
            "fp32": cell.mean,
            "fp16": fmean(100 * probe["test"][metric] for probe in probes),
            # A number is hardly ever the same to the last digit: its score tells more.
            "other_answers": None
            if study.facts.tasks[task].kind == "regression"
            else fmean(probe["other_answers"] for probe in probes),
            "bytes_fp32": probes[0]["bytes_fp32"],
            "bytes_fp16": probes[0]["bytes"],
        }
    return {**about(study), "found": found}


def markdown(answer: dict[str, Any]) -> str:
    """One line a task."""
    rows = [
        [task, f"{each['fp32']:.2f}", f"{each['fp16']:.2f}", _share(each["other_answers"]),
         f"{each['bytes_fp32']:,}", f"{each['bytes_fp16']:,}"]
        for task, each in answer["found"].items()
    ]  # fmt: skip
    head = ["", "fp32", "fp16", "other answers", "bytes, fp32", "bytes, fp16"]
    return f"{progress_note(answer)}\n\n{lines(head, rows)}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"
