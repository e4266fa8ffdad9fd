"""A handful of trials of every kind of fault; `python -m benchmarks.faults` runs hundreds."""

import sys

import pytest
import torch

from benchmarks.faults import corruptions, divergence, interruptions, kills, memory, orders, ranks, saves
from benchmarks.faults.trials import Result

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked, and watched through /proc"),
    pytest.mark.skipif(torch.cuda.is_initialized(), reason="a process that has used a GPU cannot be forked"),
]


def assert_none_failed(result: Result) -> None:
    assert not result.failures, str(result)


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_bit() -> None:
    assert_none_failed(kills.run(3, seed=1))


@pytest.mark.slow
def test_a_fault_inside_a_save_costs_nothing_but_the_save() -> None:
    assert_none_failed(saves.run(8, seed=1))


def test_a_damaged_file_is_found() -> None:
    assert_none_failed(corruptions.run(60, seed=1))


@pytest.mark.slow
def test_an_interrupted_command_says_how_to_go_on() -> None:
    assert_none_failed(interruptions.run(15, seed=1))


@pytest.mark.slow
def test_workers_and_processes_do_not_change_the_order_of_batches() -> None:
    assert_none_failed(orders.run(16, seed=1))


@pytest.mark.slow
def test_two_processes_train_as_one_and_die_without_a_hang() -> None:
    assert_none_failed(ranks.run(3, seed=1))


@pytest.mark.slow
def test_memory_stays_level() -> None:
    assert_none_failed(memory.run(300, seed=1))


@pytest.mark.slow
def test_a_step_without_a_finite_gradient_changes_nothing() -> None:
    assert_none_failed(divergence.run(12, seed=1))
