"""Classify images with a file that `itaml export` wrote, without itaml and without torch.

pip install onnxruntime pillow
python read_onnx.py model.onnx photo.jpg ...
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

OUTPUTS = ["label", "probabilities", "unknown_score"]


def main(model: str, *files: str) -> None:
    """Print the class and the confidence of each image."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    classes, threshold = json.loads(metadata["classes"]), float(metadata["unknown_threshold"])
    for file in files:
        with Image.open(file) as image:
            pixels = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        labels, probabilities, unknown = session.run(OUTPUTS, {"images": pixels[None]})  # images of any size
        name = "unknown" if unknown[0] > threshold else classes[labels[0]]
        print(f"{file}\t{name}\t{probabilities[0, labels[0]]:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
