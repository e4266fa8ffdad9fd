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

STRENGTHS = (0.1, 0.01, 0.001, 0.0001)
"""What l2 may be; the validation part decides, and of equals the strongest is taken."""
MAX_STEPS = 40
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
        raise UserError("every training example has the same label, so there is nothing for a probe to tell")
    mean, deviation = features["train"].mean(-2, keepdim=True), features["train"].std(-2, keepdim=True, correction=0)
    scaled = {part: (x - mean) / deviation.clamp(min=1e-5) for part, x in features.items()}
    train, several = scaled["train"], scaled["train"].dim() == 3
    weight, bias = train.new_zeros(train.shape[-1], num_labels), train.new_zeros(num_labels)
    scalars = train.new_zeros(len(train) if several else 0)
    unknowns = [weight, bias, scalars] if several else [weight, bias]
    best: Fitted | None = None
    for l2 in STRENGTHS:  # from the strongest on: each fit begins where the one before ended
        find_least(unknowns, train, labels["train"], l2)
        right = {part: accuracy(logits_of(unknowns, scaled[part]), labels[part]) for part in ("valid", "test")}
        if best is None or right["valid"] > best.valid_accuracy:
            best = Fitted(right["test"], right["valid"], l2, tuple(scalars.softmax(0).tolist()))
    assert best is not None
    return best


def logits_of(unknowns: list[Tensor], x: Tensor) -> Tensor:
    weight, bias, *scalars = unknowns
    if scalars:
        x = torch.einsum("l,lnd->nd", scalars[0].softmax(0), x)
    return x @ weight + bias  # (examples, labels)


def find_least(unknowns: list[Tensor], x: Tensor, labels: Tensor, l2: float) -> None:
    """Moves W, b and s to where the cost is least, by L-BFGS over all examples at once."""
    for unknown in unknowns:
        unknown.requires_grad_(True)
    optimiser = torch.optim.LBFGS(
        unknowns, max_iter=MAX_STEPS, history_size=10, tolerance_grad=1e-5, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def cost() -> Tensor:
        optimiser.zero_grad()
        weight, _, *scalars = unknowns
        found = F.cross_entropy(logits_of(unknowns, x), labels) + l2 / 2 * sum((part**2).sum() for part in (weight, *scalars))
        found.backward()
        return found

    with torch.enable_grad():
        optimiser.step(cost)  # type: ignore[arg-type]
    for unknown in unknowns:
        unknown.requires_grad_(False)


def accuracy(logits: Tensor, labels: Tensor) -> float:
    return 100 * float((logits.argmax(-1) == labels).double().mean())
