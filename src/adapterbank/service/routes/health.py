"""Whether it lives, whether it can answer, and what it has counted."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from adapterbank.service.answers import answer
from adapterbank.service.routes.parts import Admin, Running, gives

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> Response:
    """The process is alive."""
    return answer({"ok": True})


@router.get("/readyz", responses={503: {"description": "Not yet"}})
async def readyz(service: Running) -> Response:
    """It can answer, and train if it has the jobs."""
    return answer({"ready": service.able}, 200 if service.able else 503)


@router.get("/metrics", **gives(media="text/plain"))
async def metrics(caller: Admin, service: Running) -> Response:
    """Counters in Prometheus' form."""
    text = await run_in_threadpool(service.metrics.text, caller.tenant)
    return Response(text, media_type="text/plain; version=0.0.4")
