"""The experiment `depth`: 2 to 32 layers y = tanh(W x + b) with four wirings. Measures the loss, the gradient
at the bottom, and the conditioning of the stack.

    plain      f(x)
    residual   x + f(x)             He et al. 2016
    highway    t f(x) + (1 - t) x   Srivastava et al. 2015
    dense      [x; f(x)]            Huang et al. 2017, with the growth that gives about as many parameters as the others

The layers read a window of characters and predict the next one. Conditioning is the ratio of the largest to the
smallest singular value of the Jacobian of all layers.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.drawing.views import Lines, Note, Part, Series, Table, View
from clew.layers.embeddings import TokenEmbedding
from clew.layers.feedforward import Readout
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.wiring import WIRINGS
from clew.models.body import Body
from clew.models.window import TanhWindow
from clew.tour.characters import Characters, bits_of, characters_of_shakespeare, predictor
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.training import parameters_of, train_task

SEEN = 8
"""The number of characters in the window."""
GATE = -3.0
"""The initial bias of a highway's gates."""
PASSING = 1 / (1 + math.exp(GATE))
"""The share of x that initially passes through a highway layer, 1 - sigmoid(GATE)."""
SHOWN = ("plain", "residual", "highway", "dense")


class Size(NamedTuple):
    depths: tuple[int, ...]
    dim: int
    steps: int
    rows: int
    length: int = 32


SIZES: dict[Scale, Size] = {
    "quick": Size((2, 8), 16, 4, 4),
    "tour": Size((2, 8, 32), 48, 200, 32),
    "full": Size((2, 4, 8, 16, 32), 64, 600, 32),
}


class Outcome(NamedTuple):
    """The results of one stack: its layers' parameters; bits per character of unseen text; and, before training, the
    first layer's gradient over the last one's, and the condition number of the Jacobian."""

    parameters: int
    bits: float
    gradient: float
    condition: float


def build_deep(wiring: str, depth: int, dim: int, vocabulary: int) -> Body:
    layers: list[SequenceLayer] = [TanhWindow(dim, dim, width=SEEN)]
    growth = dense_growth(depth, dim) if wiring == "dense" else dim
    options = {"bias": GATE} if wiring == "highway" else {}
    for _ in range(depth):
        width = layers[-1].dim
        layers.append(WIRINGS[wiring](width, Readout(width, growth), **options))
    return Body(TokenEmbedding(vocabulary, dim), Stack(layers))


def dense_growth(depth: int, dim: int) -> int:
    """Return the growth of dense layers with about as many weights in total as `depth` square layers:
    sum_k (dim + k g) g = depth dim^2."""
    a, b, c = depth * (depth - 1) / 2, depth * dim, -depth * dim**2
    return max(1, round((-b + math.sqrt(b * b - 4 * a * c)) / (2 * a))) if a else dim


def deep_layers(body: Body) -> list[Any]:
    """Return the layers above the window."""
    stack: Any = body.layers
    return list(stack.layers[1:])


def gradient_ratio(task: Any, batch: Any) -> float:
    """Return the norm of the loss's gradient for the first layer's weights over that for the last one's."""
    terms, _ = task(batch)
    layers = deep_layers(task.body)
    term = terms["loss"]
    first, last = torch.autograd.grad(term.sum / term.count, [layers[place].layer.linear.weight for place in (0, -1)])
    return float(first.norm() / last.norm())


def jacobian(layers: Sequence[SequenceLayer], x: Tensor) -> Tensor:
    """Return d y / d x (out, in) at a vector x (in,), for layers that read one position. Each feature of y gets its own
    row of the batch, and so its own gradient."""
    stack = Stack(layers)
    rows = x.detach().repeat(stack.dim, 1)[:, None].requires_grad_()  # (out, 1, in)
    y, _ = stack(rows)
    return torch.autograd.grad(y[:, 0].diagonal().sum(), rows)[0][:, 0]


def condition_of(body: Body, tokens: Tensor) -> float:
    """Return the median condition number over the rows' last characters, in float64."""
    exact = deepcopy(body).double()
    with torch.no_grad():
        inputs: Any = exact.layers
        x = inputs.layers[0](exact.embedding.weight[tokens])[0][:, -1]
    values = [torch.linalg.svdvals(jacobian(deep_layers(exact), vector)) for vector in x]
    return float(torch.stack([each[0] / each[-1].clamp_min(1e-300) for each in values]).median())


def try_depth(characters: Characters, wiring: str, depth: int, size: Size, seed: int, report: Report) -> Outcome:
    torch.manual_seed(seed)
    body = build_deep(wiring, depth, size.dim, characters.tokenizer.vocabulary)
    task = predictor(body, characters)

    def batch(number: int) -> Any:
        return characters.batch(number, rows=size.rows, length=size.length, seed=seed)

    gradient, condition = gradient_ratio(task, batch(0)), condition_of(body, batch(0).tokens[:4])
    train_task(task, batch, steps=size.steps, seed=seed, name=f"{wiring}, {depth} layers", report=report)
    bits = float(bits_of(task, characters.held_out(rows=8 * size.rows, length=size.length))[:, SEEN:].mean())
    report(f"{depth} layers, {wiring}: {bits:.3f} bits per character")
    return Outcome(sum(parameters_of(layer) for layer in deep_layers(body)), bits, gradient, condition)


def run(scale: Scale, seed: int, report: Report) -> Finding:
    size, characters = SIZES[scale], characters_of_shakespeare()
    outcomes_by_wiring = {
        wiring: [try_depth(characters, wiring, each, size, seed, report) for each in size.depths] for wiring in SHOWN
    }
    shallow, deep = size.depths[0], size.depths[-1]
    bits = {wiring: (outcomes[0].bits, outcomes[-1].bits) for wiring, outcomes in outcomes_by_wiring.items()}
    bits_text = ", ".join(f"{wiring} {first:.2f} and {last:.2f}" for wiring, (first, last) in bits.items())
    gradients = ", ".join(f"{wiring} {outcomes[-1].gradient:.1e}" for wiring, outcomes in outcomes_by_wiring.items())
    guessing = entropy(characters)
    return Finding(
        "Depth and shortcuts",
        "Deep plain networks train worse than shallow ones. With a shortcut around every layer, depth does no harm:"
        " residual (He et al. 2016), highway (Srivastava et al. 2015) and dense (Huang et al. 2017) connections.",
        f"Bits per character with {shallow} and with {deep} layers: {bits_text}; guessing by character frequencies"
        f" needs {guessing:.2f}. Before training, the bottom of {deep} layers gets this multiple of the top layer's"
        f" gradient: {gradients}.",
        View(
            "2 to 32 layers" if deep == 32 else f"{shallow} to {deep} layers",
            parts_of(outcomes_by_wiring, size, guessing),
        ),
        [
            *(
                (
                    f"bits per character, {shallow} and {deep} layers, {wiring}",
                    claimed,
                    f"{bits[wiring][0]:.2f} and {bits[wiring][1]:.2f}",
                )
                for wiring, claimed in zip(SHOWN, ("worse deep", *["no worse deep"] * 3), strict=True)
            ),
            (
                f"gradient at the bottom over the top, {deep} layers, plain and residual",
                "vanishes; does not",
                f"{outcomes_by_wiring['plain'][-1].gradient:.1e} and {outcomes_by_wiring['residual'][-1].gradient:.1e}",
            ),
        ],
    )


def entropy(characters: Characters) -> float:
    """Return the bits per character of the unseen text under the character frequencies of the training text."""
    counts = torch.bincount(characters.train, minlength=characters.tokenizer.vocabulary).double() + 1
    return float(-(counts / counts.sum()).log2()[characters.unseen].mean())


def parts_of(outcomes_by_wiring: dict[str, list[Outcome]], size: Size, guessing: float) -> list[Part]:
    def drawn(values: str) -> list[Series]:
        return [
            Series(wiring, size.depths, [getattr(outcome, values) for outcome in outcomes])
            for wiring, outcomes in outcomes_by_wiring.items()
        ]

    rows = [
        (wiring, each, f"{one.parameters:,}", round(one.bits, 3), f"{one.gradient:.1e}", f"{one.condition:.1e}")
        for wiring, outcomes in outcomes_by_wiring.items()
        for each, one in zip(size.depths, outcomes, strict=True)
    ]
    header = ("wiring", "layers", "parameters of the layers", "bits", "gradient, bottom over top", "condition")
    shared: Any = {"log_x": True, "log_y": True}
    return [
        Lines(
            drawn("bits"),
            "layers",
            "bits",
            "Bits per character, unseen text",
            log_x=True,
            thresholds=[("character frequencies", guessing)],
        ),
        Lines(
            drawn("gradient"),
            "layers",
            "ratio",
            "Gradient of the bottom layer over the top one's, before training",
            **shared,
        ),
        Lines(
            drawn("condition"),
            "layers",
            "ratio",
            "Largest over smallest singular value of the Jacobian, before training",
            **shared,
        ),
        Table(header, rows, f"{size.steps} steps"),
        Note(
            f"A highway's gate begins at sigmoid({GATE:g}): {PASSING:.2f} of x passes each layer,"
            f" {PASSING ** size.depths[-1]:.2g} of it all {size.depths[-1]}. Srivastava et al. recommend -1, -3 and so"
            " on, lower for deeper networks."
        ),
    ]


DEPTH = Experiment("2 to 32 layers, plain, residual, dense and highway", run)
