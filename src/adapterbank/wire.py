"""Requests to a service and what comes back: its address, its key, its errors as ours."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from adapterbank import errors
from adapterbank.errors import AdapterBankError, Busy, ConfigError, ServiceError, Unauthorized

KEY = "ADAPTERBANK_KEY"
SECONDS = 60.0
PATIENCE = 120.0  # seconds for which a request that finds a service busy is made again
PAUSE = 1.0  # seconds between two of them, if the service does not say
CODES: dict[str, type[AdapterBankError]] = {
    "unauthorized": errors.Unauthorized,
    "forbidden": errors.Forbidden,
    "not_found": errors.TaskNotFound,
    "too_large": errors.TooLarge,
    "busy": errors.Busy,
    "invalid": errors.DataError,
    "wrong_base": errors.WrongBase,
    "package_damaged": errors.PackageError,
}
_KEY_FORM = re.compile(r"ab_[0-9a-f]{16}_[A-Za-z0-9_-]{43}")


class Wire:
    """A service and a key for it (else $ADAPTERBANK_KEY)."""

    def __init__(self, url: str, key: str | None, seconds: float, patience: float) -> None:
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigError(
                f"{url!r} is not the address of a service.",
                f"Begin it with http://, as in http://{url}.",
            )
        self.patience = patience
        key = _checked(os.environ.get(KEY, "") if key is None else key)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=seconds)
        except httpx.InvalidURL as error:
            raise ConfigError(
                f"{url!r} is not the address of a service: {error}.",
                "Give one such as http://localhost:8000.",
            ) from error

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def json(
        self, method: str, path: str, *, again: bool = False, **request: Any
    ) -> dict[str, Any]:
        """What the service answers. With `again`, which is for requests that change nothing, it is
        asked until it is busy no more, for as long as patience lasts."""
        end = time.monotonic() + (self.patience if again else 0.0)
        while True:
            with self._opened(method, path, **request) as response:
                if response.is_success:
                    return self._answer(response)
                error, pause = _refused(response), _pause(response)
            passes = isinstance(error, Busy) or (
                isinstance(error, ServiceError) and response.status_code == 503
            )
            if not passes or time.monotonic() + pause > end:
                raise error
            time.sleep(pause)

    @contextmanager
    def sent(self, method: str, path: str, **request: Any) -> Iterator[httpx.Response]:
        """A response whose body is still to be read; what the service refuses is an error."""
        with self._opened(method, path, **request) as response:
            if not response.is_success:
                raise _refused(response)
            yield response

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        found = _document(response)
        if not isinstance(found, dict):
            raise ServiceError(
                f"What answers at {self._http.base_url} is not AdapterBank: its answer is no JSON "
                "object.",
                "Check the address: adapterbank serve prints it.",
            )
        return found

    @contextmanager
    def _opened(self, method: str, path: str, **request: Any) -> Iterator[httpx.Response]:
        try:
            with self._http.stream(method, path, **request) as response:
                yield response
        except httpx.HTTPError as error:
            raise ServiceError(
                f"The service at {self._http.base_url} cannot be reached: {error}.",
                "Check that it runs: adapterbank serve.",
            ) from error

    def events(
        self, path: str, headers: dict[str, str]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Number, kind and data of each server-sent event."""
        number = kind = data = ""
        timeout = httpx.Timeout(SECONDS)
        with self.sent("GET", path, headers=headers, timeout=timeout) as response:
            for line in response.iter_lines():
                field, _, value = line.partition(": ")
                if field == "id":
                    number = value
                elif field == "event":
                    kind = value
                elif field == "data":
                    data = value
                elif not line and data:
                    yield number, kind, json.loads(data)
                    number = kind = data = ""


def described(found: Mapping[str, str]) -> AdapterBankError:
    """An error of the service as one of ours."""
    kind = CODES.get(found.get("code", ""), ServiceError)
    return kind(found.get("message", ""), found.get("hint", ""))


def _checked(key: str) -> str:
    """A key without the line's end that files and shells leave on it. No error shows any of it."""
    key = key.strip()
    if key and not _KEY_FORM.fullmatch(key):
        raise ConfigError(
            f"What was given as the key is not one: it has {len(key)} characters, and a key is "
            "ab_, 16 of 0-9 and a-f, _ and 43 more.",
            f"Put it into ${KEY} just as adapterbank keys create printed it.",
        )
    return key


def _pause(response: httpx.Response) -> float:
    """How long to wait before the same is asked again, in seconds."""
    told = response.headers.get("Retry-After", "")
    return max(PAUSE, float(told)) if told.isdecimal() else PAUSE


def _document(response: httpx.Response) -> object:
    """The JSON that came; None if it is none."""
    try:
        return json.loads(response.read())
    except ValueError:
        return None


def _refused(response: httpx.Response) -> AdapterBankError:
    found = _document(response)
    told = found.get("error") if isinstance(found, dict) else None
    if not isinstance(told, dict):  # it comes from something in between, or is no service of ours
        kind = Busy if response.status_code == 429 else ServiceError
        place = response.headers.get("Location", "") if response.has_redirect_location else ""
        return kind(
            f"The service answered with status {response.status_code}.",
            f"It sends on to {place}: give the address that is meant." if place else "",
        )
    error = described(told)
    if isinstance(error, Unauthorized):  # its hint is of headers, which are our business here
        error.hint = f"Put a key that the service knows into ${KEY}, or give it: Client(url, key)."
    return error
