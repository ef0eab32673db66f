"""Benchmarks of our own, smaller than the data sets they are made of, on generated files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from itaml.config import presets
from itaml.data.benchmarks import LoadOptions, benchmark
from itaml.data.halving import halved
from itaml.data.images import ImageSet
from itaml.data.sources.mnist import CLOTHES
from itaml.data.stream import Dataset
from itaml.errors import DataError
from itaml.experiment.run_config import resolve
from itaml.experiment.runner import run_experiment
from itaml.learners import LEARNERS

RNG = np.random.default_rng(0)
SHORT = {"epochs": 1, "batch_size": 16, "memory": 20}


def write_svhn(folder: Path, *, per_class: int = 2) -> np.ndarray:
    folder.mkdir(parents=True)
    labels = np.tile(np.arange(1, 11, dtype=np.uint8), per_class)
    images = RNG.integers(0, 256, (32, 32, 3, len(labels)), dtype=np.uint8)
    for part in ("train", "test"):
        import_module("scipy.io").savemat(str(folder / f"{part}_32x32.mat"), {"X": images, "y": labels[:, None]})
    return images.transpose(3, 2, 0, 1)


def write_idx(folder: Path, *, per_class: int) -> None:
    folder.mkdir(parents=True)
    labels = np.tile(np.arange(10, dtype=np.uint8), per_class)
    images = RNG.integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    for part in ("train", "t10k"):
        for name, values in (("images-idx3", images), ("labels-idx1", labels)):
            sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
            (folder / f"{part}-{name}-ubyte").write_bytes(bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes())


def test_halving_takes_the_mean_of_four_pixels_half_to_even() -> None:
    images = torch.tensor([[0, 1, 10, 10], [1, 0, 10, 12], [255, 255, 3, 4], [255, 255, 3, 4]], dtype=torch.uint8)
    one = ImageSet.from_arrays(images[None, None], [0])
    found = halved(Dataset("a", ("x",), one, one))
    assert found.name == "a-2px"
    assert found.train.load()[0].tolist() == [[[[0, 10], [255, 4]]]]  # 0.5 to 0, 10.5 to 10, 3.5 to 4


def test_svhn_10k_is_a_data_set_of_another_name_than_svhn(tmp_path: Path) -> None:
    images = write_svhn(tmp_path / "svhn-10k")
    options = LoadOptions(root=tmp_path)
    dataset = benchmark("svhn10k-5").load(options)
    assert dataset.name == "svhn-10k"
    assert np.array_equal(dataset.test.load()[0].numpy(), images)
    small = benchmark("svhn10k-5-16px").load(options)
    assert (small.name, small.train.shape) == ("svhn-10k-16px", (3, 16, 16))
    with pytest.raises(DataError, match="svhn is not in"):
        benchmark("svhn-5").load(options)


def test_cifar100_in_16_pixels_is_its_mean_over_2_x_2(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-binary").mkdir()
    records = RNG.integers(0, 100, (20, 3074), dtype=np.uint8)
    for part in ("train", "test"):
        (tmp_path / f"cifar-100-binary/{part}.bin").write_bytes(records.tobytes())
    dataset = benchmark("cifar100-10-16px").load(LoadOptions(root=tmp_path))
    expected = records[:, 2:].reshape(20, 3, 16, 2, 16, 2).mean(axis=(3, 5)).round()
    assert np.array_equal(dataset.train.load()[0].numpy(), expected)
    assert dataset.train.labels.tolist() == records[:, 1].tolist()


@pytest.mark.parametrize("name", ["svhn10k-5", "svhn10k-5-16px", "cifar100-10-16px"])
@pytest.mark.parametrize("method", LEARNERS.names())
def test_every_preset_has_settings_for_the_small_benchmarks(method: str, name: str) -> None:
    for preset in presets(method):
        settings = resolve(name, method=method, preset=preset).settings
        assert settings["memory"] in (0, benchmark(name).memory)
        if LEARNERS.load(method).traits.trains_gradients:
            assert settings["backbone"] == benchmark(name).model


def test_a_small_benchmark_takes_the_settings_of_its_family() -> None:
    settings = resolve("cifar100-10-16px", method="bic").settings
    assert {**settings, "backbone": ""} == {**resolve("cifar100-10", method="bic").settings, "backbone": ""}


def test_svhn_10k_runs_through(tmp_path: Path) -> None:
    write_svhn(tmp_path / "svhn-10k")
    config = resolve("svhn10k-5-16px", method="itaml", overrides=SHORT, split=(5, 5))
    result = run_experiment(config, tmp_path / "run", data_root=tmp_path)
    assert [len(row.classes) for row in result.tasks] == [5, 5]


def test_the_paper_runs_on_fashion_mnist_files(tmp_path: Path) -> None:
    write_idx(tmp_path / "FashionMNIST/raw", per_class=3)
    config = resolve("fashion-mnist-5", preset="paper", overrides={**SHORT, "milestones": []})
    result = run_experiment(config, tmp_path / "run", data_root=tmp_path)
    assert [list(row.classes) for row in result.tasks] == [list(CLOTHES[i : i + 2]) for i in range(0, 10, 2)]
