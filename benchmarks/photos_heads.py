"""Linear heads trained by gradient steps on cached features: iTAML (Algorithm 1 on the head) and replay.

With plain SGD and one inner step, Algorithm 1's mean over tasks of adapted weights is one step along the mean of the
tasks' gradients (Lemma 2 of the paper), scaled by eta; that is what `train_itaml` does, with softmax cross-entropy over
the seen classes. Adaptation (Algorithm 3) moves a copy of the head on the exemplars of each task, own columns only.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from photos_common import Features, first_images, share
from torch import Tensor

EXEMPLARS = 20
STEPS = 300
ADAPT_STEPS = 20
BATCH = 16  # images per task and step
BETA = 0.5
DECAY = 1e-3
RATES = (0.01, 0.03, 0.1)


def train_itaml(data: Features, task_of_class: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the head's log-probabilities of the test images and the adapted heads' scores."""
    return _train(data, task_of_class, balanced=True)


def train_replay(data: Features, task_of_class: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the log-probabilities of the test images of a head trained on new images and exemplars together."""
    scores, _ = _train(data, task_of_class, balanced=False)
    return scores, None


def _train(data: Features, task_of_class: Tensor, *, balanced: bool) -> tuple[Tensor, Tensor]:
    fifth = torch.arange(len(data.train)) % 5 == 0
    part = Features(data.train[~fifth], data.train_labels[~fifth], data.train[fifth], data.train_labels[fifth])

    def accuracy(rate: float) -> float:
        found, _ = _learn(part, task_of_class, rate, balanced=balanced)
        return share(found.argmax(1) == part.test_labels)

    return _learn(data, task_of_class, max(RATES, key=accuracy), balanced=balanced)


def _learn(data: Features, task_of_class: Tensor, rate: float, *, balanced: bool) -> tuple[Tensor, Tensor]:
    tasks = int(task_of_class.max()) + 1
    first = task_of_class[data.train_labels] == 0
    center, scale = data.train[first].mean(0), data.train[first].std()
    train, test = ((data.train - center) / scale).float(), ((data.test - center) / scale).float()
    weight = torch.zeros(data.classes, train.shape[1])
    generator = torch.Generator().manual_seed(0)
    memory = first_images(data.train_labels, EXEMPLARS)
    own = task_of_class[data.train_labels]
    for task in range(tasks):
        pools = [memory[own[memory] == old] for old in range(task)] + [(own == task).nonzero()[:, 0]]
        seen = task_of_class <= task
        eta = math.exp(-BETA * (task + 1) / tasks) if balanced else 1.0
        for step in range(STEPS):
            gradient = _gradient(weight, train, data.train_labels, pools, seen, generator, balanced=balanced)
            pace = rate * 0.5 * (1 + math.cos(math.pi * step / STEPS))
            weight = weight - eta * pace * (gradient + DECAY * weight)
    logits = test @ weight.T
    adapted = logits.clone()
    for task in range(tasks):
        columns = (task_of_class == task).nonzero()[:, 0]
        adapted[:, columns] = (
            test @ _adapt(weight[columns], train, data.train_labels, memory[own[memory] == task], columns, rate).T
        )
    return logits.log_softmax(1), adapted


def _gradient(
    weight: Tensor,
    train: Tensor,
    labels: Tensor,
    pools: list[Tensor],
    seen: Tensor,
    generator: torch.Generator,
    *,
    balanced: bool,
) -> Tensor:
    if not balanced:
        pools = [torch.cat(pools)]
    size = BATCH if balanced else BATCH * 4
    batches = [pool[torch.randint(len(pool), (size,), generator=generator)] for pool in pools]
    chosen = torch.cat(batches)
    logits = (train[chosen] @ weight.T).masked_fill(~seen, -torch.inf)
    error = logits.softmax(1) - F.one_hot(labels[chosen], len(weight))
    return error.T @ train[chosen] / len(chosen)


def _adapt(weight: Tensor, train: Tensor, labels: Tensor, images: Tensor, columns: Tensor, rate: float) -> Tensor:
    targets = F.one_hot(labels[images] - columns[0], len(columns)).float()
    for _ in range(ADAPT_STEPS):
        error = (train[images] @ weight.T).softmax(1) - targets
        weight = weight - 0.1 * rate * error.T @ train[images] / len(images)
    return weight
