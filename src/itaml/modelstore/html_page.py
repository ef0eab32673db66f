"""The page of a model: what it has learned and where it errs, as one HTML file without external requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from itaml._version import __version__
from itaml.cli.formatting import percent
from itaml.data.thumbnails import thumbnail
from itaml.errors import ItamlError, MissingExtraError
from itaml.modelstore.history import accuracy_of
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.manifest import LearnRecord, Manifest
from itaml.modelstore.model_folder import ModelFolder
from itaml.modelstore.review import Review, ReviewedImage, review
from itaml.modelstore.stored_pixels import stored_pixels
from itaml.report.charts import Panel, Series, line_chart, percent_range, swatch
from itaml.report.heat_map import heat_map
from itaml.report.page_frame import environment, policy, style_sheet
from itaml.report.svg import Chart, to_svg
from itaml.report.theme import style
from itaml.storage import write_atomically
from itaml.text import count

try:
    from markupsafe import Markup
except ImportError as error:
    raise MissingExtraError("pages need jinja2: pip install 'itaml[report]'") from error

MAX_CONFUSION = 60  # classes of a confusion matrix; more are too small to see
MAX_LINES = 6  # tasks with a line of their own
MAX_IMAGES = 24  # mistakes, and images that look mislabelled
MAX_PAIRS = 12
REVIEWED, MAX_REVIEWED = 1000, 20  # exemplars that are predicted, in all and of each class
THUMBNAILS = 1000  # of classes on a page, about 2 kB each


@dataclass(frozen=True)
class ClassRow:
    """What the page says of one class."""

    number: int  # from 1, as in the confusion matrix
    name: str
    images: tuple[str, ...]  # data URIs
    learned: int
    validated: int
    accuracy: float | None
    taken_for: str


@dataclass(frozen=True)
class Card:
    """An image with what it is kept as and what it is predicted as."""

    image: str
    label: str
    predicted: str
    confidence: str
    own: str


@dataclass(frozen=True)
class Pair:
    """Two classes that look alike."""

    first: str
    second: str
    images: tuple[tuple[str, ...], tuple[str, ...]]
    likeness: str


def write_page(path: Path, title: str, version: int, model: Model, folder: ModelFolder) -> None:
    """Write the page of a model that has learned something.

    Raises:
        ItamlError: the file cannot be written.
    """
    text = page(title, version, model, folder)
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise ItamlError(f"cannot write the page {path}: {error.strerror or error}") from error


def page(title: str, version: int, model: Model, folder: ModelFolder) -> str:
    """Return the page of a model that has learned something."""
    limit = min(MAX_REVIEWED, max(1, REVIEWED // len(model.manifest.classes)))
    validation, exemplars = stored_pixels(model, folder, limit=limit)
    found = review(model, validation, exemplars)
    manifest = model.manifest
    with style():
        charts = [Markup(to_svg(chart, prefix=f"f{n}-")) for n, chart in enumerate(_charts(manifest, found))]
        lines = [line.name for line in _history(manifest.learns).series]
        legend = [(name, Markup(to_svg(swatch(n), prefix=f"s{n}-"))) for n, name in enumerate(lines)]
    right = int(found.confusion().diagonal().sum())
    return (
        environment()
        .get_template("model.html")
        .render(
            title=title,
            program=__version__,
            policy=policy(),
            style=Markup(style_sheet()),
            version=version,
            accuracy=percent(right / len(found.held.labels)) if len(found.held.labels) else None,
            validated=count(len(validation.labels), "validation image"),
            exemplars=count(sum(model.exemplar_counts.values()), "exemplar"),
            known=f"{count(len(manifest.classes), 'class')} in {count(len(manifest.tasks), 'task')}",
            charts=charts,
            legend=legend,
            learns=manifest.learns,
            accuracy_of=accuracy_of,
            percent=percent,
            classes=_classes(manifest, found),
            mistakes=_cards(manifest, found.mistakes(MAX_IMAGES)),
            suspects=_cards(manifest, found.suspects(MAX_IMAGES)),
            left_out=found.left_out,
            pairs=_pairs(manifest, found),
        )
    )


def _charts(manifest: Manifest, found: Review) -> list[Chart]:
    charts = [line_chart(_history(manifest.learns), legend=False)]
    if len(found.held.labels) and len(manifest.classes) <= MAX_CONFUSION:
        counts = found.confusion()
        totals = counts.sum(1).tolist()
        cells = [
            [value / total if value or (i == j and total) else None for j, value in enumerate(row)]
            for i, (row, total) in enumerate(zip(counts.tolist(), totals, strict=True))
        ]
        title = "Predictions of images not trained on, in per cent"
        charts.append(heat_map(cells, title=title, x_label="predicted class", y_label="class"))
    return charts


def _history(learns: Sequence[LearnRecord]) -> Panel:
    """Draw the accuracy after each learn: on all validation images, and task by task while there are few."""
    x = [float(number) for number in range(1, len(learns) + 1)]
    lines = [Series("all tasks", x, [_percent(accuracy_of(record)) for record in learns], style=0)]
    tasks = max((score.task for record in learns for score in record.tasks), default=-1) + 1
    if 1 < tasks <= MAX_LINES:
        for task in range(tasks):
            after = [{score.task: score.after for score in record.tasks}.get(task) for record in learns]
            lines.append(Series(f"task {task + 1}", x, [_percent(value) for value in after], style=task + 1))
    return Panel(lines, "Accuracy after each learn", "learn", "accuracy in per cent", percent_range(lines))


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _classes(manifest: Manifest, found: Review) -> list[ClassRow]:
    counts = found.confusion()
    limit = max(1, min(4, THUMBNAILS // len(manifest.classes)))
    rows = []
    for class_id, name in enumerate(manifest.classes):
        row = counts[class_id]
        total, others = int(row.sum()), row.clone()
        others[class_id] = 0
        wrong = int(others.sum())
        rows.append(
            ClassRow(
                class_id + 1,
                name,
                _thumbnails(found, class_id, limit),
                sum(record.images.get(name, 0) for record in manifest.learns),
                total,
                (total - wrong) / total if total else None,
                manifest.classes[int(others.argmax())] if wrong else "",
            )
        )
    return rows


def _thumbnails(found: Review, class_id: int, limit: int) -> tuple[str, ...]:
    images: list[Tensor] = found.trained.of_class(class_id, limit)
    return tuple(map(thumbnail, images or found.held.of_class(class_id, limit)))


def _cards(manifest: Manifest, images: Sequence[ReviewedImage]) -> list[Card]:
    names = manifest.classes
    return [
        Card(
            thumbnail(image.pixels),
            names[image.label],
            names[image.predicted],
            percent(image.confidence),
            percent(image.own),
        )
        for image in images
    ]


def _pairs(manifest: Manifest, found: Review) -> list[Pair]:
    return [
        Pair(
            manifest.classes[first],
            manifest.classes[second],
            (_thumbnails(found, first, 3), _thumbnails(found, second, 3)),
            percent(likeness),
        )
        for first, second, likeness in found.alike(MAX_PAIRS)
    ]
