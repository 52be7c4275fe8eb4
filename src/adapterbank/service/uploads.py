"""Files that come with a request, into a folder of ours under names of ours."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from adapterbank.errors import DataError
from adapterbank.service.limits import OPTIONS_BYTES, UPLOAD_SECONDS, arriving, bounded, too_large

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".json")
FORM = "multipart/form-data"
OVERHEAD = 2**20  # of a form, beside its files
LEFT_SECONDS = 24 * 3600.0  # by then nobody is sending it any more


@dataclass
class Form:
    """The files of a form by field, as they lie in the folder; and its texts."""

    files: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


async def save_form(
    request: Request, folder: Path, limit: int, *, files: Collection[str], texts: Collection[str]
) -> Form:
    """Save the form's files, each under its field's name and with its own suffix."""
    found = Form()
    async with _form(request, limit + OVERHEAD, len(files), len(texts)) as form:
        for name, value in form.multi_items():
            if name in found.files or name in found.texts:
                raise DataError(f"The form has {name!r} twice.")
            if isinstance(value, UploadFile) and name in files:
                found.files[name] = name + _suffix(value.filename)
                await run_in_threadpool(_save, value.file, folder / found.files[name])
            elif isinstance(value, str) and name in texts:
                found.texts[name] = value
            else:
                raise DataError(
                    f"The form has a field {name[:80]!r} that is not known here.",
                    f"Files: {', '.join(files)}. Texts: {', '.join(texts) or 'none'}.",
                )
    return found


def sweep(folder: Path) -> None:
    """Delete what a service that died was being sent. What is young may be another service's, which
    uses the same folder."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # theirs, and gone
            if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


async def save_body(request: Request, file: Path, limit: int) -> None:
    """Save a body as it is."""
    async with arriving(UPLOAD_SECONDS):
        with file.open("wb") as out:
            async for piece in bounded(request, limit):
                out.write(piece)


@asynccontextmanager
async def _form(request: Request, limit: int, files: int, texts: int) -> AsyncIterator[FormData]:
    if not request.headers.get("content-type", "").lower().startswith(FORM):
        raise DataError(
            "The body is not a form.", "Send multipart/form-data: curl -F file=@rows.csv …"
        )
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large(limit)
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise too_large(limit)
        return message

    counted = Request(request.scope, receive)
    try:
        async with (
            arriving(UPLOAD_SECONDS),
            counted.form(
                max_files=files, max_fields=max(1, texts), max_part_size=OPTIONS_BYTES
            ) as form,
        ):
            yield form
    except HTTPException as error:  # what the parser says of a broken form
        raise DataError(f"The form cannot be read: {error.detail}") from error


def _suffix(filename: str | None) -> str:
    suffix = PurePosixPath(filename or "").suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(
            f"The file's name ends with {suffix[:20]!r}.", f"Send one of: {', '.join(SUFFIXES)}."
        )
    return suffix


def _save(source: BinaryIO, path: Path) -> None:
    with path.open("wb") as out:
        shutil.copyfileobj(source, out, 2**20)
        out.flush()
        os.fsync(out.fileno())
