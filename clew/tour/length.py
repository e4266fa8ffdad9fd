"""The experiment `length`: test models with each position encoding on windows up to eight times as long as in
training."""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.drawing.views import Lines, Note, Part, Series, Table, View
from clew.layers.positions import POSITIONS
from clew.models.gpt import GPTConfig, build_gpt
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.tour.characters import Characters, bits_of, characters_of_shakespeare, predictor
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.training import train_task

TIMES = (1, 2, 4, 8)
SLACK = 0.1
"""Later positions count as no worse if they need at most this many bits more."""


class Size(NamedTuple):
    length: int
    dim: int
    num_layers: int
    num_heads: int
    steps: int
    rows: int
    read: int
    """The number of test windows of unseen text."""


SIZES: dict[Scale, Size] = {
    "quick": Size(8, 16, 1, 2, 4, 4, 16),
    "tour": Size(32, 48, 2, 4, 400, 32, 128),
    "full": Size(32, 64, 2, 4, 1200, 48, 256),
}


def build_model(position: str, size: Size, characters: Characters, seed: int) -> LanguageModel:
    """Build a GPT. Learnt positions have vectors for the longest window; training uses only the first of them."""
    torch.manual_seed(seed)
    config = GPTConfig(
        dim=size.dim,
        num_layers=size.num_layers,
        num_heads=size.num_heads,
        position=position,
        max_length=TIMES[-1] * size.length,
    )
    return predictor(build_gpt(config, Tokens(characters.tokenizer.vocabulary)), characters)


def train_short(position: str, size: Size, characters: Characters, seed: int, report: Report) -> LanguageModel:
    task = build_model(position, size, characters, seed)
    batch = lambda number: characters.batch(number, rows=size.rows, length=size.length, seed=seed)  # noqa: E731
    train_task(task, batch, steps=size.steps, seed=seed, name=f"positions {position}", report=report)
    return task


def by_length(bits: Tensor, length: int) -> list[float]:
    """Return the mean bits in the second half of the trained length, and between each multiple of it and the next."""
    ends = [times * length for times in TIMES]
    return [float(bits[:, start:end].mean()) for start, end in zip([length // 2, *ends], ends, strict=False)]


def run(scale: Scale, seed: int, report: Report) -> Finding:
    size, characters = SIZES[scale], characters_of_shakespeare()
    longest = TIMES[-1] * size.length
    unseen = characters.held_out(rows=size.read, length=longest)
    bits_by_position, curves = dict[str, list[float]](), dict[str, Tensor]()
    for position in POSITIONS:
        bits = bits_of(train_short(position, size, characters, seed, report), unseen)
        bits_by_position[position], curves[position] = by_length(bits, size.length), bits.mean(0)
        report(f"{position}: {', '.join(f'{value:.2f}' for value in bits_by_position[position])} bits")
    stable = [name for name, values in bits_by_position.items() if values[-1] <= values[0] + SLACK]
    worse = [
        f"{name} ({values[0]:.2f} to {values[-1]:.2f})"
        for name, values in bits_by_position.items()
        if name not in stable
    ]
    best = min(bits_by_position, key=lambda name: bits_by_position[name][-1])
    return Finding(
        "Longer than trained",
        "Sinusoids may let a model read longer texts than it was trained on (Vaswani et al. 2017). In fact neither they"
        " nor rotary positions do, but biases that grow with the distance do (Press et al. 2022).",
        f"After training on {size.length} characters, at {TIMES[-1] // 2} to {TIMES[-1]} times that length: "
        f"{'no worse than within ' + str(size.length) + ': ' + ', '.join(stable) if stable else 'all are worse'}; "
        f"{'worse, in bits: ' + ', '.join(worse) if worse else 'none is worse'}. "
        f"The best is {best}, with {bits_by_position[best][-1]:.2f} bits.",
        View(
            "Bits per character beyond the trained length",
            parts_of(bits_by_position, curves, size),
            f"Trained on windows of {size.length} characters.",
        ),
        [
            (
                (
                    f"bits per character at positions {size.length // 2} to {size.length}, and {longest // 2} to"
                    f" {longest}: {name}"
                ),
                CLAIMS[name],
                f"{values[0]:.2f} and {values[-1]:.2f}",
            )
            for name, values in bits_by_position.items()
        ],
    )


CLAIMS = {
    "none": "(not claimed)",
    "sinusoidal": "worse",
    "learned": "not possible",
    "rotary": "worse",
    "alibi": "no worse",
    "relative": "no worse, by its clipped distances",
}


def smoothed(curve: Tensor, width: int) -> tuple[list[float], list[float]]:
    """Return the centres of groups of `width` positions, and the mean of each group."""
    pieces = curve[: len(curve) // width * width].view(-1, width)
    return [width * (piece + 0.5) for piece in range(len(pieces))], pieces.mean(1).tolist()


def parts_of(bits_by_position: dict[str, list[float]], curves: dict[str, Tensor], size: Size) -> list[Part]:
    width = max(size.length // 4, 1)
    series = [Series(name, *smoothed(curve, width)) for name, curve in curves.items()]
    header = (
        "positions",
        f"{size.length // 2} to {size.length}",
        *(f"to {times * size.length}" for times in TIMES[1:]),
    )
    return [
        Lines(
            series,
            "position in the window",
            "bits",
            f"Trained on {size.length} positions, tested on {TIMES[-1] * size.length}",
            log_x=True,
        ),
        Table(
            header,
            [(name, *(round(value, 3) for value in values)) for name, values in bits_by_position.items()],
            "Bits per character by position",
        ),
        Note(
            "Learnt positions beyond the trained length are never trained: their vectors keep their random initial"
            " values."
        ),
    ]


LENGTH = Experiment("texts longer than in training, by position encoding", run)
