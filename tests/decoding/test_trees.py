import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.state import select_rows
from clew.core.trees import Tree, fold
from clew.data.syntax.linearisation import delinearise, linearise, tree_tokens
from clew.decoding.beam import beam_search
from clew.decoding.filters import with_filters
from clew.decoding.sampling import greedy_sequences, sample_sequences
from clew.decoding.trees import TreeConstraint
from tests.decoding.steppers import Attending, Recurrent, Transition, padded

SYMBOLS = ["<s>", "</s>", "<pad>", "(A", ")A", "(B", ")B", "XX", "YY"]
START, END = 0, 1
TOKENS = tree_tokens(SYMBOLS, START, END)
UNIFORM = Transition([[1 / len(SYMBOLS)] * len(SYMBOLS)] * len(SYMBOLS))


def constrained(stepper, lengths, max_length, **options):
    return TreeConstraint(stepper, tokens=TOKENS, lengths=torch.tensor(lengths), max_length=max_length, **options)


def tokens_of(text):
    return [SYMBOLS.index(symbol) for symbol in text.split()]


def allowed_after(stepper, text):
    """The symbols that may follow a text."""
    log_probs, _ = stepper(torch.tensor([tokens_of(text)]), None, stepper.initial_state(1))
    return {SYMBOLS[i] for i in (log_probs[0, -1] > -math.inf).nonzero().flatten().tolist()}


def longest_chain(tree):
    """The largest number of brackets around the same words."""
    chains = [0]

    def chain(node, below):
        chains.append(0 if node.is_leaf else 1 + (below[0] if len(below) == 1 else 0))
        return chains[-1]

    fold(tree, chain)
    return max(chains)


def tree_written(tokens, length, num_words, max_length, max_depth=64, max_unary=6):
    """The generated tree, after checking that it is a tree over this number of words within the bounds."""
    symbols = [SYMBOLS[token] for token in tokens[:length]]
    assert symbols[-1] == "</s>" and len(symbols) <= max_length, symbols
    tree = delinearise(symbols[:-1], ["w"] * num_words)
    assert not tree.is_leaf and tree.depth <= max_depth and longest_chain(tree) <= max_unary, tree
    return tree


@cache
def all_trees(num_words, depth, max_unary):
    """All trees over the words with labels A and B and leaves X within the bounds, as (symbols, chain)."""
    if depth == 0:
        return frozenset()
    trees = set()
    for children, chain in rows_of_children(num_words, depth - 1, max_unary):
        if chain < max_unary:
            trees |= {((f"({label}", *children, f"){label}"), chain + 1) for label in "AB"}
    return frozenset(trees)


@cache
def rows_of_children(num_words, depth, max_unary):
    """All rows of one or more children over the words, as (symbols, chain of an only child, or 0)."""
    children = {(("XX",), 0)} if num_words == 1 else set()
    children |= all_trees(num_words, depth, max_unary)
    rows = set(children)
    for first in range(1, num_words):
        lefts = ({(("XX",), 0)} if first == 1 else set()) | all_trees(first, depth, max_unary)
        for left, _ in lefts:
            rows |= {((*left, *right), 0) for right, _ in rows_of_children(num_words - first, depth, max_unary)}
    return frozenset(rows)


def written_by(stepper):
    """All sequences that a constraint allows, by trying every allowed symbol except YY, which behaves like XX."""
    sequences, running = set(), [()]
    state = stepper.initial_state(1)
    log_probs, state = stepper(torch.tensor([[START]]), None, state)
    while running:
        rows, tokens = (log_probs[:, -1] > -math.inf).nonzero().unbind(1)
        assert set(rows.tolist()) == set(range(len(running))), "a row has no next token"
        keep = tokens != SYMBOLS.index("YY")
        rows, tokens = rows[keep], tokens[keep]
        grown = [(*running[row], SYMBOLS[token]) for row, token in zip(rows.tolist(), tokens.tolist(), strict=True)]
        sequences |= {symbols for symbols in grown if symbols[-1] == "</s>"}
        going = [i for i, symbols in enumerate(grown) if symbols[-1] != "</s>"]
        running = [grown[i] for i in going]
        if running:
            log_probs, state = stepper(tokens[going][:, None], None, select_rows(state, rows[going]))
    return sequences


@pytest.mark.parametrize(
    "num_words, max_depth, max_unary", [(1, 4, 3), (1, 4, 1), (2, 3, 2), (2, 3, 1), (3, 2, 2), (3, 3, 1), (2, 4, 3)]
)
@pytest.mark.parametrize("slack", [0, 1, 2, 5])
def test_exactly_the_trees_within_the_bounds_are_allowed(num_words, max_depth, max_unary, slack):
    # max_length is counted from the shortest tree: the words, the root's brackets and the end.
    max_length = num_words + 3 + slack
    expected = {
        (*symbols, "</s>") for symbols, _ in all_trees(num_words, max_depth, max_unary) if len(symbols) < max_length
    }
    stepper = constrained(UNIFORM, [num_words], max_length, max_depth=max_depth, max_unary=max_unary)
    assert written_by(stepper) == expected
    assert expected


def test_deep_left_branching_is_banned_only_if_words_run_out():
    # Three words, chains of at most 1: (A (A (A needs two more words to break the two outer chains, and there are
    # exactly two.
    stepper = constrained(UNIFORM, [3], 30, max_unary=1)
    assert allowed_after(stepper, "<s> (A (A") == {"(A", "(B", "XX", "YY"}
    assert allowed_after(stepper, "<s> (A (A (A") == {"XX", "YY"}
    assert allowed_after(stepper, "<s> (A (A (A XX") == {")A"}
    assert allowed_after(stepper, "<s> (A (A (A XX )A") == {"(A", "(B", "XX", "YY"}
    assert allowed_after(stepper, "<s> (A (A (A XX )A (B") == {"XX", "YY"}
    assert allowed_after(stepper, "<s> (A (A (A XX )A XX") == {")A"}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("<s>", "(A (B"),
        ("<s> (A", "(A (B XX YY"),
        ("<s> (A XX", "(A (B XX YY"),
        ("<s> (A XX (B YY", "(A (B )B XX YY"),
        ("<s> (A XX (B YY )B", "(A (B XX YY"),
        ("<s> (A XX (B YY )B XX", ")A"),
        ("<s> (A XX (B YY XX", ")B"),
        ("<s> (A XX (B YY XX )B", ")A"),
        ("<s> (A XX (B YY XX )B )A", "</s>"),
        ("<s> (A XX (B YY XX )B )A </s>", ""),
        ("<s> (A )A", ""),
        ("<s> XX", ""),
        ("<s> <s>", ""),
        ("<s> (A XX </s>", ""),
        ("<s> (A XX )A", ""),
        ("<pad> XX )A", " ".join(SYMBOLS)),
        ("XX </s> <s> (A", "(A (B XX YY"),
    ],
)
def test_the_symbols_that_may_continue_three_words_are_allowed(text, expected):
    assert allowed_after(constrained(UNIFORM, [3], 30), text) == set(expected.split())


def test_no_bracket_opens_if_the_remaining_tokens_only_suffice_to_close():
    # ( XX XX ) end has 5 symbols; one more pair of brackets makes 7.
    assert allowed_after(constrained(UNIFORM, [2], 6), "<s> (A") == {"XX", "YY"}
    assert allowed_after(constrained(UNIFORM, [2], 7), "<s> (A") == {"(A", "(B", "XX", "YY"}
    assert allowed_after(constrained(UNIFORM, [2], 7), "<s> (A (B") == {"XX", "YY"}
    assert allowed_after(constrained(UNIFORM, [2], 99, max_depth=1), "<s> (A") == {"XX", "YY"}


def test_the_probability_of_banned_symbols_is_not_redistributed():
    stepper = constrained(UNIFORM, [1], 9)
    log_probs, _ = stepper(torch.tensor([[START]]), None, stepper.initial_state(1))
    assert log_probs[0, 0].exp().tolist() == pytest.approx([0, 0, 0, 1 / 9, 0, 1 / 9, 0, 0, 0])


bounds = st.fixed_dictionaries({"max_depth": st.integers(1, 6), "max_unary": st.integers(1, 4)})
sentences = st.lists(st.integers(1, 7), min_size=1, max_size=4)
models = st.sampled_from([lambda seed: Recurrent(len(SYMBOLS), seed), lambda seed: Attending(len(SYMBOLS), seed)])
random_matrices = st.builds(
    lambda seed, sharpness: Transition(
        (sharpness * torch.randn(3, 9, 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
        .softmax(-1)
        .tolist()
    ),
    st.integers(0, 9999),
    st.sampled_from([1.0, 8.0]),
)
steppers = random_matrices | st.builds(lambda build, seed: build(seed), models, st.integers(0, 9999))


@settings(max_examples=25)
@given(steppers, sentences, bounds, st.integers(0, 20), st.integers(0, 9))
def test_greedy_and_sampled_outputs_are_trees_over_their_words(inner, lengths, bound, slack, seed):
    max_length = max(lengths) + 3 + slack
    stepper = constrained(inner, lengths, max_length, **bound)
    prompt = torch.full((len(lengths), 1), START)
    greedy = greedy_sequences(stepper, prompt, max_new=max_length, end=END)
    sampled = sample_sequences(
        with_filters(stepper, temperature=2.0, top_p=0.9), prompt, max_new=max_length + 3, end=END, seed=seed
    )
    for sequences in (greedy, sampled):
        for tokens, length, num_words in zip(
            sequences.tokens.tolist(), sequences.lengths.tolist(), lengths, strict=True
        ):
            tree_written(tokens, length, num_words, max_length, **bound)


@settings(max_examples=25)
@given(steppers, sentences, bounds, st.integers(0, 20), st.integers(1, 5), st.sampled_from([-1.0, 0.0, 1.0]))
def test_every_hypothesis_of_a_beam_is_a_tree_over_its_sentence(inner, lengths, bound, slack, beams, length_penalty):
    max_length = max(lengths) + 3 + slack
    stepper = constrained(inner, lengths, max_length, **bound)
    prompt = torch.full((len(lengths), 1), START)
    hypotheses = beam_search(
        stepper, prompt, beams=beams, n_best=beams, max_new=max_length, end=END, length_penalty=length_penalty
    )
    assert bool((hypotheses.lengths[:, 0] > 0).all())
    for sentence, num_words in enumerate(lengths):
        for tokens, length in zip(
            hypotheses.tokens[sentence].tolist(), hypotheses.lengths[sentence].tolist(), strict=True
        ):
            if length:
                tree_written(tokens, length, num_words, max_length, **bound)


@settings(max_examples=8)
@given(st.integers(0, 9999), sentences, st.integers(1, 4))
def test_a_sentence_is_parsed_equally_in_a_batch_and_alone(seed, lengths, beams):
    prompts = [[SYMBOLS.index("<pad>")] * (i % 3) + [START] for i in range(len(lengths))]
    options = {"beams": beams, "max_new": 25, "end": END}
    together = beam_search(constrained(Recurrent(9, seed), lengths, 25), *padded(prompts), **options)
    for i, (prompt, num_words) in enumerate(zip(prompts, lengths, strict=True)):
        alone = beam_search(constrained(Recurrent(9, seed), [num_words], 25), torch.tensor([prompt]), **options)
        length = int(alone.lengths)
        assert together.tokens[i, 0, :length].tolist() == alone.tokens[0, 0].tolist()
        assert together.lengths[i].tolist() == [length]


@settings(max_examples=8)
@given(st.integers(0, 9999), sentences, st.sets(st.integers(1, 20)))
def test_a_chunk_of_ragged_rows_equals_each_row_token_by_token(seed, lengths, cuts):
    stepper = constrained(Recurrent(9, seed), lengths, 16)
    generated = greedy_sequences(stepper, torch.full((len(lengths), 1), START), max_new=16, end=END)
    rows = [
        [START, *tokens[:length]]
        for tokens, length in zip(generated.tokens.tolist(), generated.lengths.tolist(), strict=True)
    ]
    tokens, mask = padded(rows)
    state, pieces = stepper.initial_state(len(rows)), []
    edges = [0, *sorted(cut for cut in cuts if cut < tokens.shape[1]), tokens.shape[1]]
    for start, stop in zip(edges, edges[1:], strict=False):
        log_probs, state = stepper(tokens[:, start:stop], mask[:, start:stop], state)
        pieces.append(log_probs)
    chunked = torch.cat(pieces, 1).exp()
    for i, row in enumerate(rows):
        alone = constrained(Recurrent(9, seed), [lengths[i]], 16)
        state = alone.initial_state(1)
        for t, token in enumerate(row):
            log_probs, state = alone(torch.tensor([[token]]), None, state)
            assert chunked[i, t].tolist() == pytest.approx(log_probs[0, 0].exp().tolist())


def test_a_model_that_predicts_the_tree_generates_it():
    tree = Tree("A", [Tree("XX", word="a"), Tree("B", [Tree("XX", word="b"), Tree("XX", word="c")])])
    order = [START, *tokens_of(" ".join(linearise(tree))), END]
    table = torch.full((len(order), 9, 9), 0.01)
    for t, token in enumerate(order[1:]):
        table[t, :, token] = 1
    stepper = constrained(Transition((table / table.sum(-1, keepdim=True)).tolist()), [3], 20)
    generated = greedy_sequences(stepper, torch.tensor([[START]]), max_new=20, end=END)
    assert generated.tokens.tolist() == [order[1:]]


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"max_depth": 0}, "max_depth (0) must be at least 1"),
        ({"max_unary": 0}, "max_unary (0) must be at least 1"),
        ({"lengths": torch.tensor([3, 0])}, "every sentence needs at least one word; sentence 1 has 0"),
        (
            {"lengths": torch.zeros(2, 2)},
            "lengths must be one-dimensional, with one number per sentence; it has shape (2, 2)",
        ),
        (
            {"lengths": torch.zeros(0)},
            "lengths must be one-dimensional, with one number per sentence; it has shape (0,)",
        ),
        (
            {"max_length": 6},
            "max_length (6) must be at least 7: the 4 words of sentence 0, the root's two brackets and the end",
        ),
        (
            {"max_length": torch.tensor([9, 3])},
            "max_length (3) must be at least 4: the 1 words of sentence 1, the root's two brackets and the end",
        ),
        (
            {"tokens": TOKENS._replace(closes=[4])},
            "opens (2) and closes (1) must have the same labels in the same order",
        ),
        (
            {"tokens": TOKENS._replace(words=[])},
            "a tree needs at least one label to open and close, and one token for a word",
        ),
        ({"tokens": TOKENS._replace(words=[9])}, "token (9) must be at least 0 and below vocabulary (9)"),
        (
            {"tokens": TOKENS._replace(words=[7, 4])},
            ("token (4) has two roles; each token must have one: open, close, word, start or end"),
        ),
    ],
)
def test_impossible_bounds_and_tokens_are_rejected(changes, sentence):
    options = {"tokens": TOKENS, "lengths": torch.tensor([4, 1]), "max_length": 9, **changes}
    with pytest.raises(UserError) as caught:
        TreeConstraint(UNIFORM, **options)
    assert str(caught.value) == sentence


def test_a_decoder_that_would_stop_too_early_is_rejected():
    stepper = constrained(UNIFORM, [2, 2], 9)
    with pytest.raises(UserError) as caught:
        greedy_sequences(stepper, torch.tensor([[START], [START]]), max_new=8, end=END)
    assert (
        str(caught.value) == "max_length (9) exceeds the 8 tokens that fit after the start token; "
        "decode with max_new of at least max_length, or trees may be cut off"
    )
    with pytest.raises(UserError, match=r"^lengths \(2\) must have one number for each row of the prompt \(1\)$"):
        greedy_sequences(stepper, torch.tensor([[START]]), max_new=9, end=END)


def test_each_row_is_limited_by_its_own_max_length():
    eager = Transition([[0.4 if symbol == "(A" else 0.6 / (len(SYMBOLS) - 1) for symbol in SYMBOLS]] * len(SYMBOLS))
    prompt = torch.full((2, 1), START)
    generated = greedy_sequences(constrained(eager, [2, 2], torch.tensor([7, 12])), prompt, max_new=12, end=END)
    assert generated.lengths.tolist() == [7, 11]  # a pair of brackets is two symbols, so one place stays free
    alone = greedy_sequences(constrained(eager, [2], 7), prompt[:1], max_new=7, end=END)
    assert generated.tokens[0, :7].tolist() == alone.tokens[0].tolist()


def test_one_token_may_be_both_start_and_end():
    symbols = ["<end>", "(A", ")A", "XX"]
    stepper = TreeConstraint(
        Transition([[0.25] * 4] * 4),
        tokens=tree_tokens(symbols, 0, 0),
        lengths=torch.tensor([1, 2]),
        max_length=torch.tensor([4, 5]),
    )
    generated = greedy_sequences(stepper, torch.zeros(2, 1, dtype=torch.long), max_new=5, end=0)
    assert [[symbols[token] for token in row] for row in generated.tokens.tolist()] == [
        ["(A", "XX", ")A", "<end>", "<end>"],
        ["(A", "XX", "XX", ")A", "<end>"],
    ]
