"""Every code block of README and docs runs, or at least has arguments that exist."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from e2e.code_blocks import ROOT, Block, blocks, check_command, commands, documents, run_document
from itaml import ImageClassifier

SEEN = [path.relative_to(ROOT).as_posix() for path in documents()]
FAST = {
    "README.md",
    "docs/data.md",
    "docs/itaml.md",
    "docs/tutorials/own-backbone-and-data.md",
    "docs/tutorials/write-a-method.md",
}
WITH_MODEL = ("docs/how-to/migrate.md", "docs/exchange.md")  # speak of a model called pets


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in SEEN])
def test_blocks_of_the_document_run(name: str, tmp_path: Path) -> None:
    prepare(name, tmp_path)
    done = run_document(ROOT / name, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_commands_of_all_blocks_exist() -> None:
    shell = [block for name in SEEN for block in blocks(ROOT / name) if block.language != "python"]
    assert any(block.reason for block in shell)
    for block in shell:
        for arguments in commands(block.text):
            check_command(arguments)


def test_blocks_that_are_run_install_nothing_and_need_no_other_machine() -> None:
    run = [(name, block.text) for name in SEEN for block in blocks(ROOT / name) if not block.reason]
    for name, text in run:
        assert not re.search(r"pip install|ray start|(?:s3|gs)://|sudo |docker ", text), f"{name}: {text}"


def test_a_wrong_option_in_a_block_is_found() -> None:
    block = Block("sh", "itaml run digits --no-such-option\n", "never run")
    with pytest.raises(Exception, match="No such option"):
        check_command(next(commands(block.text)))


def prepare(name: str, folder: Path) -> None:
    """Write the images that a document speaks of."""
    if name in ("docs/model-store.md", *WITH_MODEL):
        for part, names in {"photos": ("cat", "dog"), "more": ("owl",)}.items():
            for number, label in enumerate(names):
                write_images(folder / part / label, seed=len(part) + number)
        Image.new("RGB", (16, 16), (200, 20, 20)).save(folder / "new.png")
    if name in WITH_MODEL:
        write_images(folder / "new", seed=1, suffix=".jpg")
        ImageClassifier.create(folder / "pets", epochs=1).learn(folder / "photos")


def write_images(folder: Path, seed: int, suffix: str = ".png") -> None:
    """Write ten small images of one colour with noise."""
    rng = np.random.default_rng(seed)
    colour = rng.integers(40, 210, 3)
    folder.mkdir(parents=True)
    for number in range(10):
        pixels = np.clip(rng.normal(colour, 15, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}{suffix}")
