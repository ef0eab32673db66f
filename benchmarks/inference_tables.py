"""Tables of task scores and of the adaptation at inference."""

from __future__ import annotations

from typing import Any

from document_parts import RESULTS, load, table


def task_scores() -> str:
    """Return task accuracy at every p, for each run and score that was measured."""
    if not (RESULTS / "task-scores.json").exists():
        return ""
    rows, sizes = [], []
    for name, run in load("task-scores")["runs"].items():
        for row in run["rows"]:
            sizes = list(row["task"])
            rows.append([name, _score(row), *(f"{100 * row['task'][p]:.2f}" for p in sizes)])
    return table(["run", "task score", *(f"task@{p}" for p in sizes)], rows)


def _score(row: dict[str, Any]) -> str:
    parts = [f"`{row['task_score']}`"]
    parts += [f"T = {row['task_temperature']:g}"] if "task_temperature" in row else []
    parts += [f"e = {row['task_epsilon']:g}"] if "task_epsilon" in row else []
    parts += [f"{row['task_distance_weight']:g} {row['task_distance']}"] if "task_distance" in row else []
    return ", ".join(parts)


def adaptation_features() -> str:
    """Return task-aware accuracy under each way of adapting on features, for each run that was measured."""
    if not (RESULTS / "adaptation-features.json").exists():
        return ""
    rows = [
        [name, _way(row), f"{100 * row['task_aware']:.2f}", f"{100 * row['class']:.2f}"]
        for name, run in load("adaptation-features")["runs"].items()
        for row in run["rows"]
    ]
    return table(["run", "own-task head", "task-aware", "class@1"], rows)


def _way(row: dict[str, Any]) -> str:
    if not row["adapt_steps"]:
        return "none"
    parts = [f"anchor {row.get('adapt_anchor', 0.01):g}", f"views {row['adapt_views']}"]
    parts += [f"LDA {row['adapt_lda']:g}"] if "adapt_lda" in row else []
    parts += [f"snapshot {row['adapt_snapshot']:g}"] if "adapt_snapshot" in row else []
    return ", ".join([*parts, "guard"] if row["adapt_guard"] else parts)
