"""Zip files: what they may hold, and what they may cost."""

from __future__ import annotations

import contextlib
import io
import random
import zipfile
from pathlib import Path

import pytest

from itaml.serve.api_errors import ApiError
from itaml.serve.service_options import Limits
from itaml.serve.staging import OpenFile
from itaml.serve.zip_archive import read_archive


def read(tmp_path: Path, names: dict[str, bytes], *, limits: Limits | None = None) -> list[tuple[str, str, int]]:
    """Return label, name and size of each image of an archive."""
    path = tmp_path / "archive"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in names.items():
            archive.writestr(name, data)
    return unpack(tmp_path, path, limits)


def unpack(tmp_path: Path, path: Path, limits: Limits | None = None) -> list[tuple[str, str, int]]:
    found = read_archive(
        path, lambda number, name: OpenFile.create(name, tmp_path / f"{number:06d}"), limits or Limits()
    )
    return [(image.label, image.name, image.size) for image in found]


def test_folders_are_classes(tmp_path: Path) -> None:
    names = {"cat/1.jpg": b"a", "dog/deep/er/2.jpg": b"bb", "cat/.hidden": b"", "__MACOSX/cat/._1.jpg": b""}
    assert read(tmp_path, names) == [("cat", "1.jpg", 1), ("dog", "2.jpg", 2)]


def test_a_folder_around_all_classes_is_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, {"my/photos/cat/1.jpg": b"a", "my/photos/dog/2.jpg": b"b"})[1][0] == "dog"
    for number in (0, 1):
        (tmp_path / f"00000{number}").unlink()
    assert read(tmp_path, {"photos/cat/1.jpg": b"a", "photos/cat/2.jpg": b"b"})[0][0] == "cat"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"1.jpg": b"a"}, "in no folder"),
        ({"../cat/1.jpg": b"a"}, "not a name"),
        ({"/etc/cat/1.jpg": b"a"}, "not a name"),
        ({"cat\\..\\1.jpg": b"a"}, "not a name"),
        ({"cat/.DS_Store": b""}, "no files"),
        ({"cat/1.jpg": bytes(2 << 20)}, "compressed by more"),
        ({"cat/1.jpg": b"a" * 600, "cat/2.jpg": b"b" * 600}, "more than the limit of"),
        ({f"cat/{number}.jpg": b"" for number in range(6)}, "limit of 5 files"),
    ],
)
def test_hostile_archives_are_refused(tmp_path: Path, names: dict[str, bytes], message: str) -> None:
    limits = Limits(upload_images=5, upload_bytes=1000 if "2.jpg" in str(names) else 10 << 20)
    with pytest.raises(ApiError, match=message):
        read(tmp_path, names, limits=limits)
    assert {path.name for path in tmp_path.iterdir()} <= {"archive", *(f"{n:06d}" for n in range(6))}


def test_what_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"not a zip", b"PK\x03\x04" + bytes(100)):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(ApiError, match="cannot be read"):
            unpack(tmp_path, tmp_path / "bad")


def test_a_size_that_is_a_lie_is_found(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cat/1.jpg", bytes(range(256)) * 40)
    data = bytearray(buffer.getvalue())
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.find(mark) + place
        data[at : at + 4] = (10).to_bytes(4, "little")
    (tmp_path / "lie").write_bytes(data)
    with pytest.raises(ApiError, match="cannot be read"):
        unpack(tmp_path, tmp_path / "lie", Limits(upload_bytes=1000))


def test_a_name_of_no_letters_and_a_place_before_the_start_are_refused(tmp_path: Path) -> None:
    """zipfile raises IndexError for the one and OSError for the other."""

    def home(number: int) -> Path:
        (folder := tmp_path / f"home {number}").mkdir()
        return folder

    read(tmp_path, {"cat/1.jpg": b"a", "cat/2.jpg": b"b"})
    data = (tmp_path / "archive").read_bytes()
    central, path = data.index(b"PK\1\2"), tmp_path / "damaged"
    path.write_bytes(data[: central + 28] + b"\0\0" + data[central + 30 :])  # the length of the first name
    with pytest.raises(ApiError, match="cannot be read"):
        unpack(home(0), path)
    for offset in (b"\xff\xff\xff\xff", b"\xf0\xff\xff\x7f"):  # of the local header, and of the central directory
        for place in (central + 42, data.index(b"PK\5\6") + 16):
            path.write_bytes(data[:place] + offset + data[place + 4 :])
            with pytest.raises(ApiError, match="cannot be read"):
                unpack(home(place + offset[0]), path)


def test_damaged_archives_are_refused_or_read(tmp_path: Path) -> None:
    read(tmp_path, {"cat/1.jpg": b"a" * 50, "dog/2.jpg": b"b"})
    data, draw, path = (tmp_path / "archive").read_bytes(), random.Random(0), tmp_path / "damaged"
    for trial in range(500):
        damaged = bytearray(data)
        for _ in range(draw.choice((1, 2, 6))):
            damaged[draw.randrange(len(damaged))] = draw.choice((0, 1, 127, 255, draw.randrange(256)))
        path.write_bytes(damaged[: draw.choice((len(damaged), len(damaged), draw.randrange(len(damaged))))])
        (home := tmp_path / str(trial)).mkdir()
        with contextlib.suppress(ApiError):
            unpack(home, path)
