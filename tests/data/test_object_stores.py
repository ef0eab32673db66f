"""Images in an S3 bucket, through s3fs and a server of moto in this process: `pip install 'moto[server]' s3fs`."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from itaml.cli.main import _run
from process_groups import result_of

moto_server = pytest.importorskip("moto.server")
pytest.importorskip("s3fs")
boto3 = pytest.importorskip("boto3")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the packages' own
COLOURS = {"red": (250, 0, 0), "green": (0, 250, 0), "blue": (0, 0, 250), "yellow": (250, 250, 0)}
EACH = 10
RUN = ["--image-size", "8", "--split", "2,2", "--quiet"]
RUN += ["--set", "backbone=mlp", "--set", "epochs=1", "--set", "memory=8"]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Start a server without a bucket; fsspec finds it by the environment."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    try:
        yield boto3.client("s3")
    finally:
        server.stop()


def png(label: str, number: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8), tuple(max(0, value - 5 * number) for value in COLOURS[label])).save(out, "PNG")
    return out.getvalue()


def fill(s3: Any) -> None:
    """Write the same images as folders with a split, as an index file, and as shards."""
    s3.create_bucket(Bucket="bucket")
    archives = [io.BytesIO() for _ in range(2)]
    shards = [tarfile.open(fileobj=archive, mode="w") for archive in archives]  # noqa: SIM115 (closed below)
    lines = []
    for label in COLOURS:
        for number in range(EACH):
            part, data = "test" if number < 2 else "train", png(label, number)
            s3.put_object(Bucket="bucket", Key=f"photos/{part}/{label}/{number} ü.png", Body=data)
            lines.append(f"photos/{part}/{label}/{number} ü.png,{label},{part}")
            for ending, content in (("png", data), ("cls", label.encode())):
                member = tarfile.TarInfo(f"{label}-{number}.{ending}")
                member.size = len(content)
                shards[number % 2].addfile(member, io.BytesIO(content))
    s3.put_object(Bucket="bucket", Key="photos/", Body=b"")  # a "folder", as the console makes them
    s3.put_object(Bucket="bucket", Key="index.csv", Body="\n".join(lines).encode())
    for number, (shard, archive) in enumerate(zip(shards, archives, strict=True)):
        shard.close()
        s3.put_object(Bucket="bucket", Key=f"shards/{number}.tar", Body=archive.getvalue())


def test_folders_index_files_and_shards_of_a_bucket_are_read(
    s3: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(s3)
    for name, url in {"a": "photos", "b": "index.csv", "c": "shards/{0..1}.tar"}.items():
        assert _run(["run", f"folder:s3://bucket/{url}", *RUN, "--out", str(tmp_path / name)]) == 0
    assert result_of(tmp_path / "a")["final"] == result_of(tmp_path / "b")["final"]  # of one split
    assert len(result_of(tmp_path / "c")["tasks"]) == 2
    missing = {"nothing": "no labelled images", "shards/{1..2}.tar": "cannot read s3://bucket/shards/2.tar"}
    for url, reason in missing.items():
        assert _run(["run", f"folder:s3://bucket/{url}", *RUN, "--out", str(tmp_path / "d")]) == 1
        assert reason in capsys.readouterr().err
    assert _run(["run", "folder:s3://elsewhere/photos", *RUN, "--out", str(tmp_path / "d")]) == 1
    assert "cannot list s3://elsewhere/photos" in capsys.readouterr().err
