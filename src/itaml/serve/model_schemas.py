"""The forms of requests and responses about the model itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from itaml.serve.api_schemas import Body, ClassName, Share


class ClassEntry(BaseModel):
    """A class of the model."""

    name: str
    task: int
    images: int
    exemplars: int
    accuracy: Share


class TaskEntry(BaseModel):
    """Classes that were learned together."""

    number: int
    classes: list[str]
    learned: str


class HistoryEntry(BaseModel):
    """A learn or a correction."""

    version: int
    date: str
    action: str
    classes: list[str]
    accuracy: Share


class VersionEntry(BaseModel):
    """A version that is kept."""

    version: int
    date: str | None
    current: bool


class ModelResponse(BaseModel):
    """What the model is and knows."""

    name: str
    version: int
    classes: list[ClassEntry]
    tasks: list[TaskEntry]
    history: list[HistoryEntry]
    versions: list[VersionEntry]
    backbone: str | None
    method: str | None
    image_size: int | None
    unknown: bool
    empty: bool


class ConfusionResponse(BaseModel):
    """How often images of each class (rows) are predicted as each class (columns)."""

    classes: list[str]
    counts: list[list[int]] | None
    source: Literal["leave-one-out", "validation"] | None


class ExemplarEntry(BaseModel):
    """An image that the model keeps."""

    id: str
    url: str


class ClassResponse(BaseModel):
    """A class with its exemplars."""

    name: str
    task: int
    images: int
    accuracy: Share
    exemplars: list[ExemplarEntry]


class RenameBody(Body):
    """The new name of a class."""

    to: ClassName


class MergeBody(Body):
    """The class that has the images of both afterwards."""

    into: ClassName


class ForgetBody(Body):
    """Whether the class is removed from the version before and the history too."""

    purge: Annotated[bool, Field(strict=True)] = False


class RollbackBody(Body):
    """How far to go back: a number of changes, or the number of a version that is kept."""

    steps: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = None
    version: Annotated[int, Field(ge=0, le=999_999_999, strict=True)] | None = None


class ChangeResponse(BaseModel):
    """The version that a change made."""

    version: int
    message: str


class StatusResponse(BaseModel):
    """Whether the service works."""

    status: Literal["ok", "loading", "stopping"]
