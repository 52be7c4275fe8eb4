"""What every request passes: its id, its key, what its tenant may; and what is written down."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adapterbank.errors import AdapterBankError, Forbidden
from adapterbank.service.answers import REQUEST, failure, refusal
from adapterbank.service.auth import ANYONE, Caller, Keys
from adapterbank.service.limits import IN_FLIGHT, AtOnce, Rates
from adapterbank.service.metrics import Metrics

OPEN = re.compile(r"/|/healthz|/readyz|/console/.*")
LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
# The console loads nothing from elsewhere, runs no script that stands in a page, and can't be
# framed.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
access = logging.getLogger("adapterbank.access")
log = logging.getLogger("adapterbank.service")


class Gate:
    """In front of every route. Nothing but health and the console's files is open without a key,
    unless the bank has none and the service listens on this machine alone."""

    def __init__(self, app: ASGIApp, keys: Keys, metrics: Metrics, *, loopback: bool) -> None:
        self.app, self.keys, self.metrics, self.loopback = app, keys, metrics, loopback
        self.rates, self.in_flight = Rates(), AtOnce(IN_FLIGHT, "requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        id, status, started = secrets.token_hex(8), 500, False
        REQUEST.set(id)
        state: MutableMapping[str, Any] = scope.setdefault("state", {})

        async def send_on(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            if OPEN.fullmatch(scope["path"]):
                await self.app(scope, receive, send_on)
            else:
                caller = state["caller"] = await self._caller(Headers(scope=scope))
                self.rates.take(caller)
                with self.in_flight.place(caller.tenant):
                    await self.app(scope, receive, send_on)
        except AdapterBankError as error:  # of the gate itself: routes have handlers
            if not started:
                await failure(error)(scope, receive, send_on)
        except Exception:
            log.exception("request %s", id)
            if not started:
                said = f"Something went wrong here; the log has it under {id}."
                await refusal(500, said)(scope, receive, send_on)
        finally:
            self._note(scope, id, status, time.perf_counter() - began)

    async def _caller(self, headers: Headers) -> Caller:
        if self.loopback and not await self._any_keys():
            # A page of another site, open in a browser on this machine, must not reach in.
            host, origin = headers.get("host", ""), headers.get("origin")
            if not LOOPBACK.fullmatch(host) or origin not in (None, f"http://{host}"):
                raise Forbidden(
                    "A service without keys answers this machine alone.",
                    "Make a key: adapterbank keys create TENANT.",
                )
            return ANYONE
        header = headers.get("authorization")
        if self.keys.is_fresh(header):
            return self.keys.caller(header)
        return await run_in_threadpool(self.keys.caller, header)

    async def _any_keys(self) -> bool:
        if self.keys.any_is_fresh():
            return self.keys.any()
        return await run_in_threadpool(self.keys.any)

    def _note(self, scope: Scope, id: str, status: int, seconds: float) -> None:
        caller: Caller | None = scope["state"].get("caller")
        route = getattr(scope.get("route"), "path", "none")
        tenant = caller.tenant if caller else None
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.see_request(method, route, status, seconds, tenant)
        access.info(
            json.dumps(
                {
                    "time": round(time.time(), 3),
                    "id": id,
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "ms": round(1000 * seconds, 2),
                    "tenant": tenant,
                    "key": caller.key if caller else None,
                }
            )
        )
