"""Several functions of a decoding step in one kernel, against the same functions one by one. They run on a GPU, or by
hand in Triton's interpreter: TRITON_INTERPRET=1 pytest ..."""

import os
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.state import map_tree
from clew.decoding.sampling import Frame, Step, Walk
from clew.decoding.stepper import prefill
from clew.kernels import few_rows, moving, vocabulary
from clew.kernels.deferred import Deferred, computed, deferred_plan
from clew.kernels.few_rows import FewRows
from clew.kernels.quantised_weight import QuantisedWeight
from clew.kernels.quantising import Integers, integers_of
from clew.kernels.step_plans import LogSoftmax, ManyRows, Normed, Product, Sum
from clew.layers import attention
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.skipif(
        find_spec("triton") is None or not (torch.cuda.is_available() or IS_INTERPRETED),
        reason="a GPU runs these kernels",
    ),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's exp, whose overflow is meant
]
ALLOWED = {
    torch.float32: 2e-6,
    torch.bfloat16: 2e-2 if IS_INTERPRETED else 8e-3,
}  # the interpreter cuts where a GPU rounds
TYPES = pytest.mark.parametrize("dtype", ALLOWED)


@pytest.fixture(autouse=True)
def device(monkeypatch) -> str:
    torch.manual_seed(7)
    if not IS_INTERPRETED:
        return "cuda"
    monkeypatch.setattr(few_rows, "is_on_gpu", lambda x: True)
    monkeypatch.setattr(moving, "is_on_gpu", lambda x: True)
    monkeypatch.setattr(few_rows, "takes_topk", lambda *given: True)
    return "cpu"


def error(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


def draw(*shape: int, device: str, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, device=device).to(dtype)


@TYPES
@pytest.mark.parametrize("rows, depth, width", [(1, 70, 100), (3, 96, 33), (8, 768, 20)])
@pytest.mark.parametrize("centred", [True, False])
def test_a_norm_a_product_an_activation_and_a_sum_are_one_kernel(device, dtype, rows, depth, width, centred):
    x, weight, bias = (
        draw(*shape, device=device, dtype=dtype) for shape in ((rows, 1, depth), (width, depth), (width,))
    )
    scale, shift, added = (draw(*shape, device=device, dtype=dtype) for shape in ((depth,), (depth,), (rows, 1, width)))
    with torch.inference_mode(), FewRows(fuses=True):
        norm = torch.layer_norm(x, (depth,), scale, shift, 1e-5) if centred else F.rms_norm(x, (depth,), scale, 1e-5)
        found = added + F.gelu(F.linear(norm, weight, bias), approximate="tanh")
        plan = deferred_plan(found, Product)
        assert (
            plan is not None and isinstance(plan.x, Normed) and plan.activation == "gelu_tanh" and plan.added is added
        )
        assert deferred_plan(norm, Normed) is not None  # it was not computed by itself
        found = computed(found)
    wide = x.double()
    norm = (
        F.layer_norm(wide, (depth,), scale.double(), shift.double())
        if centred
        else F.rms_norm(wide, (depth,), scale.double(), 1e-5)
    )
    wanted = added.double() + F.gelu(F.linear(norm, weight.double(), bias.double()), approximate="tanh")
    assert error(found, wanted) < ALLOWED[dtype]


@pytest.mark.parametrize("name, function", [("relu", F.relu), ("silu", F.silu), ("gelu", F.gelu)])
def test_every_activation_is_torchs(device, name, function):
    x, weight = draw(2, 40, device=device, dtype=torch.float32), draw(30, 40, device=device, dtype=torch.float32)
    with torch.inference_mode(), FewRows(fuses=True):
        found = function(F.linear(x, weight))
        assert deferred_plan(found, Product).activation == name
    assert error(found, function(F.linear(x.double(), weight.double()))) < ALLOWED[torch.float32]


def test_a_gate_is_multiplied_in_the_kernel_of_its_product(device):
    x, inner, gate = (draw(*shape, device=device, dtype=torch.float32) for shape in ((2, 40), (30, 40), (30, 40)))
    with torch.inference_mode(), FewRows(fuses=True):
        found = F.silu(F.linear(x, inner)) * F.linear(x, gate)
        assert deferred_plan(found, Product).factor is not None
    wanted = F.silu(F.linear(x.double(), inner.double())) * F.linear(x.double(), gate.double())
    assert error(found, wanted) < ALLOWED[torch.float32]


@TYPES
def test_a_sum_and_its_norm_are_one_kernel_with_many_rows(device, dtype):
    x, y, scale, shift = (
        draw(*shape, device=device, dtype=dtype) for shape in ((20, 3, 50), (20, 3, 50), (50,), (50,))
    )
    with torch.inference_mode(), FewRows(fuses=True):
        total = x + y
        assert deferred_plan(total, Sum) is not None
        norm = torch.layer_norm(total, (50,), scale, shift, 1e-5)
        assert isinstance(total, Deferred) and total.result is not None and not isinstance(norm, Deferred)
    assert IS_INTERPRETED or torch.equal(computed(total), x + y)
    assert error(total, (x + y).double()) < ALLOWED[dtype]
    wanted = F.layer_norm((x + y).double(), (50,), scale.double(), shift.double())
    assert error(norm, wanted) < ALLOWED[dtype]


@TYPES
@pytest.mark.parametrize("function", [F.relu, lambda x: F.gelu(x, approximate="tanh"), F.silu])
def test_products_of_many_rows_are_a_librarys(device, dtype, function, monkeypatch):
    if IS_INTERPRETED:
        monkeypatch.setattr(few_rows, "LIBRARY", ("relu",))  # on a CPU the library's GELU is not the one of tanh
    x, weight, bias = (draw(*shape, device=device, dtype=dtype) for shape in ((20, 1, 48), (32, 48), (32,)))
    with torch.inference_mode(), FewRows(fuses=True):
        product = F.linear(x, weight, bias)
        assert deferred_plan(product, ManyRows) is not None
        found = function(product)
    assert found.shape == (20, 1, 32)
    assert error(found, function(F.linear(x.double(), weight.double(), bias.double()))) < ALLOWED[dtype]


@TYPES
@pytest.mark.parametrize("rows, width", [(1, 5), (2, 3000), (70, 5000)])
def test_of_a_softmax_only_what_is_asked_for_is_computed(device, dtype, rows, width):
    logits = (3 * torch.randn(rows, 1, width, device=device)).to(dtype)
    wanted = logits[:, 0].double().log_softmax(-1)
    others = torch.randint(width, (rows, 2), device=device)
    with torch.inference_mode(), FewRows(fuses=True):
        log_probs = logits.log_softmax(-1, dtype=torch.float32)[:, -1]
        plan = deferred_plan(log_probs, LogSoftmax)
        best = log_probs.argmax(-1)
        chosen, two = log_probs.gather(1, best[:, None]), log_probs.gather(1, others)
        viewed = log_probs.view(rows, 1, width).topk(min(width, 5))
        assert plan is not None and deferred_plan(log_probs, LogSoftmax) is plan
        whole = computed(log_probs)
    assert torch.equal(best, logits[:, 0].float().argmax(-1))
    torch.testing.assert_close(chosen.double(), wanted.gather(1, best[:, None]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(two.double(), wanted.gather(1, others), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(whole.double(), wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(viewed.values[:, 0].double(), wanted.topk(min(width, 5)).values, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(whole[:, None].gather(2, viewed.indices), viewed.values)


def test_a_softmax_of_what_cannot_be_is_nan_and_one_of_one_word_is_sure(device):
    logits = torch.tensor([[-torch.inf] * 3, [0.0, float("nan"), 1.0], [-torch.inf, 4.0, -torch.inf]], device=device)
    log_probs, parts = vocabulary.log_softmax(logits), vocabulary.parts_of(logits)
    tokens, best = vocabulary.best(parts)
    assert tokens.tolist() == [0, 2, 1] and best.isnan().tolist() == [True, True, False] and float(best[2]) == 0.0
    assert log_probs.isnan().any(1).tolist() == [True, True, False] and log_probs[2].tolist() == [
        -torch.inf,
        0.0,
        -torch.inf,
    ]


def test_what_is_written_over_is_read_before(device):
    x, weight = draw(2, 40, device=device, dtype=torch.float32), draw(30, 40, device=device, dtype=torch.float32)
    wanted = F.linear(x, weight)
    with torch.inference_mode(), FewRows(fuses=True):
        found = F.linear(x, weight)
        x.zero_()
    torch.testing.assert_close(computed(found), wanted)


def test_counters_are_added_to_together_and_before_they_are_read(device):
    counts = [torch.zeros(3, dtype=torch.long, device=device) for _ in range(3)]
    mode = FewRows(fuses=True)
    with torch.inference_mode(), mode:
        for count in counts:
            count.add_(1)
        assert len(mode.counters) == 3
        assert (counts[0] + 0).tolist() == [1, 1, 1] and not mode.counters
        counts[1].add_(1)
    assert [count.tolist() for count in counts] == [[1, 1, 1], [2, 2, 2], [1, 1, 1]]


def test_a_plan_that_two_functions_take_gives_both_the_same(device):
    x, weight = draw(2, 40, device=device, dtype=torch.float32), draw(30, 40, device=device, dtype=torch.float32)
    with torch.inference_mode(), FewRows(fuses=True):
        product = F.linear(x, weight)
        found = F.relu(product), product * 2, product[:, :3], torch.cat([product, product])
    wanted = F.linear(x, weight)
    for each, right in zip(
        found, (F.relu(wanted), wanted * 2, wanted[:, :3], torch.cat([wanted, wanted])), strict=True
    ):
        torch.testing.assert_close(computed(each), right)


def test_arguments_by_name_and_further_options_are_torchs(device):
    x, weight = draw(2, 40, device=device, dtype=torch.float32), draw(30, 40, device=device, dtype=torch.float32)
    index, count = torch.zeros(2, 1, dtype=torch.long, device=device), torch.zeros(3, dtype=torch.long, device=device)
    with torch.inference_mode(), FewRows(fuses=True):
        product = F.linear(input=x, weight=weight)
        found = [
            F.gelu(input=product),
            product.mul(other=x[:, :30]),
            product.add(other=x[:, :30]),
            x.log_softmax(-1, torch.float32),
            x.gather(1, index, sparse_grad=False),
            x.argmax(axis=-1),
            x.view(dtype=torch.int32),
            count.add_(other=1),
        ]
    wanted = F.linear(x, weight)
    expected = [
        F.gelu(wanted),
        wanted * x[:, :30],
        wanted + x[:, :30],
        x.log_softmax(-1),
        x[:, :1],
        x.argmax(-1),
        x.view(torch.int32),
    ]
    for each, right in zip(found, [*expected, torch.ones_like(count)], strict=True):
        torch.testing.assert_close(computed(each), right)


def test_what_is_made_within_the_mode_is_a_plain_tensor(device):
    x, weight = draw(20, 40, device=device, dtype=torch.float32), draw(40, 40, device=device, dtype=torch.float32)
    with torch.inference_mode(), FewRows(fuses=True):
        assert type(computed(F.linear(x, weight))) is type(computed(x + x)) is Tensor


@pytest.mark.parametrize(
    "write", [lambda x: F.relu(x, inplace=True), lambda x: F.relu(x, True), lambda x: torch.neg(x, out=x)]
)
def test_every_way_to_write_is_noticed(device, write):
    x, y = draw(20, 4, device=device, dtype=torch.float32), draw(20, 4, device=device, dtype=torch.float32)
    wanted = x + y
    with torch.inference_mode(), FewRows(fuses=True):
        found = x + y
        write(x)
    torch.testing.assert_close(computed(found), wanted)


def test_a_token_that_was_written_over_is_not_the_best_one(device):
    logits = draw(3, 50, device=device, dtype=torch.float32)
    with torch.inference_mode(), FewRows(fuses=True):
        log_probs = logits.log_softmax(-1, dtype=torch.float32)
        tokens = log_probs.argmax(-1)
        spread = log_probs.gather(1, tokens[:1].expand(3)[:, None])
        tokens.fill_(7)
        chosen = log_probs.gather(1, tokens[:, None])
    wanted = logits.log_softmax(-1)
    torch.testing.assert_close(computed(chosen), wanted[:, 7:8])
    torch.testing.assert_close(computed(spread), wanted.gather(1, logits[:1].argmax(-1).expand(3)[:, None]))


def test_a_counter_may_be_added_to_twice(device):
    count = torch.zeros(3, dtype=torch.long, device=device)
    with torch.inference_mode(), FewRows(fuses=True):
        count.add_(1)
        count.add_(1)
    assert count.tolist() == [2, 2, 2]


def test_a_weight_in_integers_is_not_made_float_by_the_way(device, monkeypatch):
    weight = QuantisedWeight(integers_of(torch.randn(64, 64, device=device), 8))
    made_float: list[Any] = []
    monkeypatch.setattr(Integers, "floats", lambda *given: made_float.append(given))
    mode = FewRows(fuses=True)
    mode.counters.append(torch.zeros(3, dtype=torch.long, device=device))
    mode.settle(F.linear, (torch.randn(2, 64, device=device), weight), {})
    assert not made_float and mode.counters


def test_sources_that_are_not_aligned_are_copied(device):
    source, target = torch.arange(3.0, device=device)[1:], torch.zeros(2, device=device)
    moving.copy_all([target], [source])
    assert target.tolist() == [1.0, 2.0]


def test_tensors_of_any_type_are_copied_together(device):
    sources = [
        torch.randn(3, 5),
        torch.randn(2, 700).bfloat16(),
        torch.rand(7) < 0.5,
        torch.arange(5),
        torch.randn(5, 4).mT,
        torch.zeros(0),
    ]
    sources = [source.to(device) for source in sources * 2]
    targets = [torch.empty(source.shape, dtype=source.dtype, device=device) for source in sources]
    moving.copy_all(targets, sources)
    assert all(map(torch.equal, targets, sources))


def test_columns_are_written_and_counted(device):
    outputs = (
        torch.arange(6, device=device)[::2],
        torch.randn(3, device=device),
        torch.tensor([True, False, True], device=device),
    )
    kept = [output.new_zeros(3, 4) for output in outputs]
    column = torch.tensor([2], device=device)
    assert moving.write_columns(kept, outputs, column) and column.tolist() == [3]
    for part, output in zip(kept, outputs, strict=True):
        assert torch.equal(part[:, 2], output) and not part[:, [0, 1, 3]].any()
    assert not moving.write_columns([torch.zeros(3, 4, 2)], [torch.zeros(3, 2)], column)


@pytest.mark.parametrize("rows", [2, 10])
@pytest.mark.parametrize("family", ["gpt", "llama", "recurrent"])
def test_steps_of_a_model_are_what_they_are_without_the_mode(device, family, rows, monkeypatch):
    if IS_INTERPRETED:
        monkeypatch.setattr(few_rows, "LIBRARY", ("relu",))
        monkeypatch.setattr(attention, "supports_decode_attention", lambda x, head_dim: not torch.is_grad_enabled())
    sizes = {"gpt": {"num_heads": 2, "max_length": 40}, "llama": {"num_heads": 2, "num_kv_heads": 1}, "recurrent": {}}[
        family
    ]
    body = MODELS[family].build(MODELS[family].config(dim=32, num_layers=2, **sizes), Tokens(30))
    task = LanguageModel(body, None, LanguageModelConfig(tied=False)).to(device).eval()
    prompt = torch.randint(30, (rows, 3), device=device)
    walk = Walk(task.stepper(), (4,))

    def steps(mode: FewRows | None) -> list[Step]:
        log_probs, state = prefill(walk.stepper, prompt, None, walk.stepper.initial_state(rows, 10))
        frame, _ = walk.choose(
            log_probs, Frame(prompt[:, 0], torch.ones_like(prompt[:, 0], dtype=torch.bool), state), None
        )
        found = []
        for _ in range(5):
            with mode or nullcontext():
                frame, step = map_tree(computed, walk(frame, None))
            found.append(map_tree(torch.clone, step))
        return found

    with torch.inference_mode():
        for found, wanted in zip(steps(FewRows(fuses=True)), steps(None), strict=True):
            assert torch.equal(found.tokens, wanted.tokens) and torch.equal(found.is_new, wanted.is_new)
            torch.testing.assert_close(found.log_probs, wanted.log_probs, atol=1e-4, rtol=1e-4)
