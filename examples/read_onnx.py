"""Classify images with a file that `itaml export` wrote, without itaml and without torch.

pip install onnxruntime pillow && python read_onnx.py model.onnx photo.jpg ...
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def main(model: str, *files: str) -> None:
    """Print the class and the confidence of each image."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    classes, (_, height, width) = json.loads(about["classes"]), json.loads(about["image_shape"])
    for file in files:
        with Image.open(file) as image:
            if image.width * image.height > 1_000_000:  # itaml decodes large JPEG files at a smaller scale
                image.draft(None, (width, height))
            rgba = ImageOps.exif_transpose(image).convert("RGBA")
        pixels = np.asarray(Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB"))
        label, probabilities, _, unknown = session.run(None, {"images": pixels[None]})  # images of any size
        name = "unknown" if unknown[0] > float(about["unknown_threshold"]) else classes[label[0]]
        print(f"{file}\t{name}\t{probabilities[0, label[0]]:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
