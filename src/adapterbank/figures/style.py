"""One look for all pictures: readable in print, told apart by the colour-blind, no needless ink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by the colour-blind too; yellow is too pale for a thin line.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A", "#666666",
)  # fmt: skip
MARKERS = "osD^vPX*<"  # beside the colours, for print without them; one more than there are colours
# Every picture shows a method in the same colour and with the same mark.
FAMILY_COLOURS = {
    "adapters": COLOURS[0],
    "top layers": COLOURS[1],
    "LayerNorms only": COLOURS[2],
    "full fine-tuning": "#222222",
    "head only": COLOURS[3],
    "n-grams": COLOURS[4],
    "frozen features": COLOURS[6],
}
SHADES = {"adapters": ("#56B4E9", "#0072B2", "#08306B")}  # of one method's sizes, small to large
FAMILY_MARKERS = {
    "adapters": "o",
    "top layers": "s",
    "LayerNorms only": "D",
    "full fine-tuning": "*",
    "head only": "v",
    "n-grams": "X",
    "frozen features": "P",
}
INK, PALE, QUIET = "#222222", "#B8B8B8", "#555555"
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.hashsalt": "adapterbank",  # the same record gives the same file
}


def look(number: int) -> tuple[str, str]:
    """A colour and a mark for one of many, no two alike."""
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]


def looks(families: list[str]) -> list[tuple[str, str]]:
    """A colour and a mark for each arm: its method's own, in shades where there are a few sizes of
    it; where that would tell too little, no two alike."""
    if any(
        f not in FAMILY_COLOURS or families.count(f) > len(SHADES.get(f, (f,))) for f in families
    ):
        return [look(number) for number in range(len(families))]
    found = []
    for number, family in enumerate(families):
        place = families[:number].count(family)
        alone = families.count(family) == 1
        colour = FAMILY_COLOURS[family] if alone else SHADES[family][place]
        found.append((colour, FAMILY_MARKERS[family] if alone else "o^s"[place]))
    return found


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure to draw on; kept at the end, in the form that the path's ending names."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.rc_context(STYLE):
        # Room at the edges: titles of panels with a fixed shape would touch them.
        layout = ConstrainedLayoutEngine(h_pad=0.08, rect=(0, 0, 1, 0.97))
        figure = Figure(figsize=(width, height), layout=layout)
        yield figure
        form = path.suffix[1:]
        partial = path.with_name(f".{path.name}.partial")  # no half a picture in a good one's place
        figure.savefig(
            partial, format=form, dpi=200, metadata={"Date": None} if form == "svg" else None
        )
        partial.replace(path)


def parameters_axis(panel: Axes) -> None:
    """Trained parameters, from few to many."""
    panel.set_xscale("log")
    panel.set_xlabel("trained parameters a task")


def note(figure: Figure, text: str) -> None:
    """Small print under a picture."""
    figure.supxlabel(text, fontsize=8, x=0.01, ha="left", color=QUIET)
