"""Read what label tools export: which image has which label, and where in the file that is said.

| file                 | format                                                                                     |
|----------------------|--------------------------------------------------------------------------------------------|
| `.csv`               | columns `path` (or `file`, `image`, `filename`) and `label` (or `class`); or the first two |
| `.json`, a list      | Label Studio: `JSON` with choices, or `JSON-MIN`                                           |
| `.json`, an object   | COCO: `images`, `annotations` and `categories`; boxes and masks are not needed             |
| `.xml`               | CVAT for images 1.1: `<tag label="...">` in each `<image>`                                 |
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

from itaml.data.safe_reading import read_data
from itaml.errors import DataError
from itaml.safe_files import parse_json

MAX_BYTES = 500_000_000  # of a file of labels
PATH_COLUMNS = ("path", "file", "image", "filename", "file_name")
LABEL_COLUMNS = ("label", "class", "choice")


@dataclass(frozen=True)
class LabelEntry:
    """An image with its labels: one, none if it is not labelled yet, or several."""

    place: str  # in the file of labels, for messages: `row 7`, `task 3`
    image: str  # as the tool wrote it
    labels: tuple[str, ...]


def read_entries(path: Path) -> list[LabelEntry]:
    """Return what a file of labels says, in its order.

    Raises:
        DataError: it cannot be read, or is none of the formats.
    """
    data = read_data(path, limit=MAX_BYTES)
    try:
        if path.suffix.lower() == ".csv":
            return list(_csv(data.decode("utf-8-sig")))
        if path.suffix.lower() == ".xml":
            return list(_cvat(data))
        if path.suffix.lower() == ".json":
            value = parse_json(data.decode("utf-8-sig"))
            return list(_coco(value) if isinstance(value, dict) else _label_studio(value))
    except (ValueError, csv.Error, ElementTree.ParseError, LookupError) as error:  # also bytes that are no text
        raise DataError(f"{path} cannot be read: {error}") from error
    except TypeError as error:  # a list or an object where a number or text is needed, an unknown encoding
        raise DataError(f"{path} cannot be read: a value has another type than its format says ({error})") from error
    raise DataError(f"{path} is not a file of labels: these are .csv, .json (Label Studio, COCO) and .xml (CVAT)")


def _csv(text: str) -> Iterator[LabelEntry]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    first = next(rows, None)
    if first is None:
        raise ValueError("it is empty")
    names = [cell.strip().lower() for cell in first]
    place = next((names.index(name) for name in PATH_COLUMNS if name in names), None)
    label = next((names.index(name) for name in LABEL_COLUMNS if name in names), None)
    if (place is None) != (label is None):
        raise ValueError(f"row 1: the columns are path and label, not {', '.join(first)}")
    if place is None or label is None:  # no header
        place, label = 0, 1
        yield _csv_entry(first, 1, place, label)
    for row in rows:
        if row:
            yield _csv_entry(row, rows.line_num, place, label)


def _csv_entry(row: list[str], number: int, place: int, label: int) -> LabelEntry:
    if len(row) <= max(place, label):
        raise ValueError(f"row {number}: a path and a label are needed, and there is only {','.join(row)!r}")
    image, name = row[place].strip(), row[label].strip()
    if not image:
        raise ValueError(f"row {number}: the path is empty")
    return LabelEntry(f"row {number}", image, (name,) if name else ())


def _label_studio(tasks: Any) -> Iterator[LabelEntry]:
    if not isinstance(tasks, list):
        raise ValueError("it is neither a list of Label Studio's tasks nor a COCO object")
    for number, task in enumerate(tasks, 1):
        place = f"task {task.get('id', number)}" if isinstance(task, dict) else f"task {number}"
        if not isinstance(task, dict):
            raise ValueError(f"{place}: not an object")
        data = task.get("data", task)
        image = data.get("image") if isinstance(data, dict) else None
        if not isinstance(image, str):
            raise ValueError(f"{place}: there is no text `image` in its data")
        choices = _choices(task) if "data" in task else [task.get("choice")]
        labels = dict.fromkeys(choice for choice in choices if isinstance(choice, str) and choice)
        yield LabelEntry(place, studio_path(image), tuple(labels))


def _choices(task: Mapping[str, Any]) -> Iterator[Any]:
    for annotation in _objects(task.get("annotations") or task.get("completions")):
        if not annotation.get("was_cancelled"):
            for result in _objects(annotation.get("result")):
                value = result.get("value")
                if result.get("type") == "choices" and isinstance(value, dict):
                    yield from value.get("choices") or []


def studio_path(image: str) -> str:
    """Return the path in an address of Label Studio: of an upload, or of a file in local storage."""
    parts = urlsplit(image)
    if parts.path.endswith("/data/local-files/"):
        return parse_qs(parts.query).get("d", [image])[0]
    return unquote(parts.path) if parts.path.startswith("/data/upload/") else image


def _coco(value: Mapping[str, Any]) -> Iterator[LabelEntry]:
    if not all(isinstance(value.get(name), list) for name in ("images", "annotations", "categories")):
        raise ValueError("a COCO file has the lists images, annotations and categories")
    names = {entry.get("id"): entry.get("name") for entry in _objects(value["categories"])}
    labels: dict[Any, dict[str, None]] = {entry.get("id"): {} for entry in _objects(value["images"])}
    for number, entry in enumerate(_objects(value["annotations"]), 1):
        place = f"annotation {entry.get('id', number)}"
        name = names.get(entry.get("category_id"))
        if not isinstance(name, str):
            raise ValueError(f"{place}: there is no category {entry.get('category_id')!r} with a name")
        if entry.get("image_id") not in labels:
            raise ValueError(f"{place}: there is no image {entry.get('image_id')!r}")
        labels[entry.get("image_id")][name] = None
    for entry in _objects(value["images"]):
        if not isinstance(entry.get("file_name"), str):
            raise ValueError(f"image {entry.get('id')}: it has no text `file_name`")
        yield LabelEntry(f"image {entry.get('id')}", entry["file_name"], tuple(labels[entry.get("id")]))


def _cvat(data: bytes) -> Iterator[LabelEntry]:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ValueError("it declares entities, which no file of CVAT does")
    root = ElementTree.fromstring(data)
    if root.tag != "annotations":
        raise ValueError(f"the first element of a file of CVAT is annotations, not {root.tag}")
    if root.find("track") is not None:
        raise ValueError("it is of a video; export the task as `CVAT for images`")
    for image in root.iter("image"):
        name = image.get("name")
        if not name:
            raise ValueError(f"image {image.get('id')}: it has no name")
        labels = dict.fromkeys(tag.get("label") or "" for tag in image.iter("tag"))
        yield LabelEntry(f"image {image.get('id')}", name, tuple(label for label in labels if label))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def is_address(image: str) -> bool:
    """Say whether an image is somewhere on the web or in a bucket."""
    return "://" in image and not os.path.isabs(image)
