import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.tag_schemes import OUTSIDE, Transitions, allowed_transitions, find_tag_fault
from clew.layers.losses.crf import CRF
from tests.references.agreement import randn, randomise

BIOES = ["O", "B-X", "I-X", "E-X", "S-X"]


def enumerated(crf, emissions):
    """All allowed sequences of one row with their scores, best first."""
    sequences = []
    for tags in product(range(crf.num_tags), repeat=len(emissions)):
        score = sum(float(emissions[t, tag]) for t, tag in enumerate(tags))
        allowed = True
        if tags:
            score += float(crf.start[tags[0]]) + float(crf.end[tags[-1]])
            allowed = bool(crf.allowed_first[tags[0]]) and bool(crf.allowed_last[tags[-1]])
        for a, b in zip(tags, tags[1:], strict=False):
            score += float(crf.transitions[a, b])
            allowed = allowed and bool(crf.allowed_between[a, b])
        if allowed:
            sequences.append((score, tags))
    return sorted(sequences, reverse=True)


def log_sum_exp(values):
    return max(values) + math.log(sum(math.exp(value - max(values)) for value in values))


def random_crf(num_tags, allowed=None):
    return randomise(CRF(num_tags, allowed=allowed)).requires_grad_(False)


SIZES = [(1, 1, False), (2, 1, False), (3, 4, False), (2, 6, False), (5, 1, True), (5, 2, True), (5, 4, True)]


@pytest.mark.parametrize(("num_tags", "length", "constrained"), SIZES)
def test_all_results_equal_enumeration(num_tags, length, constrained):
    crf = random_crf(num_tags, allowed_transitions(BIOES, "bioes") if constrained else None)
    emissions = randn(1, length, num_tags, seed=3)
    every = enumerated(crf, emissions[0])
    log_z = log_sum_exp([score for score, _ in every])
    torch.testing.assert_close(float(crf.log_partition(emissions)), log_z, rtol=1e-12, atol=1e-12)

    tags, score = crf.viterbi(emissions)
    assert tuple(tags[0].tolist()) == every[0][1]
    torch.testing.assert_close(float(score), every[0][0], rtol=1e-12, atol=1e-12)

    for score, path in every[:5]:
        likelihood = crf.log_likelihood(emissions, torch.tensor([path]))
        torch.testing.assert_close(float(likelihood), score - log_z, rtol=1e-12, atol=1e-12)

    expected = torch.zeros(length, num_tags, dtype=torch.float64)
    for score, path in every:
        for t, tag in enumerate(path):
            expected[t, tag] += math.exp(score - log_z)
    torch.testing.assert_close(crf.marginals(emissions)[0], expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("num_tags", "length", "constrained"), SIZES)
def test_the_k_best_are_the_first_k_of_all(num_tags, length, constrained):
    crf = random_crf(num_tags, allowed_transitions(BIOES, "bioes") if constrained else None)
    emissions = randn(1, length, num_tags, seed=4)
    every = enumerated(crf, emissions[0])
    best = crf.k_best(emissions, k=7)
    for place, (score, path) in enumerate(every[:7]):
        assert tuple(best.tags[0, place].tolist()) == path
        torch.testing.assert_close(float(best.scores[0, place]), score, rtol=1e-12, atol=1e-12)
    assert bool((best.scores[0, len(every) :] < -1e29).all())


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans())
def test_a_row_of_a_batch_equals_the_row_alone(lengths, garbage):
    crf = random_crf(4)
    emissions, tags = (
        randn(len(lengths), 5, 4),
        torch.randint(4, (len(lengths), 5), generator=torch.Generator().manual_seed(0)),
    )
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    if garbage:
        emissions, tags = emissions.masked_fill(~mask[..., None], torch.nan), tags.masked_fill(~mask, -100)
    together = (
        crf.log_likelihood(emissions, tags, mask),
        crf.marginals(emissions, mask),
        crf.k_best(emissions, mask, k=3),
    )
    for row, n in enumerate(lengths):
        one, its = emissions[row : row + 1, :n], tags[row : row + 1, :n]
        torch.testing.assert_close(together[0][row : row + 1], crf.log_likelihood(one, its))
        torch.testing.assert_close(together[1][row : row + 1, :n], crf.marginals(one))
        assert not together[1][row, n:].any()
        alone = crf.k_best(one, k=3)
        torch.testing.assert_close(together[2].scores[row : row + 1], alone.scores)
        real = alone.scores[0].isfinite()
        assert together[2].tags[row, real, :n].tolist() == alone.tags[0, real].tolist()
        assert not together[2].tags[row, :, n:].any()


def test_an_empty_row_has_one_sequence_of_score_0():
    crf = random_crf(3).requires_grad_()
    for emissions, mask in ((randn(2, 0, 3), None), (randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.bool))):
        tags = torch.zeros(emissions.shape[:2], dtype=torch.long)
        assert crf.log_partition(emissions, mask).tolist() == [0, 0]
        assert crf.log_likelihood(emissions, tags, mask).tolist() == [0, 0]
        assert crf.viterbi(emissions, mask)[1].tolist() == [0, 0]
        assert crf.viterbi(emissions, mask)[0].shape == tags.shape
        assert crf.marginals(emissions, mask).shape == emissions.shape
    (crf(emissions, tags, mask)).backward()
    assert not crf.transitions.grad.any()


def test_packed_documents_are_separate_sequences():
    crf = random_crf(3)
    emissions, tags = randn(1, 7, 3), torch.tensor([[0, 2, 1, 1, 0, 2, 2]])
    documents = torch.tensor([[1, 1, 2, 3, 3, 3, 0]])
    parts = [slice(0, 2), slice(2, 3), slice(3, 6)]
    likelihoods = torch.stack([crf.log_likelihood(emissions[:, part], tags[:, part]) for part in parts])
    torch.testing.assert_close(crf.log_likelihood(emissions, tags, documents), likelihoods.sum(0))
    packed_tags, score = crf.viterbi(emissions, documents)
    alone = [crf.viterbi(emissions[:, part]) for part in parts]
    assert packed_tags[0, :6].tolist() == [tag for tags, _ in alone for tag in tags[0].tolist()]
    torch.testing.assert_close(score, sum(score for _, score in alone))
    torch.testing.assert_close(
        crf.marginals(emissions, documents)[:, :6], torch.cat([crf.marginals(emissions[:, part]) for part in parts], 1)
    )


@pytest.mark.parametrize("allowed", [None, allowed_transitions(["O", "B-X", "I-X"], "iob2")])
def test_gradients_equal_finite_differences(allowed):
    crf = random_crf(3, allowed).requires_grad_()
    emissions = randn(3, 4, 3).requires_grad_()
    tags, mask = (
        torch.tensor([[0, 1, 2, 2], [1, 2, 0, 0], [0, 0, 0, 0]]),
        torch.tensor([[True] * 4, [True, True, False, False], [False] * 4]),
    )

    def loss(emissions, transitions, start, end):
        return torch.func.functional_call(
            crf, {"transitions": transitions, "start": start, "end": end}, (emissions, tags, mask)
        )

    torch.autograd.gradcheck(loss, (emissions, crf.transitions, crf.start, crf.end))


def test_marginals_are_the_gradient_of_the_partition_function():
    crf, emissions = random_crf(4), randn(2, 5, 4).requires_grad_()
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    (gradient,) = torch.autograd.grad(crf.log_partition(emissions, mask).sum(), emissions)
    torch.testing.assert_close(crf.marginals(emissions, mask), gradient)


def test_without_transitions_it_is_a_softmax_at_each_position():
    emissions, tags = randn(2, 4, 3), torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    expected = torch.nn.functional.cross_entropy(emissions.flatten(0, 1), tags.flatten(), reduction="sum")
    torch.testing.assert_close(CRF(3).double()(emissions, tags), expected)
    torch.testing.assert_close(CRF(3).double().marginals(emissions), emissions.softmax(-1))
    assert CRF(3).double().viterbi(emissions)[0].tolist() == emissions.argmax(-1).tolist()


def test_three_words_of_viterbi_by_hand():
    """Tags N and V: alone each word would be N N N (5 + 3 + 3), but N after N costs 4; N V N is 5 + 2 + 3."""
    crf = CRF(2)
    with torch.no_grad():
        crf.transitions[0, 0] = -4
    tags, score = crf.viterbi(torch.tensor([[[5.0, 0.0], [3.0, 2.0], [3.0, 1.0]]]))
    assert (tags.tolist(), score.tolist()) == ([[0, 1, 0]], [10.0])


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes"])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_forbidden_sequences_are_never_returned(scheme, length):
    tags = ["O"] + [f"{prefix}-{label}" for prefix in ("BIES" if scheme == "bioes" else "BI") for label in "XY"]
    crf = random_crf(len(tags), allowed_transitions(tags, scheme))
    emissions = 10 * randn(50, length, len(tags))
    emissions[..., tags.index("O")] -= 20
    best_tags, scores = crf.float().viterbi(emissions.float())
    for row in best_tags.tolist():
        assert find_tag_fault([tags[tag] for tag in row], scheme) is None
    assert bool(crf.allows(best_tags).all()) and bool((scores > -1e6).all())


def test_forbidden_tags_have_no_probability_and_finite_gradients():
    tags = ["O", "B-X", "I-X"]
    crf = CRF(3, allowed=allowed_transitions(tags, "iob2"))
    emissions = torch.zeros(2, 2, 3, requires_grad=True)
    forbidden = torch.tensor([[0, 2], [0, 1]])
    assert crf.allows(forbidden).tolist() == [False, True]
    likelihood = crf.log_likelihood(emissions, forbidden)
    assert likelihood[0].exp() == 0
    # O O, O B, B O, B B, B I
    torch.testing.assert_close(likelihood[1], torch.tensor(-math.log(5)))
    likelihood.sum().backward()
    assert all(bool(part.grad.isfinite().all()) for part in (emissions, crf.transitions, crf.start, crf.end))
    assert crf.transitions.grad[0, 2] == 0
    assert crf.marginals(emissions.detach())[:, 0, 2].tolist() == [0, 0]


def test_if_no_sequence_is_allowed_the_fewest_forbidden_steps_are_taken():
    crf = CRF(2, allowed=allowed_transitions(["B-X", "E-X"], "bioes"))
    tags, score = crf.viterbi(
        torch.tensor([[[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]])
    )  # emissions prefer E E E, which has four
    assert float(score) == pytest.approx(-1e30)
    assert tags.tolist() in ([[0, 1, 1]], [[0, 0, 1]], [[0, 1, 0]])


def test_transitions_alone_can_memorise_a_sequence():
    """Tags repeat as O B I O B I, and the words carry no information."""
    crf, tags, emissions = CRF(3), torch.tensor([[0, 1, 2, 0, 1, 2]]), torch.zeros(1, 6, 3)
    before = crf(emissions, tags).item()
    assert before == pytest.approx(6 * math.log(3), rel=1e-5)
    optimiser = torch.optim.Adam(crf.parameters(), lr=0.3)
    for _ in range(40):
        optimiser.zero_grad()
        crf(emissions, tags).backward()
        optimiser.step()
    assert crf.viterbi(emissions)[0].tolist() == tags.tolist()
    assert crf(emissions, tags).item() < 0.05 * before


def test_half_precision_is_computed_in_float32():
    crf, emissions = CRF(3), randn(2, 30, 3).bfloat16()
    assert crf.log_partition(emissions).dtype == torch.float32
    torch.testing.assert_close(crf.log_partition(emissions), crf.log_partition(emissions.float()))


def test_tables_and_emissions_of_other_tags_are_rejected():
    with pytest.raises(UserError, match=r"allowed.between \(1, 1\) must be \(3, 3\), for 3 tags"):
        CRF(3, allowed=Transitions(((True,),), (True,), (True,)))
    with pytest.raises(UserError, match=r"emissions \(2, 4, 5\) must be \(batch, length, 3\)"):
        CRF(3).log_partition(torch.zeros(2, 4, 5))
    with pytest.raises(UserError, match=r"k \(0\) must be at least 1"):
        CRF(3).k_best(torch.zeros(1, 1, 3), k=0)
    with pytest.raises(UserError, match=r"num_tags \(0\) must be at least 1"):
        CRF(0)


def test_the_table_of_allowed_transitions_is_not_saved():
    assert set(CRF(2, allowed=allowed_transitions([OUTSIDE, "B-X"], "iob2")).state_dict()) == {
        "transitions",
        "start",
        "end",
    }
