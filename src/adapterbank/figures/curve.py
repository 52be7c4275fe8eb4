"""Figures 4 and 5: a task's score by trained parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapterbank.figures.style import (
    FAMILY_COLOURS,
    FAMILY_MARKERS,
    note,
    parameters_axis,
    picture,
)


def draw_curve(answer: dict[str, Any], path: Path) -> None:
    """A panel a task, a line a family; bars are standard errors over seeds."""
    from matplotlib.patheffects import withStroke

    tasks = [task for task in answer["tasks"] if answer["points"][task["name"]]]
    with picture(path, 3.9 * max(len(tasks), 1) + 0.6, 3.5) as figure:
        panels = figure.subplots(1, max(len(tasks), 1), squeeze=False)[0]
        for panel, task in zip(panels, tasks, strict=False):
            points = answer["points"][task["name"]]
            for family in dict.fromkeys(point["family"] for point in points):
                some = sorted(
                    (p for p in points if p["family"] == family),
                    key=lambda point: int(point["parameters"]),
                )
                panel.errorbar(
                    [p["parameters"] for p in some],
                    [p["mean"] for p in some],
                    yerr=[p["error"] or 0 for p in some],
                    fmt=f"{FAMILY_MARKERS[family]}{'-' if len(some) > 1 else ''}",
                    color=FAMILY_COLOURS[family],
                    label=family,
                    markersize=9 if FAMILY_MARKERS[family] == "*" else 5,
                    elinewidth=1,
                )
                for point in some if len(some) > 1 else ():  # its size, or how many layers
                    panel.annotate(
                        point["name"].split()[-1],
                        (point["parameters"], point["mean"]),
                        (0, -12),
                        textcoords="offset points",
                        color=FAMILY_COLOURS[family],
                        ha="center",
                        fontsize=7,
                        path_effects=[withStroke(linewidth=2, foreground="white")],
                    )
            panel.set_title(task["name"])
            panel.margins(y=0.12)
            panel.set_ylabel(f"{task['metric'].replace('_', ' ')} on test × 100")
            parameters_axis(panel)
            panel.grid(axis="y")
        known = {
            label: mark
            for panel in panels
            for mark, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        columns = 3 if len(tasks) < 2 else 5
        figure.legend(known.values(), known.keys(), loc="outside upper left", ncols=columns,
                      fontsize=8)  # fmt: skip
        seeds = f"Mean of {answer['seeds']} seeds; bars: one standard error"
        if answer["seeds"] == 1:
            seeds = "One seed"
        note(figure, f"{seeds}. Numbers: sizes of adapters, top layers.")
