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
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the overflow in the interpreter's exp is intended
]
ALLOWED = {
    torch.float32: 2e-6,
    torch.bfloat16: 2e-2 if IS_INTERPRETED else 8e-3,
}  # the interpreter truncates, and a GPU rounds
TYPES = pytest.mark.parametrize("dtype", ALLOWED)


@pytest.fixture(autouse=True)
def device(monkeypatch) -> str:
    torch.manual_seed(7)
    if not IS_INTERPRETED:
        return "cuda"
    monkeypatch.setattr(few_rows, "is_on_gpu", lambda x: True)
    monkeypatch.setattr(moving, "is_on_gpu", lambda x: True)
    monkeypatch.setattr(few_rows, "takes_topk", lambda *arguments: True)
    return "cpu"


def error(actual: Tensor, expected: Tensor) -> float:
    return float((actual.double() - expected).norm() / expected.norm())


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
        actual = added + F.gelu(F.linear(norm, weight, bias), approximate="tanh")
        plan = deferred_plan(actual, Product)
        assert (
            plan is not None and isinstance(plan.x, Normed) and plan.activation == "gelu_tanh" and plan.added is added
        )
        assert deferred_plan(norm, Normed) is not None  # it was not computed separately
        actual = computed(actual)
    wide = x.double()
    norm = (
        F.layer_norm(wide, (depth,), scale.double(), shift.double())
        if centred
        else F.rms_norm(wide, (depth,), scale.double(), 1e-5)
    )
    expected = added.double() + F.gelu(F.linear(norm, weight.double(), bias.double()), approximate="tanh")
    assert error(actual, expected) < ALLOWED[dtype]


@pytest.mark.parametrize("name, function", [("relu", F.relu), ("silu", F.silu), ("gelu", F.gelu)])
def test_every_activation_equals_torch(device, name, function):
    x, weight = draw(2, 40, device=device, dtype=torch.float32), draw(30, 40, device=device, dtype=torch.float32)
    with torch.inference_mode(), FewRows(fuses=True):
        actual = function(F.linear(x, weight))
        assert deferred_plan(actual, Product).activation == name
    assert error(actual, function(F.linear(x.double(), weight.double()))) < ALLOWED[torch.float32]


def test_a_gate_is_applied_in_the_kernel_of_its_product(device):
    x, inner, gate = (draw(*shape, device=device, dtype=torch.float32) for shape in ((2, 40), (30, 40), (30, 40)))
    with torch.inference_mode(), FewRows(fuses=True):
        actual = F.silu(F.linear(x, inner)) * F.linear(x, gate)
        assert deferred_plan(actual, Product).factor is not None
    expected = F.silu(F.linear(x.double(), inner.double())) * F.linear(x.double(), gate.double())
    assert error(actual, expected) < ALLOWED[torch.float32]


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
    expected = F.layer_norm((x + y).double(), (50,), scale.double(), shift.double())
    assert error(norm, expected) < ALLOWED[dtype]


@TYPES
@pytest.mark.parametrize("function", [F.relu, lambda x: F.gelu(x, approximate="tanh"), F.silu])
def test_products_of_many_rows_use_a_library(device, dtype, function, monkeypatch):
    if IS_INTERPRETED:
        monkeypatch.setattr(few_rows, "LIBRARY", ("relu",))  # on a CPU the library's GELU is not the tanh form
    x, weight, bias = (draw(*shape, device=device, dtype=dtype) for shape in ((20, 1, 48), (32, 48), (32,)))
    with torch.inference_mode(), FewRows(fuses=True):
        product = F.linear(x, weight, bias)
        assert deferred_plan(product, ManyRows) is not None
        actual = function(product)
    assert actual.shape == (20, 1, 32)
    assert error(actual, function(F.linear(x.double(), weight.double(), bias.double()))) < ALLOWED[dtype]


@TYPES
@pytest.mark.parametrize("rows, width", [(1, 5), (2, 3000), (70, 5000)])
def test_only_the_requested_part_of_a_softmax_is_computed(device, dtype, rows, width):
    logits = (3 * torch.randn(rows, 1, width, device=device)).to(dtype)
    expected = logits[:, 0].double().log_softmax(-1)
    other_tokens = torch.randint(width, (rows, 2), device=device)
    with torch.inference_mode(), FewRows(fuses=True):
        log_probs = logits.log_softmax(-1, dtype=torch.float32)[:, -1]
        plan = deferred_plan(log_probs, LogSoftmax)
        best = log_probs.argmax(-1)
        chosen, two = log_probs.gather(1, best[:, None]), log_probs.gather(1, other_tokens)
        viewed = log_probs.view(rows, 1, width).topk(min(width, 5))
        assert plan is not None and deferred_plan(log_probs, LogSoftmax) is plan
        whole = computed(log_probs)
    assert torch.equal(best, logits[:, 0].float().argmax(-1))
    torch.testing.assert_close(chosen.double(), expected.gather(1, best[:, None]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(two.double(), expected.gather(1, other_tokens), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(whole.double(), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(viewed.values[:, 0].double(), expected.topk(min(width, 5)).values, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(whole[:, None].gather(2, viewed.indices), viewed.values)


def test_a_softmax_of_only_minus_infinity_is_nan_and_of_one_word_certain(device):
    logits = torch.tensor([[-torch.inf] * 3, [0.0, float("nan"), 1.0], [-torch.inf, 4.0, -torch.inf]], device=device)
    log_probs, parts = vocabulary.log_softmax(logits), vocabulary.parts_of(logits)
    tokens, best = vocabulary.best(parts)
    assert tokens.tolist() == [0, 2, 1] and best.isnan().tolist() == [True, True, False] and float(best[2]) == 0.0
    assert log_probs.isnan().any(1).tolist() == [True, True, False] and log_probs[2].tolist() == [
        -torch.inf,
        0.0,
        -torch.inf,
    ]


def test_a_deferred_value_is_computed_before_its_input_is_overwritten(device):
    x, weight = draw(2, 40, device=device, dtype=torch.float32), draw(30, 40, device=device, dtype=torch.float32)
    expected = F.linear(x, weight)
    with torch.inference_mode(), FewRows(fuses=True):
        actual = F.linear(x, weight)
        x.zero_()
    torch.testing.assert_close(computed(actual), expected)


def test_counters_are_incremented_together_and_before_they_are_read(device):
    counts = [torch.zeros(3, dtype=torch.long, device=device) for _ in range(3)]
    mode = FewRows(fuses=True)
    with torch.inference_mode(), mode:
        for count in counts:
            count.add_(1)
        assert len(mode.counters) == 3
        assert (counts[0] + 0).tolist() == [1, 1, 1] and not mode.counters
        counts[1].add_(1)
    assert [count.tolist() for count in counts] == [[1, 1, 1], [2, 2, 2], [1, 1, 1]]


def test_a_plan_used_by_two_functions_gives_both_the_same_values(device):
    x, weight = draw(2, 40, device=device, dtype=torch.float32), draw(30, 40, device=device, dtype=torch.float32)
    with torch.inference_mode(), FewRows(fuses=True):
        product = F.linear(x, weight)
        actual = F.relu(product), product * 2, product[:, :3], torch.cat([product, product])
    expected = F.linear(x, weight)
    for each, right in zip(
        actual, (F.relu(expected), expected * 2, expected[:, :3], torch.cat([expected, expected])), strict=True
    ):
        torch.testing.assert_close(computed(each), right)


def test_keyword_arguments_and_further_options_are_left_to_torch(device):
    x, weight = draw(2, 40, device=device, dtype=torch.float32), draw(30, 40, device=device, dtype=torch.float32)
    index, count = torch.zeros(2, 1, dtype=torch.long, device=device), torch.zeros(3, dtype=torch.long, device=device)
    with torch.inference_mode(), FewRows(fuses=True):
        product = F.linear(input=x, weight=weight)
        actual = [
            F.gelu(input=product),
            product.mul(other=x[:, :30]),
            product.add(other=x[:, :30]),
            x.log_softmax(-1, torch.float32),
            x.gather(1, index, sparse_grad=False),
            x.argmax(axis=-1),
            x.view(dtype=torch.int32),
            count.add_(other=1),
        ]
    plain = F.linear(x, weight)
    expected = [
        F.gelu(plain),
        plain * x[:, :30],
        plain + x[:, :30],
        x.log_softmax(-1),
        x[:, :1],
        x.argmax(-1),
        x.view(torch.int32),
    ]
    for each, right in zip(actual, [*expected, torch.ones_like(count)], strict=True):
        torch.testing.assert_close(computed(each), right)


def test_results_computed_within_the_mode_are_plain_tensors(device):
    x, weight = draw(20, 40, device=device, dtype=torch.float32), draw(40, 40, device=device, dtype=torch.float32)
    with torch.inference_mode(), FewRows(fuses=True):
        assert type(computed(F.linear(x, weight))) is type(computed(x + x)) is Tensor


@pytest.mark.parametrize(
    "write", [lambda x: F.relu(x, inplace=True), lambda x: F.relu(x, True), lambda x: torch.neg(x, out=x)]
)
def test_every_kind_of_write_is_noticed(device, write):
    x, y = draw(20, 4, device=device, dtype=torch.float32), draw(20, 4, device=device, dtype=torch.float32)
    expected = x + y
    with torch.inference_mode(), FewRows(fuses=True):
        actual = x + y
        write(x)
    torch.testing.assert_close(computed(actual), expected)


def test_an_overwritten_logit_changes_the_best_token(device):
    logits = draw(3, 50, device=device, dtype=torch.float32)
    with torch.inference_mode(), FewRows(fuses=True):
        log_probs = logits.log_softmax(-1, dtype=torch.float32)
        tokens = log_probs.argmax(-1)
        spread = log_probs.gather(1, tokens[:1].expand(3)[:, None])
        tokens.fill_(7)
        chosen = log_probs.gather(1, tokens[:, None])
    expected = logits.log_softmax(-1)
    torch.testing.assert_close(computed(chosen), expected[:, 7:8])
    torch.testing.assert_close(computed(spread), expected.gather(1, logits[:1].argmax(-1).expand(3)[:, None]))


def test_a_counter_may_be_incremented_twice(device):
    count = torch.zeros(3, dtype=torch.long, device=device)
    with torch.inference_mode(), FewRows(fuses=True):
        count.add_(1)
        count.add_(1)
    assert count.tolist() == [2, 2, 2]


def test_a_quantised_weight_is_not_converted_to_float(device, monkeypatch):
    weight = QuantisedWeight(integers_of(torch.randn(64, 64, device=device), 8))
    made_float: list[Any] = []
    monkeypatch.setattr(Integers, "floats", lambda *arguments: made_float.append(arguments))
    mode = FewRows(fuses=True)
    mode.counters.append(torch.zeros(3, dtype=torch.long, device=device))
    mode.settle(F.linear, (torch.randn(2, 64, device=device), weight), {})
    assert not made_float and mode.counters


def test_unaligned_sources_are_copied(device):
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
    buffers = [output.new_zeros(3, 4) for output in outputs]
    column = torch.tensor([2], device=device)
    assert moving.write_columns(buffers, outputs, column) and column.tolist() == [3]
    for part, output in zip(buffers, outputs, strict=True):
        assert torch.equal(part[:, 2], output) and not part[:, [0, 1, 3]].any()
    assert not moving.write_columns([torch.zeros(3, 4, 2)], [torch.zeros(3, 2)], column)


@pytest.mark.parametrize("rows", [2, 10])
@pytest.mark.parametrize("family", ["gpt", "llama", "recurrent"])
def test_steps_of_a_model_are_the_same_without_the_mode(device, family, rows, monkeypatch):
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
        outputs = []
        for _ in range(5):
            with mode or nullcontext():
                frame, step = map_tree(computed, walk(frame, None))
            outputs.append(map_tree(torch.clone, step))
        return outputs

    with torch.inference_mode():
        for outputs, expected in zip(steps(FewRows(fuses=True)), steps(None), strict=True):
            assert torch.equal(outputs.tokens, expected.tokens) and torch.equal(outputs.is_new, expected.is_new)
            torch.testing.assert_close(outputs.log_probs, expected.log_probs, atol=1e-4, rtol=1e-4)
