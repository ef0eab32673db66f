"""A learner's scores as functions that can be traced: of any number of samples, without batches, devices or caches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from itaml.errors import SettingsError
from itaml.inference.predictor import Predictor
from itaml.inference.views import mean_over_views
from itaml.learners.api import KnowsUnknown, Learner
from itaml.learners.learner import GradientLearner
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.meta.inner_loop import HEAD
from itaml.models.classifier import Classifier
from itaml.models.path_network import PathNetwork
from itaml.models.task_map import TaskMap
from itaml.params import Weights


class ExportScoring(Protocol):
    """What two-stage inference needs of a learner."""

    task_map: TaskMap

    def class_scores(self, samples: Tensor) -> Tensor:
        """Return the score of each class (n, columns)."""

    def task_scores(self, scores: Tensor) -> Tensor:
        """Return the score of each task (n, tasks)."""

    def task_evidence(self, scores: Tensor) -> Tensor:
        """Return the log-evidence for each task (n, tasks)."""

    def adapted(self, samples: Tensor, scores: Tensor) -> Tensor:
        """Return the scores of each class (n, columns) by the model adapted to its task."""

    def unknown_scores(self, samples: Tensor) -> Tensor | None:
        """Return how little each sample looks like a known class (n,), None if the learner cannot say."""


class StatisticsScoring:
    """Scores of a learner without gradient steps: its own."""

    def __init__(self, learner: StatisticsLearner) -> None:
        self.learner, self.task_map = learner, learner.task_map
        self.class_scores = learner.class_scores
        self.task_scores, self.task_evidence = learner.task_scores, learner.task_evidence

    def adapted(self, samples: Tensor, scores: Tensor) -> Tensor:
        """Return the scores as they are: the head is exact."""
        return scores

    def unknown_scores(self, samples: Tensor) -> Tensor | None:
        """Return the learner's own."""
        return self.learner.unknown_scores(samples) if isinstance(self.learner, KnowsUnknown) else None


class GradientScoring:
    """Scores of a learner with a network, adapted to every task where its settings say so.

    Args:
        learner: its method's `class_scores` are traced with a predictor that takes all samples at once.
    """

    def __init__(self, learner: GradientLearner) -> None:
        self.learner, self.task_map, self.model = learner, learner.task_map, learner.model
        predictor = learner.predictor
        if learner.settings.task_distance != "none":
            raise SettingsError("distances to exemplars cannot be exported: set task_distance=none")
        if learner.settings.adapt_scope == "own-head" and learner.settings.adapt_steps:
            raise SettingsError("heads of single tasks cannot be exported: set adapt_steps=0 or adapt_scope=head")
        if isinstance(self.model.backbone, PathNetwork):
            self.model.backbone = FixedPaths(self.model.backbone)
        self.task_scores, self.task_evidence = predictor.task_scores, predictor.task_evidence
        tasks = range(len(self.task_map))
        self.weights: list[Weights] = [predictor.adapted_weights(task) for task in tasks]
        learner.method.predictor = _WholePredictor(predictor)

    def class_scores(self, samples: Tensor) -> Tensor:
        """Return the method's scores."""
        return self.learner.method.class_scores(samples)

    def adapted(self, samples: Tensor, scores: Tensor) -> Tensor:
        """Return each task's columns by its own network; a task without one has the generic scores."""
        if not any(self.weights):
            return scores
        s = self.learner.settings
        parts = []
        for task, weights in enumerate(self.weights):
            columns = self.task_map.columns(task)
            found = scores
            if weights:
                adapted = partial(_adapted_logits, self.model, weights)
                found = mean_over_views(samples, adapted, flip=s.flip_tta, shift=s.shift_tta)
            parts.append(found[:, columns])
        return torch.cat(parts, 1)

    def unknown_scores(self, samples: Tensor) -> Tensor | None:
        """Return None: the store's own calibration says it."""
        return None


class FixedPaths(nn.Module):
    """A `PathNetwork` whose modules are chosen once, and not by a buffer in every pass."""

    def __init__(self, paths: PathNetwork) -> None:
        super().__init__()
        self.prefix = paths.prefix
        chosen = []
        for row, layer in zip(paths.used.tolist(), paths.layers, strict=True):
            assert isinstance(layer, nn.ModuleList)
            used = [module for module, is_used in zip(layer, row, strict=True) if is_used]
            chosen.append(nn.ModuleList(used or [layer[0]]))
        self.layers = nn.ModuleList(chosen)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of the inference path."""
        values: Tensor = self.prefix(images)
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleList)
            outputs = [module(values) for module in layer]
            values = torch.stack(outputs).sum(0) if len(outputs) > 1 else outputs[0]
        return values


class _WholePredictor(Predictor):
    """A predictor whose passes through the network take all samples at once, for tracing."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__(predictor.model, predictor.memory, settings=predictor.settings, seeds=predictor.seeds)
        self.kept = predictor

    def cached(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return what the real predictor has computed, outside of the trace."""
        return self.kept.cached(name, compute)

    def model_scores(self, images: Tensor) -> Tensor:
        """Return the logits (n, columns)."""
        s, weights = self.settings, self.kept.aligned_weights()
        logits = partial(_adapted_logits, self.model, weights) if weights else self.model
        return mean_over_views(images, logits, flip=s.flip_tta, shift=s.shift_tta)

    def features(self, images: Tensor) -> Tensor:
        """Return the features (n, d)."""
        return self.model.features(images)


class TraceableFunctions(TorchFunctionMode):
    """Replaces functions that cannot be traced for any number of samples, or that ONNX does not have.

    The solution of a triangular system, a constant of a head, becomes a product with its inverse, which is computed
    when the head is first called, outside of a trace. Distances are computed by their definition. The logarithm of a
    sum of exponentials is taken relative to the largest: ONNX Runtime's own underflows in single precision.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inverses: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, or its replacement."""
        if func is torch.cdist:
            return (args[0][:, None] - args[1][None]).square().sum(2).sqrt()
        if func in (torch.logsumexp, torch.Tensor.logsumexp):
            return _logsumexp(*args, **(kwargs or {}))
        if func is not torch.linalg.solve_triangular:
            return func(*args, **(kwargs or {}))
        factor, values = args
        if id(factor) not in self.inverses:
            identity = torch.eye(len(factor), dtype=factor.dtype)
            self.inverses[id(factor)] = factor, func(factor, identity, **kwargs)
        return self.inverses[id(factor)][1] @ values


def _logsumexp(values: Tensor, dim: int) -> Tensor:
    """Return log sum exp over a dimension with a value that is not -inf."""
    largest = values.amax(dim, keepdim=True)
    found: Tensor = (values - largest).exp().sum(dim).log() + largest.squeeze(dim)
    return found


def export_scoring(learner: Learner) -> ExportScoring:
    """Return what can be traced of a learner.

    Raises:
        SettingsError: it is a learner of another package.
    """
    if isinstance(learner, StatisticsLearner):
        return StatisticsScoring(learner)
    if isinstance(learner, GradientLearner):
        return GradientScoring(learner)
    raise SettingsError(f"a {type(learner).__name__} cannot be exported: its prediction cannot be traced")


def _adapted_logits(model: Classifier, weights: Weights, samples: Tensor) -> Tensor:
    if set(weights) <= set(HEAD):
        return F.linear(model.features(samples), weights["head.weight"], weights["head.bias"])
    logits: Tensor = functional_call(model, weights, (samples,))
    return logits
