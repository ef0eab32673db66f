"""What is shipped: the distributions, the types, the licences, and the steps of the Dockerfile."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import licences  # noqa: E402 (a script, not a package)
import lowest_versions  # noqa: E402

LENT = next(path for path in sys.path if path.endswith("site-packages"))
USER_FILE = """
from pathlib import Path

import numpy as np

from itaml import ImageClassifier, continuum_size, make_learner, make_stream, resolve
from itaml.modelstore.predictions import ImagePrediction
from itaml.sklearn import ITAMLClassifier


def names(model: Path, images: list[str]) -> list[str | None]:
    classifier = ImageClassifier.open(model)
    found: list[ImagePrediction] = classifier.predict(images, top=2)
    classifier.export(model / "model.onnx")
    return [prediction.label for prediction in found]


def right() -> float:
    config = resolve("digits", seed=0, overrides={"epochs": 2})
    stream = make_stream(config)
    learner = make_learner(config, stream)
    for task in stream:
        learner.learn(task)
    images, labels = stream.test(3).load()
    return float((learner.predict(images[:20]).classes == labels[:20]).float().mean())


size: int = continuum_size(accuracy=0.6, sizes=[2, 2], gamma=0.9)
estimator = ITAMLClassifier(epochs=2)
estimator.fit(np.zeros((4, 8)), np.array([0, 1, 0, 1]))
"""


def build(folder: Path, source: Path = ROOT, *kinds: str) -> list[Path]:
    command = [sys.executable, "-m", "build", *kinds, "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return sorted(folder.glob("itaml-*"))


def environment_with(wheel: Path, folder: Path) -> Path:
    """Return the python of a new environment with a wheel; its dependencies are lent from here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(LENT + "\n")
    return python


def run(python: Path, *words: str, cwd: Path) -> str:
    done = subprocess.run([python, "-I", *words], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lowest_versions_are_those_of_the_project() -> None:
    assert lowest_versions.lowest(["numpy>=1.26", "ray[default]>=2.40", "torch>=2.4"], newest=["torch"]) == [
        "numpy==1.26",
        "ray==2.40",
    ]
    with pytest.raises(SystemExit, match="'numpy' names no lowest version"):
        lowest_versions.lowest(["numpy"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [entry for name, part in project["optional-dependencies"].items() if name != "dev" for entry in part]
    assert len(lowest_versions.lowest([*project["dependencies"], *extras])) == len(project["dependencies"]) + len(
        extras
    )


def test_every_dependency_is_in_the_list_of_licences() -> None:
    assert licences.missing() == [], "run tools/licences.py"


def test_issue_templates_ask_for_what_doctor_says() -> None:
    text = (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8")
    assert "itaml doctor" in text
    assert "itaml --version" in text


@pytest.mark.slow
def test_distributions_are_complete_and_pass_the_checks_of_the_index(tmp_path: Path) -> None:
    pytest.importorskip("twine")
    sdist, wheel = sorted(build(tmp_path), key=lambda path: path.suffix)
    check = [sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = set(zipfile.ZipFile(wheel).namelist())
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "itaml").rglob("*.py")}
    assert source <= names
    assert {"itaml/py.typed", "itaml/presets/itaml/best.toml"} <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


@pytest.mark.slow
def test_an_installed_wheel_learns_and_predicts_photos_and_its_types_pass(tmp_path: Path) -> None:
    (wheel,) = build(tmp_path, ROOT, "--wheel")
    python = environment_with(wheel, tmp_path / "env")
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(ROOT / "examples" / "make_photos.py", work)
    run(python, "make_photos.py", "photos", cwd=work)
    run(python, "-m", "itaml", "learn", "model", "photos/first", "--quiet", cwd=work)
    image = next(path for path in sorted((work / "photos" / "first").glob("*/*")) if path.is_file())
    (found,) = json.loads(run(python, "-m", "itaml", "predict", "model", str(image), "--json", cwd=work))["predictions"]
    assert found["top"][0]["class"] == image.parent.name
    (work / "user.py").write_text(USER_FILE)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "user.py"]
    done = subprocess.run(mypy, capture_output=True, text=True, cwd=work, check=False)
    assert done.returncode == 0, done.stdout
    pyright = shutil.which("pyright")  # `pip install pyright` or `npm install pyright`
    if pyright is not None:
        command: list[str | Path] = [pyright, "--pythonpath", python, "user.py"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=work, check=False)
        assert done.returncode == 0, done.stdout


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines.splitlines() if line.strip()]


def test_the_dockerfile_serves_as_a_user_without_rights() -> None:
    steps = instructions()
    kinds = [kind for kind, _ in steps]
    base = dict(steps)["FROM"]
    assert re.fullmatch(r"python:3\.\d+-slim", base), "a version of Python, and not the newest of all"
    users = [text for kind, text in steps if kind == "USER"]
    assert users
    assert users[-1] not in ("root", "0")
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert "ADD" not in kinds
    assert all("--no-cache-dir" in text for kind, text in steps if kind == "RUN" and "pip install" in text)
    for text in (text for kind, text in steps if kind == "COPY"):
        assert all((ROOT / name).exists() for name in text.split()[:-1])


@pytest.mark.slow
def test_the_steps_of_the_dockerfile_run_without_an_engine(tmp_path: Path) -> None:
    """The files that it copies are enough to install the package, and its command serves an empty model."""
    steps = instructions()
    source, models = tmp_path / "src", tmp_path / "models"
    source.mkdir()
    models.mkdir()
    for text in (text for kind, text in steps if kind == "COPY"):
        *names, target = text.split()
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, source / target)
    (wheel,) = build(tmp_path / "dist", source, "--wheel")
    python = environment_with(wheel, tmp_path / "env")
    (tmp_path / "token").write_text("a-token-of-sufficient-length-0123456789")
    words = [*json.loads(dict(steps)["ENTRYPOINT"])[1:], *json.loads(dict(steps)["CMD"])]
    places = {
        "/models/model": str(models / "model"),
        "/run/secrets/token": str(tmp_path / "token"),
        "0.0.0.0": "127.0.0.1",
    }
    command = [python, "-I", "-m", "itaml", *(places.get(word, word) for word in words), "--port", "0"]
    variables = dict(pair.split("=") for pair in shlex.split(dict(steps)["ENV"]))
    with subprocess.Popen(
        command,
        env={**os.environ, **variables},
        cwd=models,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as service:
        try:
            assert service.stdout is not None
            address = next(found[0] for line in service.stdout if (found := re.search(r"http://[\d.]+:\d+", line)))
            for _ in range(100):
                try:
                    with urllib.request.urlopen(f"{address}/readyz", timeout=5) as answer:
                        assert answer.status == 200
                    break
                except OSError:
                    time.sleep(0.2)
            else:
                pytest.fail("the service did not become ready")
        finally:
            service.terminate()
