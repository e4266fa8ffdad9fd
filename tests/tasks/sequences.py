"""Small sequence-to-sequence tasks with encoder-decoders of every kind, and pairs of unequal lengths."""

from typing import Any

import torch

from clew.data.examples import Pair
from clew.layers.scores import SCORES
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.shared.sequence import SequenceBatch, SequenceConfig, SequenceToSequence
from clew.text.train import train_word
from tests.models.translators import WAYS

PAIRS = [
    Pair("a b c d", "D C B A d"),
    Pair("e", "E"),
    Pair("b b a", "A B"),
    Pair("c", "C C C C C C"),
    Pair("d e a b c e", "A"),
    Pair("a c", "B D E d"),
    Pair("e e e", "E e"),
    Pair("b", "D"),
]
EVERY: dict[str, dict[str, Any]] = {
    **WAYS,
    **{f"score-{score}": {**WAYS["luong"], "score": score} for score in SCORES},
    **{f"before-{score}": {**WAYS["bahdanau"], "score": score} for score in SCORES},
}
"""Every kind of body, with every score both before and after the cell."""


def sequence_task(
    way: str, *, joint: bool = False, config: SequenceConfig | None = None, **options: Any
) -> SequenceToSequence:
    """A task in float64, with weights large enough that its output depends on its source."""
    torch.manual_seed(1)
    settings = {**EVERY[way], **options}
    sources, targets = [pair.source for pair in PAIRS], [pair.target for pair in PAIRS]
    source, target = (train_word([*sources, *targets]),) * 2 if joint else (train_word(sources), train_word(targets))
    family = MODELS[settings["family"]]
    body = family.build(family.config(**settings), Tokens(target.vocabulary), Tokens(source.vocabulary))
    task = SequenceToSequence(body, source, target, config).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return task


def sharp(task: SequenceToSequence) -> SequenceToSequence:
    """The task in evaluation mode, with its untied output layer scaled up: its distributions are far from uniform,
    and it ends late."""
    assert task.output_weight is not None and task.output_bias is not None
    with torch.no_grad():
        task.output_weight.mul_(4.0)
        task.output_bias.zero_()
        task.output_bias[task.end] = -2.0
    return task.eval()


def batch_of(task: SequenceToSequence, pairs: list[Pair] = PAIRS) -> SequenceBatch:
    return task.collate(task.encode(pairs))


def one_by_one(task: SequenceToSequence, pair: Pair) -> torch.Tensor:
    """log p (length, vocabulary) of every target token and the end, for one sentence, token by token."""
    [sides] = task.encode([pair])
    body: Any = task.body
    state = body.initial_state(1, body.encode(torch.tensor([sides.source])))
    rows = []
    for token in [task.end, *sides.target]:
        hidden, state = body(torch.tensor([[token]]), None, state)
        bias = 0.0 if task.output_bias is None else task.output_bias
        rows.append((hidden[0, 0] @ task.weight.T + bias).log_softmax(-1))
    return torch.stack(rows)


def targets_of(task: SequenceToSequence, pair: Pair) -> list[int]:
    return [*task.encode([pair])[0].target, task.end]
