"""Teach a model photos of shapes in two learns, classify new ones, correct a name, and go back."""

import tempfile
from pathlib import Path

import numpy as np
from make_photos import TASKS, draw

from itaml import ImageClassifier

generator = np.random.default_rng(0)

with tempfile.TemporaryDirectory() as folder:
    classifier = ImageClassifier.create(Path(folder) / "shapes")
    for names in TASKS.values():
        photos = [draw(name, generator) for name in names for _ in range(8)]
        report = classifier.learn(photos, [name for name in names for _ in range(8)])
        print(f"version {classifier.version}: learned {', '.join(report.record.new)}")

    for name in ("circle", "triangle"):
        (prediction,) = classifier.predict([draw(name, generator)], unknown="never")
        print(f"a photo of {name} is called {prediction.label} with confidence {prediction.confidence:.2f}")

    classifier.rename("stripes", "fence")
    print("classes:", ", ".join(classifier.classes))
    classifier.rollback()
    print("classes after rollback:", ", ".join(classifier.classes))
