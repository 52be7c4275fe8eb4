"""Answers and errors as HTTP: one JSON shape for everything that goes wrong."""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from typing import Any

from starlette.responses import Response

from adapterbank import errors
from adapterbank.errors import AdapterBankError
from adapterbank.service.schemas import TrainOptions
from adapterbank.tasks.predictions import Prediction

# The first class that fits decides.
CODES: tuple[tuple[type[AdapterBankError], int, str], ...] = (
    (errors.Unauthorized, 401, "unauthorized"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.TaskNotFound, 404, "not_found"),
    (errors.JobNotFound, 404, "not_found"),
    (errors.TooLarge, 413, "too_large"),
    (errors.Busy, 429, "busy"),
    (errors.ConfigError, 422, "invalid"),
    (errors.DataError, 422, "invalid"),
    (errors.NotBetter, 422, "not_better"),
    (errors.WrongBase, 422, "wrong_base"),
    (errors.TrainingDiverged, 422, "diverged"),
    (errors.ServiceError, 503, "unavailable"),
    (errors.PackageError, 503, "package_damaged"),
    (errors.BankError, 503, "unavailable"),
    (errors.BaseError, 503, "unavailable"),
)
INTERNAL = (500, "internal")
STATUSES = {
    400: "invalid",
    401: "unauthorized",
    404: "not_found",
    405: "not_allowed",
    413: "too_large",
    422: "invalid",
}
# What these say may name places of the machine.
HIDDEN = (errors.BankError, errors.BaseError)
REQUEST: ContextVar[str] = ContextVar("request", default="none")
"""The id of the request that is being answered, for the log."""
FLAG = re.compile(r"--([a-z][a-z-]*)")
log = logging.getLogger("adapterbank.service")


def status_of(error: AdapterBankError) -> tuple[int, str]:
    """The status and the code of an error."""
    for kind, status, code in CODES:
        if isinstance(error, kind):
            return status, code
    return INTERNAL


def described(error: AdapterBankError) -> dict[str, str]:
    """An error for clients."""
    status, code = status_of(error)
    message, hint = error.message, error.hint
    if isinstance(error, errors.TaskNotFound):
        message, hint = "There is no such task or version.", "GET /v1/tasks lists those there are."
    elif isinstance(error, errors.PackageError):
        message, hint = "The task's package is damaged.", "Publish it again, or roll it back."
    elif isinstance(error, errors.WrongBase):
        message, hint = "It does not fit the base of this bank.", "GET /v1/tasks names the base."
    elif isinstance(error, errors.NotBetter):
        pass  # scores alone
    elif isinstance(error, HIDDEN) or status == INTERNAL[0]:
        message, hint = "The service cannot do this at the moment.", "Its log says why."
    return {"code": code, "message": message, "hint": with_options(hint)}


def with_options(hint: str) -> str:
    """A hint with the options of a request in place of the command line's: `options.text_column`
    for `--text-column`."""

    def replaced(flag: re.Match[str]) -> str:
        name = flag[1].replace("-", "_")
        return f"options.{name}" if name in TrainOptions.model_fields else flag[0]

    return FLAG.sub(replaced, hint)


def note(error: AdapterBankError) -> None:
    """Write down what clients are not told of an error of ours."""
    if status_of(error)[0] >= 500:
        log.error("request %s: %s: %s", REQUEST.get(), type(error).__name__, error)


def failure(error: AdapterBankError) -> Response:
    """An error as a response; one of ours is in the log, too."""
    note(error)
    status, _ = status_of(error)
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status == 429:
        headers["Retry-After"] = "1"
    return answer({"error": described(error)}, status, headers)


def refusal(
    status: int, message: str, headers: dict[str, str] | None = None, hint: str = ""
) -> Response:
    """What the framework itself refuses, in the same shape."""
    code = STATUSES.get(status, "internal" if status >= 500 else "invalid")
    return answer({"error": {"code": code, "message": message, "hint": hint}}, status, headers)


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Plain values as JSON."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(body.encode("utf-8", "replace"), status, headers, media_type="application/json")


def prediction(found: Prediction) -> dict[str, Any]:
    """One answer; a row that failed has its error in its place."""
    return {"error": described(found.error)} if found.error is not None else found.as_dict()
