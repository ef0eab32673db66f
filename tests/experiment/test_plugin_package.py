"""A method of another package: installed with an entry point, own settings and presets, and no backbone."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import itaml

PLUGIN = '''
import torch
from itaml.config import Settings
from itaml.learners.api import Prediction, Traits


class MajoritySettings(Settings):
    offset: int = 0


class Majority:
    """Always predicts one of the classes."""

    Settings = MajoritySettings
    traits = Traits(memory="none", trains_gradients=False, supports_compile=False, supports_recipe=False)

    @classmethod
    def from_settings(cls, settings, *, shape, seeds, compute=None):
        return cls(settings)

    def __init__(self, settings):
        self.settings, self.classes = settings, []

    def learn(self, task):
        self.classes += [c for c in task.classes if c not in self.classes]

    def predict(self, images, continua=None):
        column = self.settings.offset % len(self.classes)
        probabilities = torch.zeros(len(images), len(self.classes))
        probabilities[:, column] = 1
        predicted = torch.full((len(images),), self.classes[column])
        return Prediction(predicted, None, probabilities, tuple(self.classes))

    def state_dict(self):
        return {"classes": list(self.classes)}

    def load_state_dict(self, state):
        self.classes = list(state["classes"])
'''
FILES = {
    "majority_plugin/__init__.py": "",
    "majority_plugin/method.py": PLUGIN,
    "majority_plugin/presets/majority/best.toml": "# The class learned second.\noffset = 1\n",
    "majority_plugin/presets/majority/third.toml": "# The class learned third.\noffset = 0\n\n[digits]\noffset = 2\n",
    "majority_plugin-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: majority-plugin\nVersion: 1.0\n",
    "majority_plugin-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "majority_plugin-1.0.dist-info/entry_points.txt": "[itaml.learners]\nmajority = majority_plugin.method:Majority\n",
}
RECORD = "majority_plugin-1.0.dist-info/RECORD"


def build_wheel(folder: Path) -> Path:
    """Write the wheel by hand, so that no build tool is needed."""
    wheel = folder / "majority_plugin-1.0-py3-none-any.whl"
    lines = []
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in FILES.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(text.encode())}")
            file.writestr(name, text)
        file.writestr(RECORD, "\n".join([*lines, f"{RECORD},,", ""]))
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which pip has installed the plug-in."""
    folder = tmp_path_factory.mktemp("plugin")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    wheel = build_wheel(folder)
    subprocess.run([*command, "--target", str(folder / "site"), str(wheel)], check=True, capture_output=True)
    return folder / "site"


def run_itaml(site: Path, *arguments: str) -> str:
    source = str(Path(itaml.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(site)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "itaml", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_installed_method_and_its_presets_are_listed(installed: Path) -> None:
    assert "from the package majority-plugin" in run_itaml(installed, "list", "methods")
    shown = run_itaml(installed, "list", "presets")
    assert "The class learned second." in shown
    assert "The class learned third." in shown


@pytest.mark.slow
def test_an_installed_method_runs_through_a_whole_experiment(installed: Path, tmp_path: Path) -> None:
    """Every task of digits has two classes, so a constant prediction is right for its own class alone."""
    folder = tmp_path / "run"
    command = ("run", "digits", "--method", "majority", "--preset", "third", "--out", str(folder))
    run_itaml(installed, *command, "--quiet")
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert result["config"]["settings"] == {"offset": 2}
    counts = result["final"]["per_class"]
    assert [name for name, accuracy in counts.items() if accuracy] == ["2"]
    assert len(result["tasks"]) == 5
    resumed = run_itaml(installed, *command, "--resume", "--json")
    assert json.loads(resumed)["final"] == result["final"]
