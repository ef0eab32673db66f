"""Requests that cannot be meant, data that cannot be right: the right error, before any training, naming the thing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from experiment_support import checkpoint, short
from itaml.data.images import ImageSet
from itaml.data.stream import Task, TaskStream, split_classes
from itaml.errors import (
    CheckpointError,
    DataError,
    InterruptedRunError,
    RunExistsError,
    SettingsError,
    TrainingError,
    UnknownNameError,
)
from itaml.events import Event
from itaml.experiment.run_config import RunConfig, resolve
from itaml.experiment.run_folder import CHECKPOINT, CONFIG, RESULT
from itaml.experiment.runner import run_experiment
from itaml.safe_files import read_json
from itaml.storage import save_state
from support import SHAPE, fresh_itaml, same_bits, synthetic_stream

pytestmark = pytest.mark.usefixtures("small_benchmarks")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"benchmark_name": "digit"}, "no benchmark 'digit'; did you mean 'digits'?"),
        ({"benchmark_name": "cifar100-11"}, "no benchmark 'cifar100-11'; did you mean 'cifar100-10'?"),
        ({"method": "itmal"}, "no method 'itmal'; did you mean 'itaml'?"),
        ({"preset": "bset"}, "no preset for itaml 'bset'; did you mean 'best'?"),
        ({"overrides": {"epoch": 3}}, "no setting 'epoch'; did you mean 'epochs'?"),
        ({"overrides": {"seeds.memry": 3}}, "no seed 'memry'; did you mean 'memory'?"),
        ({"overrides": {"backbone": "resnet"}}, "no backbone 'resnet'; did you mean 'resnet18'?"),
        ({"overrides": {"optimizer": "adamm"}}, "no optimizer 'adamm'; did you mean 'adam'?"),
        ({"overrides": {"adapt_optimizer": "sdg"}}, "no optimizer 'sdg'; did you mean 'sgd'?"),
        ({"overrides": {"augment": "shft"}}, "no augmentation 'shft'; did you mean 'shift'?"),
        ({"splitt": (2, 2)}, "no setting 'splitt'; did you mean 'split'?"),
    ],
)
def test_unknown_names_offer_the_nearest(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        run_experiment(resolve(**{"benchmark_name": "small"} | arguments), tmp_path / "run", callbacks=[no_training])
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def no_training(event: Event) -> None:
    raise AssertionError(f"{event} happened before the request was refused")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"overrides": {"memory": 3}}, ["memory of 3", "4 classes"]),
        ({"p": (0,)}, ["p", "greater than or equal to 1", "0"]),
        ({"p": (1, -5)}, ["p", "-5"]),
        ({"p": ()}, ["p", "at least 1"]),
        ({"split": (2, 0, 2)}, ["at least one class", "2,0,2"]),
        ({"split": (2, 1)}, ["2,1", "3", "4"]),
        ({"split": ()}, ["empty split"]),
        ({"split": (3, 1), "overrides": {"negatives": "own"}}, ["task 1", "single class", "negatives=seen"]),
        ({"validation": 1.0}, ["validation", "less than 1"]),
        ({"overrides": {"lr": "quick"}}, ["lr", "'quick'"]),
        ({"overrides": {"seeds.init": "a"}}, ["init", "'a'"]),
        ({"overrides": {"optimizer": "muon"}}, ["optimizer", "muon"]),
    ],
    ids=str,
)
def test_impossible_settings_are_refused_before_any_training(
    tmp_path: Path, arguments: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        run_experiment(resolve("small", **arguments), tmp_path / "run", callbacks=[no_training])
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_loss_that_is_no_number_ends_the_run_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        TrainingError, match=r"loss became (nan|inf) in task 0, epoch 1: try a smaller lr \(it is 1e\+30\)"
    ):
        run_experiment(short(lr=1e30), tmp_path)
    assert not (tmp_path / RESULT).exists()


def test_a_class_in_two_tasks_is_named() -> None:
    dataset = synthetic_stream().dataset
    with pytest.raises(DataError, match="class 'class 1' is in task 0 and again in task 2"):
        TaskStream(dataset, ((0, 1), (2, 3), (1, 4)))
    learner = fresh_itaml()
    stream = TaskStream(dataset, ((0, 1),))
    learner.learn(stream[0])
    with pytest.raises(DataError, match="class 0 is in two tasks"):
        learner.learn(replace(stream[0], index=1))


def test_tasks_without_classes_or_images_are_refused() -> None:
    dataset = synthetic_stream().dataset
    with pytest.raises(DataError, match="task 1 has no classes"):
        TaskStream(dataset, ((0, 1), ()))
    with pytest.raises(DataError, match="task 0 has class 9, which synthetic does not have"):
        TaskStream(dataset, ((0, 9),))
    poor = replace(dataset, train=dataset.train.of_classes([0, 1, 2]))
    with pytest.raises(DataError, match="class 'class 3' has no training images"):
        TaskStream(poor, ((0, 1), (2, 3)))
    with pytest.raises(DataError, match="task 0 has no training images"):
        fresh_itaml().learn(Task(0, (0, 1), dataset.train.of_classes([])))
    with pytest.raises(SettingsError, match="4 classes cannot be split into 5 tasks"):
        split_classes(range(4), sizes=5)


@pytest.mark.parametrize(
    ("classes", "labels", "message"),
    [((0, 1), [0, 1, 2], "class 2 is in none of the 1 tasks"), ((), [0, 1], "class 0 is in none of the 0 tasks")],
)
def test_labels_outside_the_task_are_refused_and_nothing_is_learned(
    classes: tuple[int, ...], labels: list[int], message: str
) -> None:
    learner = fresh_itaml()
    before = learner.state_dict()
    images = ImageSet.from_arrays(torch.zeros(len(labels), *SHAPE), labels)
    with pytest.raises(DataError, match=message):
        learner.learn(Task(0, classes, images))
    assert same_bits(learner.state_dict(), before)


def test_images_of_another_shape_are_refused_and_nothing_is_learned() -> None:
    learner = fresh_itaml()
    before = learner.state_dict()
    images = ImageSet.from_arrays(torch.zeros(4, 3, 4, 4), [0, 1, 0, 1])
    with pytest.raises(DataError, match="takes images of shape 1 x 4 x 4, these are 3 x 4 x 4"):
        learner.learn(Task(0, (0, 1), images))
    assert same_bits(learner.state_dict(), before)


def test_a_head_of_one_class_with_own_negatives_is_refused() -> None:
    learner = fresh_itaml(negatives="own")
    images = ImageSet.from_arrays(torch.zeros(4, *SHAPE), [0] * 4)
    with pytest.raises(SettingsError, match="task 0 has a single class"):
        learner.learn(Task(0, (0,), images))
    assert len(learner.task_map) == 0


def test_a_memory_that_cannot_hold_the_classes_is_refused_before_learning() -> None:
    learner = fresh_itaml(memory=3)
    stream = synthetic_stream((2, 2))
    learner.learn(stream[0])
    before = learner.state_dict()
    with pytest.raises(SettingsError, match="a memory of 3 images is smaller than the 4 classes"):
        learner.learn(stream[1])
    assert same_bits(learner.state_dict(), before)


def test_a_learner_outside_a_run_is_told_to_name_its_horizon() -> None:
    with pytest.raises(SettingsError, match="horizon=stream is for runs"):
        fresh_itaml(horizon="stream")


@pytest.mark.parametrize("engine", ["loop", "fused"])
def test_a_last_batch_of_one_image_is_no_trouble_for_batch_norm(tmp_path: Path, engine: str) -> None:
    result = run_experiment(short("small8", engine=engine, batch_size=17, epochs=1), tmp_path)  # 18 images
    assert len(result.tasks) == 2


def test_a_folder_that_holds_a_run_is_kept(tmp_path: Path) -> None:
    run_experiment(short(), tmp_path)
    result = (tmp_path / RESULT).read_bytes()
    with pytest.raises(RunExistsError, match="holds a finished run; --resume goes on with it, --force deletes it"):
        run_experiment(short(), tmp_path)
    assert (tmp_path / RESULT).read_bytes() == result
    run_experiment(short(seed=1), tmp_path, force=True)
    assert json.loads((tmp_path / RESULT).read_text())["seed"] == 1


def test_an_unfinished_run_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InterruptedRunError):
        run_experiment(short(), tmp_path, stop=lambda: True)
    with pytest.raises(RunExistsError, match="holds an unfinished run"):
        run_experiment(short(), tmp_path)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_is_not_a_run_is_never_touched(tmp_path: Path, force: bool) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunExistsError, match="something that is not a run"):
        run_experiment(short(), tmp_path, force=force)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(RunExistsError, match="is a file"):
        run_experiment(short(), tmp_path / "thesis.txt", force=force)


def test_a_run_is_not_resumed_with_other_settings(tmp_path: Path) -> None:
    with pytest.raises(InterruptedRunError):
        run_experiment(short(), tmp_path, stop=lambda: True)
    with pytest.raises(CheckpointError, match=r"other settings \(settings\.lr\)"):
        run_experiment(short(lr=0.2), tmp_path, resume=True)
    with pytest.raises(CheckpointError, match=r"other settings \(seed, seeds\.adapt, seeds\.augment"):
        run_experiment(short(seed=3), tmp_path, resume=True)


def stopped(folder: Path) -> RunConfig:
    config = short(momentum=0.9)
    with pytest.raises(InterruptedRunError):
        run_experiment(config, folder, stop=lambda: True)
    return config


def refused(config: RunConfig, folder: Path, message: str) -> None:
    content = (folder / CHECKPOINT).read_bytes()
    with pytest.raises(CheckpointError, match=message) as caught:
        run_experiment(config, folder, resume=True)
    assert CHECKPOINT in str(caught.value)
    assert (folder / CHECKPOINT).read_bytes() == content  # left for whoever wants to look at it


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_checkpoint_with_a_flipped_byte_is_refused(tmp_path: Path, share: float) -> None:
    config = stopped(tmp_path)
    content = bytearray((tmp_path / CHECKPOINT).read_bytes())
    content[int(share * len(content))] ^= 0xFF
    (tmp_path / CHECKPOINT).write_bytes(bytes(content))
    refused(config, tmp_path, "is damaged")


def test_a_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    config = stopped(tmp_path)
    content = (tmp_path / CHECKPOINT).read_bytes()
    (tmp_path / CHECKPOINT).write_bytes(content[: len(content) // 2])
    refused(config, tmp_path, "is damaged")


def test_a_foreign_or_a_future_checkpoint_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = stopped(tmp_path)
    save_state(tmp_path / CHECKPOINT, {"w": torch.zeros(1)}, kind="model")
    refused(config, tmp_path, "is not a run checkpoint of itaml but model")
    with monkeypatch.context() as patched:
        patched.setattr("itaml.storage.FORMAT", 9)
        save_state(tmp_path / CHECKPOINT, {}, kind="run checkpoint")
    refused(config, tmp_path, "has format 9, newer than 2: a newer itaml is needed")


def test_a_checkpoint_of_another_learner_is_refused() -> None:
    learner = fresh_itaml()
    state = learner.state_dict()
    with pytest.raises(CheckpointError, match="of a Stranger, not of a ITAML"):
        learner.load_state_dict({**state, "learner": "Stranger"})
    other = fresh_itaml(hidden=(9,))
    with pytest.raises(CheckpointError, match="another network"):
        other.load_state_dict(state)


def test_a_damaged_configuration_is_refused(tmp_path: Path) -> None:
    config = stopped(tmp_path)
    for text in ("{", "[1]", ""):
        (tmp_path / CONFIG).write_text(text)
        with pytest.raises(CheckpointError, match=CONFIG):
            run_experiment(config, tmp_path, resume=True)


def test_a_task_under_way_must_be_finished_first() -> None:
    stream = synthetic_stream()
    learner = fresh_itaml(epochs=2)

    def stop(event: Event) -> None:
        if type(event).__name__ == "EpochDone":
            raise InterruptedError

    learner.callback = stop
    with pytest.raises(InterruptedError):
        learner.learn(stream[0])
    with pytest.raises(DataError, match="task 0 is under way and must be finished before task 1"):
        learner.learn(stream[1])


def test_a_task_without_test_images_is_refused_before_any_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = synthetic_stream((2, 2)).dataset
    monkeypatch.setattr("support.load_small", lambda _: replace(dataset, test=dataset.test.of_classes([0, 1])))
    with pytest.raises(DataError, match=r"task 1 \(class 2, class 3\) has no test images"):
        run_experiment(short(), tmp_path, callbacks=[no_training])


def test_the_numbers_of_a_run_are_where_they_should_be(tmp_path: Path) -> None:
    result = run_experiment(short(), tmp_path)
    assert result.format == 1
    assert result.evaluated_on == "test data"
    assert [row.index for row in result.tasks] == [0, 1]
    assert result.tasks[1].classes == ["class 2", "class 3"]
    assert set(result.tasks[1].continuum) == {1, 3}
    assert result.tasks[0].continuum[1].task == 1.0
    matrix = result.accuracy_matrix
    assert matrix[0][1] is None
    assert matrix[0][0] is not None
    assert matrix[1][0] is not None
    assert result.final.forgetting == pytest.approx(matrix[0][0] - matrix[1][0])
    assert result.final.continuum == result.tasks[1].continuum
    means = [row.continuum[3].classes for row in result.tasks]
    assert result.final.average_incremental[3] == pytest.approx(sum(means) / 2)
    by_task = result.tasks[1].class_by_task[1]
    assert result.tasks[1].continuum[1].classes == pytest.approx(sum(by_task) / 2)  # tasks of equal size
    assert read_json(tmp_path / RESULT) == json.loads(json.dumps(result.to_dict()))
    assert checkpoint(tmp_path)["learner"]["progress"] is None


def test_validation_never_touches_the_test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = synthetic_stream((2, 2)).dataset
    poisoned = ImageSet.from_arrays(torch.full((8, *SHAPE), 7, dtype=torch.uint8), [0, 0, 1, 1, 2, 2, 3, 3])
    for name, test in (("clean", dataset.test), ("poisoned", poisoned)):
        monkeypatch.setattr("support.load_small", lambda _, test=test: replace(dataset, test=test))
        config = resolve("small", overrides={"epochs": 1}, validation=0.3)
        result = run_experiment(config, tmp_path / name)
        assert result.evaluated_on == "0.3 of the training data"
    clean, other = (json.loads((tmp_path / name / RESULT).read_text()) for name in ("clean", "poisoned"))
    assert clean["final"] == other["final"]
