"""What requests hold and answers look like; the OpenAPI document is made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from adapterbank.errors import DataError
from adapterbank.service.limits import CHARACTERS, INPUTS

Input = Annotated[
    Any,
    Field(
        description='A text, {"text_a", "text_b"} or {"question", "context"}, as the task reads. '
        f"A text has {CHARACTERS:,} characters at most.",
        examples=["where is my parcel?", {"text_a": "It rains.", "text_b": "It is wet."}],
    ),
]
Model = TypeVar("Model", bound=BaseModel)
Count = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """No field that is not known."""

    model_config = ConfigDict(extra="forbid")


class ErrorBody(BaseModel):
    """What went wrong, and what to do next."""

    code: str = Field(examples=["not_found"])
    message: str = Field(examples=["There is no such task or version."])
    hint: str = Field(examples=["GET /v1/tasks lists those there are."])


class Error(BaseModel):
    """Every error has this shape."""

    error: ErrorBody


class PredictRequest(Strict):
    """Inputs for one task."""

    inputs: list[Input] = Field(max_length=INPUTS, examples=[["where is my parcel?"]])


class OneOfMany(Strict):
    """An input and the task that it is for; null for the embedding of the bare encoder."""

    task: str | None = Field(max_length=200, examples=["support"])
    input: Input


class MixedRequest(Strict):
    """Inputs of any tasks in any order."""

    inputs: list[OneOfMany] = Field(
        max_length=INPUTS,
        examples=[
            [
                {"task": "support", "input": "where is my parcel?"},
                {"task": None, "input": "any text"},
            ]
        ],
    )


class RouteRequest(Strict):
    """Inputs whose task is to be found."""

    inputs: list[Input] = Field(max_length=INPUTS, examples=[["where is my parcel?"]])
    most: int = Field(3, ge=1, le=100, description="Tasks named for each input, at most.")


class RollbackRequest(Strict):
    """The version to go back to."""

    version: int = Field(ge=1, le=999_999_999, examples=[1])


class TrainOptions(Strict):
    """How to read the rows and how to learn them: the names of `adapterbank train`'s options."""

    kind: (
        Literal["classification", "pair-classification", "multi-label", "regression", "span"] | None
    ) = None
    text_column: str | None = Field(None, max_length=1_000)
    pair_column: str | None = Field(None, max_length=1_000)
    label_column: str | None = Field(None, max_length=1_000)
    label_names: list[str] | None = Field(None, max_length=10_000)
    metric: str | None = Field(None, max_length=100)
    positive: str | None = Field(
        None, max_length=512, description="The class whose f1 is told; else the last of two."
    )
    encoding: str = Field("utf-8", max_length=40)
    skip_bad: bool = False
    max_rows: Count | None = None
    method: Literal["adapters", "full", "top-k", "layer-norm", "head"] | None = None
    size: int | None = Field(None, ge=1, le=2_048)
    top_k: Count | None = Field(None, le=1_000)
    first_layer: int | None = Field(None, ge=0, le=1_000)
    recipe: Literal["default", "paper"] = "default"
    lr: float | None = Field(None, gt=0, le=1)
    epochs: Count | None = Field(None, le=1_000)
    batch_size: Count | None = Field(None, le=1_024)
    accumulate: Count | None = Field(None, le=1_024)
    max_length: int | None = Field(None, ge=8, le=8_192)
    patience: Count | None = Field(None, le=1_000)
    checkpointing: bool | None = None
    products: Literal["auto", "fp32", "bf16"] | None = None
    seed: int = Field(0, ge=0, le=2**31 - 1)
    minutes: float | None = Field(None, gt=0, le=10_080)
    baselines: bool = True
    store: Literal["fp32", "fp16"] = "fp32"
    note: str = Field("", max_length=2_000)
    from_version: str | None = Field(
        None, alias="from", max_length=200, description="Go on from this version: task@3."
    )
    even_if_worse: bool = False
    keep_data: bool = Field(False, description="Keep the rows after the job has ended.")

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    def reading(self) -> dict[str, Any]:
        """What says how the rows are read."""
        names = (
            "kind", "text_column", "pair_column", "label_column", "label_names", "metric",
            "positive", "encoding", "skip_bad",
        )  # fmt: skip
        values = self.model_dump(include=set(names))
        return {name: each for name, each in values.items() if each not in (None, False)}

    def learning(self) -> dict[str, Any]:
        """What says how they are learnt."""
        names = (
            "method", "size", "top_k", "first_layer", "recipe", "epochs", "batch_size",
            "accumulate", "max_length", "patience", "checkpointing", "products", "seed",
            "minutes", "baselines", "note",
        )  # fmt: skip
        values = self.model_dump(include=set(names))
        values |= {"learning_rate": self.lr, "precision": self.store}
        return {name: each for name, each in values.items() if each is not None}


class TaskSummary(BaseModel):
    """A task in a few fields. Scores are fractions."""

    task: str
    version: int
    versions: list[int]
    kind: str
    pair: bool = Field(description="Whether it reads pairs of texts.")
    labels: list[str]
    metric: str
    dev: dict[str, float]
    test: dict[str, float]
    method: str
    trained_parameters: int
    percent_of_base: float
    bytes: int
    published: str


class BaseFacts(BaseModel):
    """The frozen encoder that all tasks share."""

    name: str
    fingerprint: str


class TaskList(BaseModel):
    """A tenant's tasks, sorted by name."""

    base: BaseFacts
    tasks: list[TaskSummary]
    damaged: list[str] = Field(description="Tasks whose packages cannot be read.")
    next: str | None = Field(description="Give this as `after` for those that follow.")


class JobView(BaseModel):
    """A training job."""

    id: str
    task: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    created: float = Field(description="Seconds since 1970.")
    started: float | None
    ended: float | None
    result: dict[str, Any] | None = Field(description="Of a job that is done: what was learnt.")
    error: ErrorBody | None = Field(description="Of a job that has failed.")


class JobList(BaseModel):
    """A tenant's jobs, the newest first."""

    jobs: list[JobView]


class Predictions(BaseModel):
    """Answers in the order of the inputs; a row that failed is {"error": {…}}."""

    task: str
    version: int
    predictions: list[dict[str, Any]] = Field(
        examples=[[{"label": "delivery", "probabilities": {"delivery": 0.97, "refund": 0.03}}]]
    )


class MixedPredictions(BaseModel):
    """Answers in the order of the inputs; a row that failed is {"error": {…}}."""

    predictions: list[dict[str, Any]]


class Routes(BaseModel):
    """Of each input the likely tasks, the likeliest first; none if it is like no task's texts."""

    routes: list[Any] = Field(examples=[[[{"task": "support", "probability": 0.9}], []]])


class Versions(BaseModel):
    """The versions of a task, the oldest first."""

    task: str
    current: int | None
    versions: list[dict[str, Any]]


class Published(BaseModel):
    """A version that is in the bank now."""

    task: str
    version: int


class Inspection(BaseModel):
    """What a file holds. Nothing of it is kept."""

    columns: list[str]
    preview: list[dict[str, str]]
    kind: str | None
    text_column: str | None
    pair_column: str | None
    label_column: str | None
    rows: dict[str, int]
    labels: dict[str, int]
    values: list[float] | None
    notes: list[str]
    warnings: list[str]
    problems: list[dict[str, Any]]
    bad_rows: int
    error: dict[str, str] | None = Field(description="Why it cannot be learnt from as it is.")


SENT = "GET /openapi.json says what may be sent."
BODIES: tuple[type[BaseModel], ...] = (
    PredictRequest,
    MixedRequest,
    RouteRequest,
    RollbackRequest,
    TrainOptions,
)
"""Routes read these themselves, once the caller is known."""


def parse(model: type[Model], body: bytes | str, what: str = "body") -> Model:
    """A body as its model, or an error that names the first thing that is wrong with it."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(each)[:100] for each in first["loc"])
        where = f"{what}, {place}" if place else what
        raise DataError(f"{where}: {first['msg']}.", SENT) from None
