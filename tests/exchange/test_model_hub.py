"""Push and pull against a hub that is a folder, through the signatures of the installed huggingface_hub."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from typing import Any

import pytest

from exchange_support import run_itaml
from itaml.errors import CheckpointError, DataError, ItamlError, UsageError
from itaml.exchange.model_card import model_card
from itaml.exchange.model_hub import pull, push
from itaml.modelstore.image_classifier import ImageClassifier
from modelstore_support import digits_of, tiny_model

hub = pytest.importorskip("huggingface_hub")
REAL = hub.HfApi


class FolderHub:
    """Stands in for `HfApi`; its methods take what the real ones take."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, []  # type: ignore[var-annotated]

    def __call__(self, **arguments: Any) -> FolderHub:
        inspect.signature(REAL).bind(**arguments)
        return self

    def _checked(self, name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = inspect.signature(getattr(REAL, name)).bind(self, *args, **kwargs)
        self.calls.append((name, bound.arguments))
        return bound.arguments

    def create_repo(self, *args: Any, **kwargs: Any) -> str:
        arguments = self._checked("create_repo", *args, **kwargs)
        (self.root / arguments["repo_id"]).mkdir(parents=True, exist_ok=True)
        return f"https://hub.example/{arguments['repo_id']}"

    def upload_folder(self, *args: Any, **kwargs: Any) -> None:
        arguments = self._checked("upload_folder", *args, **kwargs)
        shutil.rmtree(self.root / arguments["repo_id"])
        shutil.copytree(arguments["folder_path"], self.root / arguments["repo_id"])

    def snapshot_download(self, *args: Any, **kwargs: Any) -> str:
        arguments = self._checked("snapshot_download", *args, **kwargs)
        source = self.root / arguments["repo_id"]
        if not source.is_dir():
            raise OSError("404: there is no such repository")
        names = [file.relative_to(source).as_posix() for file in source.rglob("*") if not file.is_dir()]
        for name in hub.utils.filter_repo_objects(names, allow_patterns=arguments["allow_patterns"]):
            place = Path(arguments["local_dir"]) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, place, follow_symlinks=False)
        (Path(arguments["local_dir"]) / ".cache").mkdir(parents=True)
        return str(arguments["local_dir"])


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    found = FolderHub(tmp_path / "hub")
    monkeypatch.setattr(hub, "HfApi", found)
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ImageClassifier:
    classifier = tiny_model(tmp_path_factory.mktemp("models") / "digits")
    for labels in ((0, 1), (2, 3)):
        images, numbers = digits_of(labels)
        classifier.learn(images, [f"digit {number}" for number in numbers])
    return classifier


def test_a_model_that_was_pushed_is_pulled_and_predicts_the_same(
    fake: FolderHub, model: ImageClassifier, tmp_path: Path
) -> None:
    assert push(model, "me/digits", licence="apache-2.0") == "https://hub.example/me/digits"
    assert fake.calls[0][1]["private"] is True
    assert "README.md" not in fake.calls[1][1]["delete_patterns"]
    assert not (fake.root / "me/digits/lock").exists()
    checked = pull("me/digits", tmp_path / "pulled")
    pulled = ImageClassifier.open(tmp_path / "pulled")
    assert checked == pulled.info()["versions_kept"].__len__() * 2 + 1
    images = digits_of((0, 1, 2, 3), limit=5, skip=30)[0]
    assert pulled.predict(images) == model.predict(images)
    assert sorted(path.name for path in (tmp_path / "pulled").iterdir()) == ["README.md", "current.json", "versions"]


def test_what_does_not_belong_to_a_model_is_not_pulled(fake: FolderHub, model: ImageClassifier, tmp_path: Path) -> None:
    push(model, "me/digits")
    (fake.root / "me/digits/setup.py").write_text("raise SystemExit")
    (fake.root / "me/digits/weights.bin").write_bytes(b"pickle")
    pull("me/digits", tmp_path / "pulled")
    assert not list((tmp_path / "pulled").glob("*.py"))
    assert not list((tmp_path / "pulled").glob("*.bin"))


def test_a_damaged_or_hostile_model_is_refused_and_leaves_nothing(
    fake: FolderHub, model: ImageClassifier, tmp_path: Path
) -> None:
    push(model, "me/digits")
    (state,) = (fake.root / "me/digits/versions").glob("*/state.safetensors")
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.write_bytes(data)
    with pytest.raises(CheckpointError, match="me/digits is damaged, and was not kept"):
        pull("me/digits", tmp_path / "pulled")
    state.unlink()
    state.symlink_to("/etc/passwd")
    with pytest.raises(CheckpointError, match=r"me/digits is not safe: .*state\.safetensors is not a regular file"):
        pull("me/digits", tmp_path / "pulled")
    shutil.rmtree(fake.root / "me/digits")
    (fake.root / "me/digits").mkdir()
    (fake.root / "me/digits/README.md").write_text("nothing")
    with pytest.raises(CheckpointError, match=r"not a model of itaml: it has no current\.json"):
        pull("me/digits", tmp_path / "pulled")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hub"]


def test_wrong_requests_are_one_sentence(fake: FolderHub, model: ImageClassifier, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a repository is named user/name, not 'digits'"):
        push(model, "digits")
    with pytest.raises(ItamlError, match="me/nothing could not be pulled: OSError: 404"):
        pull("me/nothing", tmp_path / "pulled")
    with pytest.raises(UsageError, match="pull into a new folder"):
        pull("me/digits", tmp_path)
    with pytest.raises(DataError, match="has not learned anything yet"):
        push(tiny_model(tmp_path / "empty"), "me/empty")


def test_the_card_says_classes_data_accuracy_limits_and_licence(model: ImageClassifier) -> None:
    card = model_card(model, name="digits | <b>", licence="apache-2.0", repo="me/digits")
    head, body = card.removeprefix("---\n").split("\n---\n")
    data = hub.ModelCardData(**hub.ModelCard(card).data.to_dict())
    assert (data.license, data.library_name, data.pipeline_tag) == ("apache-2.0", "itaml", "image-classification")
    assert "itaml" in head
    assert "# digits \\| \\<b\\>" in body
    assert "| 1 | digit 0, digit 1 |" in body
    scores = model.info()["learns"][-1]["tasks"]
    for score in scores:
        assert f"| {score['task'] + 1} | {score['images']} | {100 * score['after']:.1f} |" in body
    assert "itaml pull me/digits model" in body
    kept = model.info()["exemplars"] + model.info()["validation_images"]
    assert f"hold {kept} images" in body


def test_the_commands_push_and_pull(fake: FolderHub, model: ImageClassifier, tmp_path: Path) -> None:
    done = run_itaml("push", model.path, "me/digits", "--public", "--licence", "mit")
    assert (done.code, "with 48 images that it keeps" in done.out) == (0, True)
    assert fake.calls[0][1]["private"] is False
    assert run_itaml("pull", "me/digits", tmp_path / "pulled").code == 0
    written = run_itaml("push", model.path, "--to-folder", tmp_path / "folder")
    assert written.code == 0
    assert (tmp_path / "folder" / "README.md").exists()
    assert ImageClassifier.open(tmp_path / "folder").verify() == []
    neither = run_itaml("push", model.path)
    assert (neither.code, "name a repository (user/name)" in neither.err) == (2, True)
