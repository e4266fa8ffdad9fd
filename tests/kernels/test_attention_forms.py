"""Which form attention takes, decided from facts alone, without a GPU."""

import pytest
import torch

from clew.core.masks import advance
from clew.core.sight import Sight
from clew.kernels import flex_attention, linear_biases
from clew.kernels.attention_facts import Facts, facts_of
from clew.kernels.dot_attention import attention_form
from clew.kernels.query_blocks import HELD_BY_BLOCK, SIZE, block_size, holds_too_much
from tests.references.agreement import randn

GPU = Facts("cuda", torch.bfloat16, batch=4, heads=16, queries=4096, keys=4096, dim=64, value_dim=64, rows=1)
CPU = GPU._replace(device="cpu", dtype=torch.float32, batch=1, heads=4)
TRAINED = {"gradient": True}
DOCUMENTS = {"documents": True, "padded": True, "rows": 4}
RAGGED = {"padded": True, "rows": 4}
BOTH_SIDES = {"causal": False}
ALIBI = {"bias": "linear"}
NO_FLEX = {"flex": False}
LONGER = {"queries": 32768, "keys": 32768}


@pytest.mark.parametrize(
    ("form", "facts"),
    [
        ("plain", {}),
        ("plain", RAGGED),
        ("plain", BOTH_SIDES),
        ("plain", LONGER),
        ("tensor", BOTH_SIDES | RAGGED),  # a mask of keys only
        ("tensor", BOTH_SIDES | RAGGED | LONGER),
        ("flex", DOCUMENTS),
        ("flex", DOCUMENTS | BOTH_SIDES),
        ("flex", DOCUMENTS | ALIBI),
        ("flex", DOCUMENTS | LONGER),
        ("flex", {"window": 256}),
        ("flex", {"window": 256} | ALIBI | BOTH_SIDES),
        ("flex", BOTH_SIDES | ALIBI),
        ("flex", BOTH_SIDES | ALIBI | RAGGED),
        ("flex", DOCUMENTS | {"dtype": torch.float32}),
        ("columns", ALIBI),
        ("columns", ALIBI | RAGGED | LONGER),
        ("columns", ALIBI | {"dtype": torch.float32}),
        ("columns", ALIBI | TRAINED | {"dropout": True}),
        ("columns", ALIBI | TRAINED | NO_FLEX | LONGER),
        # If FlexAttention has no room: a mask while it is small, shared by all heads if columns replace the bias.
        ("tensor", DOCUMENTS | NO_FLEX),
        ("tensor", DOCUMENTS | {"dropout": True}),
        ("blocks", DOCUMENTS | NO_FLEX | LONGER),
        ("columns", DOCUMENTS | NO_FLEX | ALIBI),
        ("blocks", DOCUMENTS | NO_FLEX | ALIBI | LONGER),
        ("tensor", BOTH_SIDES | NO_FLEX | ALIBI),
        ("blocks", BOTH_SIDES | NO_FLEX | ALIBI | RAGGED),
        # A short sequence, or one already read, compiles nothing.
        ("tensor", DOCUMENTS | {"queries": 200, "keys": 200}),
        ("tensor", ALIBI | {"queries": 100, "keys": 100}),
        ("tensor", {"aligned": False, "queries": 1}),
        ("columns", ALIBI | {"aligned": False}),
        # Widths and types that FlexAttention does not have.
        ("tensor", DOCUMENTS | {"dim": 8, "value_dim": 8}),
        ("tensor", DOCUMENTS | {"value_dim": 32}),
        ("tensor", DOCUMENTS | {"dtype": torch.float64}),
        # Compiled and exported programs.
        ("tensor", DOCUMENTS | {"tracing": "compiling"} | LONGER),
        ("columns", ALIBI | TRAINED | {"tracing": "compiling"}),
        ("tensor", ALIBI | {"tracing": "exporting"}),
        ("plain", {"tracing": "exporting"}),
        # The layer cuts scores that only it can compute.
        ("tensor", {"bias": "any"} | LONGER),
    ],
)
def test_the_form_that_a_gpu_takes(form, facts):
    assert attention_form(GPU._replace(**facts)) == form


@pytest.mark.parametrize(("first", "form"), [(4096, "flex"), (8192, "columns"), (None, "columns")])
def test_one_constant_decides_whether_causal_linear_biases_are_trained_in_columns(monkeypatch, first, form):
    monkeypatch.setattr(flex_attention, "CAUSAL_BIASES", first)
    assert attention_form(GPU._replace(bias="linear", gradient=True)) == form
    assert attention_form(GPU._replace(bias="linear", gradient=False)) == "columns"


def test_windows_can_be_left_to_blocks(monkeypatch):
    monkeypatch.setattr(flex_attention, "WINDOWS", False)
    assert attention_form(GPU._replace(window=256)) == "tensor"


@pytest.mark.parametrize(
    ("form", "facts"),
    [
        ("plain", RAGGED),
        ("tensor", DOCUMENTS),
        ("columns", ALIBI),
        ("columns", ALIBI | DOCUMENTS),
        ("blocks", ALIBI | {"dtype": torch.bfloat16}),
        ("blocks", ALIBI | BOTH_SIDES),
        ("tensor", ALIBI | BOTH_SIDES | {"queries": 500, "keys": 500}),
        ("tensor", ALIBI | BOTH_SIDES | {"tracing": "compiling"}),
    ],
)
def test_the_form_that_a_cpu_takes(form, facts):
    assert attention_form(CPU._replace(**facts)) == form


def test_memory_is_counted_for_a_mask_of_all_heads_or_a_bias_per_head():
    square = 4096 * 4096 * 2
    assert GPU.mask_bytes(bias=False) == square
    assert GPU._replace(**DOCUMENTS).mask_bytes(bias=False) == 4 * square
    assert GPU.mask_bytes(bias=True) == 16 * square
    assert GPU._replace(**BOTH_SIDES, **RAGGED).mask_bytes(bias=False) == 4 * 4096 * 2


def test_a_block_of_queries_on_a_gpu_is_limited_by_the_size_of_its_bias():
    for length in (4096, 65536):
        facts = GPU._replace(queries=length, keys=length, causal=False, bias="linear")
        size = block_size(facts, bias=True)
        assert size % SIZE == 0
        assert size == SIZE or facts._replace(queries=size).mask_bytes(bias=True) <= HELD_BY_BLOCK
    assert block_size(CPU, bias=True) == SIZE


def test_stored_scores_are_cut_if_long_or_on_a_gpu_numerous():
    assert holds_too_much("cpu", 1, 1, 2048, 2048)
    assert not holds_too_much("cpu", 64, 16, 1024, 1024)
    assert holds_too_much("cuda", 64, 16, 1024, 1024)
    assert not holds_too_much("cuda", 4, 16, 1024, 1024)
    assert not holds_too_much("cuda", 4096, 16, 1, 8192), "a step has no queries to cut"


def test_facts_are_taken_from_the_call():
    query = randn(2, 4, 5, 8).float().requires_grad_()
    mask = torch.tensor([[1, 1, 2, 2, 0], [1, 1, 1, 1, 1]])
    places, _ = advance(None, mask, torch.zeros(2, 5, 1))
    seen = Sight(places, places.index, causal=True, documents=True, padded=True, aligned=True)
    facts = facts_of(query, query[:, :2], query[:, :2, :, :3], seen, "none", 0.1)
    expected = Facts(
        "cpu", torch.float32, 2, 4, 5, 5, 8, 3, 2, documents=True, padded=True, dropout=True, gradient=True
    )
    assert facts == expected
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        facts = facts_of(query, query, query, seen, "linear", 0.0)
        assert (facts.dtype, facts.gradient) == (torch.bfloat16, False)
        assert facts_of(query.double(), query, query, seen, "linear", 0.0).dtype == torch.float64
    assert not linear_biases.takes_columns(facts), "a CPU would round the columns"


def test_compiled_code_is_not_used_under_a_torch_function_mode():
    query = randn(1, 1, 5, 8)
    places, _ = advance(None, None, torch.zeros(1, 5, 1))
    seen = Sight(places, places.index, causal=True, aligned=True)
    assert facts_of(query, query, query, seen, "none", 0.0).flex
    with torch.overrides.BaseTorchFunctionMode():
        assert not facts_of(query, query, query, seen, "none", 0.0).flex
