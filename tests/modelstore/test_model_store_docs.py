"""The guide: its Python runs, and its table is the one in the result file."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "model-store.md"


def test_the_python_of_the_guide_runs(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(digits / "first", tmp_path / "photos")
    shutil.copytree(digits / "third", tmp_path / "more")
    shutil.copy(next((digits / "test" / "digit 1").iterdir()), tmp_path / "new.png")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, {})


def test_the_table_is_generated_from_the_results() -> None:
    spec = importlib.util.spec_from_file_location("mixed_streams", ROOT / "benchmarks" / "mixed_streams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page, results = GUIDE.read_text(encoding="utf-8"), json.loads(module.RESULTS.read_text())
    assert module.with_table(page, results) == page
    for result in results.values():
        assert result["alone"] < result["ours"] <= result["oracle"] + 0.005
