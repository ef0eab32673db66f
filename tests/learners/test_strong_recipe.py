"""Strong augmentation, rehearsal CutMix, and a distillation that grows: which images and which weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from itaml.config import build
from itaml.data.augmentations import AUGMENTATIONS, Draws
from itaml.data.stream import TaskStream
from itaml.errors import SettingsError, UnknownNameError
from itaml.learners import LEARNERS
from itaml.learners.batch import Batch, Progress
from itaml.learners.learner import GradientLearner
from learners.test_recipe import learner_of
from support import SHAPE

BALANCED: dict[str, Any] = {"class_balancing": "logits", "loss": "ce", "negatives": "seen"}


@pytest.fixture(autouse=True)
def _blank() -> Iterator[None]:
    """An augmentation whose images can be recognised."""
    AUGMENTATIONS["blank"] = lambda images, draws: torch.full_like(images, 9)
    yield
    del AUGMENTATIONS["blank"]


def changed(learner: GradientLearner, *, epoch: int = 0, new_images: int = 50) -> torch.Tensor:
    """Return which of 100 images are changed, the first `new_images` of them new."""
    learner.recipe._new_images = new_images
    learner.context.progress = Progress(0, epoch)
    images = torch.zeros(100, *SHAPE, dtype=torch.uint8)
    draws = Draws(torch.Generator().manual_seed(0), 100)
    return (learner.recipe.augment(images, torch.arange(100), draws) == 9).flatten(1).all(1)


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0.0, 0.0), (0.5, 0.3, 0.7), (1.0, 1.0, 1.0)])
def test_every_exemplar_and_a_share_of_the_new_images_are_changed(share: float, low: float, high: float) -> None:
    found = changed(learner_of("replay", strong_augment="blank", strong_share=share))
    assert found[50:].all()
    assert low <= float(found[:50].float().mean()) <= high


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0.0, 0.0), (0.5, 0.3, 0.7), (1.0, 1.0, 1.0)])
def test_a_share_of_the_exemplars_is_changed(share: float, low: float, high: float) -> None:
    found = changed(learner_of("replay", strong_augment="blank", strong_share=1.0, strong_exemplar_share=share))
    assert found[:50].all()
    assert low <= float(found[50:].float().mean()) <= high


def test_the_last_epochs_are_without_strong_augmentation() -> None:
    learner = learner_of("replay", strong_augment="blank", strong_share=1.0, strong_until=0.75, epochs=4)
    assert [bool(changed(learner, epoch=epoch).any()) for epoch in range(4)] == [True, True, True, False]


def test_an_unknown_strong_augmentation_is_an_error_before_training() -> None:
    with pytest.raises(UnknownNameError, match="no augmentation 'trival'"):
        learner_of("replay", strong_augment="trival")


def test_the_distillation_grows_with_the_share_of_old_classes(tiny_stream: TaskStream) -> None:
    """Two old and two new classes: at growth 1 the weight is 2 / 2; with four old ones it is 4 / 2."""
    plain, growing = (learner_of("replay", distill=0.5, distill_growth=growth) for growth in (0.0, 1.0))
    ratios = []
    for index in range(3):
        losses = []
        for learner in (plain, growing):
            learner.learn(tiny_stream[index]) if index == 0 else learner.begin_task(tiny_stream[index])
            if index:
                images = torch.zeros(4, *SHAPE, dtype=torch.uint8)
                batch = learner.context.make_batch(images, torch.tensor([tiny_stream[index].classes[0]] * 4))
                losses.append(float(learner.recipe.distillation(torch.zeros(4, 2 * (index + 1)), batch)))
        ratios += [losses[1] / losses[0]] if losses else []
    assert ratios == pytest.approx([1.0, 2.0])


def test_labels_count_by_the_area_of_patches() -> None:
    learner = learner_of("replay", rehearsal_cutmix=0.5, **BALANCED)
    learner.recipe._counts = torch.tensor([1, 1])
    logits = torch.tensor([[math.log(3), 0.0]])
    batch = Batch(torch.zeros(1, *SHAPE), torch.tensor([0]), torch.tensor([0]))
    batch.patch_targets, batch.patch_shares = torch.tensor([1]), torch.tensor([0.25])
    # probabilities 3/4 and 1/4: 3/4 of ln(4/3) and 1/4 of ln 4
    expected = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert float(learner.recipe.classification_loss(logits, batch)) == pytest.approx(expected)
    batch.patch_targets = None
    assert float(learner.recipe.classification_loss(logits, batch)) == pytest.approx(
        float(F.cross_entropy(logits, torch.tensor([0])))
    )


def test_patches_are_pasted_from_the_second_task_on(tiny_stream: TaskStream) -> None:
    learner = learner_of("replay", rehearsal_cutmix=1.0, batch_size=100, **BALANCED)
    seen: list[tuple[int, bool]] = []
    original = learner.recipe.mix

    def mix(batch: Batch, draws: Draws) -> None:
        original(batch, draws)
        seen.append((len(learner.context.task_map), batch.patch_targets is not None))

    learner.recipe.mix = mix  # type: ignore[method-assign]
    for task in tiny_stream[:2]:
        learner.learn(task)
    assert {tasks for tasks, pasted in seen if pasted} == {2}
    assert all(pasted for tasks, pasted in seen if tasks == 2)


@pytest.mark.parametrize("name", ["finetune", "joint", "lwf"])
def test_methods_without_exemplars_refuse_patches_of_them(name: str) -> None:
    with pytest.raises(SettingsError, match="rehearses no exemplars"):
        learner_of(name, rehearsal_cutmix=0.5, **BALANCED)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rehearsal_cutmix": 0.5}, "set class_balancing=logits"),
        ({"balance_strength": 2.0}, "is for class_balancing=logits"),
        ({"distill_growth": 1.0}, "set distill too"),
    ],
)
def test_settings_that_would_change_nothing_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        build(LEARNERS.load("icarl").Settings, settings)
