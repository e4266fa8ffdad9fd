import weakref
from fnmatch import fnmatchcase
from threading import Event, Thread
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import clew
from clew.core.errors import UserError
from clew.core.graph_batches import GraphInputs, batch_graphs
from clew.core.graphs import Graph
from clew.core.taps import Tap
from clew.core.tree_batches import TreeInputs, batch_trees
from clew.core.tree_nodes import Nodes
from clew.inspection.recording import find_places
from clew.layers.adapters import LowRank
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS, LSTM
from clew.layers.recurrent import Backward, Bidirectional, Recurrent
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.uses.generation import generate
from clew.tasks.uses.writing import DecodingConfig
from tests.thread.models import LINES, gpt, lines_batch, lstm

CELL = "body.layers.layers.0.layer.cell"
ATTENTION = "body.layers.layers.0.layer.attention"


@pytest.fixture
def ids() -> Tensor:
    task = lstm()
    return torch.tensor([task.encode(LINES[0][:7]), task.encode(LINES[2][:7])])


def gates_by_hand(cell: LSTM, x: Tensor) -> dict[str, Tensor]:
    """The LSTM's equations step by step, with the gates of all steps stacked on a length axis."""
    hidden = memory = torch.zeros(len(x), cell.dim)
    steps: dict[str, list[Tensor]] = {
        "input": [],
        "forget": [],
        "candidate": [],
        "output": [],
        "cell": [],
        "hidden": [],
    }
    for x_t in x.unbind(1):
        i, f, c, o = (x_t @ cell.input_weight.T + hidden @ cell.hidden_weight.T + cell.bias).chunk(4, -1)
        memory = f.sigmoid() * memory + i.sigmoid() * c.tanh()
        hidden = o.sigmoid() * memory.tanh()
        values = (i.sigmoid(), f.sigmoid(), c.tanh(), o.sigmoid(), memory, hidden)
        for name, value in zip(steps, values, strict=True):
            steps[name].append(value)
    return {name: torch.stack(values, 1) for name, values in steps.items()}


@torch.no_grad()
def test_gates_of_an_lstm_are_stacked_on_a_length_axis(ids: Tensor) -> None:
    task = lstm().eval()
    with clew.record(task, f"{CELL}.gates.*", f"{CELL}.cell_state", f"{CELL}.hidden") as recorded:
        task.body(ids)
    expected = gates_by_hand(task.body.layers.layers[0].layer.cell, task.body.embedding(ids, torch.zeros_like(ids)))
    for gate in ("input", "forget", "candidate", "output"):
        torch.testing.assert_close(recorded[f"{CELL}.gates.{gate}"], expected[gate])
    torch.testing.assert_close(recorded["*.cell_state"], expected["cell"])
    torch.testing.assert_close(recorded["*.hidden"], expected["hidden"])
    forget = recorded["*.gates.forget"]
    assert forget.shape == (2, 7, 12)
    assert (forget > 0).all() and (forget < 1).all()


@torch.no_grad()
def test_attention_weights_of_a_gpt_are_distributions_over_the_past(ids: Tensor) -> None:
    task = gpt().eval()
    with clew.record(task, "*.weights") as recorded:
        task.body(ids)
    assert len(recorded) == 2
    for path in recorded:
        weights = recorded[path]  # (batch, heads, query, key)
        assert weights.shape == (2, 2, 7, 7)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 7))
        assert not weights.triu(1).any()


@torch.no_grad()
def test_attention_weights_are_the_softmax_of_scaled_products(ids: Tensor) -> None:
    task = gpt().eval()
    attention = task.body.layers.layers[0].layer
    with clew.record(task, f"{ATTENTION}.weights", "body.layers.layers.0.norm") as recorded:
        task.body(ids)
    x = recorded["*.norm"]
    query, key = (part(x).unflatten(-1, (2, 6)).transpose(1, 2) for part in (attention.query, attention.key))
    scores = (query @ key.mT / 6**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), float("-inf"))
    torch.testing.assert_close(recorded["*.weights"], scores.softmax(-1))


@torch.no_grad()
def test_a_module_that_is_not_a_tap_is_recorded_by_its_output(ids: Tensor) -> None:
    task = gpt().eval()
    with clew.record(task, "body.embedding", "body.layers.layers.1", "body.norm") as recorded:
        hidden, _ = task.body(ids)
    levels = task.body.levels(ids)
    assert torch.equal(recorded["body.embedding"], levels[0])
    assert torch.equal(recorded["body.layers.layers.1"], levels[2])
    assert torch.equal(recorded["body.norm"], hidden)


@torch.no_grad()
def test_a_module_replaced_by_a_kernel_is_still_recorded(ids: Tensor) -> None:
    """Without recording, the kernel never calls the cell; with recording, its steps are stacked like those of a tap."""
    task = lstm().eval()
    with clew.record(task, CELL, "body.layers.layers.0") as recorded:
        task.body(ids)
    torch.testing.assert_close(recorded[CELL], recorded["body.layers.layers.0"])


@torch.no_grad()
@pytest.mark.parametrize("ragged", [False, True])
def test_both_directions_are_recorded_in_reading_order(ragged: bool) -> None:
    torch.manual_seed(0)
    layer = Bidirectional(Recurrent(LSTM(3, 4)), Recurrent(LSTM(3, 4)))
    x = torch.randn(2, 5, 3)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2]) if ragged else None
    with clew.record(layer, "*.hidden") as recorded:
        y, _ = layer(x, mask)
    joined = torch.cat([recorded["forward_layer.cell.hidden"], recorded["backward_layer.cell.hidden"]], -1)
    real = torch.ones(2, 5, dtype=torch.bool) if mask is None else mask
    torch.testing.assert_close(joined[real], y[real])


@torch.no_grad()
def test_generating_calls_a_tap_once_for_the_prompt_and_once_per_token() -> None:
    task = lstm().eval()
    with clew.record(task, f"{CELL}.gates.forget") as recorded:
        generate(task, ["a ball"], DecodingConfig(method="greedy", max_new=4))
    assert [call.shape[1] for call in recorded.calls("*.forget")] == [6, 1, 1, 1]
    with pytest.raises(
        UserError, match=r"\*.forget was passed 4 times while recording; calls\('\*.forget'\) gives each"
    ):
        recorded["*.forget"]


def test_a_recording_is_detached_and_gradients_still_flow(ids: Tensor) -> None:
    task = lstm()
    with clew.record(task, "*.gates.forget") as recorded:
        terms, _ = task(lines_batch(task))
    terms["loss"].sum.backward()
    assert all(not recorded[path].requires_grad for path in recorded)
    assert task.body.layers.layers[0].layer.cell.hidden_weight.grad.abs().sum() > 0


def hooks_of(module: nn.Module) -> int:
    return sum(len(part._forward_hooks) for part in module.modules())


@torch.no_grad()
def test_hooks_are_removed_even_after_an_exception(ids: Tensor) -> None:
    task = lstm().eval()
    expected, _ = task.body(ids)
    with pytest.raises(ZeroDivisionError), clew.record(task, "*.gates.*", "body.layers.layers.0") as recorded:
        assert hooks_of(task) == 1
        _ = 1 / 0
    assert hooks_of(task) == 0
    with (
        pytest.raises(ZeroDivisionError),
        clew.intervene(task, {"*.gates.*": lambda value: value * 0, "body.norm": lambda value: value * 0}),
    ):
        _ = 1 / 0
    assert hooks_of(task) == 0
    assert torch.equal(task.body(ids)[0], expected)
    assert all(not calls for calls in recorded.seen.values())


def test_a_pattern_that_matches_nothing_names_the_nearest_path() -> None:
    task = lstm()
    message = (
        f"nothing in the model matches '{CELL}.gates.forgot'; did you mean '{CELL}.gates.forget'\\? "
        r"`clew look taps RUN pattern=\*`, or model.named_modules\(\), lists its paths"
    )
    with pytest.raises(UserError, match=message), clew.record(task, f"{CELL}.gates.forgot"):
        pass
    with (
        pytest.raises(UserError, match="nothing in the model matches '\\*.nowhere'"),
        clew.intervene(task, {"*.nowhere": torch.zeros_like}),
    ):
        pass


@torch.no_grad()
def test_a_recordings_repr_lists_its_contents(ids: Tensor) -> None:
    task = lstm().eval()
    with clew.record(task, "body.embedding", "*.gates.forget") as recorded:
        assert "recorded: " in str(pytest.raises(UserError, recorded.calls, "body.head").value)
        task.body(ids)
    assert len(recorded) == 3
    assert repr(recorded).splitlines()[:2] == ["Recording of 3 places", "  body.embedding: (2, 7, 12)"]
    with pytest.raises(
        UserError,
        match=r"no single recording at '\*.forget'; several match: body.layers.layers.0.*, body.layers.layers.1",
    ):
        recorded["*.forget"]


@torch.no_grad()
def test_a_zeroed_head_adds_nothing(ids: Tensor) -> None:
    task = gpt().eval()
    attention = task.body.layers.layers[0].layer

    def without_first_head(weights: Tensor) -> Tensor:
        return weights * torch.tensor([0.0, 1.0])[:, None, None]

    with (
        clew.intervene(task, {f"{ATTENTION}.weights": without_first_head}),
        clew.record(task, "body.layers.layers.0.norm", "body.layers.layers.0.layer") as recorded,
    ):
        task.body(ids)
    x = recorded["*.norm"]
    with clew.record(task, f"{ATTENTION}.weights") as whole:
        task.body(ids)
    value = attention.value(x).unflatten(-1, (2, 6)).transpose(1, 2)
    context = whole["*.weights"] @ value
    context[:, 0] = 0
    torch.testing.assert_close(
        recorded["body.layers.layers.0.layer"], attention.output(context.transpose(1, 2).flatten(2))
    )


@torch.no_grad()
def test_a_forget_gate_fixed_at_one_accumulates_the_candidates(ids: Tensor) -> None:
    """f = 1 and i = 1: c_t is the sum of the candidates."""
    task = lstm().eval()
    changes = {f"{CELL}.gates.forget": torch.ones_like, f"{CELL}.gates.input": torch.ones_like}
    with clew.intervene(task, changes), clew.record(task, f"{CELL}.cell_state", f"{CELL}.gates.candidate") as recorded:
        changed, _ = task.body(ids)
    torch.testing.assert_close(recorded["*.cell_state"], recorded["*.candidate"].cumsum(1))
    unchanged, _ = task.body(ids)
    assert not torch.allclose(changed, unchanged)


@torch.no_grad()
def test_a_replaced_output_is_used_by_the_rest_of_the_model(ids: Tensor) -> None:
    task = lstm().eval()
    with clew.intervene(task, {"body.embedding": torch.zeros_like}):
        changed, _ = task.body(ids)
    expected, _ = task.body.layers(torch.zeros(2, 7, 12))
    torch.testing.assert_close(changed, expected)


@torch.no_grad()
def test_a_cell_with_a_replaced_output_is_not_skipped_by_its_kernel(ids: Tensor) -> None:
    task = lstm().eval()
    with clew.intervene(task, {CELL: torch.zeros_like}):
        changed, _ = task.body.layers.layers[0](task.body.embedding(ids, torch.zeros_like(ids)))
    assert not changed.any()


@torch.no_grad()
def test_a_value_changed_and_recorded_at_one_tap_is_recorded_changed(ids: Tensor) -> None:
    task = lstm().eval()
    place = "body.layers.layers.1.layer.cell.gates.output"
    with clew.intervene(task, {place: torch.zeros_like}), clew.record(task, place) as recorded:
        hidden, _ = task.body(ids)
    assert not recorded[place].any()
    assert not hidden.any()


def test_contexts_can_be_nested_on_a_module_that_is_not_a_tap() -> None:
    model, x = nn.Sequential(nn.Identity(), nn.Identity()), torch.ones(1)
    with (
        clew.intervene(model, {"0": lambda y: 2 * y}),
        clew.record(model, "0") as outer,
        clew.record(model, "*") as inner,
    ):
        assert model(x).item() == 2.0
        with clew.intervene(model, {"0": lambda y: 3 * y}):
            assert model(x).item() == 6.0
    assert [value.item() for value in outer.calls("0")] == [2.0, 6.0]
    assert [value.item() for value in inner.calls("0")] == [value.item() for value in inner.calls("1")] == [2.0, 6.0]
    assert model(x).item() == 1.0


def test_recordings_of_different_threads_are_independent() -> None:
    model, entered, seen = nn.Sequential(nn.Identity()), Event(), Event()

    def watch() -> None:
        with clew.intervene(model, {"0": lambda y: 5 * y}):
            entered.set()
            seen.wait(10)

    thread = Thread(target=watch)
    thread.start()
    entered.wait(10)
    with clew.record(model, "0") as recording:
        assert model(torch.ones(1)).item() == 1.0
    seen.set()
    thread.join()
    assert len(recording.calls("0")) == 1


@pytest.mark.parametrize("name", CELLS)
@torch.no_grad()
def test_every_tap_of_every_cell_can_be_recorded(name: str) -> None:
    torch.manual_seed(0)
    layer = Recurrent(CELLS[name](3, 4))
    x = torch.randn(2, 5, 3)
    y, _ = layer(x)
    with clew.record(layer, "cell.*") as recorded:
        watched, _ = layer(x)
    torch.testing.assert_close(watched, y)
    torch.testing.assert_close(recorded["cell.hidden"], y)


def test_taps_are_found_in_compiled_and_replicated_models() -> None:
    task = gpt()
    compiled = torch.compile(task, backend="eager")
    assert find_places(compiled, ["*.weights"]).keys() == find_places(task, ["*.weights"]).keys()


WORDS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])
SMALL: dict[str, tuple[dict[str, Any], list[str]]] = {
    "recurrent": ({"dim": 8, "bidirectional": True}, ["*.gates.*", "*.cell_state", "*.hidden"]),
    "window": ({"dim": 8}, []),
    "gpt": ({"dim": 8, "num_layers": 2, "num_heads": 2}, ["*.attention.scores", "*.attention.weights"]),
    "llama": (
        {"dim": 8, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1},
        ["*.attention.scores", "*.attention.weights"],
    ),
    "bert": ({"dim": 8, "num_layers": 1, "num_heads": 2}, ["*.attention.scores", "*.attention.weights"]),
    "bag": ({"dim": 8}, []),
    "cnn": ({"dim": 8}, []),
    "mixed": (
        {"dim": 8, "layers": ["gru", "attention", "feedforward"]},
        ["*.gates.*", "*.hidden", "*.attention.weights"],
    ),
    "elmo": ({"dim": 8}, ["*.forward_layer.*.gates.*", "*.backward_layer.*.gates.*", "*.cell_state"]),
    "seq2seq": (
        {"dim": 8, "attention": "after", "hard": True},
        ["encoder.*.gates.*", "decoder.*.gates.*", "*.attention.*"],
    ),
    "transformer": (
        {"dim": 8, "num_heads": 2, "num_layers": 1},
        ["encoder.*.attention.weights", "decoder.*.attention.weights"],
    ),
    "convolutional": ({"dim": 8}, ["decoder.*.attention.scores", "decoder.*.attention.weights"]),
    "tree_lstm": ({"dim": 8}, ["layer.gates.*", "layer.cell_state", "layer.hidden"]),
    "grid_lstm": (
        {"dim": 8, "num_layers": 2, "block": 2},
        ["layers.*.top_left.gates.forget_up", "layers.*.bottom_right.gates.*", "*.cell_state", "*.hidden"],
    ),
    "graph_lstm": ({"dim": 8, "num_layers": 2}, ["layers.*.gates.*", "layers.*.cell_state", "layers.*.hidden"]),
}
"""Options of a small body of every family, and the taps that it must have."""


def read_words(family: str, body: Any) -> Tensor:
    """The body's output for two sentences."""
    if MODELS[family].reads == "graph":
        graph = Graph(5, ((0, 2, 0), (2, 4, 0), (1, 2, 0), (3, 4, 0)))
        return body(GraphInputs(WORDS, None, batch_graphs([graph, graph])))[0]
    if MODELS[family].reads == "trees":
        tree = Nodes((1, 4, 3, 4, -1), (0, 0, 0, 1, 0))
        return body(TreeInputs(WORDS, None, batch_trees([tree, tree])))[0]
    if MODELS[family].reads == "grid":
        return body(WORDS[:, None])[0]
    if MODELS[family].encodes:
        return body(WORDS, None, body.initial_state(2, body.encode(WORDS, None)))[0]
    return body(WORDS)[0]


@pytest.mark.parametrize("family", MODELS)
@torch.no_grad()
def test_recording_everything_works_for_every_family_and_changes_nothing(family: str) -> None:
    options, expected_taps = SMALL[family]
    torch.manual_seed(0)
    body = MODELS[family].build(MODELS[family].config(**options), Tokens(9)).eval()
    expected = read_words(family, body)
    with clew.record(body, "*") as recorded:
        torch.testing.assert_close(read_words(family, body), expected)
    taps = {path for path, module in body.named_modules() if isinstance(module, Tap)}
    assert all(len(recorded.calls(path)) == 1 and len(recorded[path]) == 2 for path in taps)
    maps = [path for path, module in body.named_modules() if isinstance(module, (nn.Linear, nn.LayerNorm))]
    assert all(recorded.calls(path) for path in maps)
    for pattern in expected_taps:
        assert any(fnmatchcase(path, pattern) for path in taps), pattern
    assert bool(taps) == bool(expected_taps)


def attentions(family: str = "gpt") -> Any:
    torch.manual_seed(0)
    return MODELS[family].build(MODELS[family].config(**SMALL[family][0]), Tokens(9)).eval()


class Softmaxes(TorchFunctionMode):
    """Counts the calls of softmax."""

    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.softmax
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def test_only_the_recorded_layer_uses_its_equation_and_only_requested_taps_are_kept() -> None:
    body = attentions()
    with clew.record(body, "layers.layers.0.layer.attention.weights") as recorded, Softmaxes() as softmaxes:
        alive = weakref.WeakSet[Tensor]()
        with clew.intervene(
            body, {"layers.layers.0.layer.attention.scores": lambda scores: alive.add(scores) or scores}
        ):
            body(WORDS)
    assert softmaxes.count == 1
    assert [len(calls) for calls in recorded.seen.values()] == [1]
    assert not alive  # nothing keeps the scores alive


@torch.no_grad()
def test_a_recorded_view_of_a_large_tensor_keeps_only_its_own_values() -> None:
    gates = nn.Linear(4, 4000)
    picked = nn.Sequential(gates, nn.Flatten(), FirstHalf())
    with clew.record(picked, "2") as recorded:
        picked(torch.randn(1, 4))
    assert recorded["2"].untyped_storage().nbytes() == 2000 * 4


class FirstHalf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, : x.shape[1] // 2]


@torch.no_grad()
def test_masked_scores_are_minus_infinity_and_weights_are_the_softmax() -> None:
    body = attentions()
    with clew.record(body, "*.attention.*") as recorded:
        body(WORDS)
    scores, weights = (recorded[f"layers.layers.0.layer.attention.{name}"] for name in ("scores", "weights"))
    assert (scores.triu(1).isneginf() == torch.ones(5, 5).triu(1).bool()).all()
    torch.testing.assert_close(scores.softmax(-1), weights)


@torch.no_grad()
@pytest.mark.parametrize("ragged", [False, True])
def test_attention_of_a_backward_reader_is_recorded_in_reading_order(ragged: bool) -> None:
    """Reading backwards, a causal layer attends to later positions: in reading order its weights are upper
    triangular."""
    torch.manual_seed(0)
    layer = Backward(SelfAttention(4, 2))
    x = torch.randn(2, 5, 4)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2]) if ragged else None
    with clew.record(layer, "*.weights", "layer.value") as recorded:
        y, _ = layer(x, mask)
    weights, value = recorded["*.weights"], recorded["layer.value"].unflatten(-1, (2, 2)).transpose(1, 2)
    lengths = [5, 3] if ragged else [5, 5]
    for row, n in enumerate(lengths):
        assert not weights[row, :, :n, :n].tril(-1).any()
        context = weights[row, :, :n, :n] @ value[row, :, :n]
        torch.testing.assert_close(layer.layer.output(context.transpose(0, 1).flatten(1)), y[row, :n])


def test_an_adapter_is_recorded_like_the_layer_it_adapts() -> None:
    layer = nn.Sequential(LowRank(nn.Linear(3, 2), rank=1))
    with clew.record(layer, "0") as recorded:
        y = layer(torch.ones(1, 3))
    torch.testing.assert_close(recorded["0"], y.detach())
