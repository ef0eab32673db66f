"""Class-incremental learning on frozen features: LDA, RanPAC, NCM, iTAML, replay and joint training compared.

    python benchmarks/photos_incremental.py --features FOLDER [--sets clothing-10 ...] [--methods lda ...]

With `--methods` the results of the other methods stay as they are in the result file; `order` compares two orders.

The classes arrive in tasks, in alphabetical order of their names. LDA, RanPAC and NCM see each image once. iTAML and
replay train a linear head on the newest task's features and 20 exemplars per old class. Settings of RanPAC (penalty),
logistic regression (C) and the trained heads (learning rate) are chosen on a fifth of the training images. The
shrinkage of LDA is chosen by leave-one-out, but the rule for it (one standard error, at most 0.5) was settled after
test accuracies of these sets had been seen, so LDA's numbers are not those of an untouched test set. CIFAR-100 and
Tiny-ImageNet are subsets: see `settings` in the result file.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from photos_common import RESULTS, SETS, Features, continuum_accuracy, load, share, write
from photos_heads import train_itaml, train_replay
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from itaml.config import Seeds
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.learners.components.gaussian_classes import fit_gaussian_classes
from itaml.learners.components.left_out_scores import choose_shrinkage
from itaml.learners.components.linear_heads import lda, nearest_mean, project, random_projection, ridge
from itaml.learners.components.statistics import FeatureStatistics, collect, empty_statistics, merge
from itaml.learners.methods.lda import LDA, LDASettings
from itaml.learners.statistics_learner import StatisticsLearner

P = (1, 5, 20)
ORDER = "order"  # compare LDA in two orders
SELECTION = "the rule for LDA's shrinkage was settled after test accuracies of these sets were seen"
Method = Callable[[Features, Tensor], tuple[Tensor, Tensor | None]]


def order_of_tasks(classes: int, tasks: int) -> Tensor:
    """Return the task of each class: consecutive classes, as equal in number as possible."""
    return torch.arange(classes) * tasks // classes


def by_sums(data: Features, task_of_class: Tensor) -> FeatureStatistics:
    """Return the statistics after all tasks, learned one after the other."""
    found = empty_statistics(data.train.shape[1])
    for task in range(int(task_of_class.max()) + 1):
        new = task_of_class[data.train_labels] == task
        found = merge(found, collect(data.train[new], data.train_labels[new]))
    return found


def run_lda(data: Features, task_of_class: Tensor) -> tuple[Tensor, Tensor | None]:
    model = fit_gaussian_classes(by_sums(data, task_of_class), data.train, data.train_labels)
    return model.probabilities(data.test).log(), None


def run_ncm(data: Features, task_of_class: Tensor) -> tuple[Tensor, Tensor | None]:
    return nearest_mean(by_sums(data, task_of_class))(data.test).log_softmax(1), None


def run_ranpac(data: Features, task_of_class: Tensor, width: int = 2000) -> tuple[Tensor, Tensor | None]:
    projection = random_projection(data.train.shape[1], width, seed=0)
    hidden, test = project(data.train, projection), project(data.test, projection)
    fifth = torch.arange(len(hidden)) % 5 == 0
    part = collect(hidden[~fifth], data.train_labels[~fifth])
    penalties = [10.0**exponent for exponent in range(1, 7)]

    def accuracy(penalty: float) -> float:
        scores = ridge(part, penalty=penalty, intercept=False)(hidden[fifth])
        return share(scores.argmax(1) == data.train_labels[fifth])

    best = max(penalties, key=accuracy)
    scores = ridge(collect(hidden, data.train_labels), penalty=best, intercept=False)(test)
    return (scores * 10).log_softmax(1), None  # scores are near 0 or 1: scaled so that continua can add them up


def run_joint(data: Features, task_of_class: Tensor) -> tuple[Tensor, Tensor | None]:
    fifth = (torch.arange(len(data.train)) % 5 == 0).numpy()
    center = data.train.mean(0)
    train, labels, test = (data.train - center).float().numpy(), data.train_labels.numpy(), (data.test - center).numpy()
    warnings.simplefilter("ignore", ConvergenceWarning)

    def fitted(inverse: float, rows: Any) -> LogisticRegression:
        return LogisticRegression(C=inverse, max_iter=200, tol=1e-3).fit(train[rows], labels[rows])

    best = max((0.03, 0.1, 0.3, 1.0), key=lambda inverse: fitted(inverse, ~fifth).score(train[fifth], labels[fifth]))
    return torch.from_numpy(fitted(best, slice(None)).predict_log_proba(test)), None


METHODS: dict[str, Method] = {
    "lda": run_lda,
    "ncm": run_ncm,
    "ranpac": run_ranpac,
    "itaml": train_itaml,
    "replay": train_replay,
    "joint logistic regression": run_joint,
}


def forgetting(data: Features, task_of_class: Tensor) -> tuple[float, float]:
    """Return how much LDA's accuracy on a task falls from its best to the end, averaged over the old tasks.

    The second value is the same among the classes that were known when the task was learned.
    """
    tasks = int(task_of_class.max()) + 1
    found = empty_statistics(data.train.shape[1])
    history, among = torch.full((tasks, tasks), -1.0), torch.full((tasks, tasks), -1.0)
    for step in range(tasks):
        new = task_of_class[data.train_labels] == step
        found = merge(found, collect(data.train[new], data.train_labels[new]))
        head = lda(found, shrinkage=0.5)
        scores, classes = head(data.test), torch.tensor(head.classes)
        for task in range(step + 1):
            images = task_of_class[data.test_labels] == task
            labels, own = data.test_labels[images], task_of_class[classes] <= task
            history[step, task] = share(classes[scores[images].argmax(1)] == labels)
            among[step, task] = share(classes[own][scores[images][:, own].argmax(1)] == labels)
    return _fall(history), _fall(among)


def _fall(history: Tensor) -> float:
    return float((history[:, :-1].amax(0) - history[-1, :-1]).mean()) if len(history) > 1 else 0.0


def order_independence(data: Features) -> bool:
    """Say whether classes learned in a random order give the same weights to the bit."""
    shuffled = torch.randperm(data.classes, generator=torch.Generator().manual_seed(0)) * 7 // data.classes
    first, second = by_sums(data, shuffled), collect(data.train, data.train_labels)
    return torch.equal(lda(first, shrinkage=0.5).weight, lda(second, shrinkage=0.5).weight)


def in_another_order(data: Features, tasks: int) -> dict[str, float]:
    """Learn the tasks with the learner of the product, then in the reverse order one class at a time, and compare."""
    forwards = order_of_tasks(data.classes, tasks)
    first, second = (_predicted(data, order) for order in (forwards, data.classes - 1 - torch.arange(data.classes)))
    return {
        "same predictions in another order": share(first[0] == second[0]),
        "same unknown images in another order": share(first[2] == second[2]),
        "largest difference of a probability in another order": float((first[1] - second[1]).abs().max()),
    }


def _predicted(data: Features, task_of_class: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    settings = LDASettings(backbone="efficientnet-lite0")
    learner = StatisticsLearner(LDA(settings), settings, shape=(data.train.shape[1], 1, 1), seeds=Seeds.of(0))
    for task in range(int(task_of_class.max()) + 1):
        classes = (task_of_class == task).nonzero().flatten()
        new = torch.isin(data.train_labels, classes)
        images = ImageSet.from_arrays(data.train[new].float()[:, :, None, None], data.train_labels[new])
        learner.learn(Task(task, tuple(classes.tolist()), images))
    found = learner.predict(data.test.float()[:, :, None, None], torch.arange(len(data.test)))
    assert found.unknown is not None
    return found.classes, found.probabilities[:, torch.tensor(found.columns).argsort()], found.unknown


def of_lda(data: Features, task_of_class: Tensor) -> dict[str, Any]:
    """Return what is reported of LDA alone."""
    statistics = collect(data.train, data.train_labels)
    everything, among = forgetting(data, task_of_class)
    return {
        "shrinkage": choose_shrinkage(statistics, data.train, data.train_labels),
        "forgetting": everything,
        "forgetting among the classes known at the time": among,
        "same weights in another order": order_independence(data),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--methods", nargs="*", default=[*METHODS, ORDER], choices=[*METHODS, ORDER])
    options = parser.parse_args()
    torch.set_num_threads(1)
    file = RESULTS / "incremental.json"
    before = json.loads(file.read_text())["results"] if file.exists() else {}
    results: dict[str, Any] = {}
    for name in options.sets:
        data = load(options.features, SETS[name])
        task_of_class = order_of_tasks(data.classes, SETS[name].tasks)
        rows: dict[str, Any] = dict(before.get(name, {}))
        for method, run in METHODS.items():
            if method not in options.methods:
                continue
            start = time.perf_counter()
            scores, within = run(data, task_of_class)
            seconds = time.perf_counter() - start
            accuracy = {p: continuum_accuracy(scores, data.test_labels, task_of_class, p, within=within) for p in P}
            rows[method] = {
                "class": {p: value[0] for p, value in accuracy.items()},
                "task": {p: value[1] for p, value in accuracy.items()},
                "head seconds": seconds,
            }
            print(
                name,
                method,
                {p: round(100 * value, 1) for p, value in rows[method]["class"].items()},
                f"{seconds:.1f} s",
                flush=True,
            )
        if ORDER in options.methods:
            rows["lda"] |= in_another_order(data, SETS[name].tasks)
        if "lda" in options.methods:
            rows["lda"] |= of_lda(data, task_of_class)
        results[name] = rows
        sets = {key: vars(SETS[key]) for key in results}
        write(
            "incremental",
            {
                "sets": sets,
                "p": P,
                "seed": 0,
                "exemplars per class": 20,
                "selection": SELECTION,
                "backbone": "efficientnet-lite0",
            },
            results,
        )


if __name__ == "__main__":
    main()
