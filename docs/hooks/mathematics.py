"""LaTeX in Markdown (GitHub's notation) to MathML, which browsers show without a script."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^ *\2 *$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$`(.+?)`\$", re.DOTALL)
MARK = "mathematics-{}-placeholder"


class Mathematics:
    """Formulas of the pages, by number."""

    def __init__(self) -> None:
        self._formulas: list[str] = []

    def take_out(self, markdown: str) -> str:
        """Replace each formula outside of code by a word that Markdown leaves alone."""
        parts, end = [], 0
        for fence in FENCE.finditer(markdown):
            indent, _, language, text = fence.groups()
            parts += [self._inline(markdown[end : fence.start()]), indent]
            is_math = language.strip() == "math"
            parts.append(self._keep(text, "block") if is_math else fence.group().removeprefix(indent))
            end = fence.end()
        return "".join([*parts, self._inline(markdown[end:])])

    def put_back(self, html: str) -> str:
        """Replace the words by MathML."""
        return re.sub(MARK.format(r"(\d+)"), lambda found: self._formulas[int(found[1])], html)

    def _inline(self, markdown: str) -> str:
        return INLINE.sub(lambda found: self._keep(found[1], "inline"), markdown)

    def _keep(self, latex: str, display: str) -> str:
        plain = " ".join(latex.split()).replace(r"\arg", r"\operatorname{arg}")  # which the converter does not know
        self._formulas.append(convert(plain, display=display))
        return MARK.format(len(self._formulas) - 1)
