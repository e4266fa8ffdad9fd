import pytest
import torch
from torch import Tensor, nn

import clew
from clew.core.errors import UserError
from clew.inspection.recording import find_places
from clew.layers.cells import CELLS, LSTM
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.tasks.generation import generate
from clew.tasks.writing import DecodingConfig
from tests.thread.models import LINES, gpt, lines_batch, lstm

CELL = "body.layers.layers.0.layer.cell"
ATTENTION = "body.layers.layers.0.layer.attention"


@pytest.fixture
def ids() -> Tensor:
    task = lstm()
    return torch.tensor([task.encode(LINES[0][:7]), task.encode(LINES[2][:7])])


def gates_by_hand(cell: LSTM, x: Tensor) -> dict[str, Tensor]:
    """The LSTM's equations, one step after another, with the gates of all steps on a length axis."""
    hidden = memory = torch.zeros(len(x), cell.dim)
    steps: dict[str, list[Tensor]] = {"input": [], "forget": [], "candidate": [], "output": [], "cell": [], "hidden": []}
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
    with clew.record(task, f"{CELL}.gates.*", f"{CELL}.cell_state", f"{CELL}.hidden") as seen:
        task.body(ids)
    expected = gates_by_hand(task.body.layers.layers[0].layer.cell, task.body.embedding(ids, torch.zeros_like(ids)))
    for gate in ("input", "forget", "candidate", "output"):
        torch.testing.assert_close(seen[f"{CELL}.gates.{gate}"], expected[gate])
    torch.testing.assert_close(seen["*.cell_state"], expected["cell"])
    torch.testing.assert_close(seen["*.hidden"], expected["hidden"])
    forget = seen["*.gates.forget"]
    assert forget.shape == (2, 7, 12)
    assert (forget > 0).all() and (forget < 1).all()


@torch.no_grad()
def test_attention_weights_of_a_gpt_are_distributions_over_the_past(ids: Tensor) -> None:
    task = gpt().eval()
    with clew.record(task, "*.weights") as seen:
        task.body(ids)
    assert len(seen) == 2
    for path in seen:
        weights = seen[path]  # (batch, heads, query, key)
        assert weights.shape == (2, 2, 7, 7)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 7))
        assert not weights.triu(1).any()


@torch.no_grad()
def test_attention_weights_are_the_softmax_of_scaled_products(ids: Tensor) -> None:
    task = gpt().eval()
    attention = task.body.layers.layers[0].layer
    with clew.record(task, f"{ATTENTION}.weights", "body.layers.layers.0.norm") as seen:
        task.body(ids)
    x = seen["*.norm"]
    query, key = (part(x).unflatten(-1, (2, 6)).transpose(1, 2) for part in (attention.query, attention.key))
    scores = (query @ key.mT / 6**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), float("-inf"))
    torch.testing.assert_close(seen["*.weights"], scores.softmax(-1))


@torch.no_grad()
def test_a_module_that_is_no_tap_shows_its_output(ids: Tensor) -> None:
    task = gpt().eval()
    with clew.record(task, "body.embedding", "body.layers.layers.1", "body.norm") as seen:
        hidden, _ = task.body(ids)
    levels = task.body.levels(ids)
    assert torch.equal(seen["body.embedding"], levels[0])
    assert torch.equal(seen["body.layers.layers.1"], levels[2])
    assert torch.equal(seen["body.norm"], hidden)


@torch.no_grad()
def test_a_module_inside_a_kernel_is_seen_all_the_same(ids: Tensor) -> None:
    """Unwatched, the kernel would not call the cell at all; watched, its steps are stacked as a tap's are."""
    task = lstm().eval()
    with clew.record(task, CELL, "body.layers.layers.0") as seen:
        task.body(ids)
    torch.testing.assert_close(seen[CELL], seen["body.layers.layers.0"])


@torch.no_grad()
@pytest.mark.parametrize("ragged", [False, True])
def test_both_directions_are_shown_in_reading_order(ragged: bool) -> None:
    torch.manual_seed(0)
    layer = Bidirectional(Recurrent(LSTM(3, 4)), Recurrent(LSTM(3, 4)))
    x = torch.randn(2, 5, 3)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2]) if ragged else None
    with clew.record(layer, "*.hidden") as seen:
        y, _ = layer(x, mask)
    both = torch.cat([seen["forward_layer.cell.hidden"], seen["backward_layer.cell.hidden"]], -1)
    real = torch.ones(2, 5, dtype=torch.bool) if mask is None else mask
    torch.testing.assert_close(both[real], y[real])


@torch.no_grad()
def test_generating_passes_a_place_once_for_the_prompt_and_once_a_token() -> None:
    task = lstm().eval()
    with clew.record(task, f"{CELL}.gates.forget") as seen:
        generate(task, ["a ball"], DecodingConfig(method="greedy", max_new=4))
    assert [call.shape[1] for call in seen.calls("*.forget")] == [6, 1, 1, 1]
    with pytest.raises(UserError, match=r"\*.forget was passed 4 times while recording; calls\('\*.forget'\) gives each"):
        seen["*.forget"]


def test_a_recording_is_detached_and_gradients_flow_all_the_same(ids: Tensor) -> None:
    task = lstm()
    with clew.record(task, "*.gates.forget") as seen:
        terms, _ = task(lines_batch(task))
    terms["loss"].sum.backward()
    assert all(not seen[path].requires_grad for path in seen)
    assert task.body.layers.layers[0].layer.cell.hidden_weight.grad.abs().sum() > 0


def hooks_of(module: nn.Module) -> int:
    return sum(len(part._forward_hooks) for part in module.modules())


@torch.no_grad()
def test_nothing_is_left_behind_even_after_an_exception(ids: Tensor) -> None:
    task = lstm().eval()
    expected, _ = task.body(ids)
    with pytest.raises(ZeroDivisionError), clew.record(task, "*.gates.*", "body.layers.layers.0") as seen:
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
    assert all(not calls for calls in seen.seen.values())


def test_a_pattern_that_matches_nothing_names_the_nearest_path() -> None:
    task = lstm()
    message = (
        f"nothing in the model matches '{CELL}.gates.forgot'; did you mean '{CELL}.gates.forget'\\? "
        f"`model.named_modules\\(\\)` lists its paths"
    )
    with pytest.raises(UserError, match=message), clew.record(task, f"{CELL}.gates.forgot"):
        pass
    with (
        pytest.raises(UserError, match="nothing in the model matches '\\*.nowhere'"),
        clew.intervene(task, {"*.nowhere": torch.zeros_like}),
    ):
        pass


@torch.no_grad()
def test_a_recording_says_what_it_holds(ids: Tensor) -> None:
    task = lstm().eval()
    with clew.record(task, "body.embedding", "*.gates.forget") as seen:
        assert "recorded: " in str(pytest.raises(UserError, seen.calls, "body.head").value)
        task.body(ids)
    assert len(seen) == 3
    assert repr(seen).splitlines()[:2] == ["Recording of 3 places", "  body.embedding: (2, 7, 12)"]
    with pytest.raises(UserError, match=r"no single recording at '\*.forget'; several match: body.layers.layers.0.*, body.layers.layers.1"):
        seen["*.forget"]


@torch.no_grad()
def test_a_head_that_is_zeroed_adds_nothing(ids: Tensor) -> None:
    task = gpt().eval()
    attention = task.body.layers.layers[0].layer

    def without_first_head(weights: Tensor) -> Tensor:
        return weights * torch.tensor([0.0, 1.0])[:, None, None]

    with (
        clew.intervene(task, {f"{ATTENTION}.weights": without_first_head}),
        clew.record(task, "body.layers.layers.0.norm", "body.layers.layers.0.layer") as seen,
    ):
        task.body(ids)
    x = seen["*.norm"]
    with clew.record(task, f"{ATTENTION}.weights") as whole:
        task.body(ids)
    value = attention.value(x).unflatten(-1, (2, 6)).transpose(1, 2)
    context = whole["*.weights"] @ value
    context[:, 0] = 0
    torch.testing.assert_close(seen["body.layers.layers.0.layer"], attention.output(context.transpose(1, 2).flatten(2)))


@torch.no_grad()
def test_a_forget_gate_held_at_one_adds_up_what_is_written(ids: Tensor) -> None:
    """f = 1 and i = 1: c_t is the sum of the candidates."""
    task = lstm().eval()
    changes = {f"{CELL}.gates.forget": torch.ones_like, f"{CELL}.gates.input": torch.ones_like}
    with clew.intervene(task, changes), clew.record(task, f"{CELL}.cell_state", f"{CELL}.gates.candidate") as seen:
        changed, _ = task.body(ids)
    torch.testing.assert_close(seen["*.cell_state"], seen["*.candidate"].cumsum(1))
    unchanged, _ = task.body(ids)
    assert not torch.allclose(changed, unchanged)


@torch.no_grad()
def test_an_output_that_is_replaced_is_what_the_rest_sees(ids: Tensor) -> None:
    task = lstm().eval()
    with clew.intervene(task, {"body.embedding": torch.zeros_like}):
        changed, _ = task.body(ids)
    expected, _ = task.body.layers(torch.zeros(2, 7, 12))
    torch.testing.assert_close(changed, expected)


@torch.no_grad()
def test_a_cell_whose_output_is_replaced_is_not_passed_over_by_its_kernel(ids: Tensor) -> None:
    task = lstm().eval()
    with clew.intervene(task, {CELL: torch.zeros_like}):
        changed, _ = task.body.layers.layers[0](task.body.embedding(ids, torch.zeros_like(ids)))
    assert not changed.any()


@torch.no_grad()
def test_what_is_changed_and_watched_at_one_place_is_seen_changed(ids: Tensor) -> None:
    task = lstm().eval()
    place = "body.layers.layers.1.layer.cell.gates.output"
    with clew.intervene(task, {place: torch.zeros_like}), clew.record(task, place) as seen:
        hidden, _ = task.body(ids)
    assert not seen[place].any()
    assert not hidden.any()


@pytest.mark.parametrize("name", CELLS)
@torch.no_grad()
def test_every_tap_of_every_cell_can_be_watched(name: str) -> None:
    torch.manual_seed(0)
    layer = Recurrent(CELLS[name](3, 4))
    x = torch.randn(2, 5, 3)
    y, _ = layer(x)
    with clew.record(layer, "cell.*") as seen:
        watched, _ = layer(x)
    torch.testing.assert_close(watched, y)
    torch.testing.assert_close(seen["cell.hidden"], y)


def test_places_are_found_in_compiled_and_replicated_models() -> None:
    task = gpt()
    compiled = torch.compile(task, backend="eager")
    assert find_places(compiled, ["*.weights"]).keys() == find_places(task, ["*.weights"]).keys()
