"""JSON that carries its own digest and has one form only, so that a changed byte is found."""

from __future__ import annotations

import hashlib
import json

from adapterbank.store.schema import parse

DIGEST = "digest"


def seal(values: dict[str, object]) -> bytes:
    """The one text of these values, with the digest of all the rest as its last field."""
    digest = hashlib.sha256(_dump(values)).hexdigest()
    return _dump({**values, DIGEST: digest})


def unseal(raw: bytes, *, known: bool = False) -> dict[str, object]:
    """The values of a text that nothing was changed in; `ValueError` for any other. One that is
    `known` by a digest of all its bytes is not looked at once more."""
    values = parse(raw)
    if not isinstance(values, dict):
        raise ValueError("it is not an object")
    values.pop(DIGEST, None)
    if not known and seal(values) != raw:
        raise ValueError("it was changed after it was written")
    return values


def _dump(values: dict[str, object]) -> bytes:
    try:
        text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it holds what JSON cannot: {error}") from error
