"""Every member of the tables satisfies every law, at sizes drawn by hypothesis."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.laws.attention import POSITION_LAWS, SCORE_LAWS
from clew.laws.cases import Sizes
from clew.laws.cells import CELL_LAWS
from clew.laws.graphs import GRAPH_LAWS
from clew.laws.grids import GRID_LAWS
from clew.laws.sequences import SEQUENCE_LAWS
from clew.laws.trees import TREE_LAWS
from clew.laws.vectors import NORM_LAWS, POOLING_LAWS
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS, GRU, LSTM, Elman
from clew.layers.convolution import Convolution
from clew.layers.feedforward import ACTIVATIONS, FeedForward
from clew.layers.gated_convolution import GatedConvolution
from clew.layers.norms import NORMS
from clew.layers.pooling import POOLINGS
from clew.layers.positions import POSITIONS
from clew.layers.recurrence.nested_cells import StackedCell
from clew.layers.recurrent import Backward, Bidirectional, Recurrent
from clew.layers.scores import SCORES
from clew.layers.sequence import Stack
from clew.layers.shapes.graph_lstm import GRAPH_LAYERS
from clew.layers.shapes.grid_lstm import GRID_LAYERS
from clew.layers.shapes.tree_lstm import TREE_LAYERS
from clew.layers.wiring import WIRINGS, PreNorm
from tests.crossing import quickly

IN_LAYERS = ["none", "rotary", "alibi", "relative"]

sizes = st.builds(
    Sizes,
    batch=st.integers(1, 3),
    length=st.integers(1, 8),
    input_dim=st.integers(1, 4),
    dim=st.integers(1, 4),
    seed=st.integers(0, 99),
)


def examples_per_test(examples):
    """Settings that draw the same examples in every run."""
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None)


def assert_laws_hold(laws, build, at):
    for law in laws.values():
        law(build, at)


@pytest.mark.parametrize("name", CELLS)
@given(at=sizes)
@examples_per_test(4)
def test_every_cell_obeys_every_law(name, at):
    assert_laws_hold(CELL_LAWS, lambda s: CELLS[name](s.input_dim, s.dim), at)
    assert_laws_hold(SEQUENCE_LAWS, lambda s: Recurrent(CELLS[name](s.input_dim, s.dim)), at)


@pytest.mark.slow
@given(at=sizes)
@examples_per_test(4)
def test_a_gru_that_resets_before_the_product_obeys_every_law(at):
    assert_laws_hold(CELL_LAWS, lambda s: GRU(s.input_dim, s.dim, reset="before"), at)
    assert_laws_hold(SEQUENCE_LAWS, lambda s: Recurrent(GRU(s.input_dim, s.dim, reset="before")), at)


@pytest.mark.slow
@given(at=sizes, below=st.sampled_from(sorted(CELLS)), above=st.sampled_from(sorted(CELLS)))
@examples_per_test(8)
def test_every_pair_of_cells_stacked_obeys_every_law(at, below, above):
    assert_laws_hold(
        SEQUENCE_LAWS, lambda s: Recurrent(StackedCell([CELLS[below](s.input_dim, s.dim), CELLS[above](s.dim, 2)])), at
    )


@given(at=sizes, forward=st.sampled_from(sorted(CELLS)), backward=st.sampled_from(sorted(CELLS)))
@examples_per_test(8)
def test_every_bidirectional_layer_obeys_every_law(at, forward, backward):
    assert_laws_hold(
        SEQUENCE_LAWS,
        lambda s: Bidirectional(
            Recurrent(CELLS[forward](s.input_dim, s.dim)), Recurrent(CELLS[backward](s.input_dim, 2))
        ),
        at,
    )


@pytest.mark.slow
@given(
    at=sizes,
    score=st.sampled_from(sorted(SCORES)),
    position=st.sampled_from(IN_LAYERS),
    window=st.sampled_from([None, 0, 1, 3]),
    causal=st.booleans(),
    heads=st.sampled_from([(1, 1), (2, 2), (2, 1), (4, 2)]),
    bias=st.booleans(),
)
@examples_per_test(40)
def test_every_attention_obeys_every_law(at, score, position, window, causal, heads, bias):
    def build(s):
        head_dim = 2 * s.dim
        parts = {
            "score": SCORES[score](head_dim, head_dim),
            "position": POSITIONS[position](s.input_dim, heads[0], head_dim),
        }
        return SelfAttention(
            s.input_dim,
            heads[0],
            num_kv_heads=heads[1],
            head_dim=head_dim,
            causal=causal,
            window=window,
            bias=bias,
            **parts,
        )

    assert_laws_hold(SEQUENCE_LAWS, build, at)


@pytest.mark.parametrize("name", SCORES)
@given(at=sizes)
@examples_per_test(8)
def test_every_score_obeys_every_law(name, at):
    assert_laws_hold(SCORE_LAWS, lambda s: SCORES[name](s.input_dim, s.dim), at)


@pytest.mark.parametrize("name", POSITIONS)
@given(at=sizes)
@examples_per_test(8)
def test_every_position_obeys_every_law(name, at):
    assert_laws_hold(POSITION_LAWS, lambda s: POSITIONS[name](s.input_dim, 2, s.dim), at._replace(dim=2 * at.dim))


@given(at=sizes, width=st.sampled_from([1, 2, 3, 5]), causal=st.booleans(), bias=st.booleans())
@examples_per_test(10)
def test_every_convolution_obeys_every_law(at, width, causal, bias):
    width = width if causal else width | 1
    assert_laws_hold(
        SEQUENCE_LAWS, lambda s: Convolution(s.input_dim, s.dim, width=width, causal=causal, bias=bias), at
    )


@given(at=sizes, width=st.sampled_from([1, 3, 5]), causal=st.booleans())
@examples_per_test(8)
def test_every_gated_convolution_obeys_every_law(at, width, causal):
    assert_laws_hold(SEQUENCE_LAWS, lambda s: GatedConvolution(s.input_dim, width=width, causal=causal), at)


@given(at=sizes, cell=st.sampled_from(sorted(CELLS)))
@examples_per_test(6)
def test_a_backward_reader_obeys_every_law(at, cell):
    assert_laws_hold(SEQUENCE_LAWS, lambda s: Backward(Recurrent(CELLS[cell](s.input_dim, s.dim))), at)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, "swiglu"])
@given(at=sizes)
@examples_per_test(2)
def test_every_feed_forward_network_obeys_every_law(activation, at):
    assert_laws_hold(SEQUENCE_LAWS, lambda s: FeedForward(s.input_dim, activation=activation), at)


@pytest.mark.parametrize("name", quickly(WIRINGS, "pre_norm"))
@given(
    at=sizes,
    norm=st.sampled_from(sorted(NORMS)),
    inner=st.sampled_from(["gru", "attention", "convolution", "both ways"]),
)
@examples_per_test(5)
def test_every_connection_around_every_layer_obeys_every_law(name, at, norm, inner):
    def build(s):
        dim = 2 * s.input_dim
        layer = {
            "gru": lambda: Recurrent(CELLS["gru"](dim, dim)),
            "attention": lambda: SelfAttention(dim, 2, window=2),
            "convolution": lambda: Convolution(dim, dim, width=3),
            "both ways": lambda: Bidirectional(Recurrent(Elman(dim, dim // 2)), Recurrent(Elman(dim, dim // 2))),
        }[inner]()
        return Stack([FirstMap(s.input_dim, dim), WIRINGS[name](dim, layer, norm=norm)])

    assert_laws_hold(SEQUENCE_LAWS, build, at)


class FirstMap(Convolution):
    """A linear map of each position, so that what follows has an even width."""

    def __init__(self, input_dim, dim):
        super().__init__(input_dim, dim, width=1)


@pytest.mark.slow
@given(at=sizes)
@examples_per_test(6)
def test_a_stack_of_different_layers_obeys_every_law(at):
    def build(s):
        position = POSITIONS["alibi"](4, 2, 2)
        layers = [LSTM(s.input_dim, 4)]
        rest = [
            PreNorm(4, SelfAttention(4, 2, position=position, window=2)),
            PreNorm(4, Convolution(4, 4)),
            PreNorm(4, FeedForward(4)),
        ]
        return Stack([Recurrent(layers[0]), *rest])

    assert_laws_hold(SEQUENCE_LAWS, build, at)


@pytest.mark.parametrize("name", NORMS)
@given(at=sizes)
@examples_per_test(5)
def test_every_norm_obeys_every_law(name, at):
    assert_laws_hold(NORM_LAWS, lambda s: NORMS[name](s.dim), at)


@pytest.mark.parametrize("name", POOLINGS)
@given(at=sizes)
@examples_per_test(5)
def test_every_pooling_obeys_every_law(name, at):
    assert_laws_hold(POOLING_LAWS, lambda s: POOLINGS[name](s.dim), at)


@pytest.mark.parametrize("name", TREE_LAYERS)
@given(at=sizes)
@examples_per_test(5)
def test_every_tree_layer_obeys_every_law(name, at):
    assert_laws_hold(TREE_LAWS, lambda s: TREE_LAYERS[name](s.input_dim, s.dim), at)


@pytest.mark.parametrize("name", GRID_LAYERS)
@given(at=sizes, directions=st.sampled_from([1, 2, 4]))
@examples_per_test(5)
def test_every_grid_layer_obeys_every_law(name, at, directions):
    assert_laws_hold(
        GRID_LAWS,
        lambda s: GRID_LAYERS[name](s.input_dim, s.dim, directions=directions),
        at._replace(length=min(at.length, 5)),
    )


@pytest.mark.parametrize("name", GRAPH_LAYERS)
@given(
    at=sizes,
    num_types=st.integers(1, 3),
    type_dim=st.integers(0, 2),
    order=st.sampled_from(["given", "rounds"]),
    num_rounds=st.integers(1, 4),
    both_ways=st.booleans(),
)
@examples_per_test(12)
def test_every_graph_layer_obeys_every_law(name, at, num_types, type_dim, order, num_rounds, both_ways):
    options = {
        "num_types": num_types,
        "type_dim": type_dim,
        "order": order,
        "num_rounds": num_rounds,
        "both_ways": both_ways,
    }
    assert_laws_hold(
        GRAPH_LAWS, lambda s: GRAPH_LAYERS[name](s.input_dim, s.dim, **options), at._replace(dim=2 * at.dim)
    )
