"""Which labels a task takes for which: a picture where they are few, pairs where they are many."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adapterbank.store.manifest import Confusion, Manifest
from adapterbank.store.markup import count, short, text

MOST_LABELS = 20  # of a picture
LONGEST = 16  # characters of a label in it
HUE = "#1d5a9e"  # one hue from faint to full: clear to every sort of colour vision, and in print
HALF = 0.5  # of a row: from there on the writing is light on dark
CHARACTER = 6.7  # width in pixels, about
SLOPE = 40  # degrees, of labels that don't fit above their columns


def most_confused(confusion: Iterable[Confusion], most: int) -> list[Confusion]:
    """The pairs of different labels with the most rows, the largest first."""
    wrong = (each for each in confusion if each.label != each.predicted)
    return sorted(wrong, key=lambda each: (-each.rows, each.label, each.predicted))[:most]


def confusion_svg(manifest: Manifest) -> str:
    """The confusion matrix: a row for each true label, a column for each predicted one.

    Empty where the manifest has none, or more labels than can be read. It takes the colour of the
    text around it, so that it suits light and dark pages; a page may give the classes `cell` and
    `full` (the writing on full cells) other colours than blue and white.
    """
    if not manifest.confusion or len(manifest.labels) > MOST_LABELS:
        return ""
    grid = _grid(manifest.labels)
    kind = "confusion many" if len(manifest.labels) > 6 else "confusion"
    says = text(f"Confusion matrix of {len(manifest.labels)} labels: true by predicted")
    parts = [*_cells(manifest, grid), *_row_labels(manifest.labels, grid)]
    parts += [*_column_labels(manifest.labels, grid), *_axes(manifest.labels, grid)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="{kind}" aria-label="{says}" '
        f'viewBox="0 0 {grid.width} {grid.height}" width="{grid.width}" height="{grid.height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">\n'
        f"<title>{says}</title>\n" + "\n".join(parts) + "\n</svg>\n"
    )


@dataclass(frozen=True)
class Grid:
    """Where things stand in the picture, in pixels."""

    left: int
    top: int
    cell_width: int
    cell_height: int
    width: int
    height: int
    level: bool
    """Whether the labels above the columns fit without a slope."""

    def x(self, column: float) -> float:
        """Of a column's left edge."""
        return self.left + column * self.cell_width

    def y(self, row: float) -> float:
        """Of a row's upper edge."""
        return self.top + row * self.cell_height


def _grid(labels: tuple[str, ...]) -> Grid:
    many = len(labels)
    cell_width, cell_height = (64, 38) if many <= 6 else (44, 34) if many <= 10 else (28, 26)
    lengths = [_length(label) for label in labels]
    level = max(lengths) <= cell_width - 6
    up, along = math.sin(math.radians(SLOPE)), math.cos(math.radians(SLOPE))
    left = 36 + round(max(lengths))
    top = 24 if level else 22 + round(max(lengths) * up)
    leaning = max((i + 0.5) * cell_width + length * along for i, length in enumerate(lengths))
    width = left + max(many * cell_width, 0 if level else round(leaning)) + 6
    return Grid(left, top, cell_width, cell_height, width, top + many * cell_height + 26, level)


def _length(label: str) -> float:
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in short(label, LONGEST))
    return CHARACTER * (len(short(label, LONGEST)) + wide)


def _cells(manifest: Manifest, grid: Grid) -> Iterator[str]:
    rows: Counter[tuple[str, str]] = Counter()
    for each in manifest.confusion:
        rows[each.label, each.predicted] += max(0, each.rows)
    for i, label in enumerate(manifest.labels):
        whole = sum(rows[label, other] for other in manifest.labels)
        for j, predicted in enumerate(manifest.labels):
            found = rows[label, predicted]
            place = (
                f'x="{grid.x(j) + 1:g}" y="{grid.y(i) + 1:g}" '
                f'width="{grid.cell_width - 2}" height="{grid.cell_height - 2}" rx="3"'
            )
            if not found:
                yield f'<rect {place} fill-opacity=".04"/>'
                continue
            share = found / whole
            says = f"true: {label}\npredicted: {predicted}\nrows: {count(found)} ({share:.1%})"
            middle = f'x="{grid.x(j + 0.5):g}" y="{grid.y(i + 0.5) + 4:g}" text-anchor="middle"'
            full = ' class="full" fill="#fff"' if share >= HALF else ""
            yield (
                f"<g><title>{text(says)}</title>"
                f'<rect class="cell" {place} fill="{HUE}" fill-opacity="{shade(share)}"/>'
                f"<text {middle}{full}>{_few(found)}</text></g>"
            )


def shade(share: float) -> float:
    """How full a cell's colour is. The middle of the scale is left out: neither dark nor light
    writing can be read on it. So a cell with half of its row or more stands out."""
    return round(0.64 + 0.36 * share if share >= HALF else 0.08 + 0.8 * share, 2)


def _few(rows: int) -> str:
    """A count in four characters."""
    if rows < 10_000:
        return str(rows)
    return f"{rows // 1000}k" if rows < 1_000_000 else f"{count(rows // 1_000_000)}M"


def _row_labels(labels: tuple[str, ...], grid: Grid) -> Iterator[str]:
    for i, label in enumerate(labels):
        place = f'x="{grid.left - 8}" y="{grid.y(i + 0.5) + 4:g}" text-anchor="end"'
        yield f"<text {place}>{_titled(label)}</text>"


def _column_labels(labels: tuple[str, ...], grid: Grid) -> Iterator[str]:
    for i, label in enumerate(labels):
        x, y = grid.x(i + 0.5), grid.top - 8
        turn = "" if grid.level else f' transform="rotate(-{SLOPE} {x:g} {y})"'
        anchor = "middle" if grid.level else "start"
        yield f'<text x="{x:g}" y="{y}" text-anchor="{anchor}"{turn}>{_titled(label)}</text>'


def _titled(label: str) -> str:
    title = f"<title>{text(label)}</title>" if len(label) > LONGEST else ""
    return title + text(short(label, LONGEST))


def _axes(labels: tuple[str, ...], grid: Grid) -> Iterator[str]:
    x, y = grid.x(len(labels) / 2), grid.y(len(labels) / 2)
    quiet = 'text-anchor="middle" font-style="italic" fill-opacity=".7"'
    yield f'<text x="{x:g}" y="{grid.height - 8}" {quiet}>predicted</text>'
    yield f'<text x="14" y="{y:g}" {quiet} transform="rotate(-90 14 {y:g})">true</text>'
