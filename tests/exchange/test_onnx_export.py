"""An exported file predicts what its model predicts, and says what a reader must know."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from exchange_support import blotches, probabilities, run_itaml
from itaml.data.decoding import ORIENTATION
from itaml.errors import CheckpointError, DataError, SettingsError, UsageError
from itaml.exchange.export_check import compare
from itaml.exchange.exported_classifier import ExportedClassifier
from itaml.exchange.onnx_export import OPSET, export_onnx, open_session
from itaml.modelstore.image_classifier import ImageClassifier
from modelstore_support import digits_of, tiny_model

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

EXAMPLE = Path(__file__).parents[2] / "examples" / "read_onnx.py"
SPLITS = ((0, 1, 2, 3), (4, 5, 6), (7, 8))
TOLERANCE = 1e-4


def learned_digits(path: Path, **options: Any) -> ImageClassifier:
    classifier = ImageClassifier.create(path, **options)
    for labels in SPLITS:
        images, numbers = digits_of(labels, limit=30)
        classifier.learn(images, [f"digit {number}" for number in numbers])
    return classifier


def _named(value: Any, name: str) -> Any:
    renamed = onnx.ValueInfoProto()
    renamed.CopyFrom(value)
    renamed.name = name
    return renamed


def check_on(classifier: ImageClassifier, exported: ExportedClassifier, images: Any) -> None:
    """Assert equal probabilities, classes, tasks and unknown images."""
    wanted, found = classifier.predict(images), exported.predict(images)
    assert np.abs(probabilities(classifier, images) - probabilities(exported, images)).max() <= TOLERANCE
    assert [(row.label, row.task, row.known) for row in found] == [(row.label, row.task, row.known) for row in wanted]
    assert exported.unknown_threshold == pytest.approx(classifier.unknown_threshold)
    for one, other in zip(found, wanted, strict=True):
        assert one.unknown_score == pytest.approx(other.unknown_score, rel=1e-3, abs=1e-3)


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> ImageClassifier:
    """Return a model of iTAML that adapts to each task."""
    settings = {"adapt_steps": 5, "adapt_lr": 0.1, "adapt_guard": False}
    path = tmp_path_factory.mktemp("models") / "mlp"
    return learned_digits(path, backbone="mlp", epochs=4, settings=settings)


@pytest.fixture(scope="module")
def mlp_file(mlp: ImageClassifier) -> Path:
    path = mlp.path.parent / "mlp.onnx"
    report = mlp.export(path)
    assert report.difference <= TOLERANCE
    assert report.images > 20
    assert report.size == path.stat().st_size
    return path


def test_an_mlp_that_adapts_predicts_the_same_on_100_images(mlp: ImageClassifier, mlp_file: Path) -> None:
    images = digits_of(tuple(range(10)), limit=10, skip=60)[0]
    assert len(images) == 100
    check_on(mlp, ExportedClassifier(mlp_file), images)


def test_images_of_any_size_are_resized_inside(mlp: ImageClassifier, mlp_file: Path) -> None:
    session = open_session(mlp_file)
    for height, width in ((8, 8), (20, 31), (47, 23), (480, 640), (1000, 700)):
        images = np.random.default_rng(height).integers(0, 256, (3, height, width, 3), dtype=np.uint8)
        found = session.run(["probabilities"], {"images": images})[0]
        assert np.abs(found - probabilities(mlp, images)).max() <= TOLERANCE


def test_the_metadata_says_classes_tasks_threshold_and_temperature(mlp: ImageClassifier, mlp_file: Path) -> None:
    file = onnx.load(mlp_file)
    metadata = {entry.key: entry.value for entry in file.metadata_props}
    assert json.loads(metadata["classes"]) == list(mlp.classes)
    assert json.loads(metadata["tasks"]) == [list(task.classes) for task in mlp.tasks]
    assert math.isfinite(float(metadata["unknown_threshold"]))
    assert float(metadata["temperature"]) == mlp._model.confidence.temperature
    assert (metadata["method"], metadata["backbone"], metadata["image_shape"]) == ("itaml", "mlp", "[1, 8, 8]")
    assert {entry.version for entry in file.opset_import if not entry.domain} == {OPSET}
    assert [output.name for output in file.graph.output] == [
        "label",
        "probabilities",
        "task_log_posterior",
        "unknown_score",
    ]
    double = onnx.TensorProto.DOUBLE
    assert not [tensor.name for tensor in file.graph.initializer if tensor.data_type == double]


def test_log_posteriors_are_of_the_tasks(mlp: ImageClassifier, mlp_file: Path) -> None:
    images = np.repeat(digits_of((0, 5, 8), limit=5, skip=60)[0][..., None], 3, -1)
    posterior = open_session(mlp_file).run(["task_log_posterior"], {"images": images})[0]
    assert posterior.shape == (15, 3)
    assert np.allclose(np.exp(posterior).sum(1), 1, atol=1e-5)


def test_the_commands_export_and_predict(mlp: ImageClassifier, mlp_file: Path, tmp_path: Path) -> None:
    Image.fromarray(digits_of((4,), limit=1, skip=70)[0][0]).save(tmp_path / "four.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    done = run_itaml("predict", mlp_file, tmp_path / "four.png", "--json")
    expected = mlp.predict(tmp_path / "four.png")[0]
    (found,) = json.loads(done.out)["predictions"]
    assert (found["class"], found["task"]) == (expected.label, (expected.task or 0) + 1)
    assert found["confidence"] == pytest.approx(expected.confidence, abs=TOLERANCE)
    broken = run_itaml("predict", mlp_file, tmp_path / "broken.png")
    assert broken.code == 1
    assert "1 of 1 image could not be read" in broken.err
    grouped = run_itaml("predict", mlp_file, tmp_path / "four.png", "--continuum")
    assert (grouped.code, "predicts each image alone" in grouped.err) == (2, True)
    wrong = run_itaml("export", mlp.path, tmp_path / "model.txt")
    assert (wrong.code, "exported to .onnx or .pt2, not to" in wrong.err) == (2, True)


def test_the_example_without_itaml_predicts_the_same_for_all_files(
    mlp: ImageClassifier, mlp_file: Path, tmp_path: Path
) -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 31
    files = photo_files(tmp_path)
    names = [str(file) for file in files]
    code = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['itaml'] = None; "
        f"sys.argv = ['read_onnx.py', {str(mlp_file)!r}, *{names!r}]; "
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for line, name, expected in zip(done.stdout.splitlines(), names, mlp.predict(files), strict=True):
        assert line == f"{name}\t{expected.label}\t{expected.confidence:.4f}"


def photo_files(folder: Path) -> list[Path]:
    """Write a digit as a photo: of many sizes and kinds, also such that are decoded at a smaller scale."""
    digit = Image.fromarray(digits_of((1,), limit=1, skip=70)[0][0])
    for number, (width, height) in enumerate(((24, 16), (640, 480), (480, 640), (1600, 1200), (1203, 1607))):
        image = digit.resize((width, height), Image.Resampling.BICUBIC).convert("RGB")
        image.save(folder / f"{number}.jpg", quality=90)
        image.save(folder / f"{number}.png")
        exif = Image.Exif()
        exif[ORIENTATION] = 6
        image.transpose(Image.Transpose.ROTATE_90).save(folder / f"{number} turned.jpg", exif=exif)
    faded = digit.resize((300, 300)).convert("RGBA")
    faded.putalpha(digit.resize((300, 300)))
    faded.save(folder / "alpha.png")
    return sorted(folder.glob("*.*g"))


@pytest.mark.slow
def test_a_head_without_a_network_is_exported_with_its_own_threshold(tmp_path: Path) -> None:
    classifier = learned_digits(tmp_path / "model", method="lda", settings={"backbone": "pixels"})
    classifier.export(tmp_path / "model.onnx")
    exported = ExportedClassifier(tmp_path / "model.onnx")
    check_on(classifier, exported, digits_of(tuple(range(10)), limit=10, skip=60)[0])
    assert exported.unknown_threshold == classifier._model.core.unknown_threshold  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="no network whose numbers could be made smaller"):
        classifier.export(tmp_path / "small.onnx", int8=True)
    assert [file.name for file in tmp_path.iterdir() if file.name != "model"] == ["model.onnx"]


def test_what_cannot_be_exported_is_refused(mlp: ImageClassifier, tmp_path: Path) -> None:
    empty = tiny_model(tmp_path / "empty")
    with pytest.raises(DataError, match="has not learned anything yet"):
        export_onnx(empty, tmp_path / "empty.onnx")
    with pytest.raises(UsageError, match=r"for int8 a model is exported to \.onnx, not to"):
        mlp.export(tmp_path / "model.pt2", int8=True)
    (tmp_path / "not.onnx").write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError, match="cannot be read as ONNX"):
        ExportedClassifier(tmp_path / "not.onnx")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["y"])], "foreign", [value], [_named(value, "y")]
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), tmp_path / "foreign.onnx")
    with pytest.raises(CheckpointError, match="not a model that itaml exported"):
        ExportedClassifier(tmp_path / "foreign.onnx")


def test_a_network_that_predicts_otherwise_is_refused(mlp: ImageClassifier) -> None:
    images = digits_of((0,), limit=2)[0]
    wrong = np.full((2, len(mlp.classes)), 1 / len(mlp.classes))
    label = np.array([mlp.classes.index(row.label or "") for row in mlp.predict(images, unknown="never")])
    with pytest.raises(CheckpointError, match="probabilities of the exported network differ"):
        compare(mlp, lambda _: (label, wrong, wrong, wrong), images)
    with pytest.raises(CheckpointError, match="predicts 'digit 8' where the model predicts"):
        compare(mlp, lambda _: (np.array([8, 8]), wrong, wrong, wrong), images)


@pytest.mark.slow
def test_a_program_of_torch_export_predicts_the_same(mlp: ImageClassifier, tmp_path: Path) -> None:
    mlp.export(tmp_path / "model.pt2")
    extra = {"itaml.json": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=extra).module()
    assert json.loads(json.loads(extra["itaml.json"])["classes"]) == list(mlp.classes)
    images = np.repeat(digits_of(tuple(range(10)), limit=3, skip=60)[0][..., None], 3, -1)
    found = program(torch.from_numpy(images))[1].detach().numpy()
    assert np.abs(found - probabilities(mlp, images)).max() <= TOLERANCE


@pytest.mark.slow
def test_int8_says_what_it_costs(mlp: ImageClassifier, mlp_file: Path, tmp_path: Path) -> None:
    done = run_itaml("export", mlp.path, tmp_path / "small.onnx", "--int8", "--json")
    report = json.loads(done.out)
    assert report["size"] < mlp_file.stat().st_size / 1.5
    assert report["measured_on"] == "validation"
    assert report["measured"] == sum(task.validation_images for task in mlp.tasks)
    images, labels = digits_of(tuple(range(9)), limit=10, skip=60)
    names = [f"digit {label}" for label in labels]
    right = [
        np.mean([row.top[0][0] == name for row, name in zip(model.predict(images), names, strict=True)])
        for model in (mlp, ExportedClassifier(tmp_path / "small.onnx"))
    ]
    assert right[1] >= right[0] - 0.1


@pytest.mark.slow
def test_resnet18_third_predicts_the_same_on_100_images(tmp_path: Path) -> None:
    classifier = ImageClassifier.create(
        tmp_path / "model", method="itaml", backbone="resnet18-third", image_size=32, epochs=4
    )
    for labels in ((0, 1), (2, 3)):
        classifier.learn(*blotches(labels, count=30, size=(40, 36)))
    classifier.export(tmp_path / "model.onnx")
    images = blotches((0, 1, 2, 3, 4), count=20, size=(50, 60), seed=1)[0]
    assert len(images) == 100
    check_on(classifier, ExportedClassifier(tmp_path / "model.onnx"), images)


@pytest.mark.slow
def test_lite0_with_lda_predicts_the_same_on_100_images(tmp_path: Path) -> None:
    classifier = ImageClassifier.create(tmp_path / "model")
    for labels in ((0, 1), (2, 3)):
        classifier.learn(*blotches(labels, count=10, size=(240, 240)))
    assert classifier.info()["method"] == "lda"
    classifier.export(tmp_path / "model.onnx")
    images = blotches((0, 1, 2, 3, 4), count=20, size=(250, 300), seed=1)[0]
    assert len(images) == 100
    check_on(classifier, ExportedClassifier(tmp_path / "model.onnx"), images)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["icarl", "bic", "rpsnet", "ncm", "ranpac", "finetune"])
def test_other_methods_predict_the_same(method: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": method, "memory": 120, "epochs": 2}
    classifier = learned_digits(tmp_path / "model", **options)
    classifier.export(tmp_path / "model.onnx")
    check_on(classifier, ExportedClassifier(tmp_path / "model.onnx"), digits_of(tuple(range(9)), limit=10, skip=60)[0])
