"""Values of `--set` that are nested, endless or no numbers: one sentence each."""

from __future__ import annotations

import pytest

from itaml.cli.main import main
from itaml.config import parse_overrides
from itaml.errors import ItamlError
from itaml.experiment.run_config import resolve

HOSTILE = [
    "[" * 100_000,
    '{"a":' * 100_000,
    "9" * 5000,
    "1" * 400,
    "[" * 300 + "]" * 300,
    "x" * 100_000,
    "NaN",
    "1e999",
]


@pytest.mark.parametrize("name", ["epochs", "lr", "backbone", "memory", "no_such_setting", "seeds.init"])
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:5])
def test_hostile_values_are_refused_in_one_sentence(name: str, value: str) -> None:
    with pytest.raises(ItamlError) as caught:
        resolve("digits", overrides=parse_overrides([f"{name}={value}"]))
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


def test_hostile_names_are_refused_in_one_sentence() -> None:
    for name in ("x" * 100_000, "", "é" * 1000, "\x1b[31m"):
        with pytest.raises(ItamlError) as caught:
            resolve("digits", overrides=parse_overrides([f"{name}=1"]))
        assert len(str(caught.value)) < 3000


def test_a_continuum_of_more_samples_than_64_bits_is_refused() -> None:
    with pytest.raises(ItamlError, match="p"):
        resolve("digits", p=(1, 10**20))


@pytest.mark.parametrize("tasks", ["0", "1000001", "99999999999", "9" * 30])
def test_more_tasks_than_fit_into_memory_are_refused(tasks: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bound", "--accuracy", "0.9", "--classes-per-task", "2", "--tasks", tasks])
    assert ended.value.code == 2
    assert f"--tasks must be from 1 to 1,000,000 (got {tasks})" in capsys.readouterr().err
