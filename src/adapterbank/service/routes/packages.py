"""Packages, out of the bank and into it."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from adapterbank.errors import DataError, PackageError
from adapterbank.service.answers import answer
from adapterbank.service.limits import PACKAGE_BYTES
from adapterbank.service.routes.parts import (
    Reader,
    Running,
    TaskName,
    TaskPath,
    Trainer,
    gives,
    passing_folder,
    takes_bytes,
)
from adapterbank.service.runner import full_name
from adapterbank.service.schemas import Published
from adapterbank.service.service import short
from adapterbank.service.uploads import save_body
from adapterbank.store.archive import write_archive
from adapterbank.store.names import check_name
from adapterbank.store.package import Packed

GZIP = "application/gzip"
PIECE = 2**18
router = APIRouter(tags=["packages"])


@router.get("/v1/tasks/{task}/package", **gives(None, 404, media=GZIP))
async def download(caller: Reader, service: Running, task: TaskPath) -> Response:
    """A task as a .tar.gz, for another bank on the same base."""
    reference = service.reference(caller, task)
    entry = await run_in_threadpool(service.store.find, reference)
    packed = await run_in_threadpool(service.store.packed, entry)
    file = await run_in_threadpool(_archive, packed, service.uploads)
    return Download(file, f"{short(entry.task)}-{entry.version.version}.tar.gz")


class Download(StreamingResponse):
    """An open file, whole: of parts of it, as a header may ask for, nothing is known here. It is
    closed however the response ends."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        headers = {
            "Content-Length": str(file.seek(0, os.SEEK_END)),
            "Content-Disposition": f'attachment; filename="{name}"',
        }
        file.seek(0)
        super().__init__(iter(lambda: file.read(PIECE), b""), headers=headers, media_type=GZIP)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._file:
            await super().__call__(scope, receive, send)


def _archive(packed: Packed, folder: Path) -> BinaryIO:
    """A package as a file without a name: gone when it is closed, whatever happens."""
    with ExitStack() as undo:
        file = undo.enter_context(tempfile.TemporaryFile(dir=folder))
        write_archive(file, packed)
        undo.pop_all()
    return file


@router.post("/v1/tasks/{task}/package", **takes_bytes(GZIP), **gives(Published, 413, status=201))
async def upload(caller: Trainer, service: Running, task: TaskName, request: Request) -> Response:
    """Take in a package as the task's next version, once it has been checked."""
    name = full_name(caller.tenant, check_name(task))
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        raise DataError(
            "A form came, and a package is the body itself.",
            f"Send it as it is: curl --data-binary @{task}.tar.gz …",
        )
    await run_in_threadpool(service.check_room, caller, task)
    async with passing_folder(service) as folder:
        file = folder / "package.tar.gz"
        await save_body(request, file, min(PACKAGE_BYTES, caller.quotas.upload_bytes))
        arguments = {**service.place, "task": name, "file": str(file)}
        module = "adapterbank.service.import_work"
        try:
            found = await run_in_threadpool(service.apart.call, module, arguments, caller.tenant)
        except PackageError as error:
            raise DataError(error.message, error.hint) from error
    return answer({"task": task, "version": found["version"]}, 201)
