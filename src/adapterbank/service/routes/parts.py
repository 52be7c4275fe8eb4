"""What routes share: who asks, what is asked, and how both are documented."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi import Path as InPath
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from adapterbank.errors import ServiceError
from adapterbank.service.auth import Caller, Role
from adapterbank.service.limits import JSON_BYTES, JSON_SECONDS, arriving, body_of
from adapterbank.service.runner import Jobs
from adapterbank.service.schemas import Error, Model, parse
from adapterbank.service.service import Service
from adapterbank.service.uploads import FORM


def _caller(role: Role) -> Any:
    async def check(request: Request) -> Caller:
        caller: Caller = request.state.caller
        caller.needs(role)
        return caller

    return Depends(check)


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _jobs(request: Request) -> Jobs:
    jobs: Jobs | None = request.app.state.service.jobs
    if jobs is None:
        raise ServiceError("This service trains no tasks.", "Ask the one that does.")
    return jobs


Reader = Annotated[Caller, _caller("read")]
Trainer = Annotated[Caller, _caller("train")]
Admin = Annotated[Caller, _caller("admin")]
Running = Annotated[Service, Depends(_service)]
Training = Annotated[Jobs, Depends(_jobs)]
_NAME = r"(?!.*\.\.)[a-z0-9][a-z0-9._-]{0,63}"
# Patterns are for readers of the document: what doesn't fit has an error of its own.
TaskPath = Annotated[
    str,
    InPath(
        description="A task's name, or `name@3` for a version.",
        examples=["support"],
        json_schema_extra={"pattern": f"^{_NAME}(@[1-9][0-9]{{0,8}})?$"},
    ),
]
TaskName = Annotated[
    str,
    InPath(
        description="A task's name.",
        examples=["support"],
        json_schema_extra={"pattern": f"^{_NAME}$"},
    ),
]
JobPath = Annotated[
    str, InPath(description="A job's id.", json_schema_extra={"pattern": "^[0-9a-f]{24}$"})
]


async def json_body(request: Request, model: type[Model]) -> Model:
    """The body as its model. It is read here, when the caller is known."""
    async with arriving(JSON_SECONDS):
        body = await body_of(request, JSON_BYTES)
    return parse(model, body)


@asynccontextmanager
async def passing_folder(service: Service) -> AsyncIterator[Path]:
    """A folder for what a request brings, gone with it."""
    folder = Path(tempfile.mkdtemp(dir=service.uploads))
    try:
        yield folder
    finally:
        await asyncio.shield(run_in_threadpool(shutil.rmtree, folder, ignore_errors=True))


def gives(
    model: type[BaseModel] | None = None,
    *errors: int,
    status: int = 200,
    media: str = "application/json",
) -> dict[str, Any]:
    """What a route answers: its model or media type, and the errors beside those of every route."""
    responses: dict[int | str, Any] = {
        each: {"model": Error} for each in (401, 403, 422, 429, 503, *errors)
    }
    done: dict[str, Any] = {"content": {media: {}}} if model is None else {"model": model}
    responses[status] = {"description": "Done", **done}
    return {"responses": responses, "status_code": status, "response_model": None}


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """A JSON body."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return _takes("application/json", schema)


def takes_form(**files: str) -> dict[str, Any]:
    """A form with files, the first of which must be there, and options."""
    properties: dict[str, Any] = {
        name: {"type": "string", "format": "binary", "description": said}
        for name, said in files.items()
    }
    properties["options"] = {
        "type": "string",
        "description": "How to read and learn it: JSON, as in the schema TrainOptions.",
        "contentMediaType": "application/json",
    }
    required = [next(iter(files))]
    schema = {"type": "object", "properties": properties, "required": required}
    return _takes(FORM, schema | {"additionalProperties": False})


def takes_bytes(media: str) -> dict[str, Any]:
    """A body as it is."""
    return _takes(media, {"type": "string", "format": "binary"})


def _takes(media: str, schema: dict[str, Any]) -> dict[str, Any]:
    body = {"required": True, "content": {media: {"schema": schema}}}
    return {"openapi_extra": {"requestBody": body}}
