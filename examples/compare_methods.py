"""Train three methods on the digits of scikit-learn with the same settings, and compare them at p = 1 and p = 20."""

import tempfile
from pathlib import Path

import itaml

with tempfile.TemporaryDirectory() as folder:
    for method in ("itaml", "replay", "finetune"):
        config = itaml.resolve("digits", method=method, seed=0, overrides={"epochs": 2})
        result = itaml.run_experiment(config, Path(folder) / method)
        alone, together = (result.final.continuum[p].classes for p in (1, 20))
        print(f"{method:10} class accuracy {100 * alone:5.1f} % at p = 1, {100 * together:5.1f} % at p = 20")
