"""Kernels of a beam's step against their equations. They run on a GPU, or by hand in Triton's interpreter:
TRITON_INTERPRET=1 pytest ..."""

import os
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from clew.core.masks import Clock
from clew.core.state import leaves
from clew.decoding.beam import Hypotheses, beam_search
from clew.decoding.beam_step import Frame, Search
from clew.decoding.ranking import Ranking
from clew.kernels.beam_selection import has_form
from clew.kernels.decode_attention import decode_attention
from clew.kernels.top_k import topk
from clew.layers import attention
from clew.layers.attending.caches import Buffer, own_places
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or not (torch.cuda.is_available() or IS_INTERPRETED),
    reason="these kernels run on a GPU",
)
ALLOWED = {torch.float32: 1e-6, torch.bfloat16: 4e-3}


@pytest.fixture
def device() -> str:
    torch.manual_seed(7)
    return "cpu" if IS_INTERPRETED else "cuda"


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize(
    "sentences, beams, heads, key_heads, dim, slots, alibi",
    [(1, 3, 4, 4, 64, 37, False), (2, 2, 4, 2, 16, 300, False), (3, 4, 2, 1, 32, 40, True)],
)
def test_one_position_sees_the_slots_of_its_table(device, dtype, sentences, beams, heads, key_heads, dim, slots, alibi):
    batch = sentences * beams
    query, key, value = (
        torch.randn(batch, number, 1, dim, device=device).to(dtype) for number in (heads, key_heads, key_heads)
    )
    keys, values = (torch.randn(batch, slots, key_heads, dim, device=device).to(dtype) for _ in range(2))
    count = torch.randint(0, slots - 1, (sentences,), device=device).repeat_interleave(beams)
    first, slopes = count // 3, torch.rand(heads, device=device) if alibi else None
    rows, own = torch.arange(batch, device=device), own_places(keys)
    sharing = (rows // beams * beams)[:, None] + torch.randint(
        0, beams, (batch, slots), device=device
    )  # beams of the same sentence
    places = own.gather(0, sharing)
    written = [
        buffer.clone().index_put((rows, count + 1), new[:, :, 0]) for buffer, new in ((keys, key), (values, value))
    ]
    table = places.index_put((rows, count + 1), own[rows, count + 1])
    with torch.no_grad():
        actual = decode_attention(
            query, key, value, keys, values, count, first, scale=0.3, slopes=slopes, places=places
        )
    assert torch.equal(keys, written[0]) and torch.equal(values, written[1]), (
        "the new key is written into the row's own storage alone"
    )
    assert torch.equal(places, table)
    cache = Buffer(keys.double(), values.double(), own - 1, Clock(count, first, first), places)
    k, v = (part.repeat_interleave(heads // key_heads, 1) for part in cache.read())  # (batch, heads, slots, dim)
    position = torch.arange(-1, slots - 1, device=device)
    scores = 0.3 * (query.double() @ k.mT)
    if slopes is not None:
        scores = scores - slopes.double()[:, None, None] * (count[:, None] - position)[:, None, None]
    is_seen = (position >= first[:, None]) & (position <= count[:, None])
    expected = scores.masked_fill(~is_seen[:, None, None], -torch.inf).softmax(-1) @ v
    assert float((actual.double() - expected).norm() / expected.norm()) < ALLOWED[dtype]


@pytest.mark.parametrize("family", ["gpt", "llama"])
def test_a_search_through_the_table_equals_a_search_with_copies(device, family, monkeypatch):
    sizes = {
        "dim": 32,
        "num_layers": 2,
        "num_heads": 2,
        **({"max_length": 40} if family == "gpt" else {"num_kv_heads": 1}),
    }
    body = MODELS[family].build(MODELS[family].config(**sizes), Tokens(30))
    task = LanguageModel(body, None, LanguageModelConfig(tied=False)).to(device).eval()
    prompt, mask = (
        torch.randint(30, (3, 4), device=device),
        torch.arange(4, device=device) < torch.tensor([[4], [2], [3]], device=device),
    )

    def search() -> Hypotheses:
        return beam_search(task.stepper(), prompt, mask, beams=3, max_new=6, end=[1, 2, 3], n_best=3)

    def moved(buffer: Buffer, move: Callable[[Tensor], Tensor]) -> Buffer:
        return buffer._replace(keys=move(buffer.keys), values=move(buffer.values))

    with monkeypatch.context() as patched:
        patched.setattr(Buffer, "reordered", moved)
        expected = search()
    monkeypatch.setattr(attention, "supports_decode_attention", lambda x, head_dim: not torch.is_grad_enabled())
    actual = search()
    assert torch.equal(actual.tokens, expected.tokens)
    torch.testing.assert_close(actual.log_probs, expected.log_probs)


@pytest.mark.parametrize(
    "shape, k", [((1, 1), 1), ((4, 50), 10), ((2, 3, 7), 7), ((3, 1025), 10), ((2, 9001), 33), ((40, 5000), 2)]
)
def test_the_largest_entries_equal_those_of_a_stable_sort(device, shape, k):
    x = torch.randn(*shape, device=device)
    x = torch.where(torch.rand_like(x) < 0.5, (4 * x).round() / 4, x)  # some are equal
    x = torch.where(torch.rand_like(x) < 0.2, -torch.inf, x)
    values, indices = topk(x, k)
    expected = x.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(values, expected.values[..., :k])
    assert torch.equal(indices, expected.indices[..., :k])


def test_zeros_of_both_signs_are_equal_and_nan_is_the_largest(device):
    x = torch.tensor(
        [[1.0, -0.0, 0.0, -1.0], [0.0, float("nan"), float("inf"), -float("nan")], [-float("inf")] * 4], device=device
    )
    assert topk(x, 4).indices.tolist() == [[0, 1, 2, 3], [1, 3, 2, 0], [0, 1, 2, 3]]


def test_strided_rows_are_read_in_place(device):
    x = torch.randn(3, 5, 30, device=device)
    for part in (x[:, -1], x[:, :, 3:9], x.transpose(1, 2)):
        assert torch.equal(topk(part, 3).values, part.topk(3).values)


class OfWords:
    """A stub for a stepper with this vocabulary, whose log-probabilities are given."""

    def __init__(self, vocabulary: int):
        self.vocabulary = vocabulary


@pytest.mark.parametrize("n_best", [1, 3])
@pytest.mark.parametrize(
    "beams, vocabulary, ends, penalty",
    [(5, 40, (), 1.0), (5, 40, (3,), 1.0), (3, 30, (1, 2, 7), 0.6), (4, 5, (0,), 0.0), (8, 60, (9,), 1.5)],
)
def test_a_step_in_one_kernel_chooses_the_same_as_its_equations(
    device, beams, vocabulary, ends, penalty, n_best, monkeypatch
):
    sentences, longest = 3, 7
    search = Search(OfWords(vocabulary), beams, n_best, ends, Ranking(penalty), None, is_watched=False)
    limits = torch.tensor([7, 3, 5], device=device)
    table = 2 * torch.randn(longest, sentences, beams, vocabulary, device=device)
    table[:, :, :, list(ends)] += 2.0  # many end
    table[2, 1] = -torch.inf  # no candidates remain
    table[3, 2, :, : vocabulary // 2] = 1.0  # equal entries

    def frames() -> list[Frame]:
        state = (torch.arange(sentences * beams, device=device)[:, None],)
        steps = [search.begin(table[0].flatten(0, 1), state, limits, longest)]
        for log_probs in table.log_softmax(-1):
            frame, (is_running,) = search.expand(log_probs.nan_to_num(nan=-torch.inf), steps[-1])
            steps.append(frame._replace(trail=frame.trail.clone()))
            outcomes.append(is_running.tolist())
        return steps

    outcomes: list[list[bool]] = []
    with torch.no_grad():
        monkeypatch.setattr(Search, "takes_kernel", lambda search, own: False)
        # Of equal entries the first is used, as in the kernel of a captured step; torch does not specify which.
        with monkeypatch.context() as patched:
            patched.setattr(Tensor, "topk", lambda x, k: sorted_topk(x, k))
            expected = frames()
            monkeypatch.setattr(Search, "takes_kernel", lambda search, own: has_form(own, search.width))
            steps = frames()
    assert outcomes[:longest] == outcomes[longest:]
    for step, (frame, expected_frame) in enumerate(zip(steps, expected, strict=True)):
        for name in Frame._fields:
            assert all(map(torch.equal, leaves(getattr(frame, name)), leaves(getattr(expected_frame, name)))), (
                step,
                name,
            )


def sorted_topk(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, indices = x.sort(dim=-1, descending=True, stable=True)
    return values[..., :k], indices[..., :k]
