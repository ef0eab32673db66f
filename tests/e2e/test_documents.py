"""What the documents show, runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGELOG = ROOT / "CHANGELOG.md"


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_readme_example_runs_and_finds_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example.strip().splitlines()) <= 15
    exec(compile(example, "README.md", "exec"), {})
    assert re.match(r"task 3, \d+% of the classes right\n", capsys.readouterr().out)


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_numbers_in_documents_are_those_of_the_result_files() -> None:
    check = [sys.executable, str(ROOT / "benchmarks" / "documents.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run benchmarks/documents.py: {done.stdout}{done.stderr}"


def test_changelog_names_the_version() -> None:
    from itaml import __version__

    assert f"## {__version__}" in CHANGELOG.read_text(encoding="utf-8")


def test_citation_names_the_version_and_its_date() -> None:
    from itaml import __version__

    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = CHANGELOG.read_text(encoding="utf-8")
    released = re.search(rf"^## {re.escape(__version__)} \((.+)\)$", changes, re.MULTILINE)
    assert released
    assert f"\nversion: {__version__}\n" in citation
    assert f"\ndate-released: {released[1]}\n" in citation


@pytest.mark.slow
def test_wheel_installs_and_runs_in_a_clean_environment(tmp_path: Path) -> None:
    """Dependencies are lent from here; the package itself comes from the wheel alone."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("itaml-*.whl")
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    install: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
    ]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    lent = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "lent.pth").write_text(lent + "\n")

    def run(*words: str) -> str:
        done = subprocess.run([python, "-I", *words], check=True, capture_output=True, text=True, cwd=tmp_path)
        return done.stdout

    home = run("-c", "import itaml; print(itaml.__file__)").strip()
    assert home.startswith(str(site))
    assert (Path(home).parent / "py.typed").exists()
    assert "paper" in run("-m", "itaml", "list", "presets")
    assert json.loads(run("-m", "itaml", "doctor", "--json"))["can_train"]  # the trial process finds the package too
    assert "class accuracy, p=20" in run("-m", "itaml", "run", "digits", "--set", "epochs=1")
