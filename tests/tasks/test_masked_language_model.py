from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clew.core.batches import Batches
from clew.core.config import Section
from clew.core.errors import UserError
from clew.data.caching.encoded_documents import EncodedDocuments, encode_documents
from clew.data.documents import Documents, plain_lines
from clew.data.spans import Spans
from clew.layers.embeddings import TokenEmbedding
from clew.layers.losses import IGNORED
from clew.models import MODELS
from clew.recipes.resolving import config_of
from clew.sources.tokens import Tokens
from clew.tasks.learnings.masked_examples import EVALUATION, MaskedBatch, MaskedExamples
from clew.tasks.masked_language_model import MaskedLanguageModel, MaskedLanguageModelConfig
from clew.tasks.uses.filling import fill
from clew.text.train import framed_as_bert, train_character, train_wordpiece
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import adamw
from clew.training.records import Progress
from clew.training.schedules import Linear
from tests.references.agreement import assert_agrees, randn, randomise

LINES = [
    "one day a king woke early",
    "two keys lay on his table",
    "six mice ran under a door",
    "",
    "far away an owl was asleep",
    "she heard the rain at night",
    "nobody went to see her there",
    "the moon rose over old walls",
    "snow fell until the morning",
]
TOKENIZER = framed_as_bert(train_wordpiece(LINES))


class IdentityBody(nn.Module):
    """A body whose vectors are its inputs."""

    max_length = None

    def __init__(self, vocabulary: int, dim: int):
        super().__init__()
        self.embedding = TokenEmbedding(vocabulary, dim)
        self.dim, self.vocabulary = dim, vocabulary

    def forward(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, None]:
        return inputs, None


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + torch.erf(torch.from_numpy(x) / np.sqrt(2)).numpy()) / 2


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("tied", [True, False])
def test_both_losses_equal_their_equations(tied: bool) -> None:
    config = MaskedLanguageModelConfig(tied=tied)
    task = randomise(MaskedLanguageModel(IdentityBody(TOKENIZER.vocabulary, 5), TOKENIZER, config))
    places = torch.tensor([[3, 1, 0], [2, 0, 0]])
    targets = torch.tensor([[7, 9, 8], [11, IGNORED, IGNORED]])
    follows = torch.tensor([1, 0])

    def call(hidden: Tensor) -> Tensor:
        batch = MaskedBatch(hidden, None, places, targets, follows)
        terms, state = task(batch)
        assert state is None and {name: int(term.count) for name, term in terms.items()} == {
            "loss": 4,
            "next_sentence": 2,
        }
        assert {name: int(count) for name, count in task.counts(batch).items()} == {"loss": 4, "next_sentence": 2}
        return torch.stack([terms["loss"].sum, terms["next_sentence"].sum])

    def reference(weights: dict[str, np.ndarray], hidden: np.ndarray) -> np.ndarray:
        table = weights["body.embedding.tokens.weight" if tied else "output_weight"]
        masked = 0.0
        for row, (at, expected) in enumerate(zip(places.numpy(), targets.numpy(), strict=True)):
            for place, target in zip(at, expected, strict=True):
                if target == IGNORED:
                    continue
                x = gelu(weights["transform.weight"] @ hidden[row, place] + weights["transform.bias"])
                x = (x - x.mean()) / np.sqrt(x.var() + config.norm_eps) * weights["norm.weight"] + weights["norm.bias"]
                masked -= log_softmax(table @ x + weights["output_bias"])[target]
        pooled = np.tanh(hidden[:, 0] @ weights["pooling.dense.weight"].T + weights["pooling.dense.bias"])
        scores = log_softmax(pooled @ weights["next_sentence.weight"].T + weights["next_sentence.bias"])
        return np.array([masked, -scores[np.arange(2), follows.numpy()].sum()])

    hidden = randn(2, 4, 5)
    assert_agrees(task, call, reference, hidden)
    with torch.no_grad():
        sums, guessed = call(hidden), task.guess(MaskedBatch(hidden, None, places, targets, follows))
    assert [guessed.nats, guessed.pair_nats] == pytest.approx(sums.tolist(), rel=1e-5)
    assert (guessed.tokens, guessed.pairs) == (4, 2)


def bert(config: MaskedLanguageModelConfig, **settings: Any) -> MaskedLanguageModel:
    torch.manual_seed(0)
    family = MODELS["bert"]
    small: Section = family.config(
        **{
            "dim": 32,
            "num_layers": 2,
            "num_heads": 2,
            "max_length": 24,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            **settings,
        }
    )
    return MaskedLanguageModel(family.build(small, Tokens(TOKENIZER.vocabulary)), TOKENIZER, config)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> EncodedDocuments:
    return encode_documents(Documents("it", lambda: plain_lines(LINES)), TOKENIZER, tmp_path_factory.mktemp("cache"))


def test_a_batch_is_framed_texts_with_segments(documents: EncodedDocuments) -> None:
    task = bert(MaskedLanguageModelConfig())
    examples = MaskedExamples(documents, task, 20)
    spans = examples.spans(1, 0)
    batch = examples.batch(spans, np.arange(len(spans.firsts)), 1, 0)
    single_row = examples.batch(spans, np.array([2]), 1, 0)
    begin, end = TOKENIZER.id("[CLS]"), TOKENIZER.id("[SEP]")
    whole = batch.inputs.tokens.scatter(
        1, batch.places, batch.targets.where(batch.targets != IGNORED, batch.inputs.tokens.gather(1, batch.places))
    )
    assert batch.mask is not None and batch.num_tokens == int(batch.mask.sum()) and batch.follows is not None
    for row, (tokens, segments, mask) in enumerate(zip(whole, batch.inputs.segments, batch.mask, strict=True)):
        tokens, segments = tokens[mask].tolist(), segments[mask].tolist()
        first, second = (documents.tokens[slice(*part[row])].tolist() for part in (spans.firsts, spans.seconds))  # type: ignore[index]
        assert tokens == [begin, *first, end, *second, end] and len(tokens) <= 20
        assert segments == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert batch.follows.tolist() == spans.random.tolist()  # type: ignore[union-attr]
    length = int(batch.mask[2].sum())
    assert single_row.inputs.tokens[0, :length].tolist() == batch.inputs.tokens[2, :length].tolist()
    alone = MaskedExamples(documents, bert(MaskedLanguageModelConfig(next_sentence=False), num_segments=0), 20)
    single = alone.batch(alone.spans(1, 0), np.array([0]), 1, 0)
    assert single.follows is None and isinstance(single.inputs, Tensor)


@pytest.mark.slow
def test_eight_sentences_are_memorised_and_filled_in(documents: EncodedDocuments) -> None:
    """With different masks each time, in consecutive and random pairs."""
    task = bert(MaskedLanguageModelConfig(chosen=0.2, pairing="released"), dim=64, num_layers=1)
    examples = MaskedExamples(documents, task, 24)

    def get(epoch: int, number: int) -> MaskedBatch:
        some = zip(*(examples.spans(1, 6 * epoch + number) for number in range(6)), strict=True)
        spans = Spans(*map(np.concatenate, some))
        return examples.batch(spans, np.arange(len(spans.firsts)), 1, epoch)

    optimiser, progress = adamw(task.parameters(), 5e-3, weight_decay=0.0), Progress()
    schedule = Linear(250, warmup=20)
    records = list(
        train(
            task,
            Batches(lambda epoch: 1, get),
            optimiser,
            schedule,
            StepOptions(seed=0, clip_norm=1.0),
            steps=250,
            progress=progress,
        )
    )
    assert records[-1].counts.keys() == {"loss", "next_sentence"} and records[-1].count == get(249, 0).num_tokens
    task.eval()
    spans = examples.spans(*EVALUATION)
    with torch.no_grad():
        guessed = task.guess(examples.batch(spans, np.arange(len(spans.firsts)), *EVALUATION))
    assert guessed.right == guessed.tokens and guessed.right_pairs == guessed.pairs
    filled, two = fill(task, ["the moon <mask> over old walls", "one [MASK] a king woke [MASK]"], top=3)
    assert (filled.masks[0][0].token, filled.masks[0][0].text, len(filled.masks[0])) == (
        "rose",
        "the moon rose over old walls",
        3,
    )
    assert str(two) == "one day a king woke early" and two.masks[1][0].text == "one [MASK] a king woke early"
    yes, no = fill(task, [(LINES[0], LINES[1]), (LINES[0], LINES[5])])
    assert yes.follows is not None and no.follows is not None and yes.follows > 0.8 > 0.2 > no.follows


def test_texts_that_cannot_be_masked_or_paired_are_rejected(documents: EncodedDocuments) -> None:
    task = bert(MaskedLanguageModelConfig())
    with pytest.raises(
        UserError, match=r"training.length \(4\) must be at least 5, including 3 tokens of the tokenizer's frame"
    ):
        MaskedExamples(documents, task, 4)
    unframed = bert(MaskedLanguageModelConfig())
    unframed.tokenizer = train_wordpiece(LINES)
    with pytest.raises(
        UserError, match="the tokenizer has no separator for pairs of texts; set task.next_sentence=false"
    ):
        MaskedExamples(documents, unframed, 20)
    one = EncodedDocuments(documents.tokens, documents.sentences, documents.documents[[0, -1]])
    with pytest.raises(
        UserError,
        match="the training part is one document, but next-sentence prediction needs at least two"
        "; separate documents by blank lines, or set task.next_sentence=false",
    ):
        MaskedExamples(one, task, 20)
    assert MaskedExamples(one, task, 20, to_train=False).spans(1, 0).seconds is None
    characters = train_character(LINES)
    with pytest.raises(
        UserError, match=r"has no \[MASK\] token, which masked language modelling needs; set text.tokenizer=wordpiece"
    ):
        MaskedLanguageModel(IdentityBody(characters.vocabulary, 4), characters)
    with pytest.raises(
        UserError, match=r"task: masked \(0.8\) and replaced \(0.3\) must not add up to more than 1; lower one of them"
    ):
        config_of("text-bert", ["task.replaced=0.3"])
    assert fill(task, []) == []
    for text, sentence in {
        "no mask": "text 1 has no",
        "[MASK] " * 23: "text 1 has 25 tokens, special tokens included, but the model has only",
    }.items():
        with pytest.raises(UserError, match=sentence):
            fill(task, [text])
    with pytest.raises(
        UserError,
        match="text 7 is a pair, and this model was not trained to predict"
        " whether one text follows another; give one text",
    ):
        fill(bert(MaskedLanguageModelConfig(next_sentence=False)), [("one", "two")], numbers=[7])
