"""The experiment `positions`: pictures of the encodings, and p_i . p_j against i - j.

For sinusoids p_i . p_j = sum_k cos((i - j) w_k): it depends only on i - j, and not on its sign. The learnt vectors
are those of a small GPT.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clew.drawing.views import Heatmap, Lines, Note, Part, Series, View
from clew.layers.positions import ALiBi, Rotary, sinusoids
from clew.tour.characters import characters_of_shakespeare
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.length import SIZES, Size, build_model
from clew.tour.training import train_task

DIM = 64
SHOWN = 64
"""The number of positions in the pictures."""
HEADS = 4
FAR = 16


class Relations(NamedTuple):
    """How position vectors p are related: how far p_i . p_j is from a function of i - j (the standard deviation within
    one distance over that of all products), and the relative residual of predicting p_{i + 1} by a linear map of
    p_i."""

    within: float
    unmapped: float


def by_distance(products: Tensor) -> list[tuple[float, float]]:
    """Return the mean and the standard deviation of products (n, n) for every distance i - j >= 0."""
    diagonals = [products.diagonal(distance) for distance in range(len(products))]
    return [(float(each.mean()), float(each.std(correction=0))) for each in diagonals]


def cosines(vectors: Tensor) -> Tensor:
    unit = vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    return unit @ unit.mT


def relations_of(vectors: Tensor) -> Relations:
    exact = vectors.double()
    products = exact @ exact.mT
    within = [spread for _, spread in by_distance(products)]
    mapped = torch.linalg.lstsq(exact[:-1], exact[1:], driver="gelsd").solution
    residual = (exact[:-1] @ mapped - exact[1:]).norm() / exact[1:].norm()
    return Relations(float(np.mean(within)) / float(products.std()), float(residual))


def rotary_products(length: int) -> Tensor:
    """Return q_i . k_j / d for one vector, rotated to every position."""
    turned = Rotary(DIM, 1, DIM).rotate(torch.ones(1, 1, length, DIM), torch.arange(length)[None])[0, 0]
    return turned @ turned.mT / DIM


def alibi_biases(length: int) -> Tensor:
    """Return the bias (heads, distance) that each head adds to the score of a key at this distance."""
    indices = torch.arange(length)[None]
    return ALiBi(DIM, HEADS, DIM // HEADS).scores(torch.zeros(1, HEADS, length, 1), indices, indices)[0, :, -1].flip(-1)


def learnt_vectors(size: Size, seed: int, report: Report) -> tuple[Tensor, Tensor]:
    """Return the position vectors before and after training, only those of trained positions."""
    characters = characters_of_shakespeare()
    task = build_model("learned", size, characters, seed)
    table = task.body.embedding.position.weight
    before = table[: size.length].detach().clone()
    train_task(
        task,
        lambda number: characters.batch(number, rows=size.rows, length=size.length, seed=seed),
        steps=size.steps,
        seed=seed,
        name="learnt positions",
        report=report,
    )
    return before, table[: size.length].detach().clone()


def run(scale: Scale, seed: int, report: Report) -> Finding:
    size = SIZES[scale]
    waves = sinusoids(torch.arange(SHOWN), DIM)
    before, after = learnt_vectors(size, seed, report)
    fixed, learnt = relations_of(waves), relations_of(after)
    near_before, near_after = (float(cosines(vectors).diagonal(1).mean()) for vectors in (before, after))
    far = min(FAR, size.length - 1)
    far_after = float(cosines(after).diagonal(far).mean())
    return Finding(
        "What position encodings look like",
        "For any fixed distance, the sinusoids of one position are a linear function of those of the other, so a model"
        " can learn to attend by relative position (Vaswani et al. 2017). Learnt vectors become similar for"
        " neighbours (Wang and Chen 2020).",
        f"For sinusoids, p_i . p_j depends only on i - j (its variation within one distance is {fixed.within:.0e} of"
        " the total variation) and is the same for j before and after i; the best linear map from p_i to p_(i+1) leaves"
        f" a residual of {fixed.unmapped:.0e}. For the vectors that a small GPT learns on windows of {size.length}, the"
        f" variation within one distance is {learnt.within:.2f} of the total; the cosine of neighbours is"
        f" {near_after:.2f} ({near_before:.2f} untrained), of positions {far} apart {far_after:.2f}.",
        View(
            "Position encodings",
            parts_of(waves, before, after),
            facts={"sinusoidal": fixed._asdict(), "learned": learnt._asdict()},
        ),
        [
            ("sinusoids: residual of a linear map from p_i to p_(i+1)", "0", f"{fixed.unmapped:.0e}"),
            ("sinusoids: variation of p_i . p_j within one distance, over the total", "0", f"{fixed.within:.0e}"),
            (
                f"learnt: cosine of neighbours, and {far} apart",
                "high, then lower",
                f"{near_after:.2f} and {far_after:.2f}",
            ),
        ],
    )


def parts_of(waves: Tensor, before: Tensor, after: Tensor) -> list[Part]:
    names = [str(place) for place in range(SHOWN)]
    learnt_names = [str(place) for place in range(len(after))]
    scaled = waves @ waves.mT / (DIM / 2)
    lines = []
    for name, products in (("sinusoidal", scaled), ("rotary", rotary_products(SHOWN)), ("learned", cosines(after))):
        means, spreads = zip(*by_distance(products), strict=True)
        lines.append(Series(name, list(range(len(means))), means, spreads if max(spreads) > 1e-3 else None))
    untrained = [mean for mean, _ in by_distance(cosines(before))]
    lines.append(Series("learned, untrained", list(range(len(untrained))), untrained, dashed=True))
    biases = [
        Series(f"head {head + 1}", list(range(SHOWN)), bias.tolist()) for head, bias in enumerate(alibi_biases(SHOWN))
    ]
    longest = 2 * math.pi * 10000 ** (1 - 2 / DIM)
    return [
        Heatmap(
            waves.numpy(),
            names,
            [str(k) for k in range(DIM)],
            "Sinusoidal",
            "position",
            "feature",
            -1.0,
            1.0,
            diverging=True,
            label="value",
        ),
        Heatmap(
            scaled.numpy(), names, names, "Sinusoidal: p_i . p_j", "i", "j", -1.0, 1.0, diverging=True, label="product"
        ),
        Heatmap(
            cosines(after).numpy(),
            learnt_names,
            learnt_names,
            "Learned: cosine of p_i and p_j",
            "i",
            "j",
            -1.0,
            1.0,
            diverging=True,
            label="cosine",
        ),
        Lines(lines, "i - j", "product of vectors of length 1", "p_i . p_j against i - j"),
        Lines(biases, "i - j", "added to the score", f"ALiBi, {HEADS} heads"),
        Note(
            f"Wavelengths are {2 * math.pi:.1f} to {longest:,.0f} positions. Rotary encodings are not added to the"
            " embeddings: q and k (here one vector) are rotated with the frequencies of the sinusoids, so both curves"
            " coincide."
        ),
    ]


POSITIONS = Experiment("pictures of position encodings, and p_i . p_j against i - j", run)
