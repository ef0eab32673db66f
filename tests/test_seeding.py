"""Seeds: derived from names, never from use."""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from itaml.seeding import derive, generator, seeded

KNOWN = 0x0AB7149731CC1AEE


def test_a_known_value_so_that_old_runs_can_be_repeated() -> None:
    """It is the first 8 bytes of SHA-256("0/batches/1/2"), big-endian, halved."""
    assert derive(0, "batches", 1, 2) == KNOWN


def test_every_part_of_the_path_matters() -> None:
    paths: list[tuple[int, tuple[str | int, ...]]] = [
        (0, ()),
        (1, ()),
        (0, ("a",)),
        (0, ("b",)),
        (0, ("a", 1)),
        (0, ("a", 2)),
        (0, ("a", 1, 2)),
        (0, ("a", 12)),
    ]
    seeds = [derive(seed, *path) for seed, path in paths]
    assert len(set(seeds)) == len(seeds)


@given(st.integers(), st.lists(st.text("ab/0", max_size=3) | st.integers(), max_size=4))
def test_a_seed_is_one_that_torch_takes(seed: int, path: list[str | int]) -> None:
    assert 0 <= derive(seed, *path) < 2**63
    assert derive(seed, *path) == derive(seed, *path)


def test_generators_do_not_depend_on_each_other() -> None:
    first = torch.rand(3, generator=generator(5, "x"))
    other = generator(5, "y")
    torch.rand(100, generator=other)
    assert torch.equal(torch.rand(3, generator=generator(5, "x")), first)
    draws = [torch.rand(3, generator=generator(5, name)) for name in ("x", "y", "z")]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(draws, 2))


def test_seeded_repeats_and_puts_the_global_generator_back() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with seeded(3, "block"):
        inside = torch.rand(4)
    assert torch.equal(torch.get_rng_state(), before)
    with seeded(3, "block"):
        assert torch.equal(torch.rand(4), inside)
    with seeded(4, "block"):
        assert not torch.equal(torch.rand(4), inside)


def test_seeded_puts_the_global_generator_back_after_an_error() -> None:
    before = torch.get_rng_state()
    try:
        with seeded(3):
            torch.rand(1)
            raise KeyError
    except KeyError:
        pass
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("used", "devices"), [(False, []), (True, [1])])
def test_seeded_names_the_devices_whose_generators_it_puts_back(
    monkeypatch: pytest.MonkeyPatch, used: bool, devices: list[int]
) -> None:
    """GPUs that this process has not touched stay so; of several, the current one counts."""
    named: list[list[int]] = []
    given_seeds: list[int] = []

    def fork_rng(devices: list[int]) -> nullcontext[None]:
        named.append(devices)
        return nullcontext()

    monkeypatch.setattr(torch.random, "fork_rng", fork_rng)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: used)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "manual_seed", given_seeds.append)
    with seeded(3, "block"):
        pass
    assert named == [devices]
    assert given_seeds == [derive(3, "block")] * len(devices)
