"""Labelled images from the exports of label tools, with every image found in one folder and nowhere else."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from itaml.data.decoding import MAX_FILE, extensions
from itaml.data.safe_reading import data_file
from itaml.errors import DataError, ItamlError
from itaml.exchange.label_entries import MAX_BYTES, LabelEntry, is_address, read_entries
from itaml.text import count

SUFFIXES = (".csv", ".json", ".xml", ".zip")
UPLOAD_PREFIX = re.compile(r"^[0-9a-f]{8}-")  # that Label Studio gives to the names of uploaded files
FOLDERS = ("", "images")  # where tools put images beside the file
MAX_UNPACKED = 20_000_000_000  # bytes of the images in an archive
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others take memory that the archive chooses


@dataclass(frozen=True)
class LabelledFiles:
    """Image files with a label each."""

    paths: tuple[str, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what was left out, in sentences


def is_label_file(path: Path) -> bool:
    """Say whether something is a file of labels by its name."""
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def read_label_file(path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> LabelledFiles:
    """Read a file of labels (see `label_entries` for the formats).

    Args:
        path: the file.
        images: the folder of the images; that of the file if not given. No image outside of it is read.

    Raises:
        DataError: the file cannot be read, an image is not there, or nothing is labelled; with the row or task.
    """
    file = Path(path)
    root = file.parent if images is None else Path(images)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder of images")
    entries = read_entries(file)
    single = [entry for entry in entries if len(entry.labels) == 1]
    notes = _notes(entries)
    if not single:
        raise DataError("; ".join([f"{file} has no image with a label", *notes]))
    found: list[str] = []
    missing: list[LabelEntry] = []
    for entry in single:
        place = find_image(entry, root, file)
        (missing.append(entry) if place is None else found.append(place))
    if missing:
        first = missing[0]
        more = f", and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError(
            f"{file}, {first.place}: there is no image {first.image!r} in {root}{more}; "
            "name the folder of the images with --images"
        )
    return LabelledFiles(tuple(found), tuple(entry.labels[0] for entry in single), notes)


def find_image(entry: LabelEntry, root: Path, file: Path) -> str | None:
    """Return the path of an entry's image inside `root`, None if it is not there.

    Raises:
        DataError: it is an address, or leads out of the folder.
    """
    if is_address(entry.image):
        raise DataError(
            f"{file}, {entry.place}: {entry.image} is an address; download the images, and give their folder"
        )
    if "\0" in entry.image:
        raise DataError(f"{file}, {entry.place}: the path holds a zero byte")
    base = os.path.realpath(root)
    name = entry.image.replace("\\", "/")
    last = name.rsplit("/", 1)[-1]
    guesses = [os.path.join(folder, name) for folder in FOLDERS]
    if name.startswith("/data/upload/"):
        guesses = [os.path.join(folder, one) for folder in FOLDERS for one in (last, UPLOAD_PREFIX.sub("", last))]
    for guess in guesses:
        whole = os.path.realpath(os.path.join(base, guess))
        if not Path(whole).is_relative_to(base):
            raise DataError(f"{file}, {entry.place}: {entry.image!r} is not in the folder {root}")
        if os.path.isfile(whole):
            return os.path.join(root, guess)
    return None


@contextmanager
def labelled_files(paths: Sequence[Path], images: Path | None = None) -> Iterator[LabelledFiles]:
    """Read files of labels inside the block; archives are unpacked to a folder that is gone afterwards.

    Raises:
        DataError: see `read_label_file`.
    """
    with tempfile.TemporaryDirectory() as folder:
        parts = []
        for number, path in enumerate(paths):
            if path.suffix.lower() == ".zip":
                parts.append(read_label_file(_unpacked(path, Path(folder) / str(number))))
            else:
                parts.append(read_label_file(path, images=images))
        yield LabelledFiles(
            tuple(file for part in parts for file in part.paths),
            tuple(label for part in parts for label in part.labels),
            tuple(note for part in parts for note in part.notes),
        )


def _unpacked(path: Path, folder: Path) -> Path:
    """Unpack the images and the one file of labels of an archive; return that file."""
    folder.mkdir()
    try:
        with data_file(path, limit=MAX_UNPACKED) as file, zipfile.ZipFile(file) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            labels = [member for member in members if Path(member.filename).suffix.lower() in (".xml", ".json", ".csv")]
            if len(labels) != 1:
                raise DataError(f"{path} has {len(labels)} files of labels, not one; unpack it and choose one")
            wanted = [member for member in members if member.filename.lower().endswith(extensions())]
            if sum(member.file_size for member in wanted) > MAX_UNPACKED or labels[0].file_size > MAX_BYTES:
                raise DataError(f"{path} has more than {MAX_UNPACKED // 10**9} GB of images; unpack it yourself")
            for member in wanted:
                _extract(archive, member, folder)
            unpacked = _extract(archive, labels[0], folder)
    except ItamlError:
        raise
    except Exception as error:  # on hostile bytes zipfile and its decompressors raise nearly anything
        raise DataError(f"{path} cannot be unpacked: {' '.join(str(error).split())[:200]}") from error
    if "images" in unpacked.relative_to(folder).parts[:-1] or unpacked.parent == folder:
        return unpacked
    moved = folder / unpacked.name  # a file in a folder of its own, such as COCO's `annotations`
    unpacked.replace(moved)
    return moved


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> Path:
    """Write a member inside the folder, and return where; its size is bounded by what its header says."""
    parts = [part for part in member.filename.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or member.filename.startswith(("/", "\\")) or ":" in parts[0]:
        raise DataError(f"{member.filename!r:.100} is not a name that an archive may hold")
    if member.file_size > MAX_FILE:
        raise DataError(f"{member.filename!r:.100} has more than {MAX_FILE} bytes")
    if member.compress_type not in METHODS:
        raise DataError(f"{member.filename!r:.100} is compressed by another method than deflate")
    place = folder.joinpath(*parts)
    place.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, place.open("xb") as file:
        shutil.copyfileobj(packed, file)
    return place


def _notes(entries: Sequence[LabelEntry]) -> tuple[str, ...]:
    notes = []
    several = [entry for entry in entries if len(entry.labels) > 1]
    without = [entry for entry in entries if not entry.labels]
    if several:
        first = several[0]
        said = f"{first.place}: {', '.join(first.labels)}"
        notes.append(f"{count(len(several), 'image')} with more than one label had to be left out ({said})")
    if without:
        notes.append(f"{count(len(without), 'image')} without a label had to be left out ({without[0].place})")
    return tuple(notes)
