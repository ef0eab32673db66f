"""LaTeX in Markdown (GitHub's notation) to MathML, which browsers show without a script."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

BLOCK = re.compile(r"^( *)```math\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$`(.+?)`\$", re.DOTALL)
CODE = re.compile(r"^ *(`{3,})(?!math).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
MARK = "mathematics-{}-placeholder"


class Mathematics:
    """Formulas of the pages, by number."""

    def __init__(self) -> None:
        self._formulas: list[str] = []

    def take_out(self, markdown: str) -> str:
        """Replace each formula outside of code by a word that Markdown leaves alone."""
        parts, end = [], 0
        for code in CODE.finditer(markdown):
            parts += [self._replaced(markdown[end : code.start()]), code.group()]
            end = code.end()
        return "".join([*parts, self._replaced(markdown[end:])])

    def put_back(self, html: str) -> str:
        """Replace the words by MathML."""
        return re.sub(MARK.format(r"(\d+)"), lambda found: self._formulas[int(found[1])], html)

    def _replaced(self, markdown: str) -> str:
        markdown = BLOCK.sub(lambda found: f"{found[1]}{self._keep(found[2], 'block')}", markdown)
        return INLINE.sub(lambda found: self._keep(found[1], "inline"), markdown)

    def _keep(self, latex: str, display: str) -> str:
        self._formulas.append(convert(" ".join(latex.split()), display=display))
        return MARK.format(len(self._formulas) - 1)
