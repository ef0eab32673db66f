"""Ctrl-C at any moment."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from itaml.cli.main import _report_unraisable


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt also where the tests were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_ctrl_c_while_an_object_is_deleted_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (it comes from another thread)
        _report_unraisable(SimpleNamespace(exc_type=KeyboardInterrupt))
        time.sleep(10)
    assert capfd.readouterr().err == ""
