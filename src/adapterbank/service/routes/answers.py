"""What tasks say of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from fastapi import APIRouter, Request
from starlette.responses import Response

from adapterbank.errors import AdapterBankError, DataError
from adapterbank.service.answers import answer, described, prediction
from adapterbank.service.limits import CHARACTERS
from adapterbank.service.routes.parts import Reader, Running, TaskPath, gives, json_body, takes
from adapterbank.service.schemas import (
    MixedPredictions,
    MixedRequest,
    Predictions,
    PredictRequest,
    RouteRequest,
    Routes,
)
from adapterbank.service.service import short
from adapterbank.tasks.predictions import Prediction

T = TypeVar("T")
router = APIRouter(tags=["answers"])


@router.post(
    "/v1/tasks/{task}/predict", **takes(PredictRequest), **gives(Predictions, 404, 408, 413)
)
async def predict(caller: Reader, service: Running, task: TaskPath, request: Request) -> Response:
    """What a task says of some inputs."""
    asked = await json_body(request, PredictRequest)
    short_ones, long = _parted(asked.inputs)
    found = await service.ask(caller, task, short_ones)
    assert found.entry is not None  # noqa: S101 - a task was asked
    predictions = _joined(found.predictions, {i: Prediction(error=e) for i, e in long.items()})
    return answer(
        {
            "task": short(found.entry.task),
            "version": found.entry.version.version,
            "predictions": [prediction(each) for each in predictions],
        }
    )


@router.post("/v1/predict", **takes(MixedRequest), **gives(MixedPredictions, 404, 408, 413))
async def predict_mixed(caller: Reader, service: Running, request: Request) -> Response:
    """Many tasks in one batch."""
    asked = await json_body(request, MixedRequest)
    short_ones, long = _parted([(each.task, each.input) for each in asked.inputs])
    found = await service.ask_mixed(caller, short_ones)
    predictions = _joined(found, {i: Prediction(error=error) for i, error in long.items()})
    return answer({"predictions": [prediction(each) for each in predictions]})


@router.post("/v1/route", **takes(RouteRequest), **gives(Routes, 408, 413))
async def route(caller: Reader, service: Running, request: Request) -> Response:
    """Which of the tenant's tasks each input is meant for, or none."""
    asked = await json_body(request, RouteRequest)
    short_ones, long = _parted(asked.inputs)
    found = _joined(await service.route(caller, short_ones, asked.most), {**long})
    return answer(
        {
            "routes": [
                {"error": described(each)}
                if isinstance(each, AdapterBankError)
                else [{"task": short(r.task), "probability": r.probability} for r in each]
                for each in found
            ]
        }
    )


def _parted(inputs: Sequence[T]) -> tuple[list[T], dict[int, AdapterBankError]]:
    """The inputs that are no longer than may be, and by their numbers the errors of the others."""
    long = {i: _too_long(i) for i, value in enumerate(inputs) if _is_long(value)}
    return [value for i, value in enumerate(inputs) if i not in long], long


def _joined(found: Sequence[T], errors: Mapping[int, T]) -> list[T]:
    """What was found for the inputs, with errors in the places of those that were not asked."""
    rest = iter(found)
    count = len(found) + len(errors)
    return [errors[i] if i in errors else next(rest) for i in range(count)]


def _is_long(value: object) -> bool:
    if isinstance(value, tuple):  # with its task
        value = value[1]
    texts = value.values() if isinstance(value, dict) else (value,)
    return any(isinstance(text, str) and len(text) > CHARACTERS for text in texts)


def _too_long(number: int) -> AdapterBankError:
    return DataError(f"Input {number} has more than {CHARACTERS:,} characters.", "Send less.")
