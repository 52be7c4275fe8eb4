"""Figures 1 and 3: points lost against full fine-tuning, by trained parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapterbank.figures.style import (
    FAMILY_COLOURS,
    FAMILY_MARKERS,
    INK,
    note,
    parameters_axis,
    picture,
)


def draw_tradeoff(answer: dict[str, Any], path: Path) -> None:
    """A panel a group of tasks: the median over tasks, and the band between the outer ones."""
    groups = {name: points for name, points in answer["groups"].items() if points}
    with picture(path, 3.6 + 3.0 * len(groups), 3.6) as figure:
        panels = figure.subplots(1, max(len(groups), 1), sharey=True, squeeze=False)[0]
        for panel, (group, points) in zip(panels, groups.items(), strict=False):
            tasks = max(len(point["gaps"]) for point in points)
            panel.set_title(f"{group} ({tasks} task{'s'[: tasks != 1]})")
            for family in dict.fromkeys(point["family"] for point in points):
                _family(panel, family, [p for p in points if p["family"] == family])
            panel.axhline(0, color=INK, linewidth=1)
            panel.plot(answer["reference_parameters"], 0, "*", color=INK, markersize=9,
                       label=answer["reference"], clip_on=False)  # fmt: skip
            parameters_axis(panel)
            panel.grid(axis="y")
        panels[0].set_ylabel(f"points above {answer['reference']}")
        panels[0].legend(loc="lower left", fontsize=8)
        seeds = "One seed" if answer["seeds"] == 1 else f"Means of {answer['seeds']} seeds"
        note(figure, f"{seeds}. Lines: the median over tasks. Bands: 20th to 80th percentile. "
                     "Numbers: sizes of adapters, top layers.")  # fmt: skip


def _family(panel: Any, family: str, points: list[dict[str, Any]]) -> None:
    from matplotlib.patheffects import withStroke

    points = sorted(points, key=lambda point: float(point["parameters"]))
    x = [point["parameters"] for point in points]
    low, middle, high = zip(*(point["percentiles"] for point in points), strict=True)
    colour, mark = FAMILY_COLOURS[family], FAMILY_MARKERS[family]
    for point, place in zip(points, middle, strict=True):  # its size, or how many layers
        panel.annotate(
            point["name"].split()[-1],
            (point["parameters"], place),
            (0, -12),
            textcoords="offset points",
            color=colour,
            ha="center",
            fontsize=8,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],  # over the line of zero
        )
    if len(points) > 1:
        panel.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        panel.plot(x, middle, f"{mark}-", color=colour, label=family, markersize=5)
    else:
        spread = [[middle[0] - low[0]], [high[0] - middle[0]]]
        panel.errorbar(x, middle, yerr=spread, fmt=mark, color=colour, label=family, markersize=5)
