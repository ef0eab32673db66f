"""A small model that attacks are made on, and what is compared of it."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.repair import verify
from modelstore_support import digits_of, tiny_model

FIRST, SECOND, THIRD = (0, 1), (2,), (3,)  # digits of the learns


images = cache(digits_of)  # reading the digits takes longer than a learn


def learned(path: Path) -> Path:
    """Make a model of two learns, versions 1 and 2."""
    classifier = tiny_model(path)
    classifier.learn(*digits_of(FIRST))
    classifier.learn(*digits_of(SECOND))
    return path


def learn_third(path: Path) -> None:
    """Teach a model its third task."""
    ImageClassifier.open(path, precision="fp32").learn(*images(THIRD), epochs=1)


def answers(path: Path) -> list[str]:
    """Return the version in use and its predictions for a few images, to be compared to the bit."""
    classifier = ImageClassifier.open(path, precision="fp32")
    found = classifier.predict(images((0, 1, 2, 3), limit=3)[0])
    return [str(classifier.version), *(f"{answer.label} {answer.confidence!r}" for answer in found)]


def state_of(path: Path) -> tuple[list[str], list[str]]:
    """Return `answers` and what `verify` finds wrong."""
    return answers(path), verify(path)[1]


def copied(original: Path, path: Path) -> Path:
    """Copy a model or a run, in the place of what was there."""
    if path.exists():
        shutil.rmtree(path)
    return shutil.copytree(original, path, symlinks=True)
