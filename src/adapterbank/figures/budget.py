"""One budget for a bank: the same size for every task, or a size for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapterbank.figures.style import COLOURS, picture


def draw_budget(answer: dict[str, Any], path: Path) -> None:
    """Mean score by the parameters of all tasks together."""
    budgets = sorted(answer["budgets"], key=lambda each: float(each["parameters"]))
    with picture(path, 5.6, 3.4) as figure:
        panel = figure.subplots()
        panel.plot([b["parameters"] for b in budgets], [b["uniform"] for b in budgets], "o-",
                   color=COLOURS[0], label="one size for all")  # fmt: skip
        panel.plot([b["spent"] for b in budgets], [b["shared_out"] for b in budgets], "s--",
                   color=COLOURS[1], label="a size for each, chosen on dev")  # fmt: skip
        panel.set_xscale("log")
        panel.set_xlabel("trained parameters of all tasks together")
        panel.set_ylabel("mean score on test × 100")
        panel.grid(axis="y")
        panel.legend(fontsize=8)
