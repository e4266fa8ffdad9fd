import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.core.batches import cut_rows
from clew.core.errors import UserError
from clew.core.tree_batches import batch_trees
from clew.core.tree_nodes import Nodes, head_nodes, phrase_nodes
from clew.core.trees import Tree, binarised
from clew.data.syntax.trees import parse_tree
from clew.layers.cells import LSTM
from clew.layers.recurrent import Recurrent
from clew.layers.shapes.tree_lstm import TREE_LAYERS, ChildSumTreeLSTM, NaryTreeLSTM
from tests.core.trees import phrases
from tests.references import tree_lstm as references
from tests.references.agreement import assert_agrees, randn, randomise

DOG = Tree("S", [Tree("NP", [Tree("DT", word="the"), Tree("NN", word="dog")]), Tree("VBZ", word="barks")])
ROWS = [phrase_nodes(DOG)[1], head_nodes([2, 0, 2, 0, 4]), Nodes((), ()), head_nodes([0])]
"""A phrase tree, two dependency trees in one row with at most two children each, an empty row, and a word."""


def chain(length):
    """Each node the only child of the next."""
    return Nodes((*range(1, length), -1), (0,) * length)


@pytest.mark.parametrize("name", TREE_LAYERS)
def test_a_tree_lstm_equals_its_paper_in_values_and_gradients(name):
    layer = randomise(TREE_LAYERS[name](2, 3))
    trees = batch_trees(ROWS)
    assert_agrees(
        layer,
        lambda x: layer(x, trees).hidden,
        lambda p, x: references.REFERENCES[name](p, x, ROWS),
        randn(4, 5, 2),
        entries=6,
    )


@pytest.mark.parametrize(
    ("layer", "wide"), [(ChildSumTreeLSTM(2, 3), "child_sum_lstm"), (NaryTreeLSTM(2, 3, num_children=4), "n_ary_lstm")]
)
def test_child_sum_nodes_may_have_more_than_two_children(layer, wide):
    rows = [head_nodes([0, 1, 1, 1, 1])]
    trees = batch_trees(rows)
    assert_agrees(
        randomise(layer),
        lambda x: layer(x, trees).hidden,
        lambda p, x: references.REFERENCES[wide](p, x, rows),
        randn(1, 5, 2),
    )


@pytest.mark.parametrize("layer", [ChildSumTreeLSTM(2, 3), NaryTreeLSTM(2, 3, num_children=1)])
def test_a_chain_is_an_lstm(layer):
    """The same parameters give the same values and gradients, also for rows of different lengths."""
    cell = randomise(LSTM(2, 3))
    layer.double().load_state_dict(cell.state_dict())
    x, weights = randn(2, 6, 2), randn(2, 6, 3, seed=1)
    mask = torch.arange(6) < torch.tensor([6, 4])[:, None]
    weights = weights * mask[..., None]
    expected, _ = Recurrent(cell)(x, mask)
    actual = layer(x, batch_trees([chain(6), chain(4)]))
    torch.testing.assert_close(actual.hidden * mask[..., None], expected * mask[..., None])
    (expected * weights).sum().backward()
    (actual.hidden * weights).sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, dict(cell.named_parameters())[name].grad)


@pytest.mark.parametrize("name", TREE_LAYERS)
@given(trees=st.lists(phrases.map(binarised), min_size=1, max_size=3))
def test_a_tree_in_a_batch_equals_the_tree_alone(name, trees):
    layer = randomise(TREE_LAYERS[name](2, 3)).requires_grad_(False)
    shapes = [phrase_nodes(tree)[1] for tree in trees]
    together = batch_trees(shapes)
    x = randn(len(trees), together.depths.shape[1], 2)
    batched = layer(x, together)
    for row, shape in enumerate(shapes):
        alone = layer(x[row : row + 1, : len(shape.parents)], batch_trees([shape]))
        for ours, theirs in zip(batched, alone, strict=True):
            torch.testing.assert_close(ours[row : row + 1, : len(shape.parents)], theirs)
            assert not ours[row, len(shape.parents) :].any()


@pytest.mark.parametrize("name", TREE_LAYERS)
def test_parts_of_a_batch_give_the_same_rows(name):
    layer, x, trees = randomise(TREE_LAYERS[name](2, 3)), randn(4, 5, 2), batch_trees(ROWS)
    whole = layer(x, trees).hidden
    parts = [layer(part, rows).hidden for part, rows in zip(cut_rows(x, 3), cut_rows(trees, 3), strict=True)]
    torch.testing.assert_close(torch.cat(parts), whole)


@pytest.mark.parametrize("name", TREE_LAYERS)
def test_a_node_depends_only_on_the_nodes_below_it(name):
    layer = randomise(TREE_LAYERS[name](2, 3))
    x = randn(1, 5, 2).requires_grad_()
    hidden = layer(x, batch_trees([phrase_nodes(DOG)[1]])).hidden  # the dog barks, NP, S
    below = {0: {0}, 1: {1}, 2: {2}, 3: {0, 1, 3}, 4: {0, 1, 2, 3, 4}}
    for node, places in below.items():
        (gradient,) = torch.autograd.grad(hidden[0, node].sum(), x, retain_graph=True)
        assert set(gradient[0].abs().sum(1).nonzero()[:, 0].tolist()) == places


def test_only_the_n_ary_layer_distinguishes_children():
    x = randn(1, 5, 2)
    swapped = Nodes((3, 3, 4, 4, -1), (1, 0, 0, 1, 0))
    for name, differs in (("child_sum_lstm", False), ("n_ary_lstm", True)):
        layer = randomise(TREE_LAYERS[name](2, 3)).requires_grad_(False)
        change = layer(x, batch_trees([ROWS[0]])).hidden - layer(x, batch_trees([swapped])).hidden
        assert bool(change[0, 4].abs().max() > 1e-6) == differs


@pytest.mark.parametrize("name", TREE_LAYERS)
def test_empty_inputs_give_empty_outputs(name):
    layer = TREE_LAYERS[name](2, 3)
    assert layer(torch.zeros(0, 0, 2), batch_trees([])).hidden.shape == (0, 0, 3)
    assert layer(torch.zeros(2, 0, 2), batch_trees([Nodes((), ())] * 2)).cell.shape == (2, 0, 3)
    trees = batch_trees([head_nodes([0]), head_nodes([])])
    assert not layer(torch.ones(1, 1, 2), cut_rows(trees, 2)[1]).hidden.any()


@pytest.mark.parametrize("name", TREE_LAYERS)
def test_half_precision_runs(name):
    layer, trees = TREE_LAYERS[name](2, 3), batch_trees(ROWS)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = layer(torch.randn(4, 5, 2), trees).hidden
    hidden.float().sum().backward()
    assert layer.hidden_weight.grad.isfinite().all()


@pytest.mark.parametrize("name", TREE_LAYERS)
def test_a_tree_layer_learns_what_a_bag_of_words_cannot(name):
    """The four trees have the same words: the label is the word that is alone, high in the tree."""
    texts = [
        "(S (A a) (S (B b) (B b)))",
        "(S (B b) (S (A a) (B b)))",
        "(S (S (B b) (B b)) (A a))",
        "(S (S (A a) (B b)) (B b))",
    ]
    shapes = [phrase_nodes(parse_tree(text)) for text in texts]
    trees, words = batch_trees([shape for _, shape in shapes]), torch.zeros(4, 5, 2)
    for row, (nodes, _) in enumerate(shapes):
        for place, node in enumerate(nodes):
            if node.word is not None:
                words[row, place, "ab".index(node.word)] = 1.0
    torch.manual_seed(0)
    layer, output = TREE_LAYERS[name](2, 8), torch.nn.Linear(8, 2)
    optimiser = torch.optim.Adam([*layer.parameters(), *output.parameters()], lr=0.05)
    targets = torch.tensor([0, 1, 0, 1])
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(output(layer(words, trees).hidden[trees.roots]), targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1


def test_invalid_settings_and_inputs_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError,
        match="a node has 3 children, and this Tree-LSTM takes 2; binarise the trees, build it with more num_children",
    ):
        NaryTreeLSTM(2, 3)(torch.zeros(1, 4, 2), batch_trees([head_nodes([0, 1, 1, 1])]))
    with pytest.raises(UserError, match=r"x \(1, 3, 2\) must have a vector for each of the \(batch, nodes\) \(1, 4\)"):
        ChildSumTreeLSTM(2, 3)(torch.zeros(1, 3, 2), batch_trees([head_nodes([0, 1, 1, 1])]))
    with pytest.raises(UserError, match="a Tree-LSTM's widths must be at least 1, not input_dim=0, dim=3"):
        ChildSumTreeLSTM(0, 3)
    with pytest.raises(UserError, match=r"num_children \(0\) must be at least 1"):
        NaryTreeLSTM(2, 3, num_children=0)


@pytest.mark.parametrize("layer", [ChildSumTreeLSTM(2, 3), NaryTreeLSTM(2, 3, num_children=1)])
def test_gates_of_a_chain_equal_those_of_an_lstm(layer):
    """A node's forget gate is the one that its parent, the next word, has for it; the first word of an LSTM has nothing
    to forget."""
    cell = randomise(LSTM(2, 3))
    layer.double().load_state_dict(cell.state_dict())
    x = randn(2, 5, 2)
    recurrent = Recurrent(cell)
    with (
        clew.record(recurrent, "*.gates.*", "*.cell_state", "*.hidden") as expected,
        clew.record(layer, "*") as recorded,
    ):
        recurrent(x)
        layer(x, batch_trees([chain(5), chain(5)]))
    for place in ("gates.input", "gates.candidate", "gates.output", "cell_state", "hidden"):
        torch.testing.assert_close(recorded[place], expected[f"cell.{place}"])
    torch.testing.assert_close(recorded["gates.forget"][:, :-1], expected["cell.gates.forget"][:, 1:])
    assert not recorded["gates.forget"][:, -1].any()


@pytest.mark.parametrize("name", TREE_LAYERS)
def test_with_closed_forget_gates_a_node_has_only_its_candidate(name):
    layer = randomise(TREE_LAYERS[name](2, 3))
    with clew.intervene(layer, {"gates.forget": torch.zeros_like}), clew.record(layer, "*") as recorded:
        layer(randn(4, 5, 2), batch_trees(ROWS))
    torch.testing.assert_close(recorded["cell_state"], recorded["gates.input"] * recorded["gates.candidate"])
    torch.testing.assert_close(recorded["hidden"], recorded["gates.output"] * recorded["cell_state"].tanh())
