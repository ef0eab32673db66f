"""Weight algebra: values by hand, and that nothing shares storage."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from itaml import params
from itaml.params import Weights
from support import same_bits, small_classifier


def weights(*values: float) -> Weights:
    return {"w": torch.tensor(values, dtype=torch.float64)}


def test_mean_by_hand() -> None:
    assert params.mean([weights(1, 2), weights(3, 2), weights(5, 8)])["w"].tolist() == [3, 4]


def test_the_mean_of_counters_is_the_largest() -> None:
    found = params.mean([{"n": torch.tensor(3)}, {"n": torch.tensor(7)}])["n"]
    assert found.dtype == torch.int64
    assert found.item() == 7


@pytest.mark.parametrize("count", range(1, 12))
def test_the_mean_of_equal_weights_is_exactly_those(count: int) -> None:
    value = {"w": torch.randn(1000, generator=torch.Generator().manual_seed(0))}
    assert same_bits(params.mean([value] * count), value)


def test_lerp_by_hand_and_at_its_ends() -> None:
    start, end = weights(1, -2), weights(5, 2)
    assert params.lerp(start, end, 0.25)["w"].tolist() == [2, -1]
    odd = {"w": torch.tensor([0.1, 1e30, 3.0])}, {"w": torch.tensor([0.7, 1.0, 1e-30])}
    assert same_bits(params.lerp(*odd, 0.0), odd[0])
    assert same_bits(params.lerp(*odd, 1.0), odd[1])


def test_subtract_by_hand() -> None:
    assert params.subtract(weights(5, 1), weights(2, 3))["w"].tolist() == [3, -2]


def test_no_function_shares_storage_with_its_arguments() -> None:
    model = small_classifier((2, 2))
    taken = params.snapshot(model)
    results = [
        taken,
        params.copy(taken),
        params.mean([taken]),
        params.lerp(taken, taken, 0.0),
        params.lerp(taken, taken, 1.0),
        params.subtract(taken, taken),
        params.snapshot_buffers(model),
    ]
    places = [value.untyped_storage().data_ptr() for result in results for value in result.values()]
    places += [value.untyped_storage().data_ptr() for value in model.state_dict().values()]
    assert len(set(places)) == len(places)
    assert not any(value.requires_grad for result in results for value in result.values())


def test_restore_writes_parameters_and_buffers_in_place() -> None:
    module = nn.BatchNorm1d(3)
    parameter, before = module.weight, params.snapshot(module) | params.snapshot_buffers(module)
    changed = {name: value + 1 for name, value in before.items()}
    params.restore(module, changed)
    assert module.weight is parameter
    assert same_bits(dict(module.state_dict()), changed)
    assert module.weight.requires_grad
    with pytest.raises(KeyError):
        params.restore(module, {"nothing": torch.zeros(1)})
