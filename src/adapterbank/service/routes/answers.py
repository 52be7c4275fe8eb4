"""What tasks say of texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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

router = APIRouter(tags=["answers"])


@router.post(
    "/v1/tasks/{task}/predict", **takes(PredictRequest), **gives(Predictions, 404, 408, 413)
)
async def predict(caller: Reader, service: Running, task: TaskPath, request: Request) -> Response:
    """What a task says of some inputs."""
    asked = await json_body(request, PredictRequest)
    _check_lengths(asked.inputs)
    found = await service.ask(caller, task, asked.inputs)
    assert found.entry is not None  # noqa: S101 - a task was asked
    return answer(
        {
            "task": short(found.entry.task),
            "version": found.entry.version.version,
            "predictions": [prediction(each) for each in found.predictions],
        }
    )


@router.post("/v1/predict", **takes(MixedRequest), **gives(MixedPredictions, 404, 408, 413))
async def predict_mixed(caller: Reader, service: Running, request: Request) -> Response:
    """Many tasks in one batch."""
    asked = await json_body(request, MixedRequest)
    _check_lengths(each.input for each in asked.inputs)
    found = await service.ask_mixed(caller, [(each.task, each.input) for each in asked.inputs])
    return answer({"predictions": [prediction(each) for each in found]})


@router.post("/v1/route", **takes(RouteRequest), **gives(Routes, 408, 413))
async def route(caller: Reader, service: Running, request: Request) -> Response:
    """Which of the tenant's tasks each input is meant for, or none."""
    asked = await json_body(request, RouteRequest)
    _check_lengths(asked.inputs)
    found = await service.route(caller, asked.inputs, asked.most)
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


def _check_lengths(inputs: Iterable[Any]) -> None:
    for i, value in enumerate(inputs):
        texts = value.values() if isinstance(value, dict) else (value,)
        if any(isinstance(text, str) and len(text) > CHARACTERS for text in texts):
            raise DataError(f"Input {i} has more than {CHARACTERS:,} characters.", "Send less.")
