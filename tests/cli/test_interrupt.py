"""Ctrl-C at any moment."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from itaml.cli.main import _report_unraisable


def test_a_ctrl_c_while_an_object_is_deleted_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (it comes from another thread)
        _report_unraisable(SimpleNamespace(exc_type=KeyboardInterrupt))
        time.sleep(10)
    assert capfd.readouterr().err == ""
