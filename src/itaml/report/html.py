"""HTML that escapes by itself: text is escaped, only what `tag` made is taken as it is."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Markup
VOID = ("img", "meta")  # elements without an end


def text(content: Content) -> Markup:
    """Return content as HTML: escaped, unless it is HTML."""
    return content if isinstance(content, Markup) else Markup(escape(content))


def tag(name: str, /, *content: Content, **attributes: str) -> Markup:
    """Return an element; an underscore at the end of an attribute is dropped, one inside is a dash."""
    words = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{words}>")
    return Markup(f"<{name}{words}>{''.join(map(text, content))}</{name}>")


def table(rows: list[list[Content]], **attributes: str) -> Markup:
    """Return a table that scrolls sideways when it is too wide; the first row and the first cells are heads."""
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in rows[0])))
    lines = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows[1:])
    return tag("div", tag("table", head, tag("tbody", *lines), **attributes), class_="scroll", tabindex="0")
