"""Speed, as ratios inside one run: warmed up, interleaved, with their spread.

usage: python benchmarks/speed.py [--only NAME,...] [--rounds 8] [--threads 2]

| name     | ratio                                                                                         |
|----------|-----------------------------------------------------------------------------------------------|
| step     | fused step / plain joint step, loop / joint, at 1, 10 and 50 tasks                            |
| growth   | fused step at 1 to 100 tasks, and at 10 to 10,000 classes, over the first of each             |
| epoch    | epoch of the learner / epoch of the same batches through a bare loop written here             |
| evaluate | full evaluation / two forward passes and the adaptation steps; the released code's way / ours |
| predict  | `predict_many` of single images / bare forward pass                                           |
| open     | opening a model on disk, naming a first image, and its bytes, at 5, 20 and 50 tasks / at one  |
| input    | decoding images from files / training on them                                                 |
| format   | bf16 / fp32 training step, and whether `auto` would choose bf16 on this machine               |
| compile  | passes through a network translated by torch.compile, against eager ones                      |
| import   | `itaml --help` and `import itaml` against bare Python, its command-line library and torch     |

Prints a table and writes benchmarks/results/speed.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import torch
from speed_inference import evaluation, opening, predict, starting
from speed_training import compiled, epoch, growth, number_format, reading, step
from timing import RESULTS, Ratios, write

PARTS: dict[str, Callable[[int], Ratios]] = {
    "step": step,
    "growth": growth,
    "epoch": epoch,
    "evaluate": evaluation,
    "predict": predict,
    "open": opening,
    "input": reading,
    "format": number_format,
    "compile": compiled,
    "import": starting,
}


def measured_before() -> dict[str, Ratios]:
    """Return the parts that an earlier run measured, so that measuring one again keeps the others."""
    path = RESULTS / "speed.json"
    found: dict[str, Ratios] = json.loads(path.read_text(encoding="utf-8"))["ratios"] if path.exists() else {}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, Ratios] = measured_before() if options.only != ",".join(PARTS) else {}
    for name in options.only.split(","):
        results[name] = PARTS[name](options.rounds)
        for what, value in results[name].items():
            spread = f" ({value['quartiles'][0]:.2f} to {value['quartiles'][1]:.2f})" if "quartiles" in value else ""
            print(f"{name:9} {value['median']:>8.3f}{spread:18} {what}", flush=True)
        path = write("speed", {"ratios": results})  # after every part, so that an interrupted run keeps what it has
    print(path)


if __name__ == "__main__":
    main()
