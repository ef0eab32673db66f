"""ImageNet (ILSVRC 2012; Russakovsky et al., 2015): folders train/ and val/ with one folder per WordNet id.

ImageNet-100 is 100 of the 1,000 classes, and there is more than one choice of them. A file `imagenet100.txt` in the
data root or in the folder of the data names them, a WordNet id per line, in the order in which they arrive. Without it,
a folder with exactly 100 classes is taken whole; of all 1,000 classes the commonly used choice is made: the first 100
of the sorted ids shuffled with numpy's seed 1993. Sources: https://github.com/LAMDA-CL/PyCIL/issues/43 names the rule;
the ids listed in https://github.com/G-U-N/ECCV22-FOSTER (imagenet-sub) agree with it. Papers that follow PODNet use
another list (https://github.com/arthurdouillard/incremental_learning.pytorch/issues/17).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from itaml.data.benchmarks import LoadOptions
from itaml.data.layouts import layout
from itaml.data.safe_reading import read_names
from itaml.data.sources.folder import split_folders
from itaml.data.sources.tree import ClassFolder, read_tree, readable_names
from itaml.data.stream import Dataset
from itaml.errors import DataError

SIZE = 224
SEED = 1993
LIST = "imagenet100.txt"
WORDS = ("words.txt", "synset_words.txt", "LOC_synset_mapping.txt")


def load_1k(options: LoadOptions) -> Dataset:
    """Index ImageNet, classes in the order of their ids; images are decoded when they are used.

    Raises:
        DataError: it is not there, or has no images.
    """
    train, test = layout("imagenet-1k").require(options.root)
    return _read("imagenet-1k", split_folders(train, test), options)


def load_100(options: LoadOptions) -> Dataset:
    """Index ImageNet-100 (see above for which classes these are).

    Raises:
        DataError: it is not there, the list of classes does not fit, or there is no rule to choose 100 classes.
    """
    train, test = layout("imagenet-100").require(options.root)
    classes = split_folders(train, test)
    by_id = {entry.name: entry for entry in classes}
    listed = next((path for path in (options.root / LIST, train.parent / LIST) if path.is_file()), None)
    if listed is not None:
        return _read("imagenet-100", _named(listed, by_id), options)
    if len(classes) == 100:
        return _read("imagenet-100", classes, options)
    if len(classes) != 1000:
        raise DataError(
            f"{train} has {len(classes)} classes, not 1000 or 100: name the wanted ones in {options.root / LIST}"
        )
    return _read("imagenet-100", [by_id[wnid] for wnid in seed_1993(sorted(by_id))], options)


def seed_1993(wnids: Sequence[str]) -> list[str]:
    """Return the commonly used 100 of the 1,000 sorted ids, in their order of arrival."""
    return [wnids[position] for position in np.random.RandomState(SEED).permutation(len(wnids))[:100]]


def _named(path: Path, by_id: dict[str, ClassFolder]) -> list[ClassFolder]:
    lines = (line.split("#")[0].split() for line in read_names(path))
    wnids = [words[0] for words in lines if words]
    unknown = [wnid for wnid in wnids if wnid not in by_id]
    if unknown:
        raise DataError(f"{path} names {unknown[0]}, of which there are no training images")
    if not wnids or len(set(wnids)) < len(wnids):
        raise DataError(f"{path} names no class, or one of them twice")
    return [by_id[wnid] for wnid in wnids]


def _read(name: str, classes: Sequence[ClassFolder], options: LoadOptions) -> Dataset:
    folder = classes[0].train.parent.parent
    words = next((folder / file for file in WORDS if (folder / file).is_file()), folder / WORDS[0])
    names = readable_names([entry.name for entry in classes], words)
    named = [replace(entry, name=word) for entry, word in zip(classes, names, strict=True)]
    return read_tree(name, named, options, size=SIZE)
