"""Windows in blocks against the layer's equation, and their memory: no tensor of query x key is created."""

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from clew.core.masks import Places
from clew.core.sight import Sight
from clew.kernels import only_equations
from clew.kernels.window_blocks import ALIGNED, SMALLEST, window_blocks
from clew.layers.attention import SelfAttention
from clew.layers.positions import POSITIONS
from clew.layers.scores import SCORES
from tests.references.agreement import randn, randomise

LENGTH = 3 * SMALLEST + 30
SLOT = torch.arange(LENGTH)
RAGGED = SLOT[None] < torch.tensor([[LENGTH], [200]])
DOCUMENTS = RAGGED * (1 + SLOT // 9)


def assert_equals_equation(layer, x, mask=None):
    """Outputs and gradients at real positions."""
    real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask > 0
    weights = randn(*x.shape, seed=5) * real[..., None]
    results = []
    for by_equation in (True, False):
        inputs = x.clone().requires_grad_()
        if by_equation:
            with only_equations():
                y = layer(inputs, mask)[0]
        else:
            y = layer(inputs, mask)[0]
        results.append(
            (y[real], *torch.autograd.grad((y * weights).sum(), (inputs, *layer.parameters()), materialize_grads=True))
        )
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(
    ("window", "causal", "mask"),
    list(itertools.product([0, 3, 20], [True, False], [None, RAGGED, DOCUMENTS])),
    ids=lambda x: None,
)
def test_a_window_in_blocks_equals_its_equation_in_values_and_gradients(window, causal, mask):
    layer = randomise(SelfAttention(4, 2, causal=causal, window=window, num_kv_heads=1))
    assert_equals_equation(layer, randn(2, LENGTH, 4), mask)


@pytest.mark.parametrize(
    ("position", "causal"), list(itertools.product(["rotary", "alibi", "relative"], [True, False]))
)
def test_positions_in_blocks_equal_their_equation_in_values_and_gradients(position, causal):
    layer = randomise(SelfAttention(4, 2, causal=causal, window=5, position=POSITIONS[position](4, 2, 2)))
    assert_equals_equation(layer, randn(2, LENGTH, 4), RAGGED)


@pytest.mark.parametrize("score", ["additive", "location"])
def test_scores_other_than_dot_products_in_blocks_equal_their_equation(score):
    options = {"max_length": LENGTH} if score == "location" else {}
    layer = randomise(SelfAttention(4, 2, window=5, score=SCORES[score](2, 2, **options)))
    assert_equals_equation(layer, randn(2, LENGTH, 4), DOCUMENTS)


@pytest.mark.parametrize(("position", "causal"), list(itertools.product(["none", "alibi", "relative"], [True, False])))
def test_documents_in_blocks_equal_their_equation_in_values_and_gradients(position, causal):
    layer = randomise(SelfAttention(4, 2, causal=causal, position=POSITIONS[position](4, 2, 2)))
    assert_equals_equation(layer, randn(2, LENGTH, 4), DOCUMENTS)


def test_blocks_are_used_only_if_they_save_half():
    x = randn(1, 1, LENGTH, 2)
    places = SLOT[None], torch.zeros_like(SLOT)[None]
    near = Sight(places=Places(*places), key_index=SLOT[None], causal=True, window=3, aligned=True)
    blocks = window_blocks(x, x, x, near)
    assert (
        blocks is not None
        and blocks.query.shape == (4, 1, SMALLEST, 2)
        and blocks.key.shape == (4, 1, SMALLEST + ALIGNED, 2)
    )
    assert window_blocks(x, x, x, near._replace(window=200)) is None
    assert window_blocks(x, x, x, near._replace(window=None)) is None
    assert window_blocks(x, x, x, near._replace(aligned=False)) is None


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest tensor created."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.untyped_storage().nbytes():
                self.elements = max(self.elements, leaf.untyped_storage().nbytes() // leaf.element_size())
        return result


def largest_tensor(layer, length, mask=None):
    x = torch.randn(1, length, 16, requires_grad=True)
    with Largest() as largest:
        layer(x, mask)[0].sum().backward()
    return largest.elements


@pytest.mark.parametrize(
    ("position", "window", "documents"),
    [
        ("alibi", None, False),
        ("none", 100, False),
        ("alibi", 100, False),
        ("relative", 20, False),
        ("alibi", None, True),
        ("none", None, True),
        ("relative", None, False),
    ],
)
def test_memory_grows_linearly_with_the_length(position, window, documents):
    layer = SelfAttention(16, 2, window=window, position=POSITIONS[position](16, 2, 8))
    mask = 1 + torch.arange(4096)[None] // 100 if documents else None
    short, long = (largest_tensor(layer, length, None if mask is None else mask[:, :length]) for length in (2048, 4096))
    assert long < 4096 * 4096 / 4
    assert long < 2.2 * short


def test_the_equation_itself_stores_query_by_key():
    with only_equations():
        assert largest_tensor(SelfAttention(16, 2, window=100), 1024) >= 1024 * 1024
