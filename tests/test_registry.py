"""Names: order, nearest-name errors, plug-ins, and that listing imports nothing."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from itaml import registry
from itaml.errors import UnknownNameError
from itaml.learners import LEARNERS
from itaml.models import MODELS
from itaml.registry import Registry, unknown


def make() -> Registry:
    fresh = Registry("tool", group="itaml.test_tools")
    fresh.add("path", "pathlib:Path", "a path")
    fresh.add("broken", "no_such_module:thing", "cannot be imported")
    return fresh


def test_names_keep_their_order_and_load_what_they_name() -> None:
    from pathlib import Path

    fresh = make()
    assert fresh.names() == ("path", "broken")
    assert fresh.load("path") is Path
    assert fresh.entry("broken").summary == "cannot be imported"


@pytest.mark.parametrize(
    ("name", "message"),
    [("brokn", "no tool 'brokn'; did you mean 'broken'?"), ("zzz", "no tool 'zzz'; there are: broken, path")],
)
def test_an_unknown_name_is_an_error_with_the_nearest_or_all(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        make().load(name)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def test_unknown_among_nothing_is_still_a_sentence() -> None:
    assert unknown("preset for x", "best", []).startswith("no preset for x 'best'")


def test_a_second_registration_is_refused() -> None:
    fresh = make()
    with pytest.raises(AssertionError, match="registered twice"):
        fresh.add("path", "pathlib:PurePath", "again")


def test_installed_packages_add_names_but_never_replace_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path, PurePath

    points = [
        EntryPoint("pure", "pathlib:PurePath", "itaml.test_tools"),
        EntryPoint("path", "pathlib:PurePath", "itaml.test_tools"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda *, group: points if group == "itaml.test_tools" else [])
    fresh = make()
    assert fresh.names() == ("path", "broken", "pure")
    assert fresh.load("pure") is PurePath
    assert fresh.load("path") is Path


@pytest.mark.parametrize("entry", [*LEARNERS, *MODELS], ids=lambda entry: entry.name)
def test_every_registered_name_can_be_loaded_and_has_a_summary(entry: registry.Entry) -> None:
    assert callable(entry.load())
    assert entry.summary


def test_a_method_with_a_slip_is_guessed() -> None:
    with pytest.raises(UnknownNameError, match="no method 'itmal'; did you mean 'itaml'"):
        LEARNERS.entry("itmal")
