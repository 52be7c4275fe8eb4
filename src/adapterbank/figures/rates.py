"""Figure 7: points lost by the choice of the learning rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapterbank.figures.style import looks, note, picture

NEAR = 5.0  # points; further down the axis is logarithmic
TICKS = (0, -1, -2, -3, -4, -5, -10, -20, -50)


def draw_rates(answer: dict[str, Any], path: Path) -> None:
    """A line an arm."""
    with picture(path, 6.4, 3.5) as figure:
        panel = figure.subplots()
        shown_as = looks([arm["family"] for arm in answer["arms"]])
        for arm, (colour, mark) in zip(answer["arms"], shown_as, strict=True):
            points = sorted(arm["points"], key=lambda point: float(point["rate"]))
            panel.errorbar(
                [p["rate"] for p in points],
                [-p["lost"] for p in points],
                yerr=[p["error"] or 0 for p in points],
                fmt=f"{mark}-",
                color=colour,
                label=f"{arm['name']} ({len(arm['tasks'])} tasks)",
                markersize=5,
                elinewidth=1,
            )
        panel.set_xscale("log")
        panel.set_yscale("symlog", linthresh=NEAR, linscale=1.5)  # what is near the best, at large
        panel.set_yticks(TICKS, [f"{tick:g}".replace("-", "\N{MINUS SIGN}") for tick in TICKS])
        panel.minorticks_off()
        panel.set_xlabel("learning rate")
        panel.set_ylabel("points below each task's best rate")
        panel.grid(axis="y")
        panel.set_ylim(top=0.4)
        figure.legend(loc="outside upper left", ncols=4, fontsize=8)
        seeds = "one seed" if answer["seeds"] == 1 else f"{answer['seeds']} seeds"
        note(figure, f"Mean over tasks, {seeds}; bars: one standard error over tasks. "
                     f"Below \N{MINUS SIGN}{NEAR:g} the axis is logarithmic.")  # fmt: skip
