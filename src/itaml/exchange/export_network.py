"""`ExportNetwork`: everything from an image's bytes to the prediction, as one module that can be traced.

| output               | shape        | meaning                                                                       |
|----------------------|--------------|-------------------------------------------------------------------------------|
| `label`              | (n,)         | position of the predicted class among the model's classes                     |
| `probabilities`      | (n, classes) | calibrated probability of each class                                          |
| `task_log_posterior` | (n, tasks)   | log-probability of each task; adding it up treats images of one task together |
| `unknown_score`      | (n,)         | an image is unknown if this is above the model's `unknown_threshold`          |

It computes what `ImageClassifier.predict` computes for images that stand alone.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from itaml.data.fitting import PLAIN
from itaml.errors import SettingsError
from itaml.exchange.export_scoring import ExportScoring, TraceableFunctions, export_scoring
from itaml.exchange.resampling import resample
from itaml.inference.unknown import score_signals
from itaml.learners.api import knows_unknown
from itaml.learners.frozen import FrozenLearner
from itaml.models.features import FeatureExtractor, pool_views
from itaml.modelstore.confidence import LEAST_PROBABILITY
from itaml.modelstore.loaded_model import Model

OUTPUTS = ("label", "probabilities", "task_log_posterior", "unknown_score")
GREY = (0.299, 0.587, 0.114)  # as in `modelstore.pixels.with_channels`
HALF_LIMIT = 65504.0  # the largest number in half precision


class ExportNetwork(nn.Module):
    """Images (n, height, width, channels) of any size become the four outputs of the table above.

    Args:
        model: a copy that nobody else uses, on the CPU; its learner is changed for the trace.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        manifest = model.manifest
        assert manifest.shape is not None
        assert manifest.pixels is not None
        if manifest.fitting != PLAIN:
            how = f"{manifest.interpolation} interpolation and {manifest.crop:g} of the shorter side"
            raise SettingsError(
                f"the resize of an export is bilinear, of the whole centre square; this model's is {how}"
            )
        self.shape, self.white = manifest.shape, manifest.pixels.white
        self.rounds = manifest.pixels.dtype == "uint8"
        self.confidence = model.confidence
        self.features: FeatureNetwork | None = None
        if isinstance(model.learner, FrozenLearner):
            self.features = FeatureNetwork(model.learner.extractor)
        self.scoring: ExportScoring = export_scoring(model.core)
        self.network = getattr(model.core, "model", None)  # registered, so that its weights are weights of this module
        self.calibrated = knows_unknown(model.core)
        self.traceable = TraceableFunctions()
        self.eval()

    @property
    def channels(self) -> int:
        """Channels of the input: colour, unless the model's pixels have a meaning of their own."""
        return 3 if self.white is not None else self.shape[0]

    @property
    def input_dtype(self) -> torch.dtype:
        """Bytes, unless the model's pixels have a meaning of their own."""
        return torch.uint8 if self.white is not None else torch.float32

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return label, probabilities, log-posterior of the tasks, and the score of unknown images."""
        with self.traceable:
            samples = self._samples(self._pixels(images))
            scores = self.scoring.class_scores(samples)
            adapted = self.scoring.adapted(samples, scores)
            unknown = self.scoring.unknown_scores(samples) if self.calibrated else None
            tasks = self.scoring.task_scores(scores).argmax(1)
            evidence = self.scoring.task_evidence(scores).log_softmax(1)
        columns, log_probabilities = self._joined(scores, adapted, tasks, evidence)
        if unknown is None:
            log_probabilities = log_probabilities.exp().clamp_min(LEAST_PROBABILITY).log()
            log_probabilities = (log_probabilities / self.confidence.temperature).log_softmax(1)
            with self.traceable:
                unknown = -self.confidence.detector.score(score_signals(log_probabilities)[:, 1:])
        classes = self.scoring.task_map.class_tensor
        probabilities = log_probabilities.exp()[:, classes.argsort()]
        return classes[columns], probabilities.float(), evidence.float(), unknown.float()

    def _pixels(self, images: Tensor) -> Tensor:
        """Return images in the model's size, channels and scale (n, c, h, w), as the model store prepares them."""
        channels, height, width = self.shape
        pixels = resample(images.permute(0, 3, 1, 2).float(), height, width, whole=self.white is not None)
        if self.white is None:
            return pixels
        if channels == 1:
            pixels = (pixels * torch.tensor(GREY)[:, None, None]).sum(1, keepdim=True).round()
        return pixels / 255

    def _samples(self, pixels: Tensor) -> Tensor:
        if self.features is not None:
            features: Tensor = self.features(pixels)[:, :, None, None]
            return features
        return pixels if self.white in (None, 1.0) or self.rounds else pixels * 255

    def _joined(self, scores: Tensor, adapted: Tensor, tasks: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:
        """Return the predicted column (n,) and the log-probability of each column (n, columns).

        This is `inference.class_prediction` for continua of one sample, as a computation without loops over samples.
        """
        task_map = self.scoring.task_map
        owners = task_map.task_of_column
        found = owners == tasks[:, None]  # (n, columns)
        columns = torch.where(found, adapted, -torch.inf).argmax(1)
        inside, generic = [], []
        for task in range(len(task_map)):
            own = task_map.columns(task)
            inside.append(F.log_softmax(adapted[:, own], 1))
            generic.append(F.log_softmax(scores[:, own], 1))
        within = torch.where(found, torch.cat(inside, 1), torch.cat(generic, 1))
        return columns, within + evidence[:, owners]


class FeatureNetwork(nn.Module):
    """The features of a pretrained backbone, as `FeatureExtractor` computes them for the model store."""

    def __init__(self, extractor: FeatureExtractor) -> None:
        super().__init__()
        spec = extractor.backbone.spec
        self.extraction, self.preprocessing = extractor.extraction, spec.preprocessing
        self.channels = len(spec.preprocessing.mean)
        network = copy.deepcopy(extractor.backbone.network).to("cpu")
        self.network = network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the features (n, d) of pixels between 0 and 1."""
        values = (pixels * 255).round()
        if values.shape[1] == 1 and self.channels > 1:
            values = values.expand(-1, self.channels, -1, -1)
        size = self.extraction.size
        if tuple(values.shape[2:]) != (size, size):
            values = torch.floor(resample(values, size, size, whole=False) + 0.5).clamp(0, 255)
        values = self.preprocessing.normalize(values)
        if not self.extraction.flip:
            features = self.network(values)[:, None]
        else:
            both = self.network(torch.cat([values, values.flip(3)]))  # one pass: the weights are in the file once
            features = both.unflatten(0, (2, values.shape[0])).transpose(0, 1)
        pooled = pool_views(features, self.extraction.transform).float()
        return pooled.clamp(-HALF_LIMIT, HALF_LIMIT).half().float()  # as `FrozenLearner` rounds them
