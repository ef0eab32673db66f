"""Draw small photos of coloured shapes in front of noise, one folder per class, to try `itaml learn` on.

    python examples/make_photos.py photos

writes `photos/first/{circle,square}`, `photos/second/{triangle,stripes}` and `photos/new`, whose file names say what
they show.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIDE = 96
TASKS = {"first": ("circle", "square"), "second": ("triangle", "stripes")}
TRAIN, NEW = 8, 2  # photos of each class to learn from, and to predict


def draw(shape: str, generator: np.random.Generator) -> Image.Image:
    """Return a photo of a shape with a random colour, place and size."""
    background = generator.normal(generator.uniform(90, 160), 20, (SIDE, SIDE, 3)).clip(0, 255)
    image = Image.fromarray(background.astype(np.uint8))
    pen = ImageDraw.Draw(image)
    red, green, blue = (int(value) for value in generator.integers(0, 256, 3))
    size = int(generator.integers(40, 70))
    left, top = (int(value) for value in generator.integers(5, SIDE - size - 5, 2))
    box = (left, top, left + size, top + size)
    if shape == "circle":
        pen.ellipse(box, fill=(red, green, blue))
    elif shape == "square":
        pen.rectangle(box, fill=(red, green, blue))
    elif shape == "triangle":
        pen.polygon([(left, top + size), (left + size, top + size), (left + size // 2, top)], fill=(red, green, blue))
    else:
        for at in range(left, left + size, 12):
            pen.rectangle((at, top, at + 5, top + size), fill=(red, green, blue))
    return image


def main() -> None:
    """Write the photos."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    generator = np.random.default_rng(0)
    (folder / "new").mkdir(parents=True, exist_ok=True)
    for task, shapes in TASKS.items():
        for shape in shapes:
            (folder / task / shape).mkdir(parents=True, exist_ok=True)
            for number in range(TRAIN):
                draw(shape, generator).save(folder / task / shape / f"{number}.jpg")
            for number in range(NEW):
                draw(shape, generator).save(folder / "new" / f"{shape}-{number}.jpg")


if __name__ == "__main__":
    main()
