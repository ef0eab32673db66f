"""Golden results: small runs whose result and final weights a refactoring must repeat to the bit.

`python benchmarks/golden.py record` writes `benchmarks/results/golden.json`, `check` runs everything again and names
what differs. Bits depend on the CPU and on the version of torch, so a check on another machine compares with a record
made there: `record --out FILE` before the change, `check --out FILE` after it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import tempfile
from pathlib import Path
from typing import Any

import torch

import itaml
from itaml.config import Compute
from itaml.learners import LEARNERS
from itaml.storage import load_state

RESULTS = Path(__file__).parent / "results" / "golden.json"
SHORT = {"epochs": 2}
NETWORK = {"backbone": "resnet18-small", "epochs": 1, "memory": 60}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{method: (method, "best", SHORT) for method in LEARNERS.names() if LEARNERS.load(method).traits.trains_gradients},
    "itaml-paper": ("itaml", "paper", SHORT),
    "itaml-released": ("itaml", "released", SHORT),
    "itaml-batched": ("itaml", "best", {**SHORT, "engine": "batched", "inner_steps": 2}),
    "replay-union": ("replay", "union", SHORT),
    "rwalk-alone": ("rwalk", "alone", SHORT),
    "itaml-resnet": ("itaml", "best", NETWORK),
    "icarl-resnet": ("icarl", "best", NETWORK),
}
RECIPE: dict[str, Any] = {
    "class_balancing": "logits",
    "distill": 1.0,
    "cache_teacher_logits": True,
    "progressive_resize_from": 0.5,
    "progressive_resize_in": "first",
    "flip_tta": True,
}
CASES["itaml-resnet-recipe"] = ("itaml", "best", {**NETWORK, **RECIPE, "augment": "crop-flip"})
CASES["itaml-mlp-recipe"] = (
    "itaml",
    "best",
    {**SHORT, **RECIPE, "cache_teacher_logits": False, "progressive_resize_from": 1.0},
)


def machine() -> dict[str, str]:
    """Return what bits depend on."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model")]
    return {"torch": torch.__version__, "cpu": "; ".join(sorted(set(names))), "python": platform.python_version()}


def run(method: str, preset: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Run one case with one thread in fp32; return its numbers and a hash of its final weights."""
    compute = Compute(device="cpu", precision="fp32")
    config = itaml.resolve("digits", method=method, preset=preset, seed=0, overrides=overrides, compute=compute)
    with tempfile.TemporaryDirectory() as folder:
        itaml.run_experiment(config, Path(folder) / "run")
        result = json.loads((Path(folder) / "run" / "result.json").read_text())
        state = load_state(Path(folder) / "run" / "checkpoint.safetensors", kind="run checkpoint")
    digest = hashlib.sha256()
    for value in state["learner"]["model"].values():
        digest.update(value.numpy().tobytes())
    rows = [{key: row[key] for key in ("continuum", "task_aware", "no_update")} for row in result["tasks"]]
    final = {key: result["final"][key] for key in ("average_incremental", "forgetting", "curve", "per_class")}
    return {"weights": digest.hexdigest(), "tasks": rows, "final": final}


def main() -> int:
    """Record the cases, or check them against a record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "check"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="*", help="cases to check")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = {name: case for name, case in CASES.items() if not options.only or name in options.only}
    found = {name: run(*case) for name, case in wanted.items()}
    if options.what == "record":
        options.out.write_text(json.dumps({"machine": machine(), "cases": found}, indent=1) + "\n")
        print(f"recorded {len(found)} cases in {options.out}")
        return 0
    record = json.loads(options.out.read_text())
    if record["machine"] != machine():
        print(f"warning: recorded on another machine ({record['machine']})")
    changed = [name for name, value in found.items() if value != record["cases"][name]]
    print(
        f"{len(found) - len(changed)} of {len(found)} cases are bit-identical"
        + (f"; changed: {changed}" if changed else "")
    )
    return 1 if changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
