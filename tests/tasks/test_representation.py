"""A vector for a text: pooled, optionally of length 1, and the same alone and in a batch."""

import pytest
import torch

from clew.core.errors import UserError
from clew.models import MODELS
from clew.recipes.resolving import config_of
from clew.sources.tokens import Tokens
from clew.tasks.representation import Representation, RepresentationConfig, build_representation
from clew.text.tokenizer import Tokenizer
from clew.text.train import framed_as_bert, train_wordpiece
from clew.training.problems import prepare_problem

TEXTS = ["the cat sat on the mat", "it rains", "", "the dog ran away from the cat and the mat"]
TOKENIZER: Tokenizer = framed_as_bert(train_wordpiece(TEXTS, size=60))


def representation(**settings: object) -> Representation:
    torch.manual_seed(3)
    body = MODELS["bert"].build(
        MODELS["bert"].config(dim=16, num_layers=2, num_heads=2, max_length=40), Tokens(TOKENIZER.vocabulary)
    )
    return build_representation(body, {"tokenizer": TOKENIZER}, RepresentationConfig(**settings))


def embed(task: Representation, *texts: str) -> torch.Tensor:
    with torch.no_grad():
        return task.eval()(task.collate(task.reader.encode_whole(texts)))


def test_a_text_has_the_same_vector_alone_and_in_a_batch() -> None:
    task = representation(normalise=True)
    together = embed(task, *TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        torch.testing.assert_close(embed(task, text)[0], vector)
    torch.testing.assert_close(together.norm(dim=-1), torch.ones(len(TEXTS)))


def test_the_mean_is_over_the_bodys_vectors_and_a_pooler_has_weights() -> None:
    task = representation().eval()
    tokens = TOKENIZER.frame.around(TOKENIZER.encode(TEXTS[0])).tokens  # type: ignore[union-attr]
    torch.testing.assert_close(embed(task, TEXTS[0])[0], task.body(torch.tensor([tokens]))[0][0].mean(0))
    assert "pooling.dense.weight" in representation(pooling="pooler").state_dict()


def test_the_longest_text_is_the_smaller_of_two_limits() -> None:
    assert (representation(longest=5).longest, representation().longest, representation(longest=60).longest) == (
        5,
        40,
        40,
    )


def test_there_is_nothing_to_train() -> None:
    with pytest.raises(UserError, match="the task representation has nothing to learn.*transfer__from=RUN"):
        prepare_problem(config_of("classify", ["task=representation", "model.family=bert"]))
