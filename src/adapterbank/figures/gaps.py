"""How far each arm of a study is from its reference, task by task and on the mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapterbank.figures.style import INK, looks, note, picture

SHOWN, ROOM = 12.0, 1.5  # points; what is further away is drawn at the edge, with its figure


def draw_gaps(answer: dict[str, Any], path: Path) -> None:
    """A row a task, a mark an arm, with the standard error of the paired gap; the mean below."""
    reference = answer["reference"]
    arms = [arm for arm in answer["arms"] if arm["name"] != reference and arm["cells"]]
    found = {task for arm in arms for task, cell in arm["cells"].items() if cell["gap"]}
    tasks = [task["name"] for task in answer["tasks"] if task["name"] in found]
    if not tasks:  # nothing to compare yet
        return
    height = 1.3 + 0.11 * max(1, len(tasks) + 1) * (1.4 + len(arms))
    with picture(path, 7.2, height) as figure:
        panel = figure.subplots()
        step = 0.72 / max(len(arms), 1)
        edge = False
        shown_as = looks([arm["family"] for arm in arms])
        for number, (arm, (colour, mark)) in enumerate(zip(arms, shown_as, strict=True)):
            offset = (number - (len(arms) - 1) / 2) * step
            points = [
                (place + offset, gap["mean"], gap["error"])
                for place, task in enumerate(tasks)
                if task in arm["cells"] and (gap := arm["cells"][task]["gap"])
            ]
            if arm["gap"]:
                points.append((len(tasks) + 0.15 + offset, arm["gap"]["mean"], arm["gap"]["error"]))
            for place, mean, error in points:
                shown = max(-SHOWN, min(SHOWN, mean))
                panel.errorbar(shown, place, xerr=error if shown == mean else None, fmt=mark,
                               color=colour, markersize=4.5, elinewidth=1, capsize=0)  # fmt: skip
                if shown != mean:
                    edge = True
                    panel.annotate(
                        f"{mean:+.0f}".replace("-", "\N{MINUS SIGN}"),
                        (shown, place),
                        (7, 0),
                        textcoords="offset points",
                        fontsize=7,
                        color=colour,
                        va="center",
                    )
            panel.plot([], [], mark, color=colour, label=arm["name"], markersize=4.5)
        panel.axvline(0, color=INK, linewidth=1)
        panel.axhline(len(tasks) - 0.42, color="#CCCCCC", linewidth=0.8)
        panel.set_yticks([*range(len(tasks)), len(tasks) + 0.15], [*tasks, "mean"])
        panel.get_yticklabels()[-1].set_fontweight("bold")
        panel.tick_params(axis="y", length=0)
        panel.set_ylim(len(tasks) + 0.7, -0.6)
        panel.grid(axis="x")
        low, high = panel.get_xlim()  # no bar reaches further out than what stands at the edge
        panel.set_xlim(max(low, -SHOWN - ROOM), min(high, SHOWN + ROOM))
        panel.set_xlabel(f"points above {reference}")
        figure.legend(loc="outside upper left", ncols=4, fontsize=8)
        told = [f"{answer['title']}."]
        if answer["seeds"] > 1:
            told.append("Bars: one standard error over seeds, paired.")
        if edge:
            told.append("Beyond the edge: the figure itself.")
        note(figure, " ".join(told))
