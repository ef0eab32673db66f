"""Everything that parses bytes or text from outside, as functions of bytes that may end well or with one of our errors.

`test_fuzz.py` gives them what hypothesis finds, `fuzz.py` what atheris finds.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from attacks.archive_makers import idx, matlab, matrix, packed, tar
from attacks.images import originals
from itaml.cli.options import parse_list, parse_seeds, parse_split
from itaml.cli.predict import _grouping, _unknown
from itaml.cli.watch import view
from itaml.config import build, parse_overrides, parse_preset
from itaml.data.decode_memory import resolutions
from itaml.data.decoding import decode
from itaml.data.matlab import read_matlab
from itaml.data.pickles import read_pickle
from itaml.data.sources.cifar import CIFAR100, _from_tar
from itaml.data.sources.mnist import read_idx
from itaml.errors import ItamlError
from itaml.exchange.label_entries import read_entries
from itaml.exchange.label_files import labelled_files
from itaml.experiment.event_reader import follow_run
from itaml.experiment.result import Result
from itaml.experiment.run_config import resolve
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.models.backbones.from_file import open_file_backbone
from itaml.modelstore import exemplar_files
from itaml.modelstore.checksummed_json import add_checksum, pointer_from, verify_checksum
from itaml.modelstore.lock import _describe, _holder
from itaml.modelstore.manifest import manifest_from
from itaml.safe_files import read_json
from itaml.storage import dump_state, parse_state

Target = Callable[[bytes], object]


@contextlib.contextmanager
def file_of(data: bytes, name: str) -> Iterator[Path]:
    """Write bytes to a file inside the block."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


def on_file(name: str, read: Callable[[Path], object]) -> Target:
    """Return a target that reads a file."""

    def target(data: bytes) -> None:
        with file_of(data, name) as path:
            read(path)

    return target


def _watch(path: Path) -> None:
    reader, state = follow_run(path.parent)
    for event in reader.read():
        state.take(event)
    assert all(len(line) < 10**7 for line in view(state))
    assert math.isfinite(state.share)


def _set(data: bytes) -> None:
    resolve("digits", overrides=parse_overrides([data.decode("utf-8", "surrogateescape")]))


def _preset(data: bytes) -> None:
    build(ITAMLSettings, parse_preset(data, source="a preset", benchmark="digits"))


def _values(data: bytes) -> None:
    """Give a text to everything that reads a value of the command line."""
    text = data.decode("utf-8", "surrogateescape")
    for parse in (parse_list, parse_seeds, parse_split, _unknown):
        with contextlib.suppress(ItamlError):
            parse(text)
    _grouping(False, text, False)


def _lock(path: Path) -> None:
    assert "\n" not in _describe(_holder(path))


def _manifest(data: bytes) -> None:
    path = Path("model.json")
    manifest_from(path, verify_checksum(path, data, kind="model").body)


def _zip(path: Path) -> None:
    with labelled_files([path]) as found:
        assert len(found.paths) == len(found.labels)


TARGETS: dict[str, Target] = {
    "pickle": lambda data: read_pickle(data, source="a file"),
    "idx": on_file("x-idx1-ubyte", lambda path: read_idx(path, dimensions=1)),
    "idx-gz": on_file("x.gz", lambda path: read_idx(path, dimensions=3)),
    "matlab": on_file("x.mat", lambda path: read_matlab(path, ("X", "y"))),
    "tar": on_file("x.tar.gz", lambda path: _from_tar(path, [*CIFAR100.train, "train.bin"])),
    "image": on_file("x.png", lambda path: decode(str(path), size=8)),
    "jpeg-2000-header": resolutions,
    "json": on_file("config.json", read_json),
    "result": on_file("result.json", Result.load),
    "events": on_file("events.jsonl", _watch),
    "state": lambda data: parse_state(Path("x"), data, kind="library state"),
    "pointer": lambda data: pointer_from(Path("current.json"), data),
    "manifest": _manifest,
    "set": _set,
    "preset": _preset,
    "values": _values,
    "lock": on_file("lock", _lock),
    "label-csv": on_file("x.csv", read_entries),
    "label-json": on_file("x.json", read_entries),
    "label-xml": on_file("x.xml", read_entries),
    "label-zip": on_file("x.zip", _zip),
    "backbone-description": on_file("x.safetensors.json", lambda path: open_file_backbone(path.with_suffix(""))),
    "exemplar": lambda data: exemplar_files.decode(Path("x.webp"), data, (3, 8, 8)),
}


def check(name: str, data: bytes) -> None:
    """Give bytes to a target; whatever is raised must be ours, and say its piece in one line."""
    try:
        TARGETS[name](data)
    except ItamlError as error:
        if "\n" in str(error).strip() or len(str(error)) > 4000:
            raise AssertionError(f"not one sentence: {str(error)[:4000]}") from error


COCO = json.dumps(
    {
        "images": [{"id": 1, "file_name": "a.png"}],
        "annotations": [{"image_id": 1, "category_id": 1}],
        "categories": [{"id": 1, "name": "x"}],
    }
).encode()


def _archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def seeds(name: str) -> list[bytes]:
    """Return good inputs of a target, to be changed."""
    array = pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "fine_labels": [1]}, protocol=2)
    good: dict[str, list[bytes]] = {
        "pickle": [array],
        "idx": [idx((3,), b"abc")],
        "idx-gz": [gzip.compress(idx((1, 2, 2), b"abcd"))],
        "matlab": [matlab(matrix((2, 2), b"abcd"), packed(matrix((2,), b"ab", name=b"y")))],
        "tar": [tar([("train", b"0", b"x" * 100)])],
        "image": [data for _, data in originals()],
        "jpeg-2000-header": [dict(originals())["rgb.jp2"]],
        "state": [dump_state({"a": 1, "b": [None, "x"]}, kind="library state")],
        "pointer": [add_checksum("pointer", {"version": 1, "record": "0"})],
        "manifest": [add_checksum("model", {"version": 1, "options": {}})],
        "preset": [b'# best\nepochs = 1\nlr = 0.1\n[digits]\nmemory = 20\nmilestones = [1, 2]\nbackbone = "mlp"\n'],
        "values": [b"0,1,2", b"0.5", b"auto", b"folder"],
        "lock": [b'{"pid": 1, "host": "x", "since": "2026"}'],
        "label-csv": [b"path,label\na.png,x\n", b"a.png,x\n"],
        "label-json": [COCO, b'[{"id": 1, "data": {"image": "a.png"}, "annotations": [{"result": []}]}]'],
        "label-xml": [b'<annotations><image id="0" name="a.png"><tag label="x"/></image></annotations>'],
        "label-zip": [_archive({"l.json": COCO, "a.png": b""})],
        "backbone-description": [
            b'{"network": "efficientnet-lite0", "size": 224, "mean": [0, 0, 0], "std": [1, 1, 1]}'
        ],
        "exemplar": [exemplar_files.encode(torch.zeros(3, 8, 8, dtype=torch.uint8))],
        "set": [b"epochs=1", b"lr=0.1", b"seeds.init=3", b"backbone=mlp"],
    }
    return good.get(name, [b'{"format": 1}', b'{"event": "RunDone", "final": {}}\n'])
