"""Connectionist temporal classification: the probability of a short label sequence under scores for many frames. Knows
no models."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import real_positions, row_lengths
from clew.kernels import choose

IMPOSSIBLE = -1e30
"""The log-probability of an impossible state; finite, so that sums over such states have a gradient."""


class Alignment(NamedTuple):
    """The most probable path of each row's labels. A label spans the frames [starts, ends), at least one; blanks lie
    between labels."""

    labels: Tensor  # (batch, length) the index of each frame's label; -1 for blank and on padding
    starts: Tensor  # (batch, labels)
    ends: Tensor  # (batch, labels); 0, like `starts`, on padding and in rows whose labels do not fit
    log_probs: Tensor  # (batch,) of the path; -inf if the labels do not fit


class CTC(nn.Module):
    """Connectionist temporal classification (Graves et al. 2006).

        p(l | x) = sum over paths with collapse(path) = l of prod_t y_t[path_t],    y_t = softmax(logits_t)

    A path has one symbol per frame; collapse merges runs of equal symbols, then removes blanks. l' is l with a blank
    before, between and after its labels, S = 2 |l| + 1 symbols in all. The sum is computed by equations 5 to 8, in
    logarithms:

        a_0(1) = 1
        a_t(s) = (a_{t-1}(s) + a_{t-1}(s-1) + [l'_s is no blank and not l'_{s-2}] a_{t-1}(s-2)) y_t[l'_s]
        p(l | x) = a_T(S) + a_T(S-1)

    Labels need one frame each, and one more between two equal labels (`least_frames`). A row with fewer frames has no
    path: it adds nothing to the loss and has no gradient. `fits` needs only the lengths, so that such examples can be
    counted and dropped before training.
    """

    def __init__(self, blank: int = 0):
        super().__init__()
        self.blank = blank

    def forward(
        self, logits: Tensor, targets: Tensor, mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Tensor:
        """The sum of -log p(targets) over rows whose targets fit. logits (batch, length, symbols) are finite, targets
        (batch, labels)."""
        log_probs = self.log_likelihood(logits, targets, mask, target_mask)
        return -log_probs.masked_fill(log_probs == -torch.inf, 0.0).sum()

    def log_likelihood(
        self, logits: Tensor, targets: Tensor, mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Tensor:
        """log p of each row's targets (batch,); -inf, without a gradient, if they do not fit."""
        lattice = self.lattice(logits, targets, mask, target_mask)
        kernel = choose("ctc", self)
        if kernel is not None and logits.shape[1]:
            lengths = lattice.lengths.clamp(min=1)  # the kernel needs at least one frame
            log_probs = kernel(lattice.log_probs, lattice.targets, lengths, lattice.num_labels, blank=self.blank)
            log_probs = torch.where(lattice.lengths > 0, log_probs, 0.0)
        else:
            log_probs = lattice.total()
        return torch.where(lattice.fits, log_probs, -torch.inf)

    @torch.no_grad()
    def align(
        self, logits: Tensor, targets: Tensor, mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Alignment:
        """Forced alignment: Viterbi's algorithm over the same lattice, a maximum in place of the sum. Ties go to the
        later label."""
        lattice = self.lattice(logits, targets, mask, target_mask)
        batch, length, _ = logits.shape
        scores, emissions, back_pointers = lattice.start(), lattice.emissions(), []
        for t in range(length):
            best, back_pointer = lattice.ways(scores).max(0)
            real = lattice.real[:, t, None]
            scores = torch.where(real, best + emissions[:, t], scores)
            back_pointers.append(torch.where(real, back_pointer, 0))
        last_blank, last_label = lattice.ends(scores)
        state = 2 * lattice.num_labels - (last_label > last_blank).long()
        states = []
        for t in reversed(range(length)):
            states.append(state)
            state = state - back_pointers[t].gather(1, state[:, None])[:, 0]
        path = torch.stack(states[::-1], 1) if states else targets.new_zeros(batch, 0)
        is_label = lattice.real & (path % 2 == 1) & lattice.fits[:, None]
        labels = torch.where(is_label, path // 2, -1)  # (batch, length)
        places = torch.arange(length, device=path.device)
        at = labels[:, :, None] == torch.arange(targets.shape[1], device=path.device)  # (batch, length, labels)
        starts = torch.where(at, places[:, None], length).amin(1) if length else torch.zeros_like(targets)
        ends = torch.where(at, places[:, None] + 1, 0).amax(1) if length else torch.zeros_like(targets)
        return Alignment(
            labels,
            torch.where(ends > 0, starts, 0),
            ends,
            torch.where(lattice.fits, torch.maximum(last_blank, last_label), -torch.inf),
        )

    def posteriors(
        self, logits: Tensor, targets: Tensor, mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Tensor:
        """p(frame t belongs to label i | targets, x) (batch, labels, length), over all paths; 0 if a row's targets do
        not fit.

        Computed as the derivative of log p(targets | x) with respect to the emission of label i at frame t (equation
        14).
        """
        lattice = self.lattice(logits.detach(), targets, mask, target_mask)
        with torch.enable_grad():
            emissions = lattice.emissions().requires_grad_()
            (gradient,) = torch.autograd.grad(
                lattice.total(emissions)[lattice.fits].sum(), emissions, materialize_grads=True
            )
        return gradient[:, :, 1::2].mT

    def lattice(self, logits: Tensor, targets: Tensor, mask: Tensor | None, target_mask: Tensor | None) -> "Lattice":
        if logits.dim() != 3 or targets.dim() != 2 or len(logits) != len(targets):
            raise UserError(
                f"logits {tuple(logits.shape)} must be (batch, length, symbols) and targets {tuple(targets.shape)}"
                " (batch, labels)"
            )
        real = real_positions(mask)
        if real is None:
            real = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
        lengths, num_labels = row_lengths(real), lengths_of(targets, target_mask)
        is_label = torch.arange(targets.shape[1], device=targets.device) < num_labels[:, None]
        if targets.device.type == "cpu":
            check_labels(targets[is_label], logits.shape[2], self.blank)
        targets = targets.masked_fill(~is_label, self.blank)
        log_probs = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        blanks = torch.full_like(targets, self.blank)
        states = F.pad(torch.stack([blanks, targets], 2).flatten(1), (0, 1), value=self.blank)  # (batch, 2 labels + 1)
        may_skip = F.pad((states[:, 2:] != self.blank) & (states[:, 2:] != states[:, :-2]), (2, 0))
        enough = lengths >= least_frames(targets, is_label)
        return Lattice(log_probs, targets, states, may_skip[:, : states.shape[1]], real, lengths, num_labels, enough)


class Lattice(NamedTuple):
    """A batch prepared for the recursions: state s of a row is symbol s of l'."""

    log_probs: Tensor  # (batch, length, symbols)
    targets: Tensor  # (batch, labels), blank on padding
    states: Tensor  # (batch, states) l'
    may_skip: Tensor  # (batch, states) whether a path may come from two states before
    real: Tensor  # (batch, length)
    lengths: Tensor  # (batch,)
    num_labels: Tensor  # (batch,)
    fits: Tensor  # (batch,)

    def emissions(self) -> Tensor:
        """log y_t[l'_s] (batch, length, states)."""
        return self.log_probs.gather(2, self.states[:, None].expand(-1, self.log_probs.shape[1], -1))

    def start(self) -> Tensor:
        """log a_0 (batch, states)."""
        scores = self.log_probs.new_full(self.states.shape, IMPOSSIBLE)
        scores[:, 0] = 0.0
        return scores

    def ways(self, scores: Tensor) -> Tensor:
        """The scores of reaching each state from itself, from the state before it and from two before (3, batch,
        states)."""
        once, twice = (F.pad(scores, (steps, 0), value=IMPOSSIBLE)[:, : scores.shape[1]] for steps in (1, 2))
        return torch.stack([scores, once, twice.masked_fill(~self.may_skip, IMPOSSIBLE)])

    def ends(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of each row's two final states (batch,): the last blank, and the last label if there is one."""
        last = scores.gather(1, 2 * self.num_labels[:, None])[:, 0]
        before = scores.gather(1, (2 * self.num_labels - 1).clamp(min=0)[:, None])[:, 0]
        return last, torch.where(self.num_labels > 0, before, IMPOSSIBLE)

    def total(self, emissions: Tensor | None = None) -> Tensor:
        """log p(l | x) (batch,), by the equation. `emissions` default to the lattice's own."""
        scores, emissions = self.start(), self.emissions() if emissions is None else emissions
        for t in range(emissions.shape[1]):
            after = self.ways(scores).logsumexp(0) + emissions[:, t]
            scores = torch.where(self.real[:, t, None], after, scores)
        return torch.stack(self.ends(scores)).logsumexp(0)


def least_frames(targets: Tensor, target_mask: Tensor | None = None) -> Tensor:
    """The number of frames that each row's labels (batch, labels) need (batch,): one each, and one for a blank between
    two equal labels."""
    num_labels = lengths_of(targets, target_mask)
    repeats = (targets[:, 1:] == targets[:, :-1]) & (
        torch.arange(1, max(targets.shape[1], 1), device=targets.device) < num_labels[:, None]
    )
    return num_labels + repeats.sum(1)


def fits(lengths: Tensor, targets: Tensor, target_mask: Tensor | None = None) -> Tensor:
    """Whether each row has enough frames for its labels (batch,)."""
    return lengths >= least_frames(targets, target_mask)


def lengths_of(targets: Tensor, mask: Tensor | None) -> Tensor:
    return (
        row_lengths(mask) if mask is not None else torch.full((len(targets),), targets.shape[1], device=targets.device)
    )


def check_labels(labels: Tensor, symbols: int, blank: int) -> None:
    if not 0 <= blank < symbols:
        raise UserError(f"blank ({blank}) must be one of the {symbols} symbols, 0 to {symbols - 1}")
    wrong = labels[(labels < 0) | (labels >= symbols) | (labels == blank)]
    if len(wrong):
        raise UserError(f"a target is {int(wrong[0])}; labels are 0 to {symbols - 1} without the blank ({blank})")
