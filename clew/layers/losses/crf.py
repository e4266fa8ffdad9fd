"""The linear-chain conditional random field: scores whole sequences of tags. Knows no words and no names of tags."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import has_documents, last_real, real_positions
from clew.core.modes import is_exporting
from clew.core.tag_schemes import Transitions
from clew.layers.recurrence.scanning import scan_viterbi

FORBIDDEN = -1e30
"""The score of a forbidden transition. Its probability is 0; unlike -inf, it leaves every number and gradient
finite."""


class Paths(NamedTuple):
    """The best sequences of tags (batch, k, length), 0 on padding, and their scores (batch, k), -inf where there are
    fewer than k."""

    tags: Tensor
    scores: Tensor


class CRF(nn.Module):
    """Linear-chain conditional random field (Lafferty et al. 2001), as an output layer (Lample et al. 2016).

        score(y)  = start[y_1] + sum_t emission_t[y_t] + sum_t transitions[y_{t-1}, y_t] + end[y_n]
        log Z     = log sum_y exp(score(y))            over all sequences y of n tags
        log p(y)  = score(y) - log Z

    `allowed` says which tags may follow which. Z sums over allowed sequences only, and only those are decoded; if there
    is none, the sequence with the fewest forbidden transitions wins. Transitions start at 0, where a CRF equals a
    softmax at each position.

    Emissions are (batch, length, tags). A mask is boolean or holds document numbers; each document is a sequence of its
    own. An empty row has log p = 0. Everything loops over time, at batch * tags^2 per step, in float32 or wider.
    """

    allowed_between: Tensor
    allowed_first: Tensor
    allowed_last: Tensor

    def __init__(self, num_tags: int, *, allowed: Transitions | None = None):
        super().__init__()
        if num_tags < 1:
            raise UserError(f"num_tags ({num_tags}) must be at least 1")
        self.num_tags = num_tags
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))  # (from, to)
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))
        for name, scores in (("between", self.transitions), ("first", self.start), ("last", self.end)):
            table = torch.ones(scores.shape) if allowed is None else torch.tensor(getattr(allowed, name))
            if table.shape != scores.shape:
                raise UserError(
                    f"allowed.{name} {tuple(table.shape)} must be {tuple(scores.shape)}, for {num_tags} tags"
                )
            self.register_buffer(f"allowed_{name}", table.bool(), persistent=False)

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None) -> Tensor:
        """The sum of -log p(tags) over all rows."""
        return -self.log_likelihood(emissions, tags, mask).sum()

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None) -> Tensor:
        """log p of each row's tags (batch,); -1e30 or less if they are not allowed. Check `allows` before taking a
        loss."""
        return self.score(emissions, tags, mask) - self.log_partition(emissions, mask)

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None) -> Tensor:
        """The score of each row's tags (batch,). Tags on padding may be any number."""
        chain = self.chain(emissions, mask)
        length = chain.real.shape[1]
        tags = F.pad(tags, (0, length - tags.shape[1])).masked_fill(~chain.real, 0)
        from_tags, to_tags = tags[:, :-1], tags[:, 1:]
        steps = chain.transitions[from_tags, to_tags]
        if chain.restarts is not None:
            steps = torch.where(chain.restarts[:, 1:], chain.end[from_tags] + chain.start[to_tags], steps)
        at_ends = chain.start[tags[:, 0]] + chain.end[last_real(tags[..., None], chain.real, tags[:, :1])[:, 0]]
        at_words = chain.emissions.gather(2, tags[..., None])[..., 0]
        parts = (at_ends[:, None], chain.real[:, :1]), (at_words, chain.real), (steps, chain.real[:, 1:])
        return torch.stack([torch.where(real, part, 0.0).sum(1) for part, real in parts]).sum(0)

    def log_partition(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """log Z (batch,)."""
        chain = self.chain(emissions, mask)
        log_z = (chain.forward_scores()[-1] + chain.end).logsumexp(1)
        return torch.where(chain.real[:, 0], log_z, 0.0)

    def marginals(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """p(y_t = tag) (batch, length, tags) by the forward-backward algorithm; 0 on padding."""
        chain = self.chain(emissions, mask)
        scores = torch.stack(chain.forward_scores(), 1) + torch.stack(chain.backward_scores(), 1)
        return torch.where(chain.real[..., None], scores.softmax(-1), 0.0)[:, : emissions.shape[1]]

    def viterbi(self, emissions: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The best tags (batch, length), 0 on padding, and their score (batch,)."""
        if is_exporting():
            chain = self.chain(emissions, mask)
            tags, score = scan_viterbi(chain.emissions, chain.real, chain.transitions, chain.start, chain.end)
            return torch.where(chain.real, tags, 0), torch.where(chain.real[:, 0], score, 0.0)
        paths = self.k_best(emissions, mask, k=1)
        return paths.tags[:, 0], paths.scores[:, 0]

    @torch.no_grad()
    def k_best(self, emissions: Tensor, mask: Tensor | None = None, *, k: int) -> Paths:
        """The k best sequences, best first: Viterbi's algorithm with k candidates per tag."""
        if k < 1:
            raise UserError(f"k ({k}) must be at least 1")
        chain = self.chain(emissions, mask)
        batch, length = chain.real.shape
        scores = chain.emissions.new_full((batch, k, self.num_tags), -torch.inf)
        scores[:, 0] = chain.start + chain.emissions[:, 0]
        stay = torch.arange(k * self.num_tags, device=scores.device).view(k, self.num_tags)
        back_pointers = []
        for t in range(1, length):
            candidates = (scores[..., None] + chain.step(t)[:, None]).flatten(1, 2)  # (batch, k * from, to)
            best, back_pointer = candidates.max(1, keepdim=True) if k == 1 else candidates.topk(k, 1)  # (batch, k, to)
            real = chain.real[:, t, None, None]
            scores = torch.where(real, best + chain.emissions[:, t, None], scores)
            back_pointers.append(torch.where(real, back_pointer, stay).flatten(1))
        best_scores, candidate = (scores + chain.end).flatten(1).topk(k, 1)
        tags = [candidate % self.num_tags]
        for back_pointer in reversed(back_pointers):
            candidate = back_pointer.gather(1, candidate)
            tags.append(candidate % self.num_tags)
        path = torch.stack(tags[::-1], 2).masked_fill(~chain.real[:, None], 0)
        empty = torch.where(torch.arange(k, device=best_scores.device) == 0, 0.0, -torch.inf).to(best_scores)
        return Paths(path[..., : emissions.shape[1]], torch.where(chain.real[:, :1], best_scores, empty))

    def allows(self, tags: Tensor, mask: Tensor | None = None) -> Tensor:
        """Whether each row's tags are allowed (batch,)."""
        zeros = self.transitions.new_zeros(*tags.shape, self.num_tags)
        return self.score(zeros, tags, mask) > FORBIDDEN / 2

    def chain(self, emissions: Tensor, mask: Tensor | None) -> "Chain":
        if emissions.dim() != 3 or emissions.shape[2] != self.num_tags:
            raise UserError(f"emissions {tuple(emissions.shape)} must be (batch, length, {self.num_tags})")
        dtype = torch.promote_types(emissions.dtype, torch.float32)
        real = real_positions(mask)
        if real is None:
            real = torch.ones(emissions.shape[:2], dtype=torch.bool, device=emissions.device)
        if not emissions.shape[1]:
            mask, emissions, real = None, F.pad(emissions, (0, 0, 0, 1)), F.pad(real, (0, 1))
        restarts = F.pad(mask[:, 1:] != mask[:, :-1], (1, 0)) if mask is not None and has_documents(mask) else None
        emissions = emissions.to(dtype).masked_fill(~real[..., None], 0.0)
        transitions, start, end = (
            scores.to(dtype).masked_fill(~allowed, FORBIDDEN)
            for scores, allowed in (
                (self.transitions, self.allowed_between),
                (self.start, self.allowed_first),
                (self.end, self.allowed_last),
            )
        )
        return Chain(emissions, real, restarts, transitions, start, end)


class Chain(NamedTuple):
    """A batch prepared for the recursions: forbidden transitions score `FORBIDDEN`, and there is at least one position,
    real or padding."""

    emissions: Tensor  # (batch, length, tags)
    real: Tensor  # (batch, length)
    restarts: Tensor | None  # (batch, length), True where a new document begins; None if every row is one document
    transitions: Tensor  # (from, to)
    start: Tensor
    end: Tensor

    def step(self, t: int) -> Tensor:
        """The scores of a step to position t (batch or 1, from, to). A step into a new document scores an end and a
        start."""
        if self.restarts is None:
            return self.transitions[None]
        return torch.where(self.restarts[:, t, None, None], self.end[:, None] + self.start, self.transitions)

    def forward_scores(self) -> list[Tensor]:
        """For each t, log sum exp(score) (batch, tags) over the paths that lead to each tag at t; unchanged on
        padding."""
        scores = [self.start + self.emissions[:, 0]]
        for t in range(1, self.real.shape[1]):
            scores_at_t = (scores[-1][:, :, None] + self.step(t)).logsumexp(1) + self.emissions[:, t]
            scores.append(torch.where(self.real[:, t, None], scores_at_t, scores[-1]))
        return scores

    def backward_scores(self) -> list[Tensor]:
        """For each t, log sum exp(score) (batch, tags) over the paths that continue from each tag at t."""
        scores = [self.end.expand_as(self.emissions[:, 0])]
        for t in range(self.real.shape[1] - 1, 0, -1):
            scores_before_t = (self.step(t) + (scores[-1] + self.emissions[:, t])[:, None]).logsumexp(2)
            scores.append(torch.where(self.real[:, t, None], scores_before_t, scores[-1]))
        return scores[::-1]
