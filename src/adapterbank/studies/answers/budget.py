"""Beyond the paper: a size for each task, under one budget of parameters for the whole bank.

Sizes are chosen by dev scores of the runs there are, test scores are reported. Every task starts at
its smallest size; then, step by step, the task that gains most dev score a parameter is given the
next size that is worth it, until the budget is spent.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from adapterbank.studies.answers.common import about, lines, progress_note
from adapterbank.studies.study import Study
from adapterbank.studies.table import Table, table_of


def compute(study: Study) -> dict[str, Any]:
    """For each size the whole bank with that size alone, and the same budget shared out."""
    table = table_of(study)
    arms = [arm.name for arm in study.arms if arm.fixed.get("method", "adapters") == "adapters"]
    options = {task: _options(table, task, arms) for task in table.whole}
    found = []
    for arm in arms if options else []:
        alone = {task: options[task][arm] for task in options}
        budget = sum(each["parameters"] for each in alone.values())
        chosen = share_out(options, budget)
        found.append(
            {
                "name": arm,
                "parameters": budget,
                "uniform": fmean(each["test"] for each in alone.values()),
                "shared_out": fmean(options[task][name]["test"] for task, name in chosen.items()),
                "spent": sum(options[task][name]["parameters"] for task, name in chosen.items()),
                "chosen": chosen,
            }
        )
    return {**about(study), "budgets": found}


def _options(table: Table, task: str, arms: list[str]) -> dict[str, dict[str, float]]:
    metric = table.metric(task)
    return {
        arm: {
            "parameters": cell.records[0]["trained_parameters"],
            "dev": fmean(100 * record["dev"][metric] for record in cell.records),
            "test": cell.mean,
        }
        for arm in arms
        for cell in [table.cells[arm][task]]
    }


def share_out(options: dict[str, dict[str, dict[str, float]]], budget: float) -> dict[str, str]:
    """A choice for each task within the budget."""
    chosen = {
        task: min(choices, key=lambda name: choices[name]["parameters"])
        for task, choices in options.items()
    }
    left = budget - sum(options[task][name]["parameters"] for task, name in chosen.items())
    while True:
        best: tuple[float, str, str, float] | None = None
        for task, now in chosen.items():
            here = options[task][now]
            for name, there in options[task].items():
                cost, gain = there["parameters"] - here["parameters"], there["dev"] - here["dev"]
                if 0 < cost <= left and gain > 0 and (best is None or gain / cost > best[0]):
                    best = (gain / cost, task, name, cost)
        if best is None:
            return chosen
        _, task, name, cost = best
        chosen[task], left = name, left - cost


def markdown(answer: dict[str, Any]) -> str:
    """One line a budget."""
    rows = [
        [each["name"], f"{each['parameters']:,.0f}", f"{each['uniform']:.2f}",
         f"{each['shared_out']:.2f}", f"{each['spent']:,.0f}"]
        for each in answer["budgets"]
    ]  # fmt: skip
    head = ["the budget of", "parameters", "that size everywhere", "a size a task", "spent"]
    return f"{progress_note(answer)}\n\n{lines(head, rows)}"


def draw(answer: dict[str, Any], path: Path) -> None:
    """Mean score by the bank's parameters, both ways."""
    from adapterbank.figures.budget import draw_budget

    draw_budget(answer, path)
