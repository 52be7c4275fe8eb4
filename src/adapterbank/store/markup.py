"""Words and numbers of others in HTML and SVG: escaped, shortened, kept to their place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

LONGEST = 40  # characters of a label that are shown
LARGEST = 10**15  # of counts that are written out

# What XML cannot hold, and marks that turn the direction of what stands after them.
_UNFIT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def text(value: object) -> str:
    """Any words, to stand between tags or in an attribute."""
    return escape(_UNFIT.sub("\ufffd", str(value)))


def short(value: object, longest: int = LONGEST) -> str:
    """The beginning of long words; not yet escaped."""
    whole = str(value)
    return whole if len(whole) <= longest else f"{whole[: longest - 1].rstrip()}…"


def name(value: object, longest: int = LONGEST) -> str:
    """A label: apart from the words around it in whichever direction it is written, and whole on
    hovering."""
    title = f' title="{text(value)}"' if len(str(value)) > longest else ""
    return f"<bdi{title}>{text(short(value, longest))}</bdi>"


def digest(value: str) -> str:
    """The first digits of a digest."""
    return f'<code title="{text(value)}">{text(value[:12])}</code>'


def rounded(value: float, places: int) -> str:
    """A number of the manifest: rounded for the eye, exact for programs."""
    shown = f"{value:,.{places}f}" if abs(value) < LARGEST else f"{value:.3g}"
    return f'<data value="{value!r}">{shown.replace("-", "−")}</data>'


def count(value: int) -> str:
    """A whole number, in groups of three digits."""
    return f"{value:,}" if abs(value) < LARGEST else "over 10¹⁵"


def size(number: int) -> str:
    """Bytes in the unit that suits them."""
    if number >= 10**6:
        return f"{count(number // 10**6)}.{number // 10**5 % 10} MB"
    return f"{number // 10**3} kB" if number >= 10**4 else f"{number:,} bytes"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    """A table of cells that are HTML already; the first of a row names it."""
    top = "".join(f'<th scope="col">{cell}</th>' if cell else "<td></td>" for cell in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'
        for first, *cells in rows
    )
    thead = f"<thead><tr>{top}</tr></thead>\n" if head else ""
    return f'<table class="{kind}">\n{thead}<tbody>\n{body}</tbody>\n</table>\n'
