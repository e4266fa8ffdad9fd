"""The experiment `barriers`: ablate the Transformer block one part at a time, to show which problem of self-attention
each part solves; and compare two sentences that are identical to a model without positions."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.types import State
from clew.drawing.views import Bars, Note, Part, Table, View
from clew.layers.attention import SelfAttention
from clew.layers.embeddings import TokenEmbedding
from clew.layers.feedforward import FeedForward
from clew.layers.norms import LayerNorm
from clew.layers.positions import POSITIONS
from clew.layers.scores import SCORES
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.wiring import Plain, PreNorm, Residual
from clew.models.body import Body
from clew.models.gpt import build_positions
from clew.models.transformer import init_xavier
from clew.tour.characters import Characters, bits_of, characters_of_shakespeare, predictor
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.training import parameters_of, train_task


class Block(NamedTuple):
    """The parts of a Transformer block."""

    position: str = "sinusoidal"
    network: bool = True
    mask: bool = True
    residual: bool = True
    norm: bool = True
    score: str = "scaled"
    num_heads: int = 4


class Ablation(NamedTuple):
    block: Block
    claim: str


class Size(NamedTuple):
    dim: int
    num_layers: int
    length: int
    steps: int
    rows: int
    seeds: int
    read: int


SIZES: dict[Scale, Size] = {
    "quick": Size(16, 1, 16, 5, 4, 1, 16),
    "tour": Size(48, 2, 64, 400, 16, 1, 256),
    "full": Size(64, 2, 64, 1000, 24, 2, 512),
}
WHOLE = "the whole block"
LEFT_OUT: dict[str, Ablation] = {
    WHOLE: Ablation(Block(), ""),
    "no positions": Ablation(Block(position="none"), "no order: a bag of words"),
    "no network": Ablation(Block(network=False), "no non-linearity except the softmax: averages of averages"),
    "no mask": Ablation(Block(mask=False), "sees what it must predict"),
    "no residual": Ablation(Block(residual=False), "hard to train"),
    "no norm": Ablation(Block(norm=False), "trains worse"),
    "no scaling": Ablation(Block(score="dot"), "the softmax saturates"),
    "one head": Ablation(Block(num_heads=1), "attends in one way at a time"),
}
"""The ablations. `claim` is the problem that each is said to cause."""


class Normed(PreNorm):
    """y = dropout(f(norm(x))): the norm without the residual."""

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(self.norm(x), mask, state)
        return self.dropped(y), state


WIRED: dict[tuple[bool, bool], type[Plain]] = {
    (True, True): PreNorm,
    (True, False): Residual,
    (False, True): Normed,
    (False, False): Plain,
}
"""The wiring for each (residual, norm)."""


def build_blocks(block: Block, vocabulary: int, *, dim: int, num_layers: int, max_length: int) -> Body:
    """Build a stack of blocks. Positions and initial weights follow Vaswani et al. (2017); the norm precedes each
    layer."""
    head_dim = dim // block.num_heads
    position, in_layers = build_positions(block.position, dim, block.num_heads, head_dim, max_length)
    join = WIRED[block.residual, block.norm]
    layers: list[SequenceLayer] = []
    for _ in range(num_layers):
        score = SCORES[block.score](head_dim, head_dim)
        layers.append(
            join(dim, SelfAttention(dim, block.num_heads, causal=block.mask, score=score, position=in_layers()))
        )
        if block.network:
            layers.append(join(dim, FeedForward(dim)))
    embedding = TokenEmbedding(vocabulary, dim, position=position, scaled=True)
    body = Body(embedding, Stack(layers), LayerNorm(dim) if block.norm else nn.Identity())
    init_xavier(body)
    return body


class Outcome(NamedTuple):
    """The results of one block, averaged over seeds: parameters; bits per character of unseen text; bits at the last
    position of a window, after which there is nothing to see; and the range of the bits over seeds."""

    parameters: int
    bits: float
    last: float
    spread: float


def try_block(characters: Characters, name: str, size: Size, seed: int, report: Report) -> Outcome:
    unseen = characters.held_out(rows=size.read, length=size.length)
    scores = []
    for number in range(seed * size.seeds, (seed + 1) * size.seeds):
        torch.manual_seed(number)
        body = build_blocks(
            LEFT_OUT[name].block,
            characters.tokenizer.vocabulary,
            dim=size.dim,
            num_layers=size.num_layers,
            max_length=size.length,
        )
        task = predictor(body, characters)

        def batch(step: int, drawn: int = number) -> Any:
            return characters.batch(step, rows=size.rows, length=size.length, seed=drawn)

        train_task(task, batch, steps=size.steps, seed=number, name=name, report=report)
        bits = bits_of(task, unseen)
        scores.append((float(bits.mean()), float(bits[:, -1].mean())))
    whole, last = (sum(values) / len(scores) for values in zip(*scores, strict=True))
    every = [each for each, _ in scores]
    report(f"{name}: {whole:.3f} bits per character, {last:.3f} at the last position")
    return Outcome(parameters_of(task), whole, last, max(every) - min(every))


SENTENCES = ("man bites dog", "dog bites man")


def apart(position: str, mask: bool, seed: int) -> float:
    """Return the relative distance between the mean vectors of both sentences in an untrained stack of two blocks."""
    words = sorted(set(" ".join(SENTENCES).split()))
    torch.manual_seed(seed)
    body = build_blocks(Block(position=position, mask=mask), len(words), dim=16, num_layers=2, max_length=8).eval()
    with torch.no_grad():
        tokens = torch.tensor([[words.index(word) for word in sentence.split()] for sentence in SENTENCES])
        first, second = body(tokens)[0].mean(1)
    return float((first - second).norm() / first.norm())


def run(scale: Scale, seed: int, report: Report) -> Finding:
    size, characters = SIZES[scale], characters_of_shakespeare()
    outcomes = {name: try_block(characters, name, size, seed, report) for name in LEFT_OUT}
    pairs = {(position, mask): apart(position, mask, seed) for position in POSITIONS for mask in (False, True)}
    whole, unmasked = outcomes[WHOLE], outcomes["no mask"]
    worse = {name: outcome.bits - whole.bits for name, outcome in outcomes.items() if name not in (WHOLE, "no mask")}
    order = sorted(worse, key=lambda name: -worse[name])
    differences = ", ".join(f"{name} {worse[name]:+.2f}" for name in order)
    same = f'"{SENTENCES[0]}" and "{SENTENCES[1]}"'
    return Finding(
        "What each part of the block is for",
        "Self-attention by itself has no order and no non-linearity, and sees the future; positions, the feed-forward"
        " network and the mask solve this. Residual connections, norms and scaling make it trainable, and heads let it"
        " attend in several ways at once (Vaswani et al. 2017).",
        f"Bits per character, relative to the whole block's {whole.bits:.2f}: {differences}. Without the mask it needs"
        f" {unmasked.bits:.2f} bits if the next character is visible and {unmasked.last:.2f} if it is not"
        f" ({whole.last:.2f} with the mask). Without positions and mask, {same} are {pairs['none', False]:.0e} apart,"
        f" with sinusoids {pairs['sinusoidal', False]:.2f}; with only the mask, which also carries order,"
        f" {pairs['none', True]:.2f}.",
        View(
            "The block without one of its parts",
            parts_of(outcomes, pairs, size),
            f"{size.num_layers} blocks of width {size.dim}.",
        ),
        [
            *(
                (
                    f"bits per character, {name} and the whole block",
                    LEFT_OUT[name].claim,
                    f"{outcomes[name].bits:.2f} and {whole.bits:.2f}",
                )
                for name in worse
            ),
            (
                "bits without the mask, next character visible and not",
                LEFT_OUT["no mask"].claim,
                f"{unmasked.bits:.2f} and {unmasked.last:.2f}",
            ),
            (f"distance of {same}, no positions", "0", f"{pairs['none', False]:.0e}"),
        ],
    )


def parts_of(outcomes: dict[str, Outcome], pairs: dict[tuple[str, bool], float], size: Size) -> list[Part]:
    whole = outcomes[WHOLE].bits
    rows = [
        (
            name,
            f"{outcome.parameters:,}",
            round(outcome.bits, 3),
            f"{outcome.bits - whole:+.3f}",
            round(outcome.last, 3),
            LEFT_OUT[name].claim,
        )
        for name, outcome in outcomes.items()
    ]
    header = ("block", "parameters", "bits", "above the whole block", "bits, last position", "claimed problem")
    spread = max(outcome.spread for outcome in outcomes.values())
    seeds = f"The range over {size.seeds} seeds is at most {spread:.3f} bits." if size.seeds > 1 else "One seed."
    return [
        Table(header, rows, f"Bits per character of unseen text, {size.steps} steps"),
        Bars(
            list(outcomes),
            [(outcome.bits, outcome.last) for outcome in outcomes.values()],
            "bits",
            "All positions, and the last one",
            ("all", "last"),
        ),
        Note(
            f"Nothing follows the last position of a window, so a model without a mask must predict there too. {seeds}"
        ),
        Table(
            ("positions", "no mask", "with mask"),
            [(name, *(f"{pairs[name, mask]:.1e}" for mask in (False, True))) for name in POSITIONS],
            f"Distance of {SENTENCES[0]!r} from {SENTENCES[1]!r} relative to the length, untrained",
        ),
        Note(
            "Each sentence is the reverse of the other. ALiBi depends on the distance of a key but not on its side, so"
            " without the mask it cannot distinguish them either."
        ),
    ]


BARRIERS = Experiment("the Transformer block without one of its parts", run)
