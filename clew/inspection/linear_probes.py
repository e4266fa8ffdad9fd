"""Linear probes: how well labels can be predicted from frozen vectors (Alain and Bengio 2016). Knows no model and no
text.

    p(label) = softmax(W z + b),  z = (x - mean) / deviation
    W, b     = argmin  mean of -log p(label)  +  l2 / 2 * |W|^2

For vectors of several levels, z = sum_l softmax(s)_l z_l, and s is fitted with W and b, with the same penalty on |s|^2
(Peters et al. 2018).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.errors import UserError

STRENGTHS = (0.1, 0.01, 0.001, 0.0001, 0.00001, 0.000001)
"""Candidates for l2, the strongest first. The validation part decides; the search ends after two candidates in a row
without improvement."""
MAX_STEPS = 50
UNKNOWN_LABEL = -1
"""The id of a label that the training part does not have; no probe predicts it."""


@dataclass(frozen=True)
class Fitted:
    """Accuracy of a probe in percent on test and validation data, its `l2`, and the weights of levels if these were
    learnt."""

    accuracy: float
    valid_accuracy: float
    l2: float
    weights: tuple[float, ...] = ()


def fit_probe(features: Mapping[str, Tensor], labels: Mapping[str, Tensor], num_labels: int) -> Fitted:
    """Fit a probe on features (examples, dim), or (levels, examples, dim), by part: train, valid and test.
    Deterministic."""
    if num_labels < 2:
        raise UserError(
            "every training example has the same label, so there is nothing for a probe to learn; read more of them"
        )
    if not all(x.isfinite().all() for x in features.values()):
        raise UserError(
            "the vectors have non-finite numbers, as in a model whose training has diverged; use another run"
        )
    mean, deviation = features["train"].mean(-2, keepdim=True), features["train"].std(-2, keepdim=True, correction=0)
    scaled = {part: (x - mean) / deviation.clamp(min=1e-5) for part, x in features.items()}
    probe = Probe(scaled["train"], labels["train"], num_labels)
    best, worse = None, 0
    for l2 in STRENGTHS:  # each fit starts from the one before, except for the mix
        probe.fit(l2)
        accuracies = {part: accuracy(probe.logits(scaled[part]), labels[part]) for part in ("valid", "test")}
        if best is None or accuracies["valid"] > best.valid_accuracy:
            best, worse = (
                Fitted(accuracies["test"], accuracies["valid"], l2, tuple(probe.scalars.softmax(0).tolist())),
                0,
            )
        else:
            worse += 1
        if worse == 2:
            break
    assert best is not None
    return best


class Probe:
    """W, b and s. Before fitting, every example has the label frequencies as probabilities."""

    def __init__(self, x: Tensor, labels: Tensor, num_labels: int):
        self.x, self.labels = x, labels
        counts = 1 + labels.bincount(minlength=num_labels).to(x)
        self.weight, self.bias = x.new_zeros(x.shape[-1], num_labels), (counts / counts.sum()).log()
        self.scalars = x.new_zeros(len(x) if x.dim() == 3 else 0)
        middle = self.mixed(x)
        # On the CPU, since not every device supports eigh.
        eigen = torch.linalg.eigh((middle.mT @ middle / len(middle)).cpu())
        self.variances, self.axes = (part.to(x.device) for part in eigen)

    def mixed(self, x: Tensor) -> Tensor:
        return torch.einsum("l,lnd->nd", self.scalars.softmax(0), x) if x.dim() == 3 else x

    def logits(self, x: Tensor) -> Tensor:
        return self.mixed(x) @ self.weight + self.bias  # (examples, labels)

    def fit(self, l2: float) -> None:
        """Minimise the cost, to the end: a probe stopped early would measure how fast vectors can be learnt from.

        A mix starts uniform, with the W and b that are best for that: fitted together from the start, one level would
        take all weight before W has learnt to use the others.
        """
        self.scalars = torch.zeros_like(self.scalars)
        self.search(l2, mixes=False)
        if len(self.scalars):
            self.search(l2, mixes=True)

    def search(self, l2: float, *, mixes: bool) -> None:
        """Run L-BFGS on all examples at once.

        The variables are V and c, with W = W_before + U (A * V) and b = b_before + a * c, in which the curvature of the
        cost is about equal in all directions: U has the principal axes of the vectors, and a column of A the inverse
        roots of one label's curvature along them. Optimising W and b directly would need many times as many steps,
        above all for rare labels.
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
            value = F.cross_entropy(self.logits(self.x), self.labels) + l2 / 2 * squares
            value.backward()
            return value

        with torch.enable_grad():
            optimiser.step(cost)
            # The line search stops when two costs round to the same number. Gradients still distinguish them, so the
            # remaining steps use only gradients, with full step size.
            left = MAX_STEPS - optimiser.state[weight_change]["n_iter"]
            optimiser.param_groups[0].update(line_search_fn=None, tolerance_change=0, max_iter=left)
            optimiser.step(cost)
        with torch.no_grad():
            move()
        self.scalars = scalars.detach()


def accuracy(logits: Tensor, labels: Tensor) -> float:
    return 100 * float((logits.argmax(-1) == labels).double().mean())
