import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.core.state import select_rows
from clew.core.types import Memory
from clew.layers.attentive import AttentiveCell, FeedingCell, Looking
from clew.layers.cells import CELLS, GRU, LSTM, Elman
from clew.layers.recurrence.nested_cells import DroppedCell, StackedCell
from clew.layers.recurrent import Recurrent
from clew.layers.scores import SCORES, Additive, Dot
from tests.references import attention as references
from tests.references import parts
from tests.references.agreement import assert_agrees, randn, randomise
from tests.references.attention import additive
from tests.references.cells import affine

LENGTHS = [4, 2]


def attentive(cell=None):
    return randomise(AttentiveCell(2, 3, cell or Elman(5, 4), Additive(4, 3)))


def memory(mask=True):
    return Memory(randn(2, 4, 3, seed=5), torch.arange(4) < torch.tensor(LENGTHS)[:, None] if mask else None)


def test_an_attentive_cell_equals_bahdanaus_equations_in_values_and_gradients():
    cell = attentive()
    layer, mask = Recurrent(cell), memory().mask

    def reference(p, x, values):
        of_score = {name.removeprefix("attention.score."): value for name, value in p.items()}

        def step(inputs, state):
            return np.tanh(
                affine(p["cell.input_weight"], inputs) + affine(p["cell.hidden_weight"], state) + p["cell.bias"]
            )

        places = [row[:n] for row, n in zip(values, LENGTHS, strict=True)]
        return parts.bahdanau(p, x, places, lambda s, h: additive(of_score, s, h, 0), step, np.zeros(4))

    assert_agrees(
        cell,
        lambda x, values: layer(x, None, layer.initial_state(2, Memory(values, mask), like=x))[0],
        reference,
        randn(2, 3, 2),
        memory().values,
    )


@pytest.mark.parametrize(
    "cell", [LSTM(5, 4), GRU(5, 4), StackedCell([LSTM(5, 6), GRU(6, 4)])], ids=["lstm", "gru", "stack"]
)
def test_an_attentive_decoder_gives_the_same_step_by_step_and_at_once(cell):
    layer = Recurrent(attentive(cell))
    x = randn(2, 5, 2)
    whole, _ = layer(x, None, layer.initial_state(2, memory(), like=x))
    state, steps = layer.initial_state(2, memory(), like=x), []
    for t in range(5):
        y, state = layer(x[:, t : t + 1], None, state)
        steps.append(y)
    torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_beams_that_share_a_row_of_memory_equal_beams_with_a_row_each():
    layer = Recurrent(attentive(LSTM(5, 4)))
    x, each = randn(6, 3, 2), Memory(memory().values.repeat_interleave(3, 0), memory().mask.repeat_interleave(3, 0))
    shared, state = layer(x, None, layer.initial_state(6, memory(), like=x))
    repeated, state_each = layer(x, None, layer.initial_state(6, each, like=x))
    torch.testing.assert_close(shared, repeated)
    order = torch.tensor([2, 0, 0, 5, 5, 3])
    chosen, _ = layer(x[order], None, select_rows(state, order))
    expected, _ = layer(x[order], None, select_rows(state_each, order, memory_rows=order))
    torch.testing.assert_close(chosen, expected)


def test_padding_of_a_memory_gets_no_attention():
    layer = Recurrent(attentive())
    x, changed = randn(2, 3, 2), memory().values.clone()
    changed[1, 2:] = 1e6
    first, _ = layer(x, None, layer.initial_state(2, memory(), like=x))
    second, _ = layer(x, None, layer.initial_state(2, memory()._replace(values=changed), like=x))
    torch.testing.assert_close(first, second)


def test_a_memorys_final_state_starts_the_decoder_and_is_its_first_query():
    layer = Recurrent(attentive())
    x, final = randn(2, 1, 2), randn(2, 4, seed=7).requires_grad_()
    y, _ = layer(x, None, layer.initial_state(2, memory()._replace(final=final), like=x))
    (gradient,) = torch.autograd.grad(y[..., 4:].sum(), final)
    assert bool((gradient != 0).any())


def elman_step(p):
    return lambda inputs, state: np.tanh(
        affine(p["cell.input_weight"], inputs) + affine(p["cell.hidden_weight"], state) + p["cell.bias"]
    )


def score_of(name, p):
    of_score = {key.removeprefix("attention.score."): value for key, value in p.items()}
    return lambda s, h, j: references.SCORES[name](of_score, s, h, j)


@pytest.mark.parametrize("name", SCORES)
def test_a_feeding_cell_equals_luongs_equations_in_values_and_gradients_with_every_score(name):
    """Query and key of unequal widths, memories of unequal lengths."""
    cell = randomise(FeedingCell(2, 5, 3, Elman(7, 4), SCORES[name](4, 3)))
    layer, mask = Recurrent(cell), memory().mask

    def reference(p, x, values):
        places = [row[:n] for row, n in zip(values, LENGTHS, strict=True)]
        return parts.luong(p, x, places, score_of(name, p), elman_step(p), np.zeros(4), 5)

    assert_agrees(
        cell,
        lambda x, values: layer(x, None, layer.initial_state(2, Memory(values, mask), like=x))[0],
        reference,
        randn(2, 3, 2),
        memory().values,
        entries=2,
    )


@pytest.mark.parametrize("name", SCORES)
def test_attention_after_the_cell_equals_luongs_equations_with_every_score(name):
    layer, mask = randomise(Looking(4, 5, 3, SCORES[name](4, 3))), memory().mask

    def reference(p, x, values):
        score = score_of(name, p)
        rows = [
            [parts.attentional(p["join.weight"], s, values[b, :n], score) for s in x[b]] for b, n in enumerate(LENGTHS)
        ]
        return np.array(rows)

    assert_agrees(
        layer,
        lambda x, values: layer(x, None, layer.initial_state(2, Memory(values, mask), like=x))[0],
        reference,
        randn(2, 3, 4),
        memory().values,
        entries=2,
    )


@pytest.mark.parametrize("form", ["fed", "after"])
def test_attention_without_a_joining_layer_equals_its_equations(form):
    """In values and gradients; with input feeding the cell reads the context of the previous step."""
    score = SCORES["general"](4, 3)
    if form == "fed":
        module = randomise(FeedingCell(2, 7, 3, Elman(5, 4), score, joined=False))
        layer = Recurrent(module)
    else:
        module = layer = randomise(Looking(4, 7, 3, score, joined=False))
    mask = memory().mask

    def reference(p, x, values):
        places = [row[:n] for row, n in zip(values, LENGTHS, strict=True)]
        step = elman_step(p) if form == "fed" else lambda inputs, state: inputs
        return parts.unjoined(x, places, score_of("general", p), step, np.zeros(4), form == "fed")

    assert_agrees(
        module,
        lambda x, values: layer(x, None, layer.initial_state(2, Memory(values, mask), like=x))[0],
        reference,
        randn(2, 3, 2 if form == "fed" else 4),
        memory().values,
    )


def test_a_feeding_cell_that_ignores_its_feed_equals_attention_after_the_cell():
    cell, score = LSTM(2 + 4, 4), SCORES["general"](4, 3)
    fed = randomise(FeedingCell(2, 4, 3, cell, score))
    looking = Looking(4, 4, 3, score).double()
    looking.join = fed.join
    plain = LSTM(2, 4).double()
    with torch.no_grad():
        cell.input_weight[:, 2:] = 0.0
        plain.load_state_dict({**cell.state_dict(), "input_weight": cell.input_weight[:, :2]})
    x = randn(2, 5, 2)
    s, _ = Recurrent(plain)(x)
    expected, _ = looking(s, None, looking.initial_state(2, memory(), like=x))
    layer = Recurrent(fed)
    torch.testing.assert_close(layer(x, None, layer.initial_state(2, memory(), like=x))[0], expected)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("form", ["before", "fed", "after"])
def test_padding_of_a_shorter_memory_changes_nothing(form, name):
    score = SCORES[name](4, 3)
    layer = {
        "before": lambda: Recurrent(AttentiveCell(2, 3, GRU(5, 4), score)),
        "fed": lambda: Recurrent(FeedingCell(2, 6, 3, GRU(8, 4), score)),
        "after": lambda: Looking(4, 6, 3, score),
    }[form]()
    layer = randomise(layer)
    x = randn(2, 3, 4 if form == "after" else 2)
    together, _ = layer(x, None, layer.initial_state(2, memory(), like=x))
    for row, n in enumerate(LENGTHS):
        alone, _ = layer(
            x[row : row + 1], None, layer.initial_state(1, Memory(memory().values[row : row + 1, :n]), like=x)
        )
        torch.testing.assert_close(together[row : row + 1], alone)


def test_a_location_score_counts_only_real_places_and_rejects_too_many():
    layer = Recurrent(AttentiveCell(2, 3, GRU(5, 4), SCORES["location"](4, 3, max_length=3)).double())
    x, values = randn(2, 1, 2), memory().values
    short = torch.arange(4) < torch.tensor([3, 2])[:, None]
    layer(x, None, layer.initial_state(2, Memory(values, short), like=x))
    with pytest.raises(
        UserError,
        match="location scores have 3 positions, but a key has position 4; raise the score's option max_length",
    ):
        layer(x, None, layer.initial_state(2, Memory(values), like=x))


@pytest.mark.parametrize("score", ["additive", "general", "content"])
def test_keys_are_projected_once(score):
    layer = Recurrent(AttentiveCell(2, 3, GRU(5, 4), SCORES[score](4, 3)).double())
    x = randn(2, 2, 2)
    _, first = layer(x, None, layer.initial_state(2, memory(), like=x))
    _, second = layer(x, None, first)
    assert second.cell.memory.values.keys is first.cell.memory.values.keys


@pytest.mark.parametrize(
    "cell", [*(CELLS[name](7, 4) for name in CELLS), StackedCell([DroppedCell(LSTM(7, 5), 0.5), GRU(5, 4)])]
)
def test_a_feeding_decoder_gives_the_same_step_by_step_and_at_once(cell):
    layer = Recurrent(randomise(FeedingCell(2, 5, 3, cell, Dot(4, 3)))).eval()
    x = randn(2, 5, 2)
    whole, _ = layer(x, None, layer.initial_state(2, memory(), like=x))
    state, steps = layer.initial_state(2, memory(), like=x), []
    for t in range(5):
        y, state = layer(x[:, t : t + 1], None, state)
        steps.append(y)
    torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_a_memory_without_a_real_place_breaks_no_gradient():
    layer = Recurrent(attentive())
    x, nothing = randn(2, 3, 2), torch.zeros(2, 4, dtype=torch.bool)
    nothing[0] = True
    y, _ = layer(x, None, layer.initial_state(2, Memory(memory().values, nothing), like=x))
    y[0].sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in layer.parameters())


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(UserError, match=r"a feeding cell gives its inner cell \[x; h~\] of width 7, but that takes 4"):
        FeedingCell(2, 5, 3, Elman(4, 4), Dot(4, 3))
    with pytest.raises(
        UserError, match=r"a feeding cell gives its inner cell \[x; context\] of width 5, but that takes 7"
    ):
        FeedingCell(2, 7, 3, Elman(7, 4), Dot(4, 3), joined=False)
    with pytest.raises(UserError, match=r"without joined, dim \(5\) must be that of \[s; context\], 7"):
        Looking(4, 5, 3, Dot(4, 3), joined=False)
    with pytest.raises(
        UserError, match="an attentive decoder needs something to attend to; give initial_state a memory"
    ):
        Looking(4, 4, 3, Dot(4, 3))(torch.zeros(1, 1, 4))
    with pytest.raises(
        UserError, match=r"an attentive cell gives its inner cell \[x; context\] of width 5, but that takes 4"
    ):
        AttentiveCell(2, 3, Elman(4, 4), Dot(4, 3))
    with pytest.raises(
        UserError, match="an attentive decoder needs something to attend to; give initial_state a memory"
    ):
        Recurrent(attentive()).initial_state(2, like=torch.zeros(1))
