"""What all HTML pages share: the style sheet in light and dark, the security policy, and the templates."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from itaml.errors import MissingExtraError
from itaml.report.theme import DARK, LIGHT, css_variables

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
except ImportError as error:
    raise MissingExtraError("reports need jinja2: pip install 'itaml[report]'") from error


def environment() -> Environment:
    """Return the templates; everything that is not markup of ours is escaped."""
    return Environment(
        loader=PackageLoader("itaml.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def template_file(name: str) -> str:
    """Return a file beside the templates."""
    return files("itaml.report").joinpath("templates", name).read_text(encoding="utf-8")


def style_sheet() -> str:
    """Return the style sheet with the colours of both themes."""
    light, dark = f":root{{{css_variables(LIGHT)}}}", f":root{{{css_variables(DARK)}}}"
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}\n{template_file('style.css')}"


def policy(script: str | None = None) -> str:
    """Return a policy under which a page loads nothing and runs its own script alone, whatever a class is called."""
    base = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    if script is None:
        return base
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"{base}; script-src 'sha256-{digest}'"
