"""`ITAMLClassifier`: a scikit-learn estimator whose `partial_fit` accepts new classes at any time.

Differences from the usual incremental estimator: the classes need not be announced in the first `partial_fit`. Classes
that are new in a call become a new task; samples of known classes refresh them. `fit` starts afresh with one task.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, check_random_state, column_or_1d, validate_data
from torch import Tensor

from itaml.config import Compute, Seeds, build, load_preset
from itaml.data.images import ImageSet, Shape
from itaml.data.stream import Task
from itaml.errors import DataError
from itaml.learners.api import Learner
from itaml.learners.compute import limited_threads, pick_device
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.modelstore.argument_checks import check_settings, check_whole
from itaml.modelstore.estimator_progress import shown_progress
from itaml.modelstore.estimator_samples import FeatureScaling, sample_tensor
from itaml.modelstore.manifest import PixelFormat
from itaml.modelstore.pixels import (
    BYTES,
    UNIT,
    check_convertible,
    check_exact,
    check_same_scale,
    convert,
    float_format,
    on_grid,
    value_range,
)

Array = npt.NDArray[Any]
PLAIN = {"augment": "none", "momentum": 0.0, "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0}


class ITAMLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """iTAML for rows of features (n, d), or for images (n, h, w) or (n, h, w, channels).

    Features are standardised one by one with the statistics of the first call and cut off at `FARTHEST` standard
    deviations, because later classes may lie far from the first ones; images are standardised channel by channel.
    Pixels are uint8, floats 0..1 or floats 0..255: the first call fixes the format, and others are converted to it
    exactly or refused.

    Args:
        backbone: the network; `mlp` for features, any for images.
        memory: samples kept in all, so as not to forget.
        epochs: passes through the samples in a call of `fit` or `partial_fit`.
        batch_size: samples per step.
        lr: learning rate.
        settings: further settings of the learner, by name.
        device: auto, cpu, cuda or mps.
        precision: `auto` computes in double precision, so that the prediction for a sample does not depend on the
            samples beside it (in single precision on mps, which has no double); `fp32` and `bf16` are faster.
        threads: CPU threads to learn and predict with; torch's own number if None.
        verbose: print what is learned and the loss of each epoch; with a pretrained backbone, how many images have
            been computed.
        random_state: a number, a generator of numpy, or None for another outcome each time.

    Attributes:
        classes_: labels of all classes, sorted; the columns of `predict_proba`.
        tasks_: labels of the classes that arrived together, in order of arrival.
        n_features_in_: number of features, or the height of images.
    """

    def __init__(
        self,
        *,
        backbone: str = "mlp",
        memory: int = 2000,
        epochs: int = 20,
        batch_size: int = 32,
        lr: float = 0.1,
        settings: dict[str, Any] | None = None,
        device: str = "cpu",
        precision: str = "auto",
        threads: int | None = None,
        verbose: bool | int = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.backbone = backbone
        self.memory = memory
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.settings = settings
        self.device = device
        self.precision = precision
        self.threads = threads
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 (scikit-learn's names)
        """Forget everything and learn the classes in y as one task.

        Raises:
            ValueError: X and y are not samples with labels.
        """
        return self._learn(X, y, classes=None, first=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:  # noqa: N803
        """Learn more: classes that are new become a new task.

        Args:
            X: samples.
            y: their labels.
            classes: labels that `classes_` is to hold besides those seen; not needed.

        Raises:
            ValueError: X and y are not samples with labels, or y has a label that `classes` has not.
        """
        return self._learn(X, y, classes=classes, first=not hasattr(self, "learner_"))

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the label of each sample, each standing alone."""
        columns, classes, _ = self._decide(X)
        return np.asarray(self._labels)[classes.numpy()] if len(columns) else np.asarray([])

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the probability of each class of `classes_` for each sample (n, classes)."""
        columns, _, probabilities = self._decide(X)
        labels = np.asarray(self._labels)[list(columns)]
        output = np.zeros((len(probabilities), len(self.classes_)))
        output[:, np.searchsorted(self.classes_, labels)] = probabilities.double().numpy()
        totals = output.sum(axis=1, keepdims=True)
        normed: Array = np.divide(output, totals, out=output, where=totals > 0)
        return normed

    def _learn(self, X: Any, y: Any, *, classes: Any, first: bool) -> Self:  # noqa: N803
        if any(isinstance(label, str) and "\0" in label for label in np.asarray(y, dtype=object).ravel()):
            raise ValueError("a label has a null character, which numpy drops at the end of text; choose another label")
        samples, y = validate_data(
            self, X, y, reset=first, allow_nd=True, dtype="numeric", ensure_min_samples=2 if first else 1
        )
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        seen = np.unique(y)
        if first:
            self._scaling = FeatureScaling.fit(samples) if samples.ndim == 2 else None
            self._pixels: PixelFormat | None = None  # of images, fixed by the first call
        images = self._images(samples, stored=True)
        if classes is not None and not np.isin(seen, classes).all():
            raise ValueError(f"y has labels that classes has not: {np.setdiff1d(seen, classes).tolist()}")
        if first:
            self.shape_: Shape = tuple(images.shape[1:])  # type: ignore[assignment]
            self._labels: list[Any] = []
            self.tasks_: list[Array] = []
            self.learner_ = self._new_learner()
            self.classes_ = seen
        new = [label for label in seen if label not in set(self._labels)]
        self._labels += new
        if new:
            self.tasks_.append(np.asarray(new))
        ids = {label: number for number, label in enumerate(self._labels)}
        labels = torch.tensor([ids[label] for label in y])
        task = Task(
            len(self.tasks_) - bool(new), tuple(ids[label] for label in new), ImageSet.from_arrays(images, labels)
        )
        with limited_threads(self.threads), shown_progress(self.learner_, task, shown=bool(self.verbose)) as shown:
            self.learner_.learn(shown)
        self.classes_ = unique_labels(self.classes_, seen, *([] if classes is None else [np.asarray(classes)]))
        return self

    def _images(self, samples: Array, *, stored: bool) -> Tensor:
        """Return samples as images in the pixel format of the first call; `stored` ones must be converted exactly."""
        if self._scaling is not None:
            if samples.ndim != 2:
                raise ValueError(f"samples of shape {samples.shape[1:]}, but the model learned rows of features")
            return sample_tensor(self._scaling(samples))
        images = sample_tensor(samples)
        values = value_range(images)
        given = float_format(values) if images.is_floating_point() else BYTES
        self._pixels = self._pixels or given
        try:
            check_convertible(given, self._pixels, values)
            check_same_scale([images], given, self._pixels, stored=stored)
            if self._pixels == BYTES and given != BYTES:
                if stored:
                    check_exact(images, given)
                return convert(images, given, UNIT if not on_grid(images, given) else BYTES)
        except DataError as error:
            raise ValueError(str(error)) from error
        return convert(images, given, self._pixels)

    def _new_learner(self) -> Learner:
        values = load_preset("itaml", "best", benchmark="estimator") | PLAIN
        values |= {"backbone": self.backbone, "memory": self.memory, "epochs": self.epochs, "lr": self.lr}
        check_settings("settings", self.settings)
        for name in ("memory", "epochs", "batch_size"):
            check_whole(name, getattr(self, name), least=0 if name == "memory" else 1)
        values |= {"batch_size": self.batch_size, "horizon": "open", **(self.settings or {})}
        settings = build(ITAMLSettings, values)
        if isinstance(self.random_state, int | np.integer):
            seed = int(self.random_state)
        else:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        compute = build(Compute, {"device": self.device, "precision": self.precision})
        exact = compute.precision == "auto"
        if exact:
            compute = compute.model_copy(update={"precision": "fp32"})
        learner = ITAML.from_settings(settings, shape=self.shape_, seeds=Seeds.of(seed), compute=compute)
        network = getattr(learner, "model", None)
        if exact and network is not None and pick_device(compute).type != "mps":
            network.double()  # a sample's prediction then does not depend on the samples beside it
        return learner

    def _decide(self, X: Any) -> tuple[tuple[int, ...], Tensor, Tensor]:  # noqa: N803
        check_is_fitted(self)
        images = self._images(validate_data(self, X, reset=False, allow_nd=True, dtype="numeric"), stored=False)
        if tuple(images.shape[1:]) != self.shape_:
            raise ValueError(f"samples of shape {tuple(images.shape[1:])}, but the model learned {self.shape_}")
        learner = self.learner_
        with limited_threads(self.threads):
            found = learner.predict(images, torch.arange(len(images)))
        return found.columns, found.classes, found.probabilities
