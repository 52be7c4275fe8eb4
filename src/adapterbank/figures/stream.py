"""A stream as a picture: how every task's score went while others were learnt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from adapterbank.figures.style import COLOURS, INK, PALE, note, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BANK, SHARED = COLOURS[0], COLOURS[1]
NAMED = len(COLOURS)  # more tasks than this are drawn in grey, without names


def draw_stream(record: dict[str, Any], path: Path) -> None:
    """Draw the record of a stream, in the form that the path's ending names."""
    tasks = [task for task in record["tasks"] if task["higher_is_better"]]
    shared = any(task["shared_encoder"] for task in tasks)
    kinds = ("bank", "shared_encoder") if shared else ("bank",)
    scores = [score for task in tasks for kind in kinds for _, score in task[kind]["scores"]]
    bottom = min([0.0, *scores])
    with picture(path, 10 if shared else 6.4, 3.9) as figure:
        widths = [*[1.0] * len(kinds), 0.5]
        *panels, account = figure.subplots(1, len(widths), width_ratios=widths)
        same = record["packages_identical"] and record["predictions_identical"]
        panels[0].set_title(f"AdapterBank: {'nothing changes' if same else 'SOMETHING CHANGED'}")
        panels[0].set_ylabel("score on held-out rows")
        if shared:
            panels[1].set_title("One encoder fine-tuned task after task")
            panels[1].tick_params(labelleft=False)
        for panel, kind in zip(panels, kinds, strict=True):
            panel.set_ylim(bottom - 0.02, 1.02)
            _scores(panel, tasks, kind, BANK if kind == "bank" else SHARED, bottom)
        _parameters(account, record["parameters"])
        note(figure, fill(_note(record, tasks), 175 if shared else 95))


def _scores(
    panel: Axes, tasks: Sequence[dict[str, Any]], kind: str, colour: str, bottom: float
) -> None:
    """A thin line a task, from its arrival to the end, and a bold one for the mean."""
    last = max((task["place"] for task in tasks), default=1)
    named = len(tasks) <= NAMED
    ends: list[tuple[float, str, str]] = []
    for task, own in zip(tasks, COLOURS if named else [PALE] * len(tasks), strict=False):
        line = task[kind]["scores"]
        if line:
            panel.plot(*zip(*line, strict=True), color=own, linewidth=1.4 if named else 0.8)
            panel.plot(*line[0], "o", color=own, markersize=4.5 if named else 2.5)
        if line and named:
            ends.append((line[-1][1], f"{_name(task, tasks)} {line[-1][1]:.2f}", own))
    if mean := _mean(tasks, kind):
        bold = INK if named else colour
        # Over grey lines, under coloured ones.
        order = 1.5 if named else 3.0
        panel.plot(*zip(*mean, strict=True), color=bold, linewidth=3, zorder=order)
        ends.append((mean[-1][1], f"mean {mean[-1][1]:.2f}", bold))
    _label(panel, last, ends, bottom)
    panel.set_xlim(0.6 if last == 1 else 1 - 0.04 * (last - 1), last + 0.03 * max(last - 1, 1))
    panel.set_xlabel("tasks learnt")
    step = 1 if last <= 10 else 5 if last <= 50 else 10
    panel.set_xticks(sorted({1, *range(step, last + 1, step)}))
    panel.grid(axis="y")


def _mean(tasks: Sequence[dict[str, Any]], kind: str) -> list[tuple[int, float]]:
    """Over the tasks learnt so far, place by place."""
    by_place: dict[int, list[float]] = {}
    for task in tasks:
        for place, score in task[kind]["scores"]:
            by_place.setdefault(place, []).append(score)
    return [(place, sum(found) / len(found)) for place, found in sorted(by_place.items())]


def _label(panel: Axes, last: int, ends: list[tuple[float, str, str]], bottom: float) -> None:
    """Names at the ends of lines, moved apart where they would overlap."""
    heights = _apart([height for height, _, _ in ends], 0.047 * (1 - bottom), 1.0)
    for (end, text, colour), height in zip(ends, heights, strict=True):
        panel.annotate(
            text,
            (last, end),
            (1.05, height),
            textcoords=panel.get_yaxis_transform(),  # x: beside the panel, y: a score
            color=colour,
            fontsize=8.5,
            fontweight="bold" if text.startswith("mean ") else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.5,
                "relpos": (0, 0.5),  # to the beginning of the text
                "shrinkA": 1,
                "shrinkB": 2,
            },
        )


def _apart(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """The heights, each at least `gap` from the next, as near as may be to where they were and
    none above `top`."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed = [heights[i] for i in order]
    for _ in range(200):
        for low in range(len(placed) - 1):
            short = gap - (placed[low + 1] - placed[low])
            if short > 1e-6:
                placed[low] -= short / 2
                placed[low + 1] += short / 2
        placed[-1:] = [min(each, top) for each in placed[-1:]]
    found = list(heights)
    for i, height in zip(order, placed, strict=True):
        found[i] = height
    return found


def _name(task: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> str:
    name = str(task["task"])
    short = name if len(name) <= 16 else f"{name[:15]}…"
    several = sum(other["task"] == name for other in tasks) > 1
    return f"{short}@{task['version']}" if several else short


def _parameters(panel: Axes, account: dict[str, Any]) -> None:
    """What the bank holds, beside a whole model for each task."""
    base, tasks, apart = (account[name] for name in ("base", "trained", "one_model_per_task"))
    panel.bar([0, 1], [base, apart], width=0.62, color="#8A8A8A")
    panel.bar([0], [tasks], bottom=[base], width=0.62, color=BANK)
    for place, value in enumerate((account["bank"], apart)):
        panel.annotate(
            _short(value),
            (place, value),
            (0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
        )
    panel.set_title("Parameters")
    panel.set_xticks([0, 1], ["the\nbank", "one model\nper task"])
    panel.tick_params(axis="x", length=0)
    panel.set_xlim(-0.55, 1.55)
    panel.set_ylim(0, 1.08 * max(account["bank"], apart))
    panel.yaxis.set_visible(False)
    panel.spines["left"].set_visible(False)


def _short(parameters: int) -> str:
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if parameters >= unit:
            return f"{parameters / unit:.3g}{name}"
    return str(parameters)


def _note(record: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> str:
    metrics = sorted({task["metric"].replace("_", " ") for task in tasks})
    notes = [
        "Dots: where a task comes in. Bold: the mean of the tasks so far. Blue bar: what the tasks "
        f"add to the base. Scores: {', '.join(metrics)}"
    ]
    if len(metrics) > 1:
        notes[0] += ", each task's own on the same axis"
    left = [task["task"] for task in record["tasks"] if not task["higher_is_better"]]
    if left:
        notes.append(f"not drawn, since lower is better: {', '.join(left)}")
    return "; ".join(notes) + "."
