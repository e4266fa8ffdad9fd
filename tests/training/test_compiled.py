from functools import partial

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounter

from clew.core.state import leaves
from clew.data.plans import TokenBatch
from clew.models.gpt import GPTConfig, build_gpt
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.training.compiled import Carrying, compile_task


def task_and_batch():
    torch.manual_seed(1)
    task = LanguageModel(build_gpt(GPTConfig(dim=16, num_layers=2, num_heads=2, max_length=32), Tokens(11)), None)
    return task, TokenBatch(*torch.randint(11, (2, 3, 8)))


def graphs_of(task, batch):
    """The names of the inputs of the backward graphs, and the loss and state of one step of the compiled task."""
    torch._dynamo.reset()
    names = []

    def record_inputs(graph, _):
        names.extend(node.name for node in graph.graph.nodes if node.op == "placeholder")
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph.forward), bw_compiler=record_inputs)
    terms, state = torch.compile(task, backend=backend, fullgraph=True)(batch)
    terms["loss"].sum.backward()
    return names, terms["loss"].sum.detach(), state


@pytest.mark.parametrize("carry", [False, True])
def test_only_the_loss_of_a_compiled_step_has_a_gradient(carry):
    task, batch = task_and_batch()
    names, loss, state = graphs_of(Carrying(task, carry), batch)
    assert len([name for name in names if name.startswith("tangents")]) == 1
    gradients = [parameter.grad.clone() for parameter in task.parameters()]
    task.zero_grad()
    terms, expected = task(batch)
    terms["loss"].sum.backward()
    torch.testing.assert_close(loss, terms["loss"].sum.detach())
    torch.testing.assert_close(gradients, [parameter.grad for parameter in task.parameters()], rtol=1e-4, atol=1e-6)
    if carry:
        torch.testing.assert_close(leaves(state), [leaf.detach() for leaf in leaves(expected)])
    else:
        assert state is None


def test_without_carrying_every_key_and_value_has_a_gradient():
    task, batch = task_and_batch()
    names, _, _ = graphs_of(task, batch)
    assert len([name for name in names if name.startswith("tangents")]) == 1 + 2 * 2


def test_a_first_batch_of_coincidental_sizes_does_not_cause_a_second_graph(monkeypatch):
    torch._dynamo.reset()
    counter = CompileCounter()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counter))
    task = compile_task(nn.Linear(6, 6), many_shapes=True)
    for rows, length in [(6, 6), (7, 5), (5, 9)]:  # the first has as many rows and positions as the layer has units
        x = torch.randn(rows, length, 6)
        torch.testing.assert_close(task(x), task._orig_mod(x))
    assert counter.frame_count == 1
