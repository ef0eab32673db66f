"""The default folder of a run: its name says what differs from the preset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from itaml.config import Compute
from itaml.experiment.run_config import default_folder, resolve


def _name(**changes: Any) -> str:
    return default_folder(resolve("digits", **changes), Path("runs")).name


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "itaml-best-seed0"),
        ({"seed": 3}, "itaml-best-seed3"),
        ({"method": "replay"}, "replay-best-seed0"),
        ({"overrides": {"epochs": 2}}, "itaml-best-epochs=2-seed0"),
        ({"overrides": {"epochs": 2, "lr": 0.5}}, "itaml-best-epochs=2,lr=0.5-seed0"),
        ({"overrides": {"seeds.order": 3}}, "itaml-best-seeds.order=3-seed0"),
        ({"split": (5, 5)}, "itaml-best-split=5+5-seed0"),
        ({"p": (1, 10)}, "itaml-best-p=1+10-seed0"),
        ({"validation": 0.1}, "itaml-best-validation=0.1-seed0"),
        ({"compute": Compute(precision="bf16")}, "itaml-best-precision=bf16-seed0"),
    ],
)
def test_the_folder_name_lists_what_differs_from_the_preset(changes: dict[str, Any], name: str) -> None:
    assert _name(**changes) == name


def test_overriding_a_setting_with_the_value_of_the_preset_changes_nothing() -> None:
    epochs = resolve("digits").settings["epochs"]
    assert _name(overrides={"epochs": epochs}) == "itaml-best-seed0"


def test_long_names_are_cut_and_told_apart_by_a_checksum() -> None:
    many = {f"seeds.{name}": 1_000_000_000 for name in resolve("digits").seeds.model_dump()}
    other = many | {sorted(many)[-1]: 1_000_000_001}
    assert _name(overrides=many) != _name(overrides=other)
    assert len(_name(overrides=many)) < 120
