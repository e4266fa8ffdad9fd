"""A bare encoder: the decoder attends to the input vectors themselves and starts from their mean, as in Xu et al.
(2015)."""

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.core.state import leaves
from clew.laws.cases import Sizes
from clew.laws.sequences import SEQUENCE_LAWS
from clew.layers.attending.annotations import Annotations
from clew.models.seq2seq import ENCODERS, Seq2SeqConfig, build_seq2seq
from clew.sources.tokens import Tokens
from clew.sources.vectors import Vectors
from tests.models.test_seq2seq import LENGTHS, MASK, TOKENS, of
from tests.models.translators import build, obeys_every_law
from tests.references import attention, cells, parts
from tests.references.agreement import assert_agrees, randn, randomise


@pytest.mark.parametrize("sizes", [Sizes(2, 4, 3, 3, seed=1), Sizes(1, 1, 1, 1)])
def test_annotations_obey_the_laws_of_sequence_layers(sizes: Sizes) -> None:
    for law in SEQUENCE_LAWS.values():
        law(lambda each: Annotations(each.input_dim), sizes)


def test_annotations_are_the_inputs_and_their_mean_is_over_real_positions() -> None:
    x = randn(2, 4, 3)
    spoilt = torch.where(MASK[..., None], x, float("inf"))
    y, state = Annotations(3)(spoilt, MASK)
    assert torch.equal(y[MASK], x[MASK])
    expected = [sum(x[row, place].numpy() for place in range(length)) / length for row, length in enumerate(LENGTHS)]
    np.testing.assert_allclose(state.mean.numpy(), np.array(expected), rtol=1e-12)


def test_the_mean_is_over_the_last_document_across_chunks() -> None:
    x, documents = randn(1, 6, 3), torch.tensor([[1, 1, 2, 2, 2, 0]])
    layer = Annotations(3)
    _, first = layer(x[:, :3], documents[:, :3])
    _, second = layer(x[:, 3:], documents[:, 3:], first)
    torch.testing.assert_close(second.mean, x[:, 2:5].mean(1))
    torch.testing.assert_close(layer(x, documents)[1].mean, second.mean)


def by_the_paper(p: dict, vectors: np.ndarray) -> np.ndarray:
    """Xu et al. 2015, with an Elman cell: s_0 = tanh(W mean(a) + b), and the decoder attends to the annotation vectors
    themselves."""
    outputs = []
    for row, length in enumerate(LENGTHS):
        map_weight, map_bias = p["encoder.embedding.map.weight"], p["encoder.embedding.map.bias"]
        places = np.array([cells.affine(map_weight, a) + map_bias for a in vectors[row, :length]])
        mean = np.zeros(places.shape[1])
        for place in places:
            mean += place / length
        start = np.tanh(cells.affine(p["bridge.maps.0.0.weight"], mean) + p["bridge.maps.0.0.bias"])
        q = of(p, "decoder.layers.layers.0.layer.cell")
        inner, score = of(q, "cell"), of(q, "attention.score")

        def step(inputs, state, inner=inner):  # type: ignore[no-untyped-def]
            return np.tanh(
                cells.affine(inner["input_weight"], inputs)
                + cells.affine(inner["hidden_weight"], state)
                + inner["bias"]
            )

        words = p["decoder.embedding.tokens.weight"][TOKENS[row].numpy()]
        attended = parts.bahdanau(
            q, words[None], [places], lambda s, h, score=score: attention.additive(score, s, h, 0), step, start
        )
        outputs.append(attended[0])
    return np.array(outputs)


def test_a_bare_encoder_equals_the_papers_equations_in_values_and_gradients() -> None:
    config = Seq2SeqConfig(cell="elman", dim=5, embedding_dim=3, encoder="bare", readout="none")
    body = randomise(build_seq2seq(config, Tokens(5), Vectors(4)))
    vectors = randn(2, 4, 4, seed=2)

    def call(values: torch.Tensor) -> torch.Tensor:
        hidden, _ = body(TOKENS, None, body.initial_state(2, body.encode(values, MASK)))
        return hidden

    assert_agrees(body, call, by_the_paper, vectors)


def test_every_part_of_each_layers_state_has_its_own_map_from_the_mean() -> None:
    body = randomise(build("bare", num_layers=2))
    source = torch.tensor([[2, 3, 4]])
    memory = body.encode(source)
    mean = memory.values.mean(1)
    assert torch.equal(memory.values, body.source_embedding(source, None))
    maps = [each for layer in body.bridge.maps for each in layer]
    for start, each in zip(leaves(memory.final), maps, strict=True):
        torch.testing.assert_close(start, torch.tanh(each(mean)))
    assert len(maps) == 4  # two layers, each with an output and a cell


@pytest.mark.slow
@pytest.mark.parametrize("looks", ["none", "before", "after"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder_obeys_the_laws_with_every_place_of_attention(encoder: str, looks: str) -> None:
    obeys_every_law(way="bahdanau", encoder=encoder, attention=looks)


def test_settings_that_a_bare_encoder_lacks_are_rejected() -> None:
    with pytest.raises(
        UserError, match=r"model.encoder=bare has no layers, but model.encoder_layers is 2; leave it out"
    ):
        build("bare", encoder_layers=2)
    with pytest.raises(
        UserError,
        match=r"model.bridge=copy copies the last states of a recurrent encoder, and model.encoder=bare has none"
        "; use dense",
    ):
        build("bare", bridge="copy")
