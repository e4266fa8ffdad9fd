import itertools

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from clew.layers.cells import CELLS
from clew.layers.norms import NORMS
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.training.observers import Best
from clew.training.optimisers import OPTIMISERS, adam, adamw, decay_groups, sgd


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.full((2, 2), 4.0)), nn.Parameter(torch.full((2,), 4.0)), nn.Parameter(torch.tensor(4.0))]


def test_adamw_decays_only_matrices() -> None:
    matrix, vector, scalar = weights = parameters()
    optimiser = adamw(weights, 0.1, weight_decay=0.5)
    for parameter in weights:
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    assert torch.equal(matrix, torch.full((2, 2), 4.0 * (1 - 0.1 * 0.5)))
    assert torch.equal(vector, torch.full((2,), 4.0))
    assert scalar.item() == 4.0


def test_adamw_without_a_vector_has_one_group() -> None:
    assert len(adamw([parameters()[0]], 0.1).param_groups) == 1


@pytest.mark.parametrize(("build", "decay_vectors"), list(itertools.product([sgd, adam, adamw], [False, True])))
def test_vectors_decay_on_request(build, decay_vectors) -> None:
    matrix, vector, scalar = weights = parameters()
    optimiser = build(weights, 0.1, weight_decay=0.5, decay_vectors=decay_vectors)
    for parameter in weights:
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    assert bool((matrix < 4).all())
    assert bool((vector < 4).all()) == bool(scalar < 4) == decay_vectors


def test_sgd_decays_everything_by_default_through_the_gradient() -> None:
    weights = parameters()
    optimiser = sgd(weights, 0.1, weight_decay=0.5)
    for parameter in weights:
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    for parameter in weights:
        torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, 4.0 - 0.1 * (1.0 + 0.5 * 4.0)))


@pytest.mark.parametrize("family", MODELS)
def test_norms_and_biases_are_vectors_and_tables_are_matrices(family) -> None:
    """So the number of axes of a parameter decides whether it decays."""
    part = MODELS[family]
    body = part.build(part.config(), Tokens(11))
    kinds = tuple({type(build(4)) for build in NORMS.values()} | {nn.LayerNorm})
    undecayed = {
        id(p)
        for group in decay_groups(list(body.parameters()), 0.1, False)
        if not group["weight_decay"]
        for p in group["params"]
    }
    for module in body.modules():
        for name, parameter in module.named_parameters(recurse=False):
            assert (id(parameter) in undecayed) == (name.endswith("bias") or isinstance(module, kinds)), (
                f"{type(module).__name__}.{name}"
            )
    assert id(body.embedding.weight) not in undecayed


@pytest.mark.parametrize("cell", CELLS)
def test_biases_and_norms_of_a_cell_do_not_decay(cell) -> None:
    built = CELLS[cell](3, 4)
    names = {id(p): name for name, p in built.named_parameters()}
    undecayed = [
        names[id(p)]
        for g in decay_groups(list(built.parameters()), 0.1, False)
        if not g["weight_decay"]
        for p in g["params"]
    ]
    assert undecayed == [name for name in names.values() if name.endswith("bias") or "norm" in name]


@pytest.mark.parametrize(
    ("build", "reference"), [(sgd, torch.optim.SGD), (adam, torch.optim.Adam), (adamw, torch.optim.AdamW)]
)
def test_a_fused_step_equals_a_plain_step(build, reference) -> None:
    fused_weights, plain_weights = parameters()[:2], parameters()[:2]
    fused = build(fused_weights, 0.1, weight_decay=0.5, decay_vectors=True)
    options = {} if build is sgd else {"betas": (0.9, 0.999 if build is adam else 0.99)}
    plain = reference(plain_weights, lr=0.1, weight_decay=0.5, foreach=False, **options)
    assert all(group["fused"] for group in fused.param_groups)
    for step in range(3):
        for one, two in zip(fused_weights, plain_weights, strict=True):
            one.grad = torch.randn(one.shape, generator=torch.Generator().manual_seed(step))
            two.grad = one.grad.clone()
        fused.step()
        plain.step()
    for one, two in zip(fused_weights, plain_weights, strict=True):
        torch.testing.assert_close(one, two)


def test_sharded_parameters_are_updated() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for build in OPTIMISERS.values():
            layer = fully_shard(nn.Linear(3, 2), mesh=init_device_mesh("cpu", (1,)))
            before = layer.weight.full_tensor().clone()
            optimiser = build(layer.parameters(), 0.1)
            layer(torch.ones(1, 3)).sum().backward()
            optimiser.step()
            assert not torch.equal(layer.weight.full_tensor(), before)
    finally:
        dist.destroy_process_group()


def test_sgd_with_momentum_matches_a_computation_by_hand() -> None:
    weight = nn.Parameter(torch.tensor(1.0))
    optimiser = sgd([weight], 0.1, momentum=0.5)
    for _ in range(2):
        weight.grad = torch.tensor(2.0)
        optimiser.step()
    assert weight.item() == pytest.approx(1.0 - 0.1 * 2.0 - 0.1 * (0.5 * 2.0 + 2.0))


@pytest.mark.parametrize("build", [adam, adamw])
def test_the_first_step_of_adam_is_the_learning_rate_for_any_gradient(build) -> None:
    weight = nn.Parameter(torch.tensor([1.0, 1.0]))
    optimiser = build([weight], 0.25)
    weight.grad = torch.tensor([1e-3, -1e3])
    optimiser.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([0.75, 1.25]))


def test_every_optimiser_minimises_a_parabola() -> None:
    for name, build in OPTIMISERS.items():
        weight = nn.Parameter(torch.tensor([3.0]))
        optimiser = build([weight], 1.0 if name == "adagrad" else 0.1)  # the steps of Adagrad shrink
        for _ in range(100):
            optimiser.zero_grad()
            (weight**2).sum().backward()
            optimiser.step()
        assert abs(weight.item()) < 0.5, name


def test_best_counts_evaluations_without_a_better_one() -> None:
    best = Best(patience=2)
    assert [best.observe(value, step) for step, value in enumerate([3.0, 2.0, 2.0, float("nan")], start=1)] == [
        True,
        True,
        False,
        False,
    ]
    assert (best.value, best.step, best.is_exhausted) == (2.0, 2, True)
    plain_weights = Best(patience=2)
    plain_weights.load_state_dict(best.state_dict())
    assert plain_weights.is_exhausted and plain_weights.value == 2.0
    assert not Best().is_exhausted
