"""LDA, RanPAC and NCM as learners, and every method on frozen features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from itaml.config import Compute, Seeds, build
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.errors import CheckpointError, DataError, SettingsError
from itaml.inference.temperature import fit_temperature
from itaml.learners import LEARNERS
from itaml.learners.components.feature_cache import FeatureCache
from itaml.learners.frozen import FrozenLearner
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.models.backbones.module import module_backbone
from itaml.models.backbones.spec import Preprocessing
from itaml.models.classifier import Classifier
from itaml.models.features import FeatureExtractor
from itaml.testing import SHAPE, check_learner, tiny_tasks
from support import same_bits, synthetic_stream

CPU = Compute(device="cpu", precision="fp32")
EXACT = ("lda", "ranpac", "ncm")


def learner_of(name: str, *, shape: Any = SHAPE, **settings: Any) -> Any:
    kind = LEARNERS.load(name)
    values = {"memory": 60} | ({"width": 40, "penalty": 1.0} if name == "ranpac" else {}) | settings
    return kind.from_settings(build(kind.Settings, values), shape=shape, seeds=Seeds.of(0), compute=CPU)


class _Mean(nn.Module):
    """Features of an image: the mean of each channel and of each half."""

    def forward(self, images: Tensor) -> Tensor:
        top, bottom = images.chunk(2, dim=2)
        return torch.cat([images.mean((2, 3)), top.mean((2, 3)), bottom.mean((2, 3)), images.amax((2, 3))], dim=1)


def extractor(*, flip: bool = True) -> FeatureExtractor:
    preprocessing = Preprocessing(size=6, mean=(0.5,), std=(0.25,))
    return FeatureExtractor(module_backbone(_Mean(), preprocessing), flip=flip, transform="sqrt")


def frozen(cache: FeatureCache | None = None, **settings: Any) -> FrozenLearner:
    features = extractor()
    chosen = ITAMLSettings(**{"epochs": 3, "batch_size": 8, "lr": 0.1, "memory": 60, "horizon": 3} | settings)
    torch.manual_seed(0)
    model = Classifier(nn.Flatten(), shape=(features.features, 1, 1))
    inner = GradientLearner(ITAML, model, settings=chosen, seeds=Seeds.of(0), compute=CPU)
    return FrozenLearner(inner, features, shape=SHAPE, cache=cache)


@pytest.mark.parametrize("name", EXACT)
def test_exact_learners_keep_the_contract(name: str) -> None:
    check_learner(lambda: learner_of(name))


@pytest.mark.parametrize("name", EXACT)
def test_the_order_of_arrival_does_not_matter(name: str) -> None:
    """The same classes in another order and in other tasks: each sample alone gets the same probabilities."""
    tasks, tests, _ = tiny_tasks()
    images = torch.cat([part.load()[0] for part in tests])
    alone = torch.arange(len(images))
    found = []
    for order in ((0, 1, 2), (2, 0, 1)):
        learner = learner_of(name, memory=200)
        for index, number in enumerate(order):
            learner.learn(Task(index, tasks[number].classes, tasks[number].train))
        prediction = learner.predict(images, alone)
        columns = torch.tensor([prediction.columns.index(label) for label in range(5)])
        found.append(prediction.probabilities[:, columns])
    torch.testing.assert_close(found[0], found[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", EXACT)
def test_a_sample_alone_gets_the_most_probable_of_all_classes(name: str) -> None:
    stream = synthetic_stream((2, 3, 1), train=30, test=20, noise=160)
    learner = learner_of(name, shape=(1, 4, 4))
    for task in stream:
        learner.learn(task)
    images = stream.dataset.test.load()[0]
    scores = learner.class_scores(images)
    expected = torch.tensor(learner.task_map.classes)[scores.argmax(1)]
    assert torch.equal(learner.predict(images, torch.arange(len(images))).classes, expected)


@pytest.mark.parametrize("name", EXACT)
def test_one_image_per_class_and_one_class_alone_work(name: str) -> None:
    pixels = torch.randint(0, 256, (3, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    learner = learner_of(name, **({"penalty": 1e-6} if name == "ranpac" else {}))
    learner.learn(Task(0, (7,), ImageSet.from_arrays(pixels[:1], [7])))
    assert learner.predict(pixels[1:2]).classes.tolist() == [7]
    learner.learn(Task(1, (2, 5), ImageSet.from_arrays(pixels[1:], [2, 5])))
    assert learner.predict(pixels, torch.arange(3)).classes.tolist() == [7, 2, 5]


def test_the_fitted_temperature_is_the_optimum() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = 5 * torch.randn(300, 4, generator=generator, dtype=torch.float64)
    targets = (scores / 2.5).softmax(1).multinomial(1, generator=generator).flatten()
    best = fit_temperature(scores, targets)
    losses = {
        factor: float(nn.functional.cross_entropy(scores / (best * factor), targets)) for factor in (0.97, 1.0, 1.03)
    }
    assert losses[1.0] < min(losses[0.97], losses[1.03])
    assert best == pytest.approx(2.5, rel=0.3)


def test_a_learner_on_frozen_features_keeps_the_contract() -> None:
    check_learner(frozen)


def test_frozen_features_are_computed_once_per_image(tmp_path: Path) -> None:
    """Also in the next learn, and in the next process: the cache is a file."""
    cache = FeatureCache(tmp_path)
    learner = frozen(cache)
    counted: list[int] = []
    original = learner.extractor._features
    learner.extractor._features = lambda images: counted.append(len(images)) or original(images)  # type: ignore[func-returns-value, method-assign]
    tasks, tests, _ = tiny_tasks()
    learner.learn(tasks[0])
    assert sum(counted) == len(tasks[0].train)
    learner.predict(tasks[0].train.load()[0])
    assert sum(counted) == len(tasks[0].train), "known images are looked up"
    other = frozen(FeatureCache(tmp_path))
    other.extractor._features = learner.extractor._features  # type: ignore[method-assign]
    other.learn(tasks[0])
    assert sum(counted) == len(tasks[0].train), "another process finds them on disk"
    learner.predict(tests[0].load()[0])
    assert sum(counted) == len(tasks[0].train) + len(tests[0])


def test_the_features_in_memory_are_bounded() -> None:
    images, computed = torch.arange(5.0).reshape(5, 1, 1, 1), []

    def compute(missing: Tensor) -> Tensor:
        computed.append(len(missing))
        return missing.flatten(1)

    cache = FeatureCache(None, most=2)
    for _ in range(2):
        assert cache.features(images, "kind", compute).flatten().tolist() == [0, 1, 2, 3, 4]
    assert cache.features(images[3:], "kind", compute).flatten().tolist() == [3, 4]
    assert computed == [5, 3, 2]  # the oldest went


def test_the_cache_stays_within_its_limit_and_survives_damage(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (50, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    cache = FeatureCache(tmp_path, limit=20 * 16)
    first = cache.features(images, "kind", lambda some: some.flatten(1)[:, :4].float())
    assert first.shape == (50, 4)
    again = FeatureCache(tmp_path, limit=20 * 16)
    calls: list[int] = []

    def compute(some: Tensor) -> Tensor:
        calls.append(len(some))
        return some.flatten(1)[:, :4].float()

    assert torch.equal(again.features(images, "kind", compute), first)
    assert 50 > calls[0] >= 30, "at most twenty vectors of 16 bytes are kept"
    (tmp_path / "features.sqlite").write_bytes(b"not a database" * 100)
    assert torch.equal(FeatureCache(tmp_path).features(images, "kind", compute), first)
    assert torch.equal(FeatureCache(tmp_path).features(images, "other kind", compute), first)


def test_the_mirror_image_has_the_same_features() -> None:
    images = torch.randint(0, 256, (4, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(extractor()(images), extractor()(images.flip(3)))


def test_a_state_of_other_features_is_refused() -> None:
    learner, tasks = frozen(), tiny_tasks()[0]
    learner.learn(tasks[0])
    state = learner.state_dict()
    other = FrozenLearner(frozen().learner, extractor(flip=False), shape=SHAPE)
    with pytest.raises(CheckpointError, match="trained with flip True; here it is False"):
        other.load_state_dict(state)


def test_float_pixels_are_refused_by_a_pretrained_backbone() -> None:
    with pytest.raises(DataError, match="8-bit pixels"):
        extractor()(torch.zeros(1, *SHAPE))


def test_settings_of_pretrained_backbones_are_refused_for_others() -> None:
    with pytest.raises(SettingsError, match="tune and adapter are for pretrained backbones, and mlp is not one"):
        learner_of("replay", backbone="mlp", adapter=16)
    with pytest.raises(SettingsError, match="backbone_lr is for a pretrained backbone"):
        learner_of("replay", backbone="mlp", backbone_lr=0.1)


def test_exact_learners_are_a_state_of_sums() -> None:
    learner, tasks = learner_of("lda"), tiny_tasks()[0]
    assert isinstance(learner, StatisticsLearner)
    learner.learn(tasks[0])
    state = learner.state_dict()
    other = learner_of("lda")
    other.load_state_dict(state)
    assert same_bits(other.state_dict(), state)
    with pytest.raises(CheckpointError, match="this state is of LDA, not of NCM"):
        learner_of("ncm").load_state_dict(state)
