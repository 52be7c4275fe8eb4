"""The tasks of a tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from adapterbank.errors import AdapterBankError, PackageError
from adapterbank.service.answers import answer
from adapterbank.service.auth import Caller
from adapterbank.service.routes.parts import (
    Reader,
    Running,
    TaskName,
    TaskPath,
    Trainer,
    gives,
    json_body,
    takes,
)
from adapterbank.service.runner import full_name
from adapterbank.service.schemas import Published, RollbackRequest, TaskList, Versions
from adapterbank.service.service import Service, short
from adapterbank.store.card import card
from adapterbank.store.names import check_name
from adapterbank.store.record import Version

LISTED = 1_000
INNER = ("probes", "statistics", "base")  # of no use to people
# A card has its style in it, and nothing that could run.
CARD_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
router = APIRouter(tags=["tasks"])


@router.get("/v1/tasks", **gives(TaskList))
async def list_tasks(
    caller: Reader,
    service: Running,
    after: Annotated[str, Query(max_length=64)] = "",
    limit: Annotated[int, Query(ge=1, le=LISTED)] = LISTED,
) -> Response:
    """The tenant's tasks."""
    return answer(await run_in_threadpool(_list, service, caller, after, limit))


@router.get("/v1/tasks/{task}", **gives(None, 404))
async def show_task(caller: Reader, service: Running, task: TaskPath) -> Response:
    """Everything that is known of a task."""
    info = await run_in_threadpool(service.info, service.reference(caller, task))
    return answer(
        {name: each for name, each in info.as_dict().items() if name not in INNER}
        | {
            "task": short(info.task),
            "base": _base(service),
        }
    )


@router.get("/v1/tasks/{task}/card", **gives(None, 404, media="text/html"))
async def show_card(caller: Reader, service: Running, task: TaskPath) -> Response:
    """The task's card: a page of its own, with everything that it needs in it."""
    info = await run_in_threadpool(service.info, service.reference(caller, task))
    page = card(info.manifest, reference=short(str(info)), versions=info.versions)
    return HTMLResponse(page, headers={"Content-Security-Policy": CARD_POLICY})


@router.delete("/v1/tasks/{task}", **gives(None, 404))
async def remove_task(
    caller: Trainer,
    service: Running,
    task: TaskName,
    purge: Annotated[bool, Query(description="Delete its bytes and uploads too.")] = False,
) -> Response:
    """Take a task out of the bank. Without `purge` a rollback brings it back."""
    name = full_name(caller.tenant, check_name(task))
    if purge:
        await run_in_threadpool(service.purge, caller, task)
    else:
        await run_in_threadpool(service.store.remove, name)
    return answer({"task": task, "removed": True, "purged": purge})


@router.get("/v1/tasks/{task}/versions", **gives(Versions, 404))
async def list_versions(caller: Reader, service: Running, task: TaskPath) -> Response:
    """The versions of a task, each with its score."""
    reference = service.reference(caller, task)

    def find() -> dict[str, Any]:
        entry = service.store.find(reference)
        record = service.store.record(entry.task)
        versions = [_version(service, entry.task, each) for each in record.versions]
        return {"task": short(entry.task), "current": record.current, "versions": versions}

    return answer(await run_in_threadpool(find))


@router.post("/v1/tasks/{task}/rollback", **takes(RollbackRequest), **gives(Published, 404, 413))
async def rollback(caller: Trainer, service: Running, task: TaskName, request: Request) -> Response:
    """Make another version the current one."""
    name = full_name(caller.tenant, check_name(task))
    wanted = await json_body(request, RollbackRequest)
    entry = await run_in_threadpool(service.store.rollback, name, wanted.version)
    return answer({"task": short(entry.task), "version": entry.version.version})


def _list(service: Service, caller: Caller, after: str, limit: int) -> dict[str, Any]:
    names = [name for name in service.store.tasks(caller.tenant) if short(name) > after]
    found, damaged = [], []
    for name in names[:limit]:
        try:
            found.append(service.info(name).summary() | {"task": short(name)})
        except PackageError:
            damaged.append(short(name))
        except AdapterBankError:  # removed just now
            continue
    return {
        "base": _base(service),
        "tasks": found,
        "damaged": damaged,
        "next": short(names[limit - 1]) if len(names) > limit else None,
    }


def _base(service: Service) -> dict[str, str]:
    """A base of this machine is known by its path, which is nobody else's business."""
    base = service.store.base
    return {"name": Path(base.name).name, "fingerprint": base.fingerprint}


def _version(service: Service, task: str, version: Version) -> dict[str, Any]:
    found: dict[str, Any] = {
        "version": version.version,
        "published": version.published,
        "bytes": version.bytes,
    }
    try:
        manifest = service.info(f"{task}@{version.version}").manifest
    except PackageError:
        return found | {"damaged": True}
    return found | {"metric": manifest.metric, "dev": manifest.dev, "test": manifest.test}
