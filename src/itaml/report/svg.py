"""SVG of matplotlib figures: for a page (colours are CSS variables, identifiers unique) or for a file.

matplotlib's output is parsed and rewritten, never edited as text, so that no class name can be mistaken for markup.
The same figure gives the same bytes: the salt of identifiers is fixed and there is no metadata.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from itaml.report.theme import LIGHT, PIXELS, style

# `theme` is imported first: it says which extra is missing without matplotlib.
# isort: split
from matplotlib.figure import Figure

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
SERIES = "series:"  # an artist whose gid starts so belongs to the series with the number that follows
_ROLES = {color: role for role, color in LIGHT.items()}
_NUMBER = re.compile(r"-?\d+\.\d+")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_ENLARGED = 1.25  # how much larger than drawn a figure may be on a wide page


@dataclass(frozen=True)
class Chart:
    """A figure, its title, and its values as text for people who cannot see it."""

    figure: Figure
    title: str
    description: str = ""


def to_svg(chart: Chart, *, prefix: str | None = None) -> str:
    """Return a figure as SVG.

    Args:
        chart: the figure.
        prefix: of identifiers, unique in the page that the SVG is put into; without it, the SVG is a separate file.
    """
    out = io.StringIO()
    with style():
        chart.figure.savefig(out, format="svg", metadata={"Date": None})
    root = ET.fromstring(_xml_text(out.getvalue()))
    _simplify(root)
    _name_identifiers(root, prefix or "")
    _unwrap_groups(root)
    width, height = (round(float(PIXELS * inches)) for inches in chart.figure.get_size_inches())
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img"}
    if prefix is None:
        root.attrib |= {"xmlns": "http://www.w3.org/2000/svg", "width": str(width), "height": str(height)}
        root.set("font-family", FONT)
    else:
        root.attrib |= {"class": "chart", "style": f"max-width:{_ENLARGED * width:.0f}px"}
        _use_variables(root)
    for place, (tag, text) in enumerate((("title", chart.title), ("desc", chart.description))):
        if text:
            element = ET.Element(tag)
            element.text = _xml_text(text)
            root.insert(place, element)
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def _xml_text(text: str) -> str:
    """Return text with the characters replaced that XML does not have, such as control characters in a class name."""
    return _NOT_XML.sub("\ufffd", text)


def write_figure(chart: Chart, stem: Path) -> list[Path]:
    """Write a figure as `stem.svg`, `stem.png` and `stem.pdf`; the same figure gives the same bytes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    svg, png, pdf = (stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png", "pdf"))
    svg.write_text(to_svg(chart) + "\n", encoding="utf-8")
    with style():
        chart.figure.savefig(png, dpi=2 * PIXELS, metadata={"Software": None})
        chart.figure.savefig(pdf, metadata={"CreationDate": None})
    return [svg, png, pdf]


def _simplify(root: ET.Element) -> None:
    """Drop namespaces, metadata, fonts and needless digits."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        if element.tag != "text":
            element.text = None
        element.tail = None
        for key in ("d", "x", "y", "transform"):
            if key in element.attrib:
                element.set(key, " ".join(_NUMBER.sub(_rounded, element.attrib[key]).split()))
        if "d" in element.attrib:  # after a point, more points mean lines
            element.set("d", element.attrib["d"].replace(" L ", " "))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        if "style" in element.attrib:
            declarations = map(_without_font_family, element.attrib["style"].split(";"))
            element.set("style", ";".join(text for text in declarations if text))


def _rounded(match: re.Match[str]) -> str:
    return f"{round(float(match[0]), 1) + 0.0:.1f}".removesuffix(".0")  # + 0.0: never "-0"


def _without_font_family(declaration: str) -> str:
    """Return a declaration without the name of a font; `font: bold 10px 'DejaVu Sans'` keeps size and weight."""
    key, _, value = (part.strip() for part in declaration.partition(":"))
    if key == "font":
        size, bold = re.search(r"[\d.]+px", value), re.search(r"\b(bold|[6-9]00)\b", value)
        return ";".join([f"font-size:{size[0]}"] * bool(size) + ["font-weight:700"] * bool(bold)) if size else ""
    return f"{key}:{value}" if key and key != "font-family" else ""


def _name_identifiers(root: ET.Element, prefix: str) -> None:
    """Keep the identifiers that are referred to, with a prefix; turn those of series into `data-series`."""
    used = {
        name
        for element in root.iter()
        for key, value in element.attrib.items()
        for name in ([value[1:]] if key == "href" else _REFERENCE.findall(value))
    }
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name is not None and name.startswith(SERIES):
            element.set("data-series", name.removeprefix(SERIES).partition(":")[0])
        if name in used:
            element.set("id", f"{prefix}{name}")
        for key, value in element.attrib.items():
            if key == "href":
                element.set(key, f"#{prefix}{value[1:]}")
            elif key != "id":
                element.set(key, _REFERENCE.sub(rf"url(#{prefix}\1)", value))


def _unwrap_groups(parent: ET.Element) -> None:
    """Replace groups without attributes by what is in them."""
    children: list[ET.Element] = []
    for child in parent:
        _unwrap_groups(child)
        children += list(child) if child.tag == "g" and not child.attrib else [child]
    parent[:] = children


def _use_variables(root: ET.Element) -> None:
    """Replace the light colours by CSS variables."""
    for element in root.iter():
        if "style" in element.attrib:
            parts = (part.partition(":") for part in element.attrib["style"].split(";"))
            element.set("style", ";".join(f"{key}:{_variable(value)}" for key, _, value in parts))


def _variable(value: str) -> str:
    role = _ROLES.get(value)
    return value if role is None else f"var(--{role})"
