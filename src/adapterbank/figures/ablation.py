"""Figure 6: heat maps of removed adapters, and the score by the size of the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapterbank.figures.style import look, note, picture


def draw_ablation(answer: dict[str, Any], path: Path) -> None:
    """First layer removed down, last across; red is lost."""
    removed, starts = answer["removed"], {t: p for t, p in answer["starts"].items() if p}
    panels = max(len(removed) + bool(starts), 1)
    layers = max((len(found["layers"]) for found in removed.values()), default=0)
    cells = 0.34 * layers  # inches: a number needs a third of one
    with picture(path, max(3.1, cells) * panels + 0.7, max(3.3, cells + 0.2)) as figure:
        axes = list(figure.subplots(1, panels, squeeze=False)[0])
        changes = {
            task: {(i, j): change for i, j, change in found["change"]}
            for task, found in removed.items()
        }
        worst = min((v for change in changes.values() for v in change.values()), default=-1.0)
        image = None
        for panel, (task, change) in zip(axes, changes.items(), strict=False):
            image = _heat_map(panel, task, change, removed[task]["layers"], worst)
        if image is not None:
            figure.colorbar(image, ax=axes[: len(removed)], label="change of the score, %",
                            shrink=0.85)  # fmt: skip
        if starts:
            _starts(axes[-1], starts)
        if removed:
            note(
                figure, "Numbers: change in per cent of the whole score; nothing is trained again."
            )


def _heat_map(
    panel: Any, task: str, change: dict[tuple[int, int], float], layers: list[int], worst: float
) -> Any:
    import numpy as np

    table = np.full((len(layers), len(layers)), np.nan)
    for (first, last), value in change.items():
        table[layers.index(first), layers.index(last)] = value
    image = panel.imshow(table, cmap="Reds_r", vmin=min(worst, -1.0), vmax=0)
    for (row, column), value in np.ndenumerate(table):
        if not np.isnan(value):
            dark = value < 0.55 * worst
            panel.text(column, row, f"{value:+.0f}" if abs(value) >= 0.5 else "0", ha="center",
                       va="center", fontsize=7.5, color="white" if dark else "#222222")  # fmt: skip
    panel.set_title(task)
    panel.set_xticks(range(len(layers)), map(str, layers))
    panel.set_yticks(range(len(layers)), map(str, layers))
    panel.set_xlabel("last layer removed")
    panel.set_ylabel("first layer removed")
    for spine in panel.spines.values():
        spine.set_visible(False)
    return image


def _starts(panel: Any, starts: dict[str, list[dict[str, Any]]]) -> None:
    for number, (task, points) in enumerate(starts.items()):
        ordered = sorted(points, key=lambda point: float(point["std"]))
        colour, mark = look(number)
        panel.errorbar(
            [p["std"] for p in ordered],
            [p["mean"] for p in ordered],
            yerr=[p["error"] or 0 for p in ordered],
            fmt=f"{mark}-",
            color=colour,
            label=task,
            markersize=4.5,
            elinewidth=1,
        )
    panel.set_xscale("log")
    panel.set_xlabel("standard deviation of the start")
    panel.set_ylabel("score on test × 100")
    panel.set_title("The start")
    panel.grid(axis="y")
    panel.legend(fontsize=8, loc="lower left")
