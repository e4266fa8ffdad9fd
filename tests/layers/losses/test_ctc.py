"""CTC against the sum over all paths, its kernel against its equation, and alignments against the best of all paths."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clew.core.errors import UserError
from clew.kernels import only_equations
from clew.layers.losses.ctc import CTC, fits, least_frames
from tests.references.agreement import assert_agrees, randn
from tests.references.ctc import labellings, paths, posteriors

CASES = [  # length, symbols, blank, labels
    (1, 2, 0, [1]),
    (1, 3, 2, []),
    (4, 3, 0, []),
    (4, 3, 0, [1, 2]),
    (5, 3, 1, [2, 2]),
    (6, 3, 2, [0, 1, 0]),
    (3, 3, 0, [2, 2]),  # just enough
    (5, 4, 3, [0, 0, 1]),
    (7, 2, 0, [1, 1]),
]
every_case = pytest.mark.parametrize(("length", "symbols", "blank", "labels"), CASES)


def row(labels: list[int]) -> Tensor:
    return torch.tensor([labels], dtype=torch.long).reshape(1, len(labels))


@every_case
def test_the_equation_equals_the_sum_over_all_paths(length: int, symbols: int, blank: int, labels: list[int]) -> None:
    ctc = CTC(blank)

    def reference(_: dict[str, np.ndarray], logits: np.ndarray) -> np.ndarray:
        return np.array([labellings(each, blank)[tuple(labels)] for each in logits])

    def call(logits: Tensor) -> Tensor:
        return ctc.log_likelihood(logits, row(labels).expand(2, -1))

    logits = randn(2, length, symbols, seed=length)
    with only_equations():
        assert_agrees(ctc, call, reference, logits, entries=6)
    assert_agrees(ctc, call, reference, logits, entries=6)  # the kernel's values and gradients


def test_the_probabilities_of_all_labellings_sum_to_one() -> None:
    logits = randn(1, 4, 3, seed=9)
    log_likelihoods = [
        float(CTC().log_likelihood(logits, row(list(labels)))) for labels in labellings(logits[0].numpy(), 0)
    ]
    assert sum(map(math.exp, log_likelihoods)) == pytest.approx(1.0, abs=1e-12)


def test_a_labelling_worked_by_hand() -> None:
    """Two frames, p(a) = 0.6 and p(blank) = 0.4 at each: a is aa, a-, -a: 0.36 + 0.24 + 0.24."""
    logits = torch.tensor([[0.4, 0.6], [0.4, 0.6]], dtype=torch.float64).log()[None]
    assert math.exp(float(CTC().log_likelihood(logits, row([1])))) == pytest.approx(0.84)
    assert math.exp(float(CTC().log_likelihood(logits, row([])))) == pytest.approx(0.16)


def batches(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    batch, length, symbols, most = (draw(st.integers(low, high)) for low, high in ((1, 4), (1, 9), (2, 5), (0, 5)))
    blank, seed = draw(st.integers(0, symbols - 1)), draw(st.integers(0, 10_000))
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(symbols - 1, (batch, most), generator=generator)
    targets = targets + (targets >= blank)
    lengths = torch.randint(0, length + 1, (batch, 1), generator=generator)
    labels = torch.randint(0, most + 1, (batch, 1), generator=generator)
    logits = 2 * torch.randn(batch, length, symbols, generator=generator, dtype=torch.float64)
    return logits, targets, torch.arange(length) < lengths, torch.arange(most) < labels, blank


@given(st.composite(batches)())
def test_the_kernel_equals_the_equation_in_values_and_gradients(
    case: tuple[Tensor, Tensor, Tensor, Tensor, int],
) -> None:
    logits, targets, mask, target_mask, blank = case
    ctc, logits = CTC(blank), logits.requires_grad_()
    weights = torch.linspace(1, 2, len(logits), dtype=torch.float64)
    results = []
    for only in (False, True):
        with only_equations() if only else torch.enable_grad():
            log_probs = ctc.log_likelihood(logits, targets, mask, target_mask)
            weighted = (log_probs * weights)[log_probs > -torch.inf].sum() + 0 * logits.sum()
            results.append(
                (
                    log_probs.detach(),
                    ctc(logits, targets, mask, target_mask).detach(),
                    *torch.autograd.grad(weighted, logits),
                )
            )
    for kernel, equation in zip(*results, strict=True):
        torch.testing.assert_close(kernel, equation, rtol=1e-9, atol=1e-10)
    assert torch.equal(results[0][0] > -torch.inf, fits(mask.sum(1), targets, target_mask))


@pytest.mark.parametrize("watched", [False, True])
def test_a_padded_row_costs_the_same_as_alone_and_padding_has_no_gradient(watched: bool) -> None:
    ctc, lengths, labels = CTC(), [7, 4, 5], [[1, 2, 2], [3], [2, 1]]
    logits = randn(3, 7, 4, seed=3).requires_grad_()
    targets, target_mask = torch.full((3, 3), 99), torch.tensor([[len(each) > i for i in range(3)] for each in labels])
    for number, each in enumerate(labels):
        targets[number, : len(each)] = torch.tensor(each)
    mask = torch.arange(7) < torch.tensor(lengths)[:, None]
    with only_equations() if watched else torch.enable_grad():
        together = ctc.log_likelihood(logits, targets, mask, target_mask)
        documents = ctc.log_likelihood(logits, targets, mask.long(), target_mask)
        (gradient,) = torch.autograd.grad(together.sum(), logits)
        for number, (length, each) in enumerate(zip(lengths, labels, strict=True)):
            alone = ctc.log_likelihood(logits[number : number + 1, :length], row(each))
            torch.testing.assert_close(alone[0], together[number], rtol=1e-12, atol=1e-12)
    assert torch.equal(documents, together)
    assert not gradient[~mask].any() and gradient[mask].any(-1).all()


def test_targets_that_do_not_fit_are_detected_by_length_and_cost_nothing() -> None:
    targets = torch.tensor([[1, 1, 2], [1, 2, 1], [1, 1, 1]])
    assert least_frames(targets).tolist() == [4, 3, 5]
    assert least_frames(targets, torch.tensor([[True] * 3, [True] * 3, [True, False, False]])).tolist() == [4, 3, 1]
    assert least_frames(torch.zeros(2, 0, dtype=torch.long)).tolist() == [0, 0]
    assert fits(torch.tensor([3, 3, 3]), targets).tolist() == [False, True, False]
    logits = randn(3, 3, 3).requires_grad_()
    for only in (False, True):
        with only_equations() if only else torch.enable_grad():
            log_probs = CTC().log_likelihood(logits, targets)
            loss = CTC()(logits, targets)
        assert log_probs.isinf().tolist() == [True, False, True]
        assert loss.item() == pytest.approx(-log_probs[1].item())
        (gradient,) = torch.autograd.grad(loss, logits)
        assert gradient.isfinite().all() and not gradient[0].any() and not gradient[2].any() and gradient[1].any()


def test_without_frames_only_the_empty_labelling_is_possible() -> None:
    for only in (False, True):
        with only_equations() if only else torch.enable_grad():
            log_likelihood = CTC().log_likelihood(
                torch.zeros(2, 0, 3), torch.tensor([[1], [2]]), None, torch.tensor([[False], [True]])
            )
        assert log_likelihood.tolist() == [0.0, -math.inf]


def test_the_loss_is_computed_in_float32_for_half_precision_logits() -> None:
    logits = randn(2, 60, 5, seed=1)
    targets = torch.tensor([[1, 2, 3], [3, 3, 1]])
    exact = CTC()(logits.bfloat16().double(), targets)
    loss = CTC()(logits.bfloat16(), targets)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(float(exact), rel=1e-5)


@every_case
def test_an_alignment_is_the_most_probable_path(length: int, symbols: int, blank: int, labels: list[int]) -> None:
    logits = randn(1, length, symbols, seed=length + 20)
    probability, path = max(paths(logits[0].numpy(), blank)[tuple(labels)])
    alignment = CTC(blank).align(logits, row(labels))
    assert float(alignment.log_probs[0]) == pytest.approx(math.log(probability))
    best_path = [labels[number] if number >= 0 else blank for number in alignment.labels[0].tolist()]
    assert tuple(best_path) == path
    for number in range(len(labels)):
        frames = [t for t, which in enumerate(alignment.labels[0].tolist()) if which == number]
        assert frames == list(range(int(alignment.starts[0, number]), int(alignment.ends[0, number])))


@every_case
def test_posteriors_are_the_probability_of_paths_through_a_label_at_a_frame(
    length: int, symbols: int, blank: int, labels: list[int]
) -> None:
    logits = randn(1, length, symbols, seed=length + 40)
    actual = CTC(blank).posteriors(logits, row(labels))[0].numpy()
    np.testing.assert_allclose(actual, posteriors(logits[0].numpy(), tuple(labels), blank), atol=1e-12)


def test_posteriors_of_padding_and_of_labels_that_do_not_fit_are_zero() -> None:
    logits, mask = randn(2, 4, 3), torch.tensor([[True, True, False, False], [True] * 4])
    probabilities = CTC(0).posteriors(logits, torch.tensor([[1, 1], [1, 2]]), mask)
    assert not probabilities[0].any() and bool((probabilities[1].sum(1) >= 1).all())
    alone = CTC(0).posteriors(logits[:1, :2], torch.tensor([[1, 2]]))
    padded = CTC(0).posteriors(logits[:1], torch.tensor([[1, 2]]), mask[:1])
    torch.testing.assert_close(padded[..., :2], alone)
    assert not padded[..., 2:].any()


@given(st.composite(batches)())
def test_padded_alignments_equal_those_of_single_rows(case: tuple[Tensor, Tensor, Tensor, Tensor, int]) -> None:
    logits, targets, mask, target_mask, blank = case
    padded = CTC(blank).align(logits, targets, mask, target_mask)
    possible = fits(mask.sum(1), targets, target_mask)
    for number in range(len(logits)):
        length, labels = int(mask[number].sum()), int(target_mask[number].sum())
        assert (padded.labels[number, length:] == -1).all() and not padded.ends[number, labels:].any()
        if not possible[number]:
            assert float(padded.log_probs[number]) == -math.inf and not padded.ends[number].any()
            continue
        alone = CTC(blank).align(logits[number : number + 1, :length], targets[number : number + 1, :labels])
        assert torch.equal(alone.labels[0], padded.labels[number, :length])
        assert torch.equal(alone.starts[0], padded.starts[number, :labels]) and torch.equal(
            alone.ends[0], padded.ends[number, :labels]
        )
        assert (alone.ends[0] > alone.starts[0]).all() and (alone.ends[0, :-1] <= alone.starts[0, 1:]).all()


def test_invalid_targets_are_rejected() -> None:
    with pytest.raises(UserError, match=r"a target is 0; labels are 0 to 2 without the blank \(0\)"):
        CTC()(randn(1, 4, 3), row([1, 0]))
    with pytest.raises(UserError, match=r"a target is 3; labels are 0 to 2 without the blank \(0\)"):
        CTC()(randn(1, 4, 3), row([3]))
    with pytest.raises(UserError, match=r"blank \(3\) must be one of the 3 symbols, 0 to 2"):
        CTC(3)(randn(1, 4, 3), row([1]))
    with pytest.raises(
        UserError, match=r"logits \(2, 4, 3\) must be \(batch, length, symbols\) and targets \(1, 1\) \(batch, labels\)"
    ):
        CTC()(randn(2, 4, 3), row([1]))
