"""A model as an HTML table, which notebooks show: its tasks, classes, accuracies, and exemplars."""

from __future__ import annotations

from html import escape

from itaml.data.thumbnails import thumbnail
from itaml.errors import ItamlError
from itaml.modelstore.description import learned_tasks
from itaml.modelstore.exemplar_images import exemplar_images
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.model_folder import ModelFolder

CLASSES, IMAGES = 40, 3  # shown at most: classes, exemplars of a class


def model_html(name: str, version: int, model: Model, folder: ModelFolder) -> str:
    """Return the table; exemplars that cannot be read are left out."""
    manifest = model.manifest
    if not manifest.classes:
        return f"<p>{escape(name)}: a model that has learned nothing yet</p>"
    try:
        exemplars = exemplar_images(model, folder, limit=IMAGES)
    except ItamlError:
        exemplars = {}
    rows = []
    for task in learned_tasks(model):
        for position, label in enumerate(task.classes):
            number = manifest.classes.index(label)
            images = [thumbnail(pixels) for pixels in exemplars.get(number, ())]
            shown = "".join(f'<img src="{image}" alt="" height="32"> ' for image in images)
            first = f'<td rowspan="{len(task.classes)}">{task.index + 1}</td>' if position == 0 else ""
            rows.append(f"<tr>{first}<td>{escape(label)}</td><td>{shown}</td></tr>")
    head = "<tr><th>task</th><th>class</th><th>exemplars</th></tr>"
    backbone = manifest.settings.get("backbone")
    network = f" on {backbone}" if backbone else ""
    caption = f"{name}, version {version}: {len(manifest.classes)} classes, {manifest.method}{network}"
    body = "".join(rows[:CLASSES])
    if len(rows) > CLASSES:
        body += f'<tr><td colspan="3">and {len(rows) - CLASSES} more classes</td></tr>'
    return f"<table><caption>{escape(caption)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"
