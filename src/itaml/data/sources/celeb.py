"""Faces, one folder per identity: the layout that people keep MS-Celeb-1M (Guo et al., 2016) in.

MS-Celeb-1M was withdrawn by its publisher in 2019 and is not offered here; any folder of faces in this layout serves.
If there are more than 10,000 identities, the 10,000 first by name are used. A share of each is held out for testing,
always the same.
"""

from __future__ import annotations

from itaml.data.benchmarks import LoadOptions
from itaml.data.layouts import layout
from itaml.data.sources.tree import ClassFolder, read_tree, sub_folders
from itaml.data.stream import Dataset
from itaml.errors import DataError

SIZE = 112  # the usual side of aligned faces
IDENTITIES = 10_000


def load(options: LoadOptions) -> Dataset:
    """Index the faces under the data root; they are decoded when they are used.

    Raises:
        DataError: there is no such folder, or no images in it.
    """
    (root,) = layout("celeb-10k").require(options.root)
    names = sub_folders(root)[:IDENTITIES]
    if not names:
        raise DataError(f"{root} has no folders: put the images of each person into a folder of their own")
    return read_tree("celeb-10k", [ClassFolder(name, root / name) for name in names], options, size=SIZE)
