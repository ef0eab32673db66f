"""Cells of CSV files: text that would be a formula is quoted, numbers and other text are left alone."""

from __future__ import annotations

import pytest

from itaml.spreadsheet import safe_cell


@pytest.mark.parametrize("text", ["=1+1", "=cmd|' /C calc'!A0", "+x", "-x", "@x", "\t=1", "\r=1", " =1", "＝1", "-1+1"])
def test_formulas_are_quoted(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["cat", "", "a=b", "-1", "-1.5e3", "+2", -1, -0.5, None, "digit 7", "'x"])
def test_numbers_and_names_are_left_alone(value: object) -> None:
    assert safe_cell(value) == value
