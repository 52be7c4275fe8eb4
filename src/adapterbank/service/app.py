"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from adapterbank.errors import AdapterBankError
from adapterbank.service.answers import failure, refusal
from adapterbank.service.gate import Gate
from adapterbank.service.limits import IN_FLIGHT, BodyLate
from adapterbank.service.routes import answers, health, packages, tasks, training
from adapterbank.service.schemas import BODIES, SENT
from adapterbank.service.service import Service

CONSOLE = Path(__file__).parent / "console"
# That wait for tasks to load and for disks: more than one tenant's requests. Batches have a thread
# of their own.
THREADS = IN_FLIGHT + 64
# In place of the framework's words, which do not say what to do.
REFUSED = {
    404: ("There is nothing at this address.", "GET /openapi.json lists those there are."),
    405: ("This address is not asked with this method.", "GET /openapi.json says what it takes."),
}


def make_app(service: Service) -> FastAPI:
    """All of it. The engine is opened as the application starts."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await run_in_threadpool(service.start)
        try:
            yield
        finally:
            await run_in_threadpool(service.close)

    app = FastAPI(
        title="AdapterBank",
        version=metadata.version("adapterbank"),
        summary="One frozen encoder, a bank of tasks.",
        lifespan=running,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    for part in (health, tasks, answers, training, packages):
        app.include_router(part.router)
    app.add_middleware(
        Gate, keys=service.keys, metrics=service.metrics, loopback=service.settings.loopback
    )
    _handle_errors(app)
    document: dict[str, Any] = {}

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        if not document:
            document.update(describe(app))
        return document

    @app.get("/", include_in_schema=False)
    async def console() -> Response:
        return FileResponse(CONSOLE / "index.html")

    app.mount("/console", StaticFiles(directory=CONSOLE), "console")
    return app


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: with the bodies that routes read themselves, and how to give a key."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    components = document.setdefault("components", {})
    known = components.setdefault("schemas", {})
    for model in BODIES:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        known |= schema.pop("$defs", {})
        known[model.__name__] = schema
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}]
    for path in ("/healthz", "/readyz"):
        document["paths"][path]["get"]["security"] = []
    return document


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(AdapterBankError)
    async def ours(request: Request, error: AdapterBankError) -> Response:
        del request
        return failure(error)

    @app.exception_handler(BodyLate)
    async def late(request: Request, error: BodyLate) -> Response:
        del request, error
        return refusal(408, "The body took too long to arrive.")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        del request
        first = error.errors()[0]
        place = ".".join(str(each)[:100] for each in first["loc"])
        return refusal(422, f"{place}: {first['msg']}.", hint=SENT)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        del request
        message, hint = REFUSED.get(error.status_code, (str(error.detail), ""))
        return refusal(error.status_code, message, dict(error.headers or {}), hint)
