"""The estimator: scikit-learn's own checks, and classes that arrive one after another."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from itaml.errors import SettingsError
from itaml.sklearn import ITAMLClassifier

# scikit-learn's checks that do not apply, each with the reason. There are none; scikit-learn itself skips its check of
# array-API input unless SCIPY_ARRAY_API is set.
NOT_APPLICABLE: dict[str, str] = {}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [ITAMLClassifier(epochs=10)], expected_failed_checks=lambda _: NOT_APPLICABLE
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def digits() -> tuple[Any, Any, Any, Any]:
    features, labels = load_digits(return_X_y=True)
    test = np.arange(len(labels)) % 4 == 0
    return features[~test], labels[~test], features[test], labels[test]


def test_classes_arrive_one_after_another() -> None:
    train, names, test, truth = digits()
    estimator = ITAMLClassifier(epochs=6, memory=400)
    for first in (0, 4, 8):
        arriving = (names >= first) & (names < first + 4)
        estimator.partial_fit(train[arriving], names[arriving])
        assert estimator.classes_.tolist() == list(range(min(first + 4, 10)))
    assert [task.tolist() for task in estimator.tasks_] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert estimator.score(test, truth) > 0.9
    probabilities = estimator.predict_proba(test)
    assert probabilities.shape == (len(test), 10)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)


def test_known_classes_are_refreshed_without_a_new_task() -> None:
    train, names, test, truth = digits()
    estimator = ITAMLClassifier(epochs=3).fit(train[:200], names[:200])
    before = estimator.score(test, truth)
    estimator.partial_fit(train[200:], names[200:])
    assert len(estimator.tasks_) == 1
    assert estimator.score(test, truth) > before


def test_announced_classes_have_columns_and_others_are_refused() -> None:
    train, names, _, _ = digits()
    few = names < 2
    estimator = ITAMLClassifier(epochs=1).partial_fit(train[few], names[few], classes=np.arange(10))
    assert estimator.classes_.tolist() == list(range(10))
    assert estimator.predict_proba(train[:5])[:, 2:].sum() == 0
    with pytest.raises(ValueError, match=r"classes has not: \[7\]"):
        estimator.partial_fit(train[names == 7], names[names == 7], classes=[0, 1])


def test_images_and_text_labels() -> None:
    train, names, test, truth = digits()
    images, words = train.reshape(-1, 8, 8), np.array([f"digit {name}" for name in names])
    estimator = ITAMLClassifier(epochs=5).fit(images, words)
    found = estimator.predict(test.reshape(-1, 8, 8))
    assert np.mean(found == np.array([f"digit {name}" for name in truth])) > 0.9
    coloured = np.repeat((train.reshape(-1, 8, 8, 1) * 15).astype(np.uint8), 3, axis=3)
    assert ITAMLClassifier(epochs=2).fit(coloured, names).predict(coloured[:9]).shape == (9,)
    with pytest.raises(ValueError, match="learned"):
        estimator.predict(np.zeros((2, 8, 9)))


def test_the_seed_decides() -> None:
    train, names, test, _ = digits()

    def probabilities(seed: int) -> Any:
        return ITAMLClassifier(epochs=1, random_state=seed).fit(train, names).predict_proba(test)

    assert np.array_equal(probabilities(1), probabilities(1))
    assert not np.array_equal(probabilities(1), probabilities(2))


def test_parameters_come_back() -> None:
    assert ITAMLClassifier(memory=7, lr=0.5).get_params()["memory"] == 7
    copy = sklearn.clone(ITAMLClassifier(memory=7, settings={"beta": 0.1}))
    assert copy.get_params()["settings"] == {"beta": 0.1}


@pytest.mark.parametrize("first", ["bytes", "floats 0..1", "floats 0..255"])
def test_images_of_all_formats_are_predicted_alike(first: str) -> None:
    train, names, test, truth = digits()
    forms: dict[str, Any] = {
        "bytes": lambda x: (x.reshape(-1, 8, 8) * 15).astype(np.uint8),
        "floats 0..1": lambda x: (x.reshape(-1, 8, 8) * 15).astype(np.uint8) / 255,
        "floats 0..255": lambda x: (x.reshape(-1, 8, 8) * 15).astype(np.float64),
    }
    few = names < 4
    estimator = ITAMLClassifier(epochs=4).fit(forms[first](train[few]), names[few])
    second = next(form for form in forms if form != first)
    estimator.partial_fit(forms[second](train[(names >= 4) & (names < 7)]), names[(names >= 4) & (names < 7)])
    seen = truth < 7
    scores = [estimator.score(formed(test[seen]), truth[seen]) for formed in forms.values()]
    assert min(scores) > 0.8
    assert max(scores) - min(scores) < 0.01


def test_images_that_cannot_be_converted_are_refused() -> None:
    train, names, _, _ = digits()
    images = (train.reshape(-1, 8, 8) * 15).astype(np.uint8)
    estimator = ITAMLClassifier(epochs=1).fit(images, names)
    with pytest.raises(ValueError, match="not whole numbers of 1/255"):
        estimator.partial_fit(images / 256, names)
    with pytest.raises(ValueError, match="these floats go from"):
        estimator.predict(images.astype(np.float64) - 100)
    estimator.fit((images - 100.0) / 50, names)  # floats of a range of their own
    for form in (images / 255, images.astype(np.float64)):
        with pytest.raises(ValueError, match="scale them like those"):
            estimator.predict(form)
    with pytest.raises(ValueError, match="have no pixels"):
        ITAMLClassifier().fit(np.zeros((4, 0, 0)), [0, 1, 0, 1])


@pytest.mark.parametrize("name", ["memory", "epochs", "batch_size"])
def test_truth_values_are_no_numbers(name: str) -> None:
    train, names, _, _ = digits()
    truth: dict[str, Any] = {name: True}
    with pytest.raises(SettingsError, match=f"{name} must be a whole number"):
        ITAMLClassifier(**truth).fit(train[:20], names[:20])


@pytest.mark.parametrize("settings", [3, "lr=1", [("epochs", 1)], {3: 4}])
def test_settings_that_are_no_dictionary_are_refused(settings: Any) -> None:
    with pytest.raises(SettingsError, match="settings must be a dictionary such as"):
        ITAMLClassifier(settings=settings).fit([[0.0], [1.0]], [0, 1])


def test_labels_that_numpy_would_merge_are_refused() -> None:
    with pytest.raises(ValueError, match="null character"):
        ITAMLClassifier(epochs=1).fit(np.eye(4), ["a", "a\0", "b", "b"])


def test_verbose_prints_every_epoch_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    train, names, test, _ = digits()
    few = names < 3
    loud = ITAMLClassifier(epochs=2, verbose=True).fit(train[few], names[few])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"[ITAMLClassifier] task 1: learning {few.sum()} samples of 3 new classes"
    assert [line.split(":")[0] for line in lines[1:]] == [
        "[ITAMLClassifier] task 1, epoch 1 of 2",
        "[ITAMLClassifier] task 1, epoch 2 of 2",
    ]
    quiet = ITAMLClassifier(epochs=2).fit(train[few], names[few])
    assert capsys.readouterr().out == ""
    assert np.array_equal(loud.predict_proba(test), quiet.predict_proba(test))
    copy = pickle.loads(pickle.dumps(loud))
    assert np.array_equal(copy.predict(test), loud.predict(test))


def test_images_in_colour_through_a_pretrained_backbone_show_progress(capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 120, (8, 30, 40, 3), dtype=np.uint8)
    images[4:, :, :, 0] += 120
    labels = np.array(["dark"] * 4 + ["red"] * 4)
    estimator = ITAMLClassifier(backbone="efficientnet-lite0", epochs=2, verbose=1).fit(images, labels)
    assert estimator.predict(images).tolist() == labels.tolist()
    assert "task 1: 8 of 8 images computed" in capsys.readouterr().out


def test_folds_are_learned_in_parallel_and_frames_keep_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    train, names, _, _ = digits()
    few = names < 3
    frame = pandas.DataFrame(train[few]).add_prefix("pixel")
    line = make_pipeline(StandardScaler(), ITAMLClassifier(epochs=1)).set_output(transform="pandas")
    alone = cross_val_score(line, frame, names[few], cv=2)
    assert cross_val_score(line, frame, names[few], cv=2, n_jobs=2).tolist() == alone.tolist()
    fitted = line.fit(frame, names[few])
    assert fitted[-1].feature_names_in_.tolist() == frame.columns.tolist()
