"""Hard attention: the context is one place, drawn at random, not the mean of all. Includes the policy gradient for its
training."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.masks import real_positions
from clew.core.taps import Tap
from clew.core.types import State, Term
from clew.layers.attention import Attention, Prepared
from clew.layers.scores import Score


class Draws(NamedTuple):
    """The draws of a training chunk, one per position. Where the expectation replaced a draw, the log-probability is
    0."""

    log_probs: Tensor  # (batch, length) of each draw
    entropies: Tensor  # (batch, length) of the distribution of each draw
    sampled: Tensor | None = None  # (batch, length) True where a place was drawn; None if everywhere


class HardAttention(Attention):
    """Attention to one place s of a memory (Xu et al. 2015, section 4.1).

        w = softmax(score(q, k)),   s ~ w in training, s = argmax w in evaluation,   context = v_s

    No gradient flows through a draw: the values are trained through the drawn place, the scores through `Reinforce`.
    With `expectation` = p, each row of a training chunk uses, with probability p, the expected value sum_i w_i v_i at
    all its positions, as soft attention does, and its gradient (section 4.1 uses p = 0.5).
    """

    def __init__(self, score: Score, *, expectation: float = 0.0):
        super().__init__(score)
        self.kernel = None
        self.expectation = expectation
        self.places = Tap()

    def choose_expected(self, x: Tensor) -> Tensor | None:
        """Draw which rows (batch,) of a chunk (batch, length, dim) use the expectation; None if none does."""
        if not self.training or not self.expectation:
            return None
        return torch.rand(x.shape[0], device=x.device) < self.expectation

    def draw(self, query: Tensor, memory: Prepared, expected: Tensor | None = None) -> tuple[Tensor, Draws | None]:
        """The context (sentences, heads, query, dim), and in training the draws (sentences, heads, query). `expected`
        (sentences, 1, query, 1) is True where the expectation is used."""
        log_weights = F.log_softmax(self.scores(self.compare(query, memory)), -1)
        weights = self.weights(log_weights.exp())
        if self.training:
            place = torch.multinomial(weights.detach().flatten(0, -2), 1).view(weights.shape[:-1])
        else:
            place = weights.argmax(-1)
        # (sentences, heads, query, places)
        one_place = self.places(
            (torch.arange(weights.shape[-1], device=place.device) == place[..., None]).to(weights.dtype)
        )
        chosen = one_place if expected is None else torch.where(expected, weights, one_place)
        context = chosen.to(memory.values.dtype) @ memory.values
        if not self.training:
            return context, None
        finite = log_weights if memory.bias is None else log_weights.masked_fill(memory.bias < 0, 0.0)
        log_probs, entropies = (one_place * finite).sum(-1), -(weights * finite).sum(-1)
        if expected is None:
            return context, Draws(log_probs, entropies)
        sampled = ~expected[..., 0].expand_as(log_probs)
        return context, Draws(torch.where(sampled, log_probs, 0.0), entropies, sampled)

    def read(self, query: Tensor, memory: Prepared) -> Tensor:
        return self.draw(query, memory)[0]


class Reinforce(nn.Module):
    """The gradient through the probabilities of the draws (Williams 1992; Xu et al. 2015, equations 11 to 13).

        d E[log p(y | s)] = E[ d log p(y | s) + sum_t (R_t - b_t) d log w_t[s_t] ]
        R_t = sum_{u >= t} log p(y_u | s)          b_t = baseline * (the number of targets from t on)
        baseline <- 0.9 baseline + 0.1 mean log p(y_u | s)

    The first part of the expectation is the gradient of the plain loss. Each draw is credited only with the targets
    that follow it, the ones it can affect: the expectation is the same, with less noise. The baseline is a buffer, a
    value per target, and starts at that of a uniform guess. It is read before it is updated, so that no draw is
    compared with itself. Rows that used the expectation do not change the baseline, and have no draw to credit.
    `policy_weight` scales this gradient (lambda_r); `entropy_weight` rewards high entropy (lambda_e).
    """

    baseline: Tensor

    def __init__(
        self, vocabulary: int, *, policy_weight: float = 1.0, entropy_weight: float = 0.01, decay: float = 0.9
    ):
        super().__init__()
        self.policy_weight = policy_weight
        self.entropy_weight = entropy_weight
        self.decay = decay
        self.register_buffer("baseline", -torch.tensor(float(vocabulary)).log())

    def forward(self, draws: Draws, log_probs: Tensor, mask: Tensor | None = None) -> dict[str, Term]:
        """Loss terms whose gradients are those of the draws, from log p (batch, length) of each target; they count the
        targets."""
        real = real_positions(mask)
        real = torch.ones_like(log_probs, dtype=torch.bool) if real is None else real
        precise = torch.promote_types(log_probs.dtype, torch.float32)
        log_probs = torch.where(real, log_probs.detach().to(precise), 0.0)
        reward = torch.where(real, log_probs - self.baseline.to(log_probs.dtype), 0.0)
        advantage = reward.flip(1).cumsum(1).flip(1)  # (batch, length) R_t - b_t
        if self.training:
            self.move_baseline(log_probs, real if draws.sampled is None else real & draws.sampled)
        policy = -torch.where(real, advantage * draws.log_probs, 0.0).sum()
        entropy = -torch.where(real, draws.entropies, 0.0).sum()
        return {
            "policy": Term(policy, real.sum(), self.policy_weight),
            "entropy": Term(entropy, real.sum(), self.entropy_weight),
        }

    def move_baseline(self, log_probs: Tensor, drawn: Tensor) -> None:
        """Move the baseline towards the mean over the targets whose places were drawn; keep it if there are none."""
        count = drawn.sum()
        mean = torch.where(drawn, log_probs, 0.0).sum() / count.clamp(min=1)
        moved = self.baseline * self.decay + (1 - self.decay) * mean
        self.baseline.copy_(torch.where(count > 0, moved, self.baseline))


def find_draws(state: State) -> Draws | None:
    """The draws in a chunk's state, at any depth; None if there are none."""
    if isinstance(state, Draws):
        return state
    if not isinstance(state, (tuple, list)):
        return None
    return next((draws for part in state if (draws := find_draws(part)) is not None), None)
