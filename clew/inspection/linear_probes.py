"""A linear probe: how well labels can be told from vectors that stay as they are (Alain and Bengio 2016). Knows no model and no text.

    p(label) = softmax(W z + b),  z = (x - mean) / deviation
    W, b     = argmin  mean of -log p(label)  +  l2 / 2 * |W|^2

Where the vectors are of several levels, z = sum_l softmax(s)_l z_l, and s is found along with W and b, its square counted as that of W
(Peters et al. 2018).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.errors import UserError

STRENGTHS = (0.1, 0.01, 0.001, 0.0001, 0.00001, 0.000001)
"""What l2 may be, the strongest first; the validation part decides, and the search ends when it has twice said no."""
MAX_STEPS = 50
UNKNOWN_LABEL = -1
"""The label of an example whose label the training part has not: no probe tells it."""


@dataclass(frozen=True)
class Fitted:
    """How many of a hundred labels a probe tells, on test and validation data, its `l2`, and what each level weighs where that was
    learnt."""

    accuracy: float
    valid_accuracy: float
    l2: float
    weights: tuple[float, ...] = ()


def fit_probe(features: Mapping[str, Tensor], labels: Mapping[str, Tensor], num_labels: int) -> Fitted:
    """Of features (examples, dim), or (levels, examples, dim), by part: train, valid and test. Nothing in it is random."""
    if num_labels < 2:
        raise UserError("every training example has the same label, so there is nothing for a probe to tell; read more of them")
    if not all(x.isfinite().all() for x in features.values()):
        raise UserError("the vectors have numbers that are not finite, as of a model whose training has failed; take another run")
    mean, deviation = features["train"].mean(-2, keepdim=True), features["train"].std(-2, keepdim=True, correction=0)
    scaled = {part: (x - mean) / deviation.clamp(min=1e-5) for part, x in features.items()}
    probe = Probe(scaled["train"], labels["train"], num_labels)
    best, worse = None, 0
    for l2 in STRENGTHS:  # each fit begins where the one before ended, but for the mix
        probe.fit(l2)
        right = {part: accuracy(probe.logits(scaled[part]), labels[part]) for part in ("valid", "test")}
        if best is None or right["valid"] > best.valid_accuracy:
            best, worse = Fitted(right["test"], right["valid"], l2, tuple(probe.scalars.softmax(0).tolist())), 0
        else:
            worse += 1
        if worse == 2:
            break
    assert best is not None
    return best


class Probe:
    """W, b and s: before it is fitted, all examples have the labels' frequencies as probabilities."""

    def __init__(self, x: Tensor, labels: Tensor, num_labels: int):
        self.x, self.labels = x, labels
        counts = 1 + labels.bincount(minlength=num_labels).to(x)
        self.weight, self.bias = x.new_zeros(x.shape[-1], num_labels), (counts / counts.sum()).log()
        self.scalars = x.new_zeros(len(x) if x.dim() == 3 else 0)
        middle = self.mixed(x)
        found = torch.linalg.eigh((middle.mT @ middle / len(middle)).cpu())  # which is not on every device
        self.variances, self.axes = (part.to(x.device) for part in found)

    def mixed(self, x: Tensor) -> Tensor:
        return torch.einsum("l,lnd->nd", self.scalars.softmax(0), x) if x.dim() == 3 else x

    def logits(self, x: Tensor) -> Tensor:
        return self.mixed(x) @ self.weight + self.bias  # (examples, labels)

    def fit(self, l2: float) -> None:
        """Goes on to where the cost is least. A mix begins even, with the W and b that are best for that: begun together, one level would
        take all before W knows what the others are good for."""
        self.scalars = torch.zeros_like(self.scalars)
        self.search(l2, mixes=False)
        if len(self.scalars):
            self.search(l2, mixes=True)

    def search(self, l2: float, *, mixes: bool) -> None:
        """L-BFGS over all examples at once.

        What is searched for are V and c, W = W_before + U (A * V) and b = b_before + a * c, in which the cost curves about alike in all
        directions: U has the principal axes of the vectors, and a column of A the roots of one label's curvature along them, inverted.
        Along W and b themselves many times as many steps would be needed, above all for labels that are rare.
        """
        probabilities = self.logits(self.x).softmax(-1)
        curvature = (probabilities * (1 - probabilities)).mean(0).clamp(min=1e-6)  # of each label's bias
        weight_scale = (self.variances.clamp(min=0)[:, None] * curvature + l2).rsqrt()  # (dim, labels)
        weight_before, bias_before, bias_scale = self.weight, self.bias, curvature.rsqrt()
        weight_change = torch.zeros_like(self.weight, requires_grad=True)
        bias_change = torch.zeros_like(self.bias, requires_grad=True)
        self.scalars = scalars = self.scalars.clone().requires_grad_(mixes)
        optimiser = torch.optim.LBFGS(
            [weight_change, bias_change, *([scalars] if mixes else [])],
            max_iter=MAX_STEPS,
            tolerance_grad=1e-5,
            tolerance_change=1e-9,
            line_search_fn="strong_wolfe",
        )

        def move() -> None:
            self.weight = weight_before + self.axes @ (weight_scale * weight_change)
            self.bias = bias_before + bias_scale * bias_change

        def cost() -> Tensor:
            optimiser.zero_grad()
            move()
            squares = (self.weight**2).sum() + (scalars**2).sum()
            found = F.cross_entropy(self.logits(self.x), self.labels) + l2 / 2 * squares
            found.backward()
            return found

        with torch.enable_grad():
            optimiser.step(cost)
            # The line search ends where two costs round to the same number. Slopes still tell them apart there, so that what is left of
            # the way is gone by slopes alone, in whole steps.
            left = MAX_STEPS - optimiser.state[weight_change]["n_iter"]
            optimiser.param_groups[0].update(line_search_fn=None, tolerance_change=0, max_iter=left)
            optimiser.step(cost)
        with torch.no_grad():
            move()
        self.scalars = scalars.detach()


def accuracy(logits: Tensor, labels: Tensor) -> float:
    return 100 * float((logits.argmax(-1) == labels).double().mean())
