"""Two machines with caches of their own: each remote file and shard is fetched by one of them, and by no other."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
import torch
from PIL import Image

from itaml import distributed
from itaml.cli.main import _run
from itaml.data.images import ArrayPixels, ImageSet, join
from itaml.data.ownership import owner_share, owners, read_together
from process_groups import finish_group, same_result, start_machines

pytest.importorskip("fsspec")
COLOURS = ((250, 0, 0), (0, 250, 0), (0, 0, 250), (250, 250, 0))
SHARDS, EACH = 4, 10
MLP = ["--set", "backbone=mlp", "--set", "epochs=2", "--set", "batch_size=8"]
MEMORY = ["--set", "memory=12"]


def png(label: int, number: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8), tuple(max(0, value - 5 * number) for value in COLOURS[label])).save(out, "PNG")
    return out.getvalue()


def write_shards(folder: Path) -> tuple[str, set[str]]:
    """Write images of all classes into every shard; return the URL of all shards, and those of each."""
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for number in range(EACH * shard // SHARDS, EACH * (shard + 1) // SHARDS):
                for label in range(len(COLOURS)):
                    for ending, data in (("png", png(label, number)), ("cls", str(label).encode())):
                        member = tarfile.TarInfo(f"{label}-{number}.{ending}")
                        member.size = len(data)
                        archive.addfile(member, io.BytesIO(data))
    return f"{folder.as_uri()}/{{0..{SHARDS - 1}}}.tar", {f"{folder.as_uri()}/{n}.tar" for n in range(SHARDS)}


def write_folders(folder: Path) -> tuple[str, set[str]]:
    for label in range(len(COLOURS)):
        (folder / str(label)).mkdir()
        for number in range(EACH):
            (folder / str(label) / f"{number}.png").write_bytes(png(label, number))
    return folder.as_uri(), {f"{folder.as_uri()}/{c}/{n}.png" for c in range(len(COLOURS)) for n in range(EACH)}


def fetched(cache: Path, urls: set[str]) -> set[str]:
    """Return which URLs a machine's cache has."""
    names = {path.name for path in (cache / "itaml" / "remote" / "urls").iterdir()}
    known = {hashlib.sha256(url.encode()).hexdigest(): url for url in urls}
    assert names <= known.keys()
    return {known[name] for name in names}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "method"),
    [
        (write_shards, [*MLP, *MEMORY]),
        (write_folders, [*MLP, *MEMORY, "--set", "selection=herding"]),
        (write_shards, [*MLP, "--method", "ewc"]),
        (write_shards, [*MEMORY, "--method", "lda", "--set", "backbone=pixels"]),
    ],
)
def test_each_machine_fetches_its_own_files_and_the_result_is_that_of_one(
    write: object, method: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    url, urls = write(tmp_path / "data")  # type: ignore[operator]
    words = ["run", f"folder:{url}", "--image-size", "8", "--split", "2,2", *method, "--quiet"]
    caches = [tmp_path / f"cache{rank}" for rank in range(2)]
    ended = finish_group(start_machines(["-m", "itaml", *words, "--out", str(tmp_path / "two")], caches))
    assert [process.returncode for process in ended] == [0, 0], ended
    first, second = (fetched(cache, urls) for cache in caches)
    assert not first & second
    assert first | second == urls
    assert len(first) == len(second)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "alone"))
    assert _run([*words, "--out", str(tmp_path / "one")]) == 0
    assert same_result(tmp_path / "one", tmp_path / "two")


class _Remote:
    """A store of images that belong to processes by their number."""

    index = type("Index", (), {"home": staticmethod(lambda rows: rows)})
    shape = (1, 1, 1)

    def __init__(self, asked: list[int]) -> None:
        self.asked = asked

    def __len__(self) -> int:
        return 6

    def read(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.asked += rows.tolist()
        kept = (rows != 3).nonzero().flatten()  # the fourth is unreadable
        return rows[kept].to(torch.uint8).view(-1, 1, 1, 1), kept


def test_images_are_read_by_their_owners_and_exemplars_fill_the_smaller_share(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    remote = ImageSet(_Remote(asked), torch.arange(10, 16), torch.arange(6))
    assert owners(remote) is None  # one process reads everything
    monkeypatch.setattr(distributed, "size", lambda: 2)
    kept = ImageSet.from_arrays(torch.full((2, 1, 1, 1), 9, dtype=torch.uint8), [1, 1])
    assert isinstance(kept.pixels, ArrayPixels)
    assert owners(kept) is None
    found = owners(join([remote, kept]))
    assert found is not None
    assert found.tolist() == [0, 1, 0, 1, 0, 1, -1, -1]
    share = owner_share(found[torch.tensor([0, 2, 4, 1, 6, 7])])
    assert [part.tolist() for part in share.parts] == [[0, 1, 2], [3, 4, 5]]
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    other = ((torch.tensor([4, 0], dtype=torch.uint8).view(-1, 1, 1, 1), torch.tensor([4, 0])), None)
    monkeypatch.setattr(distributed, "gather_objects", lambda mine: [other, mine])
    pixels, labels = read_together(remote, torch.tensor([5, 4, 3, 0]))
    assert pixels.flatten().tolist() == [5, 4, 0]
    assert labels.tolist() == [15, 14, 10]
    assert sorted(asked) == [3, 5]
