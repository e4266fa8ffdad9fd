"""Few queries over a memory against the equation in float64. They run on a GPU, or by hand in Triton's interpreter:
TRITON_INTERPRET=1 pytest ..."""

import os
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

from clew.core.taps import watching
from clew.core.types import Memory
from clew.decoding.beam import Hypotheses, beam_search
from clew.kernels import KERNELS, only_equations
from clew.kernels.memory_attention import BLOCK, has_form, memory_attention
from clew.layers.attending import cross_attention
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.scores import SCORES
from clew.tasks.shared.sequence import SequenceConfig, SequenceStepper
from tests.tasks.sequences import sequence_task

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or not (torch.cuda.is_available() or IS_INTERPRETED),
    reason="these kernels run on a GPU",
)
ALLOWED = {torch.float32: 2e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}


@pytest.fixture
def device() -> str:
    torch.manual_seed(7)
    return "cpu" if IS_INTERPRETED else "cuda"


def equation(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    repeats = query.shape[1] // keys.shape[1]
    keys, values = (part.double().repeat_interleave(repeats, 1) for part in (keys, values))
    scores = scale * (query.double() @ keys.mT)
    if mask is not None:
        visible = mask | ~mask.any(1, keepdim=True)
        scores = scores.masked_fill(~visible[:, None, None], -torch.inf)
    return scores.softmax(-1) @ values


def error(actual: Tensor, expected: Tensor) -> float:
    return float((actual.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize(
    "sentences, queries, heads, key_heads, places, dim",
    [
        (2, 5, 3, 3, 1, 64),
        (3, 1, 2, 2, 7, 16),
        (3, 5, 4, 2, 33, 64),
        (2, 16, 2, 1, 300, 32),
        (3, 3, 1, 1, 40, 256),
        (64, 5, 8, 8, 32, 64),
    ],
)
def test_every_query_sees_the_real_places_of_its_sentence(
    device, dtype, has_mask, sentences, queries, heads, key_heads, places, dim
):
    if IS_INTERPRETED and sentences > 8:
        pytest.skip("the interpreter runs one program after the other")
    query = torch.randn(sentences, queries, heads, dim, device=device).to(dtype).transpose(1, 2)
    keys, values = torch.randn(2, sentences, places, key_heads, dim, device=device).to(dtype).transpose(2, 3)
    lengths = torch.randint(0, places + 1, (sentences, 1), device=device)
    lengths[0], lengths[-1] = 0, places  # a sentence without a real place, and one without padding
    mask = torch.arange(places, device=device) < lengths if has_mask else None
    actual = memory_attention(query, keys, values, mask, scale=0.3)
    assert actual.dtype == dtype
    assert error(actual, equation(query, keys, values, mask, 0.3)) < ALLOWED[dtype]


def test_padding_anywhere_gets_no_attention(device):
    places = 3 * BLOCK
    query, keys, values = (torch.randn(2, 2, length, 64, device=device) for length in (4, places, places))
    mask = torch.rand(2, places, device=device) < 0.3
    mask[0, : BLOCK + 5] = False  # a whole block of padding before the first real place
    mask[1, BLOCK:] = False
    expected = equation(query, keys, values, mask, 0.125)
    keys, values = (part.masked_fill(~mask[:, None, :, None], 1e6) for part in (keys, values))
    assert error(memory_attention(query, keys, values, mask, scale=0.125), expected) < ALLOWED[torch.float32]


def test_widely_spread_scores_do_not_overflow(device):
    query, keys, values = (torch.randn(1, 1, length, 16, device=device) for length in (3, 200, 200))
    expected = equation(300 * query, keys, values, None, 1.0)
    assert error(memory_attention(300 * query, keys, values, None, scale=1.0), expected) < 1e-4


def test_a_strided_mask_is_read_in_place(device):
    query, keys, values = (torch.randn(3, 2, length, 16, device=device) for length in (2, 9, 9))
    mask = (torch.rand(9, 3, device=device) < 0.5).T
    actual = memory_attention(query, keys, values, mask, scale=1.0)
    assert torch.equal(actual, memory_attention(query, keys, values, mask.contiguous(), scale=1.0))


def test_the_heads_of_a_query_are_contiguous(device):
    query, keys, values = (torch.randn(2, 4, length, 16, device=device) for length in (5, 3, 3))
    actual = memory_attention(query, keys, values, None, scale=1.0)
    assert actual.shape == query.shape
    assert actual.transpose(1, 2).is_contiguous()


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """The number of queries per sentence in each call of the kernel; in the interpreter also on the CPU."""
    numbers: list[int] = []
    kernel = KERNELS["memory_attention"]
    counted = lambda query, *args, **options: numbers.append(query.shape[2]) or kernel(query, *args, **options)  # noqa: E731
    monkeypatch.setitem(KERNELS, "memory_attention", counted)
    if IS_INTERPRETED:
        fits = lambda *parts: not torch.is_grad_enabled() and has_form(*parts)  # noqa: E731
        monkeypatch.setattr(cross_attention, "supports_memory_attention", fits)
    return numbers


def layer_and_input(device: str, **options: Any) -> tuple[CrossAttention, Tensor, Memory]:
    """A layer, and three sentences of two beams each, the first without a real place."""
    layer = CrossAttention(32, 2, memory_dim=8, **options).to(device).eval()
    mask = torch.arange(9, device=device) < torch.tensor([[0], [9], [4]], device=device)
    return layer, torch.randn(6, 1, 32, device=device), Memory(torch.randn(3, 9, 8, device=device), mask)


@pytest.mark.parametrize("has_mask", [False, True])
def test_a_layer_uses_it_and_equals_its_equation(device, calls, has_mask):
    layer, x, memory = layer_and_input(device)
    state = layer.initial_state(6, memory if has_mask else Memory(memory.values), like=x)
    with torch.no_grad():
        actual, state = layer(x, None, state)
        repeated, _ = layer(x, None, state)
        assert calls == [2, 2]
        with only_equations():
            expected, _ = layer(x, None, state)
    assert calls == [2, 2]
    torch.testing.assert_close(actual, expected)
    assert torch.equal(repeated, actual)


def test_a_recorded_layer_shows_its_weights(device, calls):
    layer, x, memory = layer_and_input(device)
    weights: list[Tensor] = []
    with torch.no_grad(), watching({layer.attention.weights: weights.append}):
        layer(x, None, layer.initial_state(6, memory, like=x))
    assert not calls
    assert weights[0].shape == (3, 2, 2, 9)
    assert bool((weights[0][2, :, :, 4:] == 0).all())


def test_gradients_dropout_many_queries_and_other_scores_use_the_equation(device, calls):
    layer, x, memory = layer_and_input(device, dropout=0.5)
    layer(x, None, layer.initial_state(6, memory, like=x))
    with torch.no_grad():
        layer(x.expand(6, 9, 32), None, layer.initial_state(6, memory, like=x))
        layer.train()(x, None, layer.initial_state(6, memory, like=x))
        dot_layer, _, _ = layer_and_input(device, score=SCORES["dot"](16, 16))
        dot_layer(x, None, dot_layer.initial_state(6, memory, like=x))
        layer.double().eval()(x.double(), None, layer.initial_state(6, Memory(memory.values.double()), like=x))
    assert not calls


class Eager(SequenceStepper):
    """Run eagerly: on the CPU a tape would skip what the interpreter does."""

    signature = None


def test_a_search_with_it_equals_a_search_by_equations(device, calls):
    task = (
        sequence_task("transformer", dim=32, num_heads=2, config=SequenceConfig(tied=False)).float().to(device).eval()
    )
    source = torch.randint(1, task.body.source_vocabulary, (3, 5), device=device)
    mask = torch.arange(5, device=device) < torch.tensor([[5], [2], [0]], device=device)
    prompt = torch.full((3, 1), task.start, device=device)

    def search() -> Hypotheses:
        stepper = SequenceStepper if device == "cuda" else Eager
        return beam_search(
            stepper(task, task.body.encode(source, mask)), prompt, beams=3, max_new=6, end=task.end, n_best=3
        )

    with torch.no_grad():
        actual = search()
        assert set(calls) == {1, 3}, "the prompt, and then the beams of a sentence"
        number = len(calls)
        with only_equations():
            expected = search()
    assert len(calls) == number
    assert torch.equal(actual.tokens, expected.tokens)
    torch.testing.assert_close(actual.log_probs, expected.log_probs)
