"""Train on any object with (image, label) items: a list here; data sets of torchvision and Hugging Face work alike."""

import numpy as np

from itaml.config import Seeds
from itaml.data.dataset_wrappers import stream_from_items
from itaml.learners.methods.itaml import ITAML


def make_images(per_class: int, seed: int) -> list[tuple[np.ndarray, str]]:
    """Return noisy 12x12 images of four colours, as (array, name of the colour) pairs."""
    colours = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "grey": (120, 120, 120)}
    rng = np.random.default_rng(seed)
    return [
        (np.clip(rng.normal(colour, 20, (12, 12, 3)), 0, 255).astype(np.uint8), name)
        for name, colour in colours.items()
        for _ in range(per_class)
    ]


train, test = make_images(30, seed=0), make_images(10, seed=1)
stream = stream_from_items(train, test, tasks=2, size=8)

for task in stream:
    names = ", ".join(stream.class_names[class_id] for class_id in task.classes)
    images, labels = task.train.load()
    print(f"task {task.index}: {names}; {len(labels)} images of shape {tuple(images.shape[1:])}")

settings = ITAML.Settings(backbone="mlp", epochs=10, batch_size=16, memory=20, horizon=2)
learner = ITAML.from_settings(settings, shape=stream.shape, seeds=Seeds.of(0))
for task in stream:
    learner.learn(task)
images, labels = stream.test(0).load()
accuracy = (learner.predict(images).classes == labels).float().mean()
print(f"accuracy on the first task after the second: {100 * accuracy:.0f} %")
