"""The experiment `positions`: pictures of the encodings, and p_i . p_j against i - j.

For sinusoids p_i . p_j = sum_k cos((i - j) w_k): it depends on i - j alone, and not on its sign. Learnt vectors are a small GPT's."""

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
"""Positions in the pictures."""
HEADS = 4
FAR = 16


class Kinship(NamedTuple):
    """Of vectors p: how far p_i . p_j is from a function of i - j alone, as the standard deviation within a distance over that of all; and
    how much of p_{i + 1} a linear map of p_i leaves."""

    within: float
    unmapped: float


def by_distance(products: Tensor) -> list[tuple[float, float]]:
    """The mean and standard deviation of products (n, n) for every distance i - j from 0 on."""
    found = [products.diagonal(distance) for distance in range(len(products))]
    return [(float(each.mean()), float(each.std(correction=0))) for each in found]


def cosines(vectors: Tensor) -> Tensor:
    unit = vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    return unit @ unit.mT


def kinship_of(vectors: Tensor) -> Kinship:
    exact = vectors.double()
    products = exact @ exact.mT
    within = [spread for _, spread in by_distance(products)]
    mapped = torch.linalg.lstsq(exact[:-1], exact[1:], driver="gelsd").solution
    left = (exact[:-1] @ mapped - exact[1:]).norm() / exact[1:].norm()
    return Kinship(float(np.mean(within)) / float(products.std()), float(left))


def rotary_products(length: int) -> Tensor:
    """q_i . k_j / d of one vector, turned to every position."""
    turned = Rotary(DIM, 1, DIM).rotate(torch.ones(1, 1, length, DIM), torch.arange(length)[None])[0, 0]
    return turned @ turned.mT / DIM


def alibi_biases(length: int) -> Tensor:
    """(heads, distance): what each head adds to the score of a key so far behind."""
    there = torch.arange(length)[None]
    return ALiBi(DIM, HEADS, DIM // HEADS).scores(torch.zeros(1, HEADS, length, 1), there, there)[0, :, -1].flip(-1)


def learnt_vectors(size: Size, seed: int, report: Report) -> tuple[Tensor, Tensor]:
    """Before and after training; the vectors that training reaches alone."""
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
    fixed, learnt = kinship_of(waves), kinship_of(after)
    near_before, near_after = (float(cosines(vectors).diagonal(1).mean()) for vectors in (before, after))
    far = min(FAR, size.length - 1)
    far_after = float(cosines(after).diagonal(far).mean())
    return Finding(
        "What positions look like",
        "For any fixed distance, the sinusoids of one position are a linear function of those of the other, so that a model can learn to "
        "look by relative position (Vaswani et al. 2017). Learnt vectors come to be alike for neighbours (Wang and Chen 2020).",
        f"For sinusoids p_i . p_j depends on i - j alone (within one distance it varies by {fixed.within:.0e} of what it varies in all), "
        f"is the same for j before and after i, and a linear map of p_i leaves {fixed.unmapped:.0e} of p_(i+1). Learnt by a small GPT on "
        f"windows of {size.length}, within one distance {learnt.within:.2f}; the cosine of neighbours is {near_after:.2f} "
        f"({near_before:.2f} untrained), {far} apart {far_after:.2f}.",
        View("Position encodings", parts_of(waves, before, after), facts={"sinusoidal": fixed._asdict(), "learned": learnt._asdict()}),
        [
            ("sinusoids: what a linear map of p_i leaves of p_(i+1)", "0", f"{fixed.unmapped:.0e}"),
            ("sinusoids: variation of p_i . p_j within one distance, over that of all", "0", f"{fixed.within:.0e}"),
            (f"learnt: cosine of neighbours, and {far} apart", "high, then lower", f"{near_after:.2f} and {far_after:.2f}"),
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
    biases = [Series(f"head {head + 1}", list(range(SHOWN)), bias.tolist()) for head, bias in enumerate(alibi_biases(SHOWN))]
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
        Heatmap(scaled.numpy(), names, names, "Sinusoidal: p_i . p_j", "i", "j", -1.0, 1.0, diverging=True, label="product"),
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
            f"Waves are from {2 * math.pi:.1f} to {longest:,.0f} positions long. Rotary positions are not added: q and k are turned, here "
            "one vector, by the frequencies of the sinusoids: their two curves are one."
        ),
    ]


POSITIONS = Experiment("pictures of position encodings, and p_i . p_j against i - j", run)
