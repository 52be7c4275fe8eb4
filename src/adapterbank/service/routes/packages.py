"""Packages, out of the bank and into it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response

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

GZIP = "application/gzip"
router = APIRouter(tags=["packages"])


@router.get("/v1/tasks/{task}/package", **gives(None, 404, media=GZIP))
async def download(caller: Reader, service: Running, task: TaskPath) -> Response:
    """A task as a .tar.gz, for another bank on the same base."""
    reference = service.reference(caller, task)
    entry = await run_in_threadpool(service.store.find, reference)
    folder = Path(tempfile.mkdtemp(dir=service.uploads))
    file = folder / "package.tar.gz"
    try:
        packed = await run_in_threadpool(service.store.packed, entry)
        await run_in_threadpool(write_archive, file, packed)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return FileResponse(
        file,
        media_type=GZIP,
        filename=f"{short(entry.task)}-{entry.version.version}.tar.gz",
        background=BackgroundTask(shutil.rmtree, folder, ignore_errors=True),
    )


@router.post("/v1/tasks/{task}/package", **takes_bytes(GZIP), **gives(Published, 413, status=201))
async def upload(caller: Trainer, service: Running, task: TaskName, request: Request) -> Response:
    """Take in a package as the task's next version, once it has been checked."""
    name = full_name(caller.tenant, check_name(task))
    await run_in_threadpool(service.check_room, caller, task)
    async with passing_folder(service) as folder:
        file = folder / "package.tar.gz"
        await save_body(request, file, min(PACKAGE_BYTES, caller.quotas.upload_bytes))
        arguments = {**service.place, "task": name, "file": str(file)}
        module = "adapterbank.service.import_work"
        try:
            found = await run_in_threadpool(service.apart.call, module, arguments)
        except PackageError as error:
            raise DataError(error.message, error.hint) from error
    return answer({"task": task, "version": found["version"]}, 201)
