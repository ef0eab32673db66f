"""Tables of docs/exchange.md."""

from __future__ import annotations

from document_parts import load, table, with_quartiles


def peers() -> str:
    """Return the speed beside Avalanche."""
    found = load("peers")
    rows = [
        [
            *pair.split(" / "),
            with_quartiles(ratios["whole"]),
            with_quartiles(ratios["per image"]),
            str(ratios["whole"]["rounds"]),
            " and ".join(f"{100 * found['rows'][name]['accuracy']:.1f}" for name in pair.split(" / ")),
        ]
        for pair, ratios in found["ratios"].items()
    ]
    head = ["time of", "divided by the time of", "whole work (quartiles)", "per training image (quartiles)", "rounds"]
    head += ["accuracies in %"]
    return table(head, rows)
