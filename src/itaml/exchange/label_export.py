"""Write predictions in the formats of label tools, for people to check and correct."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from itaml.data.decoding import open_image
from itaml.modelstore.predictions import ImagePrediction


def label_studio(predictions: Sequence[ImagePrediction], classes: Sequence[str]) -> str:
    """Return Label Studio's tasks with predictions, for a project with `<Choices name="choice" toName="image">`.

    Images that are unknown have no prediction; those that cannot be read are left out.
    """
    tasks = []
    for prediction in _readable(predictions):
        result = {
            "from_name": "choice",
            "to_name": "image",
            "type": "choices",
            "value": {"choices": [prediction.label]},
        }
        found = [{"model_version": "itaml", "score": prediction.confidence, "result": [result]}]
        tasks.append({"data": {"image": prediction.file}, "predictions": found if prediction.known else []})
    return json.dumps(tasks, indent=1, ensure_ascii=False)


def coco(predictions: Sequence[ImagePrediction], classes: Sequence[str]) -> str:
    """Return a COCO file whose annotations have a category and a score, and no boxes."""
    ids = {name: number for number, name in enumerate(classes, 1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, prediction in enumerate(_readable(predictions), 1):
        width, height = _size(prediction)
        images.append({"id": number, "file_name": prediction.file, "width": width, "height": height})
        if prediction.known:
            entry = {"id": len(annotations) + 1, "image_id": number, "category_id": ids[str(prediction.label)]}
            annotations.append({**entry, "score": prediction.confidence})
    categories = [{"id": number, "name": name} for name, number in ids.items()]
    return json.dumps({"images": images, "annotations": annotations, "categories": categories}, ensure_ascii=False)


def cvat(predictions: Sequence[ImagePrediction], classes: Sequence[str]) -> str:
    """Return an XML file of `CVAT for images 1.1` with a tag in each image that is known."""
    root = ElementTree.Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    for number, prediction in enumerate(_readable(predictions)):
        width, height = _size(prediction)
        about = {"id": str(number), "name": _xml(prediction.file), "width": str(width), "height": str(height)}
        image = ElementTree.SubElement(root, "image", about)
        if prediction.known:
            ElementTree.SubElement(image, "tag", {"label": _xml(prediction.label), "source": "auto"})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


EXPORTERS = {"label-studio": label_studio, "coco": coco, "cvat": cvat}


def _readable(predictions: Sequence[ImagePrediction]) -> list[ImagePrediction]:
    return [prediction for prediction in predictions if prediction.error is None and prediction.file is not None]


def _size(prediction: ImagePrediction) -> tuple[int, int]:
    with open_image(str(prediction.file)) as image:
        return image.size


def _xml(text: Any) -> str:
    """Return text without the characters that XML cannot hold."""
    return "".join(one if one in "\t\n\r" or one >= " " else "\ufffd" for one in str(text))
