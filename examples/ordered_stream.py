"""Classify an ordered stream of images whose task changes now and then: alone, and with the order used."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from itaml import ImageClassifier

data = load_digits()
images, labels = (data.images / 16 * 255).astype(np.uint8), data.target
train, test = slice(0, 1200), slice(1200, None)
TASKS = ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9))

with tempfile.TemporaryDirectory() as folder:
    classifier = ImageClassifier.create(Path(folder) / "digits", method="itaml", epochs=4)
    for digits in TASKS:
        rows = np.isin(labels[train], digits)
        classifier.learn(images[train][rows], labels[train][rows])

    order = np.concatenate([np.flatnonzero(np.isin(labels[test], digits))[:40] for digits in TASKS])
    shown, truth = images[test][order], labels[test][order].astype(str)
    for group in ("each", "stream"):
        predictions = classifier.predict(shown, group=group, unknown="never")
        right = np.mean([prediction.label == name for prediction, name in zip(predictions, truth, strict=True)])
        print(f"group={group}: {100 * right:.1f} % right")
