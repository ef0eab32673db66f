"""How mini-batches are divided, and batch norm with statistics over processes, in one process."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from itaml import distributed
from itaml.errors import SettingsError
from itaml.learners.api import Traits, check_processes
from itaml.models.batch_norm import synchronized_batch_norm
from itaml.shares import Share, block, even_share, joined, task_share
from support import make_itaml, small_classifier

SIZES = st.integers(1, 6)


@given(st.integers(0, 20), SIZES)
def test_even_shares_are_consecutive_and_differ_by_at_most_one(count: int, size: int) -> None:
    share = even_share(count, rank=size - 1, size=size)
    assert torch.cat(share.parts).tolist() == list(range(count))
    lengths = [len(part) for part in share.parts]
    assert max(lengths) - min(lengths) <= 1
    assert share.total == count
    assert [list(block(count, rank=rank, size=size)) for rank in range(size)] == [p.tolist() for p in share.parts]


@given(st.lists(st.integers(0, 4), max_size=20), SIZES)
def test_a_task_is_in_one_share_and_the_largest_share_holds_no_more_than_it_must(tasks: list[int], size: int) -> None:
    share = task_share(torch.tensor(tasks, dtype=torch.int64), rank=0, size=size)
    assert sorted(torch.cat(share.parts).tolist()) == list(range(len(tasks)))
    owners = [{tasks[position] for position in part.tolist()} for part in share.parts]
    assert sum(map(len, owners)) == len(set(tasks))
    largest = max((tasks.count(task) for task in tasks), default=0)
    assert max(map(len, share.parts)) <= len(tasks) / size + largest


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_a_selection_keeps_every_sample_with_its_process(owners: list[int], random: object) -> None:
    whole = Share(tuple((torch.tensor(owners) == rank).nonzero().flatten() for rank in range(3)), rank=1)
    positions = torch.tensor(random.sample(range(len(owners)), len(owners) // 2 + 1))  # type: ignore[attr-defined]
    share, own = whole.select(positions)
    assert torch.equal(whole.own[own], positions[share.own])
    assert [owners[p] for p in positions[share.own].tolist()] == [1] * len(own)
    parts = [positions[part] for part in share.parts]
    assert torch.equal(joined(parts, share), positions)


def test_a_method_of_one_process_refuses_several(monkeypatch: pytest.MonkeyPatch) -> None:
    check_processes("plug-in", Traits(one_process=True))
    monkeypatch.setattr(distributed, "size", lambda: 2)
    check_processes("itaml", Traits())
    with pytest.raises(SettingsError, match="plug-in runs on one process: leave out torchrun"):
        check_processes("plug-in", Traits(one_process=True))
    settings = {"update": "released", "momentum": 0.9}
    with pytest.raises(SettingsError, match="update=released trains tasks one after another"):
        make_itaml(small_classifier([2]), **settings)


@pytest.mark.parametrize("last", [False, True], ids=["", "channels last"])
@pytest.mark.parametrize("shape", [(7, 6), (7, 6, 4, 3), (7, 6, 5), (7, 6, 1, 1)])
def test_batch_norm_of_three_processes_is_that_of_one(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], last: bool
) -> None:
    """The second process has no rows; messages are replaced by what all processes would have sent."""
    generator = torch.Generator().manual_seed(0)
    x, gradient = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    weight, bias = (torch.rand(6, dtype=torch.float64, generator=generator) for _ in range(2))
    layout = torch.channels_last if last and len(shape) == 4 else torch.contiguous_format
    share = Share((torch.arange(4), torch.arange(0), torch.arange(4, 7)), rank=0)

    def statistics(part: Tensor) -> Tensor:
        if not len(part):
            return part.new_zeros(2, 6)
        flat = part.transpose(0, 1).flatten(1)
        return torch.stack([flat.mean(1), flat.var(1, correction=0)])

    monkeypatch.setattr(distributed, "gather", lambda _: [statistics(x[part]) for part in share.parts])
    leaves = [value.clone().requires_grad_() for value in (x, weight, bias)]
    mean, var = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    expected = F.batch_norm(leaves[0], mean, var, leaves[1], leaves[2], True)
    expected.backward(gradient)
    dx, dweight, dbias = (leaf.grad for leaf in leaves)
    monkeypatch.setattr(distributed, "add_up", lambda _: [dweight, dbias])
    found_weight = torch.zeros(6, dtype=torch.float64)
    for part in share.parts:
        own, scale, shift = (
            value.clone().requires_grad_() for value in (x[part].contiguous(memory_format=layout), weight, bias)
        )
        moved_mean, moved_var = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
        out = synchronized_batch_norm(share, own, moved_mean, moved_var, scale, shift, True)
        assert out.is_contiguous(memory_format=layout)
        out.mul_(1.0)  # a layer after it may work in place
        out.backward(gradient[part])
        assert torch.allclose(out, expected[part], rtol=0, atol=1e-12)
        assert torch.allclose(moved_mean, mean, rtol=0, atol=1e-12)
        assert torch.allclose(moved_var, var, rtol=0, atol=1e-12)
        assert own.grad is not None
        assert dx is not None
        assert torch.allclose(own.grad, dx[part], rtol=0, atol=1e-12)
        assert scale.grad is not None
        found_weight += scale.grad
    assert dweight is not None
    assert torch.allclose(found_weight, dweight, rtol=0, atol=1e-12)
