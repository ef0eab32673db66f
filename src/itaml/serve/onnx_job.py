"""The exporting process: writes a model as an ONNX file, with the lowest priority.

usage: python -m itaml.serve.onnx_job MODEL FILE

It prints a sentence if that is not possible, and ends with code 3 if the extra is missing or the method cannot do it.
"""

from __future__ import annotations

import logging
import os
import sys

from itaml.errors import ItamlError, MissingExtraError, SettingsError
from itaml.modelstore.image_classifier import ImageClassifier

NOT_POSSIBLE = 3
NICE = 19


def main(arguments: list[str]) -> int:
    """Export a model."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    logging.getLogger("itaml").addHandler(logging.NullHandler())
    model, file = arguments
    try:
        from itaml.exchange.onnx_export import export_onnx  # noqa: PLC0415 (after the priority is set)

        export_onnx(ImageClassifier.open(model, threads=1), file)
    except (MissingExtraError, SettingsError) as error:
        return _said(error, NOT_POSSIBLE)
    except ItamlError as error:
        return _said(error, 1)
    return 0


def _said(error: ItamlError, code: int) -> int:
    sys.stdout.write(" ".join(str(error).split())[:1000])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
