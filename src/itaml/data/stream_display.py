"""A stream as an HTML table, which notebooks show: its tasks, their classes, and a few images of each class."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from itaml.data.thumbnails import thumbnail

if TYPE_CHECKING:
    from itaml.data.stream import TaskStream

TASKS, CLASSES, IMAGES = 20, 10, 3  # shown at most: tasks, classes of a task, images of a class


def stream_html(stream: TaskStream) -> str:
    """Return the table."""
    head = "".join(f"<th>{name}</th>" for name in ("task", "classes", "training images", "test images"))
    rows = "".join(_row(stream, index) for index in range(min(len(stream), TASKS)))
    channels, height, width = stream.shape
    caption = f"{stream.dataset.name}: {len(stream)} tasks, images of {width} x {height} pixels, {channels} channels"
    if len(stream) > TASKS:
        caption += f"; the first {TASKS} are shown"
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(stream: TaskStream, index: int) -> str:
    task = stream[index]
    classes = "".join(_class(stream, class_id) for class_id in task.classes[:CLASSES])
    more = f"<div>and {len(task.classes) - CLASSES} more</div>" if len(task.classes) > CLASSES else ""
    cells = (str(index + 1), classes + more, str(len(task.train)), str(len(stream.test(index))))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _class(stream: TaskStream, class_id: int) -> str:
    train = stream.dataset.train
    rows = (train.labels == class_id).nonzero().flatten()[:IMAGES]
    images, _ = train.select(rows).load()
    name = escape(stream.class_names[class_id])
    pixels = "".join(f'<img src="{thumbnail(image)}" alt="{name}" height="32"> ' for image in images)
    return f'<div style="display:inline-block;margin:0 .6em .3em 0">{pixels}{name}</div>'
