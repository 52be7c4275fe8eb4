"""Standard input and output as text: no line is lost, and none stops the others."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator

from adapterbank.errors import DataError


def input_lines(encoding: str = "utf-8") -> Iterator[str]:
    """Lines without their ends. A blank one is a line too, but for one at the very end."""
    if sys.stdin.isatty():
        print("Reading texts, one a line; end with Ctrl-D.", file=sys.stderr)
    _decode_by(encoding)
    held: str | None = None  # a blank line that may be the last
    try:
        for line in sys.stdin:
            text = line.rstrip("\r\n")
            if held is not None:
                yield held
            held = None if text.strip() else text
            if held is None:
                yield text
    except UnicodeError:
        raise DataError(
            f"Standard input is not {encoding}.", "Say what it is: --encoding cp1252, …"
        ) from None


def _decode_by(encoding: str) -> None:
    """Bytes of another encoding come as half characters: their line is refused, not the rest."""
    if not isinstance(sys.stdin, io.TextIOWrapper):  # text already
        return
    try:
        known = codecs.lookup(encoding).name
        bare = "utf-8-sig" if known == "utf-8" else known  # without a byte order mark
        sys.stdin.reconfigure(encoding=bare, errors="surrogateescape")
    except LookupError:
        raise DataError(
            f"There is no text encoding {encoding!r}.", "Known are utf-8, cp1252, latin-1, …"
        ) from None


def forgive_output() -> None:
    r"""What standard output cannot hold is written as an escape; half a character as \udc…, which
    JSON reads again."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
