"""How `itaml predict` prints predictions: as a table, CSV or lines of JSON."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Any

from itaml.spreadsheet import safe_cell

if TYPE_CHECKING:
    from itaml.modelstore.predictions import ImagePrediction


def print_predictions(predictions: list[ImagePrediction], top: int) -> None:
    """Print one row for each image."""
    from itaml.cli.tables import print_table

    rows = []
    for prediction in predictions:
        ranked = [f"{other} {probability:.3f}" for other, probability in prediction.top]
        if prediction.error:
            cells = ["unreadable", "", "", prediction.error]
        elif prediction.known:
            cells = [
                prediction.label or "",
                f"{prediction.confidence:.3f}",
                str(_task(prediction)),
                ", ".join(ranked[1:]),
            ]
        else:  # confidence and task are those of a class that it is not
            cells = [prediction.label or "", "-", "-", ", ".join(ranked) if top > 1 else ""]
        rows.append([prediction.file or "", *cells])
    last = any(cells[-1] for cells in rows)
    head = ["file", "class", "confidence", "task", "then" if top > 1 else ""]
    print_table(head[: 4 + last], [cells[: 4 + last] for cells in rows], align="llrrl"[: 4 + last])


def _task(prediction: ImagePrediction) -> int | None:
    """Return the task as people count, from 1."""
    return None if prediction.task is None else prediction.task + 1


def plain_prediction(prediction: ImagePrediction, top: int) -> dict[str, Any]:
    """Return a prediction as plain values, its task counted from 1."""
    record = prediction.to_json()
    return {**record, "task": _task(prediction), "top": record["top"][:top]}


def print_csv(predictions: list[ImagePrediction], top: int) -> None:
    """Print CSV, with cells that spreadsheets do not run."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    more = [f"{name}{rank}" for rank in range(2, top + 1) for name in ("class", "confidence")]
    writer.writerow(["file", "class", "confidence", "task", "known", "unknown_score", *more])
    for prediction in predictions:
        if prediction.error:
            writer.writerow([safe_cell(prediction.file), "", "", "", "no", ""] + [""] * len(more))
            continue
        others = [cell for name, share in prediction.top[1:] for cell in (name, f"{share:.6f}")]
        known = "yes" if prediction.known else "no"
        score = "" if prediction.unknown_score is None else f"{prediction.unknown_score:.6f}"
        named = [prediction.file, prediction.label, f"{prediction.confidence:.6f}", _task(prediction)]
        cells = [*named, known, score, *others]
        writer.writerow([*map(safe_cell, cells)] + [""] * (6 + len(more) - len(cells)))


def print_jsonl(predictions: list[ImagePrediction], top: int) -> None:
    """Print one JSON object per line."""
    for prediction in predictions:
        print(json.dumps(plain_prediction(prediction, top)))
