"""Make a stream of tasks of any object with (image, label) items: a list here; torchvision, Hugging Face work alike."""

import numpy as np

from itaml.data.dataset_wrappers import stream_from_items


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
