"""The forms of requests and responses, for the OpenAPI document and for checks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Mode = Literal["alone", "continuum", "stream"]
Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)] | None
ClassName = Annotated[str, Field(min_length=1, max_length=255)]
UNKNOWN_PATTERN = r"^(auto|never|0(\.[0-9]+)?|1(\.0+)?)$"
JobState = Literal["queued", "running", "done", "failed", "cancelled"]
Phase = Literal["staging", "reading", "features", "training", "saving", "verifying", "done"]


class Body(BaseModel):
    """The JSON of a request: a field that does not exist is an error."""

    model_config = ConfigDict(extra="forbid")


class ErrorDetail(BaseModel):
    """What was wrong."""

    code: Annotated[str, Field(pattern="^[a-z_]+$")]
    message: str
    request_id: str


class ErrorResponse(BaseModel):
    """Every error."""

    error: ErrorDetail


class TokenRequired(BaseModel):
    """What needs the token."""

    read: bool
    change: bool


class SessionLimits(BaseModel):
    """Limits that a client should keep to."""

    body_bytes: int
    images: int
    pixels: int
    upload_bytes: int
    upload_images: int


class SessionResponse(BaseModel):
    """What a client needs to know first."""

    token_required: TokenRequired
    version: str
    limits: SessionLimits


class PredictBody(Body):
    """Images as base64 or data URLs, and how to predict them."""

    images: Annotated[list[str], Field(min_length=1)]
    mode: Mode | None = None
    top: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = None
    unknown: Literal["auto", "never"] | Annotated[float, Field(ge=0, le=1, strict=True)] | None = None


class PredictFields(Body):
    """How to predict, as text fields of a form; they count more than those of the address."""

    mode: Mode | None = None
    top: Annotated[int, Field(ge=1, le=1000)] | None = None
    unknown: Annotated[str, Field(pattern=UNKNOWN_PATTERN)] | None = None


class RankedClass(BaseModel):
    """A class and its probability."""

    model_config = ConfigDict(populate_by_name=True)
    class_: str = Field(alias="class")
    probability: Probability


class PredictionEntry(BaseModel):
    """What the model says of one image; task and group count from 1."""

    model_config = ConfigDict(populate_by_name=True)
    name: str | None
    class_: str | None = Field(alias="class")
    known: bool
    unknown_score: float | None = Field(description="how little the image looks like a known class")
    probability: Probability
    task: int | None
    group: int | None
    top: list[RankedClass]
    error: str | None


class PredictResponse(BaseModel):
    """One entry for each image, in order."""

    model_version: int
    unknown_threshold: float | None = Field(description="score above which an image is unknown; null: none is")
    predictions: list[PredictionEntry]


class Unreadable(BaseModel):
    """An image that could not be read."""

    name: str
    reason: str


class Accuracies(BaseModel):
    """Accuracy on images that were not trained on."""

    accuracy: Share
    classes: dict[str, Share]


class LearnResult(BaseModel):
    """What a learn did."""

    version: int
    new_classes: list[str]
    refreshed_classes: list[str]
    images: dict[str, int]
    duplicates: int
    unreadable: list[Unreadable]
    notes: list[str]
    before: Accuracies
    after: Accuracies
    forgotten: dict[str, float]
    seconds: float


class JobEntry(BaseModel):
    """A learn, from upload to result."""

    id: str
    kind: Literal["learn"]
    state: JobState
    phase: Phase
    epoch: int
    epochs: int
    images_done: int
    images_total: int
    images_per_second: float
    seconds_left: float | None
    progress: Probability
    created: str
    finished: str | None
    error: str | None
    resumed: bool
    result: LearnResult | None


class JobResponse(BaseModel):
    """The job that was made."""

    job: JobEntry


class JobsResponse(BaseModel):
    """All jobs, the newest first."""

    jobs: list[JobEntry]


class CheckedImage(BaseModel):
    """Whether an image can be learned from."""

    name: str
    state: Literal["ok", "duplicate", "known", "unreadable"]
    reason: str | None


class CheckResponse(BaseModel):
    """One entry for each image, in order."""

    images: list[CheckedImage]
