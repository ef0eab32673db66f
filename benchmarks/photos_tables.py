"""The tables of docs/photos.md, one function each, from benchmarks/results/photos/*.json."""

from __future__ import annotations

import statistics
from typing import Any

from document_parts import load, table

METHODS = ("lda", "ranpac", "ncm", "itaml", "replay", "joint logistic regression")
NAMES = {"lda": "LDA", "ranpac": "RanPAC", "ncm": "NCM", "itaml": "iTAML, head alone", "replay": "replay, head alone"}


def incremental() -> str:
    """Class accuracy in per cent of every method on the same features."""
    found = load("photos/incremental")
    rows = [
        [name, NAMES.get(method, method), *(_percent(row["class"][str(p)]) for p in found["settings"]["p"])]
        for name, results in found["results"].items()
        for method, row in results.items()
        if method in METHODS
    ]
    return table(["images", "method", *(f"p = {p}" for p in found["settings"]["p"])], rows)


def forgetting() -> str:
    """Forgetting of LDA over the tasks of each set, and the shrinkage that was chosen."""
    found = load("photos/incremental")
    rows = []
    for name, results in found["results"].items():
        row = results["lda"]
        same = _percent(row["same predictions in another order"])
        tasks = str(found["settings"]["sets"][name]["tasks"])
        among = _percent(row["forgetting among the classes known at the time"])
        rows.append([name, tasks, _percent(row["forgetting"]), among, same, f"{row['shrinkage']:g}"])
    columns = ["forgetting", "among the classes known at the time", "same predictions in another order", "shrinkage"]
    return table(["images", "learns", *columns], rows)


def product() -> str:
    """The product with its defaults on two sets of photos."""
    columns = {
        "each alone": "class accuracy, each photo alone",
        "p = 20": "class accuracy, p = 20",
        "ECE": "calibration error",
        "known refused": "known photos called unknown",
        "forgetting": "forgetting",
        "among the classes known at the time": "forgetting among the classes known at the time",
        "same in the reverse order": "same predictions in the reverse order",
    }
    found = load("photos/product")
    rows = [
        [name, str(found["settings"]["learns"][name]), *(_percent(result[key]) for key in columns.values())]
        for name, result in found["results"].items()
        if all(key in result for key in columns.values())
    ]
    return table(["images", "learns", *columns], rows)


def unknown() -> str:
    """Unknown images and calibration, mean over seeds."""
    found = load("photos/unknown")
    columns = {
        "AUROC": "auroc: weighted sum of signals",
        "AUROC, cosine": "auroc: cosine",
        "AUROC, energy": "auroc: energy",
        "AUROC, largest probability": "auroc: maximum probability",
        "known refused": "known refused",
        "unknown found": "strange called unknown",
        "unknown found at 5 % refused": "strange called unknown at 5 % refused",
        "ECE": "calibration error",
    }
    rows = [
        [name, *(_percent(statistics.mean(result[key])) for key in columns.values())]
        for name, result in found["results"].items()
    ]
    return table(["images", *columns], rows)


def few() -> str:
    """Few images per class."""
    columns = {
        "accuracy": "accuracy",
        "ECE": "calibration error",
        "ECE of a perfect model": "calibration error of a perfect model",
        "known refused": "known refused",
    }
    rows = [
        [name, count, *(_percent(row[key]) if key in row else "-" for key in columns.values())]
        for name, result in _sets(load("photos/few"))
        for count, row in result["images per class"].items()
    ]
    return table(["images", "per class", *columns], rows)


def speed() -> str:
    """Forward passes per second of EfficientNet-Lite0, as ratios to eager torch."""
    found = {threads: load(f"photos/speed-{threads}-threads")["results"] for threads in (1, 2)}
    rows = [
        [form, *(f"{found[threads][form]['ratio to eager']:.2f}" for threads in (1, 2))]
        for form in found[1]
        if form in found[2]
    ]
    return table(["forward pass", "1 thread", "2 threads"], rows)


FORMS = {
    "frozen-lda": "frozen, LDA",
    "frozen-head": "frozen, linear head by replay",
    "frozen-adapter": "frozen, adapter of 256 and head by replay",
    "tune-last": "last third tuned, head by replay",
    "tune-all": "all layers tuned, head by replay",
}


def tuning() -> str:
    """Fine-tuning beside frozen features."""
    rows = [
        [
            FORMS[form],
            " + ".join(map(str, row["epochs"])) if any(row["epochs"]) else "-",
            _percent(row["class accuracy, each photo alone"]),
            " + ".join(f"{seconds:.0f}" for seconds in row["CPU seconds of each learn"]),
        ]
        for form, row in load("photos/tuning")["results"].items()
    ]
    return table(["EfficientNet-Lite0", "epochs", "accuracy", "CPU seconds"], rows)


def learn_speed() -> str:
    """Learns and predictions beside a bare loop of the same photos, on one thread."""
    found = load("photos/learn-speed")["results"]
    names = {
        "learn 10 classes of 20 photos, over the bare loop": "learn",
        "the bare loop over predict": "predict",
    }
    rows = []
    for title, part in names.items():
        both = (found.get(key) for key in (part, f"{part}, torch"))
        rows.append([title, *("-" if row is None else f"{row['ratio']['CPU']:.2f}" for row in both)])
    return table(["one thread, CPU time", "ONNX Runtime", "torch"], rows)


def growth() -> str:
    """One more class, with few and with many known."""
    found = load("photos/growth")["results"]
    rows = [
        [
            known,
            f"{row['CPU']:.2f}",
            f"{found['relative to 10 classes, CPU'][known]:.2f}",
            f"{found['bytes on disk, two versions'][known] / 1e6:.1f}",
        ]
        for known, row in found["seconds to add a class of 20 photos"].items()
    ]
    return table(["classes known", "CPU seconds to add one", "relative to 10", "MB on disk, two versions"], rows)


def _sets(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, found["results"][name]) for name in found["settings"]["sets"]]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
