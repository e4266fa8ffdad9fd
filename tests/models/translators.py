"""A small translation task: tiny encoder-decoders of every kind with a softmax, sentences to reverse, and a Stepper."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.types import Memory, State, Term
from clew.laws.cases import Sizes
from clew.laws.encoder_decoders import CONDITIONED_LAWS, SOURCE_LAWS, Conditioned
from clew.models import MODELS
from clew.sources.tokens import Tokens

START, END, FIRST, SYMBOLS = 0, 1, 2, 6
VOCABULARY, SOURCE_VOCABULARY = FIRST + SYMBOLS, FIRST + SYMBOLS + 1

RECURRENT = {"family": "seq2seq", "dim": 8, "embedding_dim": 6}
ATTENTIVE = {
    "family": "transformer",
    "dim": 8,
    "num_heads": 2,
    "num_layers": 2,
    "hidden_dim": 12,
    "dropout": 0.0,
    "max_length": 32,
}
WAYS: dict[str, dict[str, Any]] = {
    "bottleneck": {**RECURRENT, "attention": "none", "direction": "backward", "bridge": "copy"},
    "bahdanau": {**RECURRENT, "cell": "gru"},
    "bahdanau-deep": {**RECURRENT, "num_layers": 3, "encoder_layers": 2, "readout": "none"},
    "luong": {**RECURRENT, "attention": "after", "score": "general"},
    "luong-deep": {
        **RECURRENT,
        "attention": "after",
        "score": {"name": "content", "sharpness": 10.0, "learned": True},
        "num_layers": 2,
        "cell": "gru",
    },
    "luong-unfed": {**RECURRENT, "attention": "after", "score": "dot", "feeding": False, "num_layers": 2},
    "hard": {**RECURRENT, "hard": True, "cell": "gru"},
    "hard-after": {**RECURRENT, "attention": "after", "hard": True},
    "bare": {**RECURRENT, "encoder": "bare"},
    "bare-after": {**RECURRENT, "encoder": "bare", "attention": "after", "num_layers": 2},
    "transformer": {**ATTENTIVE},
    "transformer-relative": {**ATTENTIVE, "wiring": "pre_norm", "position": "relative", "score": "additive"},
    "lstm-under-attention": {
        **ATTENTIVE,
        "encoder_layers": ["lstm", "lstm"],
        "position": "learned",
        "decoder_layers": 1,
    },
    "attention-under-gru": {
        **ATTENTIVE,
        "encoder_layers": 1,
        "decoder_layers": ["gru", "cross_attention", "feedforward"],
    },
    "convolutional": {
        "family": "convolutional",
        "dim": 8,
        "embedding_dim": 6,
        "num_layers": 2,
        "max_length": 32,
        "dropout": 0.0,
    },
}
RAGGED, SMALLEST = Sizes(2, 4, 0, 0, seed=1), Sizes(1, 1, 0, 0)
LOOKING = [way for way in WAYS if way != "bottleneck"]


def build(way: str, vocabulary: int = VOCABULARY, **options: Any) -> Any:
    settings = {**WAYS[way], **options}
    family = MODELS[settings["family"]]
    return family.build(family.config(**settings), Tokens(vocabulary), Tokens(SOURCE_VOCABULARY))


def obeys_every_law(sizes: Sizes = RAGGED, **options: Any) -> None:
    for law in CONDITIONED_LAWS.values():
        law(lambda _: Conditioned(build(**options)), sizes)
    for law in SOURCE_LAWS.values():
        law(lambda _: build(**options), sizes)


class Pair(NamedTuple):
    """Sentences and their reversals; the decoder's inputs are its targets shifted by one."""

    source: Tensor
    source_mask: Tensor | None
    tokens: Tensor
    targets: Tensor
    mask: Tensor | None


class Translator(nn.Module):
    def __init__(self, way: str, **options: Any):
        super().__init__()
        torch.manual_seed(1)
        self.body = build(way, **options)
        self.output = nn.Linear(self.body.dim, VOCABULARY)

    def forward(self, batch: Pair) -> dict[str, Term]:
        """Return the loss, and the terms that hard attention adds."""
        memory = self.body.encode(batch.source, batch.source_mask)
        hidden, state = self.body(batch.tokens, batch.mask, self.body.initial_state(len(batch.tokens), memory))
        log_probs = self.output(hidden).log_softmax(-1).gather(-1, batch.targets[..., None])[..., 0]
        real = torch.ones_like(batch.tokens, dtype=torch.bool) if batch.mask is None else batch.mask
        loss = Term(-torch.where(real, log_probs, 0.0).sum(), real.sum())
        return {"loss": loss, **self.body.hard_terms(state, log_probs, batch.mask)}

    def stepper(self, source: Tensor, mask: Tensor | None = None) -> "Writer":
        return Writer(self, self.body.encode(source, mask))


class Writer:
    """A Stepper with the source in its state."""

    vocabulary = VOCABULARY

    def __init__(self, translator: Translator, memory: Memory):
        self.translator = translator
        self.memory = memory

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return self.translator.body.initial_state(rows, self.memory, capacity)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        hidden, state = self.translator.body(tokens, mask, state)
        return self.translator.output(hidden).log_softmax(-1), state


def total(terms: dict[str, Term]) -> Tensor:
    return torch.stack([term.weight * term.sum / term.count for term in terms.values()]).sum()


def reversals(size: int, longest: int = 5, seed: int = 0) -> Pair:
    """Random sentences of 1 to `longest` symbols, and their reversals."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (size,), generator=generator).tolist()
    sentences = [torch.randint(FIRST, FIRST + SYMBOLS, (length,), generator=generator).tolist() for length in lengths]
    return pair_of(sentences)


def pair_of(sentences: list[list[int]]) -> Pair:
    source, source_mask = padded(sentences)
    whole, mask = padded([[START, *reversed(sentence), END] for sentence in sentences])
    return Pair(source, source_mask, whole[:, :-1], whole[:, 1:], mask[:, 1:])


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    tensor = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return tensor, torch.arange(tensor.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]


def decisive(translator: Translator) -> Translator:
    """The translator in float64, with weights large enough that its output depends on its source."""
    translator = translator.double().eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in translator.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        translator.output.weight.mul_(4.0)
        translator.output.bias.zero_()
    return translator


def train(translator: Translator, batch: Pair, steps: int, rate: float, until: float) -> float:
    """The loss after `steps` steps, or after three in a row below `until`; three, because hard attention is random."""
    optimiser = torch.optim.Adam(translator.parameters(), rate)
    losses: list[float] = []
    for step in range(steps):
        torch.manual_seed(step)
        terms = translator(batch)
        losses.append(float(terms["loss"].sum.detach() / terms["loss"].count))
        if len(losses) > 3 and max(losses[-3:]) < until:
            break
        optimiser.zero_grad()
        total(terms).backward()
        nn.utils.clip_grad_norm_(translator.parameters(), 1.0)
        optimiser.step()
    return losses[-1]
