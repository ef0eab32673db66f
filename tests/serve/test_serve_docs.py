"""The guide: its Python and its shell commands run against a service."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serve_support import Running

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "serve.md"
ADDRESS = "http://127.0.0.1:8000"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_examples_of_the_guide_run(
    start: Callable[..., Running],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    subprocess.run([sys.executable, ROOT / "examples" / "make_photos.py", tmp_path / "photos"], check=True)
    monkeypatch.chdir(tmp_path)
    service = start()
    address = str(service.client.base_url).rstrip("/")
    (python,) = blocks("python")
    names: dict[str, Any] = {}
    exec(python.replace(ADDRESS, address), names)
    names["client"].close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-9].startswith("['stripes'] ")
    assert [line.split()[0] for line in lines[-8:]] == sorted(path.name for path in Path("photos/new").iterdir())
    assert all(line.endswith(" None") for line in lines[-8:])
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (shell,) = blocks("sh")
    done = subprocess.run(
        ["sh", "-e", "-c", shell.replace(ADDRESS, address)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"model_version":3' in done.stdout
    assert '"kind":"learn"' in done.stdout


def test_every_option_of_the_guide_exists() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "itaml", "serve", "--help"], capture_output=True, text=True, check=True
    )
    for option in set(re.findall(r"`(--[a-z-]+)", GUIDE.read_text(encoding="utf-8"))):
        assert option in found.stdout, option


def test_the_files_for_deployment_start_the_service_with_options_that_exist() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "itaml", "serve", "--help"], capture_output=True, text=True, check=True
    )
    for name in ("Dockerfile", "itaml.service"):
        text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
        options = re.findall(r"(?<=[\s\"])--(?:create|host|token[a-z-]*|behind[a-z-]*|allowed[a-z-]*)", text)
        assert options
        for option in options:
            assert option in found.stdout, option


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = (ROOT / "deploy" / "itaml.service").read_text(encoding="utf-8")
    unit = tmp_path / "itaml.service"
    unit.write_text(text.replace("/opt/itaml/bin/itaml", "/bin/true"))  # a program that is there
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_hadolint_accepts_the_dockerfile() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        ["hadolint", str(ROOT / "deploy" / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
