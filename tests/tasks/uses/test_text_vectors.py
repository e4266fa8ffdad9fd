import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.layers.pooling import POOLINGS
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.sources.words import WordReader
from clew.tasks.uses.text_vectors import LAYERS, WITHOUT_WEIGHTS, TextVectors
from clew.text.train import TOKENIZERS, framed_as_bert

TEXTS = [
    "the cat sat on the mat",
    "",
    "it rains",
    "a dog ran away from the cat, and the mat and the rain and the dog again",
    "  ",
]


def vectors(
    kind: str = "wordpiece", family: str = "bert", *, model: dict | None = None, running: bool = False, **options
) -> TextVectors:
    tokenizer = TOKENIZERS[kind](TEXTS)
    tokenizer = framed_as_bert(tokenizer) if kind == "wordpiece" else tokenizer
    torch.manual_seed(2)
    settings = model if model is not None else {"num_layers": 2, "num_heads": 2, "max_length": 12, "dropout": 0}
    body = MODELS[family].build(MODELS[family].config(**{"dim": 8, **settings}), Tokens(tokenizer.vocabulary))
    return TextVectors(body, WordReader.of(body, {"tokenizer": tokenizer}, running=running), **options)


def levels_of(text_vectors: TextVectors, text: str) -> list[torch.Tensor]:
    """The levels at every position of a text that fits into the model."""
    tokenizer = text_vectors.reader.tokenizer
    tokens = (
        tokenizer.encode(text) if tokenizer.frame is None else tokenizer.frame.around(tokenizer.encode(text)).tokens
    )
    with torch.no_grad():
        return [level[0] for level in text_vectors.body.eval().levels(torch.tensor([tokens]))]


@pytest.mark.parametrize("pooling", WITHOUT_WEIGHTS)
def test_a_text_is_pooled_over_all_its_positions_alone_and_in_a_batch(pooling: str) -> None:
    text_vectors = vectors(pooling=pooling)
    pooled = text_vectors.of(TEXTS)
    assert pooled.dtype == np.float32 and pooled.shape == (5, 8)
    top = levels_of(text_vectors, TEXTS[0])[-1]
    expected = {"first": top[0], "last": top[-1], "max": top.amax(0), "mean": top.mean(0)}[pooling]
    np.testing.assert_allclose(pooled[0], expected, atol=1e-6)
    np.testing.assert_allclose(text_vectors.of([TEXTS[2]])[0], pooled[2], atol=1e-6)
    assert not pooled[1].any() and not pooled[4].any() and text_vectors.num_empty == 2


def test_levels_are_counted_by_blocks_and_mixed_by_name() -> None:
    """A block of BERT is attention and a feed-forward network: levels 0, 2 and 4 of the body's five."""
    levels = levels_of(vectors(), TEXTS[0])[::2]
    expected = {
        0: levels[0],
        1: levels[1],
        2: levels[2],
        -2: levels[1],
        "sum": levels[1] + levels[2],
        "join_last_four": torch.cat(levels, -1),
    }
    expected |= {"last": levels[2], "first": levels[0], "second_to_last": levels[1], "sum_last_four": sum(levels)}
    expected |= {"sum_with_embedding": sum(levels)}
    assert set(LAYERS) <= set(expected)
    for layer, hidden in expected.items():
        text_vectors = vectors(layer=layer)
        np.testing.assert_allclose(text_vectors.of(TEXTS[:1])[0], hidden.mean(0), atol=1e-5)
        (tokens,) = text_vectors.of_tokens(TEXTS[:1])
        np.testing.assert_allclose(tokens.vectors, hidden[1:-1], atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "family", "model", "running"),
    [
        ("wordpiece", "bert", None, False),
        ("word", "recurrent", {"bidirectional": True}, False),
        ("word", "recurrent", {}, True),
        ("bpe", "gpt", {"num_layers": 1, "num_heads": 2, "max_length": 16}, True),
        ("character", "recurrent", {}, True),
    ],
)
def test_every_token_has_a_vector_and_character_offsets(
    kind: str, family: str, model: dict | None, running: bool
) -> None:
    text_vectors = vectors(kind, family, model=model, running=running)
    for text, (offsets, token_vectors) in zip(TEXTS, text_vectors.of_tokens(TEXTS), strict=True):
        assert token_vectors.shape == (len(offsets), 8)
        pieces = "".join(text[start:stop] for start, stop in offsets)
        assert pieces == text.replace(" ", "")
    np.testing.assert_allclose(
        text_vectors.of_tokens([TEXTS[0]])[0].vectors, text_vectors.of_tokens(TEXTS)[0].vectors, atol=1e-6
    )


def test_a_long_text_is_read_in_pooled_windows_or_truncated() -> None:
    text_vectors = vectors()
    tokenizer = text_vectors.reader.tokenizer
    tokens = tokenizer.encode(TEXTS[3])
    parts = [tokenizer.frame.around(tokens[start : start + 10]).tokens for start in range(0, len(tokens), 10)]  # type: ignore[union-attr]
    assert len(parts) > 1
    with torch.no_grad():
        hidden = [text_vectors.body.eval()(torch.tensor([part]))[0][0] for part in parts]
    np.testing.assert_allclose(text_vectors.of(TEXTS)[3], torch.cat(hidden).mean(0), atol=1e-6)
    assert text_vectors.num_long == 1 and text_vectors.room == 10
    np.testing.assert_allclose(
        text_vectors.of_tokens(TEXTS)[3].vectors, torch.cat([part[1:-1] for part in hidden]), atol=1e-6
    )
    cut = vectors(longest=8, normalise=True)
    with torch.no_grad():
        first = cut.body.eval()(torch.tensor([tokenizer.frame.around(tokens[:6]).tokens]))[0][0].mean(0)  # type: ignore[union-attr]
    np.testing.assert_allclose(cut.of([TEXTS[3]])[0], first / first.norm(), atol=1e-6)
    assert len(cut.of_tokens([TEXTS[3]])[0].offsets) == 6


def test_last_pooling_takes_each_directions_end_except_in_the_embedding() -> None:
    bidirectional = {"bidirectional": True, "embedding_dim": 6}
    top = vectors("word", "recurrent", model=bidirectional).of_tokens(TEXTS[:1])[0].vectors
    last = vectors("word", "recurrent", model=bidirectional, pooling="last").of(TEXTS[:1])[0]
    np.testing.assert_allclose(last, np.concatenate([top[-1, :4], top[0, 4:]]), atol=1e-6)
    text_vectors = vectors("word", "recurrent", model=bidirectional, pooling="last", layer=0)
    np.testing.assert_allclose(text_vectors.of(TEXTS[:1])[0], text_vectors.of_tokens(TEXTS[:1])[0].vectors[-1])


def test_unknown_layers_and_poolings_are_rejected() -> None:
    with pytest.raises(UserError, match=r"there is no layer 3; this model has 0 \(the embedding\) to 2"):
        vectors(layer=3)
    with pytest.raises(UserError, match=r"unknown layer 'lats'; known: 0 \(the embedding\) to 2, and "):
        vectors(layer="lats")
    with pytest.raises(UserError, match="unknown pooling 'meen'; did you mean 'mean'"):
        vectors(pooling="meen")
    with pytest.raises(
        UserError,
        match="the pooling 'attention' has weights, which this run has not trained; choose first, last, max, mean",
    ):
        vectors(pooling="attention")
    with pytest.raises(
        UserError,
        match="a pooling with weights was trained on the last layer; leave the layer out, or choose another pooling",
    ):
        vectors(pooling=POOLINGS["pooler"](8), layer=0)
    with pytest.raises(
        UserError,
        match="2 tokens leave no room for a text beside special tokens; use a run with a larger model.max_length",
    ):
        vectors(longest=2)
    assert {name for name, pooling in POOLINGS.items() if not list(pooling(4).parameters())} == set(WITHOUT_WEIGHTS)
