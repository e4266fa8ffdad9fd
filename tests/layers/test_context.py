import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.layers.blocks import block_ends
from clew.layers.context import WORD_VECTORS, Context, Pieces, mixable_levels
from clew.layers.embeddings import Words
from clew.layers.pooling import MIXES
from clew.models.gpt import GPTConfig, build_gpt
from clew.models.mixed import MixedConfig, build_mixed
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens

HIDDEN = torch.tensor([[[1.0], [2.0], [4.0], [99.0]], [[5.0], [99.0], [99.0], [99.0]]])
MASK = torch.tensor([[True, True, True, False], [True, False, False, False]])
PIECES = Pieces(None, MASK, torch.tensor([[0, 1], [0, 0]]), torch.tensor([[1, 3], [1, 0]]))


@pytest.mark.parametrize(("pieces", "words"), [("first", [1.0, 2.0]), ("last", [1.0, 4.0]), ("mean", [1.0, 3.0])])
def test_a_word_vector_is_that_of_the_first_last_or_all_pieces(pieces: str, words: list[float]) -> None:
    vectors = WORD_VECTORS[pieces](HIDDEN, PIECES)
    assert vectors[0, :, 0].tolist() == words
    assert vectors[1, 0, 0] == 5.0 and vectors.isfinite().all()


def test_padding_after_a_sentence_does_not_affect_a_mean() -> None:
    hidden = HIDDEN.masked_fill(~MASK[..., None], float("nan"))
    assert WORD_VECTORS["mean"](hidden, PIECES).isfinite().all()


def read(body: nn.Module, mix: str, **options) -> tuple[Context, Words]:  # type: ignore[no-untyped-def]
    tokens = torch.tensor([[1, 2, 3]])
    widths = [level.shape[-1] for level in body.levels(tokens)]  # type: ignore[operator]
    starts, ends = torch.tensor([[0, 2]]), torch.tensor([[2, 3]])
    return Context(body, widths, MIXES[mix], **options), Words(
        tokens[:, :2], context=Pieces(tokens, None, starts, ends)
    )


def test_a_frozen_body_has_no_dropout_and_gets_no_gradient() -> None:
    body = build_recurrent(RecurrentConfig(dim=4, dropout=0.5), Tokens(7))
    context, words = read(body, "learned")
    context.train()
    assert torch.equal(context(words), context(words))
    context(words).sum().backward()
    assert context.mix.scalars.grad is not None and all(weight.grad is None for weight in body.parameters())  # type: ignore[union-attr]

    tuned, words = read(build_recurrent(RecurrentConfig(dim=4, dropout=0.5), Tokens(7)), "learned", tuned=True)
    tuned.train()
    assert not torch.equal(tuned(words), tuned(words))
    tuned(words).sum().backward()
    assert all(weight.grad is not None for weight in tuned.body.parameters())


def test_the_last_piece_of_the_last_block_is_the_last_level() -> None:
    body = build_gpt(GPTConfig(dim=8, num_layers=3, num_heads=2, max_length=8), Tokens(7)).eval()
    context, words = read(body, "last")
    with torch.no_grad():
        torch.testing.assert_close(context(words), body(words.context.inputs)[0][:, [1, 2]])
        joined, words = read(body, "join_last_four")
        levels = body.levels(words.context.inputs)
        torch.testing.assert_close(joined(words), torch.cat([levels[number] for number in (0, 2, 4, 6)], -1)[:, [1, 2]])


@pytest.mark.parametrize(
    ("width", "mix", "summed"),
    [(8, "sum", (1, 2)), (8, "sum_with_embedding", (0, 1, 2)), (4, "sum", (1, 2)), (4, "sum_with_embedding", (1, 2))],
)
def test_the_sum_is_over_all_layers_and_includes_the_embedding_only_by_name(
    width: int, mix: str, summed: tuple[int, ...]
) -> None:
    """Devlin et al. (2019), table 7: the sum of all 12 layers does not include the embedding. An embedding of another
    width cannot be added, and no layer is left out because of it."""
    body = build_recurrent(RecurrentConfig(dim=8, embedding_dim=width, num_layers=2), Tokens(7)).double().eval()
    context, words = read(body, mix)
    with torch.no_grad():
        levels = body.levels(words.context.inputs)
        torch.testing.assert_close(context(words), sum(levels[number] for number in summed)[:, [1, 2]])


def test_the_sum_of_a_body_without_layers_is_its_embedding() -> None:
    levels = [torch.tensor([[[1.0, 2.0]]])]
    assert torch.equal(MIXES["sum"](1, 2, has_embedding=True)(levels), levels[0])


def test_attention_and_the_network_above_it_are_one_block() -> None:
    gpt = build_gpt(GPTConfig(dim=8, num_layers=2, num_heads=2), Tokens(7))
    assert block_ends(gpt, 5) == [0, 2, 4]
    mixed = build_mixed(MixedConfig(dim=8, layers=["lstm", "attention", "feedforward", "lstm"]), Tokens(7))
    assert block_ends(mixed, 5) == [0, 1, 3, 4]
    assert block_ends(build_mixed(MixedConfig(dim=8, layers=["feedforward", "feedforward"]), Tokens(7)), 3) == [0, 1, 2]
    narrow = build_recurrent(RecurrentConfig(dim=8, embedding_dim=4, num_layers=2), Tokens(7))
    assert mixable_levels(narrow, [4, 8, 8]) == [1, 2]


def test_an_embedding_that_reads_another_body_requires_the_pieces() -> None:
    context, words = read(build_recurrent(RecurrentConfig(dim=4), Tokens(7)), "sum")
    with pytest.raises(
        UserError,
        match="this embedding reads the levels of another body; give it the words' pieces, as the context of Words",
    ):
        context(words._replace(context=None))
