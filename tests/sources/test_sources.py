"""A body reads any source: tokens, words with letters, or plain vectors, without knowing which."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from clew.core.errors import UserError
from clew.core.types import Source
from clew.layers.pooling import POOLINGS
from clew.models import MODELS
from clew.models.body import Body
from clew.recipes.resolving import config_of
from clew.runs.build import build_task, train_tokenizer
from clew.runs.embedding import build_body, source_of
from clew.sources.tokens import LetteredWords, Tokens
from clew.sources.vectors import Vectors
from clew.tasks.language_model import LanguageModel
from clew.text.tokenizer import Tokenizer
from clew.training.fitting import fit
from tests.runs.small import TEXT

WIDTH = 3
BODIES: dict[str, dict[str, Any]] = {
    "recurrent": {"cell": "lstm", "dim": 12, "bidirectional": True},
    "bert": {"dim": 12, "num_layers": 1, "num_heads": 2, "max_length": 9, "dropout": 0.0, "attention_dropout": 0.0},
    "mixed": {"dim": 12, "layers": ["gru", {"name": "attention", "num_heads": 2}, "feedforward"]},
}
every_body = pytest.mark.parametrize("family", BODIES)


def build(family: str, source: Source) -> Body:
    return MODELS[family].build(MODELS[family].config(**BODIES[family]), source)


def frames(number: int, seed: int = 0) -> list[tuple[Tensor, int]]:
    """Sequences of 2 to 9 frames, and the index of the feature that is by far the largest over all frames."""
    generator = torch.Generator().manual_seed(seed)
    examples: list[tuple[Tensor, int]] = []
    while len(examples) < number:
        length = int(torch.randint(2, 10, (), generator=generator))
        sequence = torch.randn(length, WIDTH, generator=generator)
        first, second = sequence.sum(0).topk(2).values
        if first - second > 1:
            examples.append((sequence, int(sequence.sum(0).argmax())))
    return examples


class FrameClassifier(nn.Module):
    """A task over any body that reads vectors: scores = W pooled(body(frames))."""

    def __init__(self, body: Body):
        super().__init__()
        self.body = body
        self.pooling = POOLINGS["mean"](body.dim)
        self.output = nn.Linear(body.dim, WIDTH)

    def scores(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        hidden, _ = self.body(inputs, mask)
        return self.output(self.pooling(hidden, mask))

    def forward(self, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        inputs, mask, labels = batch
        return nn.functional.cross_entropy(self.scores(inputs, mask), labels)


def collate(source: Vectors, rows: Sequence[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
    inputs, mask = source.collate([sequence for sequence, _ in rows])
    real = torch.ones(inputs.shape[:2], dtype=torch.bool) if mask is None else mask
    return inputs, real, torch.tensor([label for _, label in rows])


@pytest.mark.slow
@every_body
def test_a_body_over_vectors_learns_to_classify_them(family: str, tmp_path: Path) -> None:
    source = Vectors(WIDTH, noise=0.05)
    torch.manual_seed(0)
    task = FrameClassifier(build(family, source))
    loader = DataLoader(frames(4000), batch_size=32, shuffle=True, collate_fn=lambda rows: collate(source, rows))
    fit(
        task,
        loader,
        tmp_path / family,
        steps=200,
        learning_rate=0.02,
        schedule={"name": "cosine", "warmup": 0.1},
        device="cpu",
    )
    inputs, mask, labels = collate(source, frames(200, seed=1))
    with torch.no_grad():
        right = (task.scores(inputs, mask).argmax(1) == labels).float().mean()
    assert float(right) > 0.9


@every_body
def test_padded_vectors_give_the_same_as_alone(family: str) -> None:
    source = Vectors(WIDTH)
    task = FrameClassifier(build(family, source)).double().eval()
    rows = [sequence.double() for sequence, _ in frames(6)]
    inputs, mask = source.collate(rows)
    assert mask is not None and not mask.all()
    together = task.scores(torch.where(mask[..., None], inputs, 1e3), mask)
    for row, sequence in enumerate(rows):
        alone, whole = source.collate([sequence])
        assert whole is None
        assert torch.allclose(task.scores(alone, None)[0], together[row], rtol=1e-9, atol=1e-9)


def test_vectors_are_mapped_with_dropout_only_in_training() -> None:
    embedding = build("recurrent", Vectors(WIDTH, noise=0.1)).embedding
    vectors = torch.randn(2, 4, WIDTH)
    assert torch.allclose(embedding.eval().read(vectors), vectors @ embedding.map.weight.mT + embedding.map.bias)
    torch.manual_seed(1)
    disturbed = embedding.train().read(vectors)
    torch.manual_seed(1)
    noise = 0.1 * torch.randn_like(vectors)
    assert torch.allclose(disturbed, (vectors + noise) @ embedding.map.weight.mT + embedding.map.bias)


@pytest.mark.parametrize("family", ["seq2seq", "transformer", "convolutional"])
def test_an_encoder_reads_vectors_and_a_decoder_writes_tokens(family: str) -> None:
    member = MODELS[family]
    body = member.build(
        member.config(dim=8, num_layers=1, **({"num_heads": 2} if family == "transformer" else {})),
        Tokens(7),
        Vectors(WIDTH),
    )
    body = body.double().eval()
    rows = [sequence.double() for sequence, _ in frames(3)]
    inputs, mask = Vectors(WIDTH).collate(rows)
    tokens = torch.tensor([[1, 2], [3, 4], [5, 6]])
    together, _ = body(tokens, None, body.initial_state(3, body.encode(inputs, mask)))
    for row, sequence in enumerate(rows):
        alone, _ = body(tokens[row : row + 1], None, body.initial_state(1, body.encode(sequence[None])))
        assert torch.allclose(alone[0], together[row], rtol=1e-9, atol=1e-9)
    assert (body.vocabulary, body.source_vocabulary, body.shares_embeddings) == (7, 0, False)


def test_tokens_are_padded_and_masked() -> None:
    tokens, mask = Tokens(9).collate([[1, 2, 3], [4]])
    assert tokens.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert mask is not None and mask.tolist() == [[True, True, True], [True, False, False]]


def word_source(*settings: str) -> tuple[Any, LetteredWords, Tokenizer]:
    config = config_of("ewt-tagger", ["model.dim=16", *settings])
    tokenizer = train_tokenizer(config.text, [TEXT])
    source = source_of(config, {"tokenizer": tokenizer})
    assert isinstance(source, LetteredWords)
    return config, source, tokenizer


def test_letters_distinguish_words_that_the_table_does_not_know() -> None:
    config, source, _ = word_source("embedding.characters=cnn", "embedding.dim=6")
    body = build_body(config, source).eval()
    inputs, mask = source.collate([["the", "zzyx"], ["the", "qwrt"], ["walls"]])
    assert mask is not None and mask.sum().item() == 5
    x, _ = body.embed(inputs, mask, None)
    assert inputs.tokens[0, 1] == inputs.tokens[1, 1]  # both unknown
    assert torch.equal(x[0, 0], x[1, 0]) and not torch.allclose(x[0, 1], x[1, 1])


def test_a_body_has_plain_tokens_by_default() -> None:
    config = config_of("text-lstm")
    tokenizer = train_tokenizer(config.text, [TEXT])
    assert source_of(config, {"tokenizer": tokenizer}) == Tokens(tokenizer.vocabulary)


def test_a_task_can_be_built_over_a_given_source() -> None:
    config = config_of("text-lstm", ["model.dim=8", "task.tied=false"])
    tokenizer = train_tokenizer(config.text, [TEXT])
    task = build_task(config, {"tokenizer": tokenizer}, sources=[Vectors(WIDTH)], to_train=False)
    assert isinstance(task, LanguageModel) and task.body.embedding.width == WIDTH
    hidden, _ = task.body(torch.zeros(1, 2, WIDTH))
    assert hidden.isfinite().all()


def test_unsuitable_settings_are_rejected() -> None:
    with pytest.raises(
        UserError, match=r"model.word_dropout \(0.1\) drops words of a table, and vectors have none; leave it out"
    ):
        MODELS["recurrent"].build(MODELS["recurrent"].config(word_dropout=0.1), Vectors(WIDTH))
    with pytest.raises(
        UserError,
        match="shared embeddings are a table of tokens, and vectors have none; set model.shared_embeddings=false",
    ):
        MODELS["seq2seq"].build(MODELS["seq2seq"].config(shared_embeddings=True), Tokens(WIDTH), Vectors(WIDTH))
    with pytest.raises(UserError, match=r"width \(0\) must be at least 1"):
        build("recurrent", Vectors(0))
    with pytest.raises(UserError, match=r"example 1 has the shape \[4, 2\]; vectors are \(length, 3\)"):
        Vectors(WIDTH).collate([torch.zeros(2, 3), torch.zeros(4, 2)])
    body = build("recurrent", Vectors(WIDTH))
    with pytest.raises(
        UserError, match=r"this body reads vectors \(batch, length, 3\), not a tensor of the shape \[2, 5\]"
    ):
        body(torch.zeros(2, 5))
    with pytest.raises(
        UserError, match="this embedding reads vectors and has no table of tokens, so no output layer can be tied to it"
    ):
        LanguageModel(body, None, config_of("text-lstm", ["task.tied=true"]).task)
