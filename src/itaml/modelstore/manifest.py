"""What `model.json` says of a version: names, dates, settings, history and the checksum of every other file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError

from itaml.config import Settings
from itaml.data.fitting import Fitting, Interpolation
from itaml.errors import CheckpointError


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


Whole = Annotated[int, BeforeValidator(_no_bool)]
Count = Annotated[Whole, Field(ge=0)]
Side = Annotated[Whole, Field(ge=1, le=4096)]
Name = Annotated[str, Field(min_length=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Json = dict[str, Any]
KINDS = ("exemplar", "validation")  # of stored images


class Options(Settings):
    """What the user fixed when the model was made; None is chosen for the images."""

    method: str | None = None
    preset: str = "best"
    backbone: str | None = None
    image_size: Annotated[Whole, Field(ge=4, le=1024)] | None = None
    memory: Annotated[Whole, Field(ge=1)] = 2000
    epochs: Annotated[Whole, Field(ge=1)] | None = None
    seed: Whole = 0
    settings: Json = Field(default_factory=dict)  # overrides of the learner's settings


class PixelFormat(Settings):
    """The one form in which a model keeps and sees pixels, fixed by its first learn."""

    dtype: Literal["uint8", "float32"] = "uint8"
    white: Annotated[float, Field(gt=0)] | None = 255  # value of white; None: floats whose range has no known meaning
    span: tuple[float, float] | None = None  # of the first learn's floats, where their range has no known meaning


class FileSum(Settings):
    """Size and checksum of a file."""

    size: Count
    sha256: str


class StoredImage(Settings):
    """An image that the store keeps in a file of its own, for methods that do not keep the images themselves."""

    label: Count  # class id
    kind: Literal["exemplar", "validation"]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]  # of the pixels that were learned
    sha256: Sha256  # of the file, and its name
    size: Count  # bytes of the file


def _stored_images(value: Any) -> Any:
    """Return the images of a record, which has a row of values for each (a dictionary, in older formats)."""
    if not isinstance(value, list | tuple) or not all(isinstance(row, list) for row in value):
        return value
    return tuple(_stored_image(row) for row in value)


def _stored_image(row: list[Any]) -> StoredImage:
    """Check a row as pydantic would: much faster, and there are thousands of them."""
    label, kind, digest, sha256, size = row
    whole = type(label) is int and type(size) is int and min(label, size) >= 0
    if not (whole and kind in KINDS and _is_hex(digest, 32) and _is_hex(sha256, 64)):
        raise ValueError("not an image: class, kind, digest, sha256, size")
    return StoredImage.model_construct(label=label, kind=kind, digest=digest, sha256=sha256, size=size)


def _is_hex(value: Any, length: int) -> bool:
    return isinstance(value, str) and len(value) == length and not value.strip("0123456789abcdef")


StoredImages = Annotated[
    tuple[StoredImage, ...],
    BeforeValidator(_stored_images),
    PlainSerializer(lambda images: [[i.label, i.kind, i.digest, i.sha256, i.size] for i in images], when_used="json"),
]


class TaskRecord(Settings):
    """Classes that arrived together."""

    classes: tuple[str, ...]
    learned: str  # date and time


class TaskScore(Settings):
    """Accuracy on images of a task that were not trained on, each alone among all classes, before and after a learn."""

    task: Count  # counting from 0
    images: Count
    before: Fraction | None
    after: Fraction | None
    left_out: bool = False  # measured on exemplars, each left out in turn, not on validation images


class LearnRecord(Settings):
    """What one learn was and did."""

    date: str
    new: tuple[str, ...]
    known: tuple[str, ...]
    images: dict[str, Count]  # learned from, by class
    skipped: Count  # images that could not be read
    duplicates: Count = 0  # images that the model keeps already, or that came twice
    moved: Count = 0  # images that the model kept under another class, from which they were removed
    epochs: Count
    seconds: float
    validation_images: Count
    validation: Fraction | None  # class accuracy on the new data's validation images, or on its exemplars left out
    tasks: tuple[TaskScore, ...]  # of the latest learns alone (see `history.with_learn`)
    accuracy: Fraction | None = None  # on the validation images of all tasks together, after the learn


class EditRecord(Settings):
    """A correction of what was learned."""

    date: str
    action: str  # forget, rename, merge, relabel or rebase
    classes: tuple[str, ...]  # that it was about; none where they were purged
    detail: str = ""  # of a rebase: from what to what
    tasks: tuple[TaskScore, ...] = ()  # measured after a rebase


class Manifest(Settings):
    """Everything about a version but its tensors."""

    version: Count | None = None  # None in records of format 1 and older
    options: Options
    shape: tuple[Side, Side, Side] | None = None  # of one image; None before the first learn
    interpolation: Interpolation = "bilinear"  # how images are brought to the shape
    crop: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of the shorter side that the centre square keeps
    pixels: PixelFormat | None = None  # None before the first learn, and in records of format 1 and older
    method: str = "itaml"  # of the learner; records without it are of iTAML
    settings: Json = Field(default_factory=dict)  # of the learner
    classes: tuple[Name, ...] = ()  # class id -> name
    tasks: tuple[TaskRecord, ...] = ()
    learns: tuple[LearnRecord, ...] = ()
    edits: tuple[EditRecord, ...] = ()
    stored_images: StoredImages = ()  # in files of their own
    tables: dict[Sha256, Count] = Field(default_factory=dict)  # bytes of the files of its tables (see `shared_tables`)
    written_by: str = ""
    files: dict[str, FileSum] = Field(default_factory=dict)

    @property
    def backbones(self) -> tuple[Any, ...]:
        """What the record names as a backbone, anywhere."""
        return self.options.backbone, self.options.settings.get("backbone"), self.settings.get("backbone")

    @property
    def fitting(self) -> Fitting:
        """How images of any size are brought to the shape."""
        return Fitting(self.interpolation, self.crop)


def manifest_from(path: Path, body: Json) -> Manifest:
    """Check the body of a `model.json`.

    Raises:
        CheckpointError: it does not say what it must.
    """
    try:
        manifest = Manifest(**body)
    except (ValidationError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{path} does not describe a model ({where:.200}: {first['msg']:.200})") from error
    named = [name for task in manifest.tasks for name in task.classes]
    if sorted(named) != sorted(manifest.classes) or len(set(named)) != len(named):
        raise CheckpointError(f"{path} does not describe a model (classes: not the classes of its tasks)")
    if any(image.label >= len(manifest.classes) for image in manifest.stored_images):
        raise CheckpointError(f"{path} does not describe a model (stored_images: of a class that is not there)")
    return manifest


def shared_names(path: Path, body: Json) -> set[str]:
    """Return the names of the shared files of a version, from the body of its record; `path` is for messages.

    Raises:
        CheckpointError: it does not say.
    """
    try:
        images = (image["sha256"] if isinstance(image, dict) else image[3] for image in body.get("stored_images", ()))
        return {*images, *body.get("tables", ())}
    except (TypeError, LookupError, AttributeError) as error:
        raise CheckpointError(f"{path} does not describe a model (stored_images or tables)") from error
