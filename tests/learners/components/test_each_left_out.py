"""The products of images that are each left out alone, by whole matrices, are those of the general formula."""

from __future__ import annotations

import torch

from feature_support import features_and_labels
from itaml.learners.components.left_out_products import products_each_left_out, products_left_out
from itaml.learners.components.left_out_scores import columns_of, whitened_images
from itaml.learners.components.statistics import collect


def test_matrices_give_the_general_formula() -> None:
    features, labels = features_and_labels(classes=4, per_class=6)
    labels[-1] = 9  # a class with one image
    statistics = collect(features, labels)
    columns = columns_of(statistics, labels)
    for shrinkage in (0.05, 0.5):
        white = whitened_images(statistics, features, columns, shrinkage=shrinkage)
        assert white is not None
        expected = products_left_out(white, torch.arange(len(columns))[:, None], classes=False)[0]
        found = products_each_left_out(white)
        for name in ("inner", "squares", "mean_squares"):
            torch.testing.assert_close(getattr(found, name)[:-1], getattr(expected, name)[:-1], rtol=1e-9, atol=1e-9)
