"""Networks: backbones, the growing head, and the classifier made of both.

A file of `models/backbones` declares its backbones in a dictionary `BACKBONES` of literals: the name, and for each
`factory` (a function of the file, or `package.module:function`), `summary`, and fields of `BackboneTraits` that differ
from their defaults. The declarations are read without importing the files, so that listing names imports no torch.
"""

import ast
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from itaml.models.traits import SOURCES, BackboneTraits
from itaml.registry import Entry, Registry


def _declared() -> Iterator[Entry]:
    """Yield the backbones that files of `models/backbones` declare."""
    folder = files("itaml.models").joinpath("backbones")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".py"):
            continue
        for name, fields in _declarations(file.read_text(encoding="utf-8")).items():
            factory, summary = fields.pop("factory"), fields.pop("summary")
            target = factory if ":" in factory else f"itaml.models.backbones.{file.name[:-3]}:{factory}"
            yield Entry(name, target, summary, BackboneTraits(**fields))


def _declarations(source: str) -> dict[str, dict[str, Any]]:
    if "\nBACKBONES = " not in source:
        return {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BACKBONES":
            found: dict[str, dict[str, Any]] = ast.literal_eval(node.value)
            return found
    return {}


MODELS = Registry("backbone", group="itaml.models", declared=_declared)


def backbone_traits(name: str) -> BackboneTraits:
    """Return the traits of a backbone; a factory of another package may have them as its attribute `traits`.

    Raises:
        UnknownNameError: there is no such backbone.
    """
    source, colon, _ = name.partition(":")
    if colon and source in SOURCES:
        return BackboneTraits(pretrained=True)
    entry = MODELS.entry(name)
    traits = entry.traits or getattr(entry.load(), "traits", None)
    return traits if isinstance(traits, BackboneTraits) else BackboneTraits()
