import numpy as np
import pytest
import torch
from pydantic import ValidationError

from clew.core.errors import UserError
from clew.layers.cells import CELLS
from clew.layers.recurrent import Recurrent
from clew.layers.scores import SCORES
from clew.models.seq2seq import Seq2SeqConfig, build_seq2seq
from clew.sources.tokens import Tokens
from tests.crossing import crossed
from tests.models.translators import START, Translator, build, obeys_every_law, pair_of, reversals, total
from tests.references import attention, cells, parts
from tests.references.agreement import randomise

LENGTHS = [4, 2]
SOURCE = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
MASK = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
TOKENS = torch.tensor([[0, 3, 1], [0, 2, 4]])


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "looks"), crossed(CELLS, ["none", "before", "after"]))
def test_every_cell_works_in_encoder_and_decoder(cell, looks):
    obeys_every_law(
        way="bahdanau", cell=cell, attention=looks, num_layers=2 if cell in ("lstm", "layernorm_lstm") else 1
    )


@pytest.mark.slow
@pytest.mark.parametrize(("score", "way"), crossed(SCORES, [("before", False), ("after", True), ("after", False)]))
def test_every_score_works_with_narrow_queries_and_wide_keys(score, way):
    looks, feeding = way
    obeys_every_law(way="bahdanau", score=score, attention=looks, feeding=feeding)


def of(parameters, path):
    return {name.removeprefix(path + "."): value for name, value in parameters.items() if name.startswith(path + ".")}


def read_both_ways(p, x):
    """The readers' concatenated outputs, and the final state of each: of the first after the last word, of the other
    after the first."""
    ahead = cells.elman(of(p, "forward_layer.cell"), x[None])[0]
    back = cells.elman(of(p, "backward_layer.cell"), x[None, ::-1])[0][::-1]
    return np.concatenate([ahead, back], -1), np.concatenate([ahead[-1], back[0]])


def by_the_papers(body, looks, row):
    """The output of a body of Elman cells for one sentence, step by step."""
    p = {name: value.detach().numpy() for name, value in body.named_parameters()}
    words = p["decoder.embedding.tokens.weight"][TOKENS[row].numpy()]
    embedded = p["encoder.embedding.tokens.weight"][SOURCE[row, : LENGTHS[row]].numpy()]
    places, ended = read_both_ways(of(p, "encoder.layers.layers.0.layer"), embedded)
    start = np.tanh(cells.affine(p["bridge.maps.0.0.weight"], ended) + p["bridge.maps.0.0.bias"])
    q = of(p, "decoder.layers.layers.0.layer.cell")
    inner = of(q, "cell") if looks == "before" else of(q, "cell.cells.0")
    score_parameters = of(q, "attention.score")

    def step(inputs, state):
        return np.tanh(
            cells.affine(inner["input_weight"], inputs) + cells.affine(inner["hidden_weight"], state) + inner["bias"]
        )

    if looks == "after":
        return parts.luong(
            q, words[None], [places], lambda s, h, j: attention.dot(score_parameters, s, h, j), step, start, 5
        )[0]
    written = parts.bahdanau(
        q, words[None], [places], lambda s, h: attention.additive(score_parameters, s, h, 0), step, start
    )[0]
    joined = np.concatenate([written, words], -1)
    return parts.readout(of(p, "decoder.layers.layers.1"), joined[None], "maxout")[0]


@pytest.mark.parametrize(("looks", "score"), [("before", "additive"), ("after", "general")])
def test_a_whole_model_equals_the_papers_equations(looks, score):
    config = Seq2SeqConfig(cell="elman", dim=5, embedding_dim=3, attention=looks, score=score)
    body = randomise(build_seq2seq(config, Tokens(5), Tokens(7)))
    hidden, _ = body(TOKENS, None, body.initial_state(2, body.encode(SOURCE, MASK)))
    for row in range(2):
        np.testing.assert_allclose(hidden[row].detach().numpy(), by_the_papers(body, looks, row), rtol=1e-9, atol=1e-9)


def test_the_bottleneck_passes_the_encoders_states_to_the_decoder_by_layer():
    """Sutskever et al. 2014: if the decoder has the encoder's weights, it continues where the encoder ended."""
    body = randomise(build("bottleneck", num_layers=2, direction="forward"))
    for decoder_parameter, encoder_parameter in zip(
        body.decoder.layers.parameters(), body.encoder.layers.parameters(), strict=True
    ):
        decoder_parameter.data.copy_(encoder_parameter.data)
    body.decoder.embedding.tokens.weight.data.copy_(body.encoder.embedding.tokens.weight.data[:8])
    source, tokens = torch.tensor([[2, 3, 4]]), torch.tensor([[5, 6]])
    decoded, _ = body(tokens, None, body.initial_state(1, body.encode(source)))
    continued = body.encode(torch.cat([source, tokens], 1)).values
    torch.testing.assert_close(decoded, continued[:, 3:])


@pytest.mark.parametrize(
    ("encoder_layers", "decoder_layers", "sources"), [(2, 2, [0, 1]), (3, 1, [2]), (1, 3, [0, 0, 0]), (2, 3, [0, 0, 1])]
)
def test_the_top_layer_of_a_decoder_starts_from_that_of_the_encoder(encoder_layers, decoder_layers, sources):
    body = build("bahdanau", encoder_layers=encoder_layers, num_layers=decoder_layers)
    assert body.bridge.sources == sources
    _, state = body.encoder(SOURCE, MASK)
    final = body.encode(SOURCE, MASK).final
    for layer, source in enumerate(sources):
        ahead, back = state.layers[source]
        torch.testing.assert_close(
            final[layer], torch.tanh(body.bridge.maps[layer][0](torch.cat([ahead.cell, back.cell], -1)))
        )


def test_reading_a_source_backwards_equals_reading_the_reversed_source():
    ahead, back = (randomise(build("bottleneck", direction=direction)) for direction in ("forward", "backward"))
    source = torch.tensor([[2, 3, 4, 5]])
    torch.testing.assert_close(ahead.encode(source.flip(1)).values.flip(1), back.encode(source).values)


def test_only_the_attending_layer_runs_step_by_step():
    """The others are recurrences over the whole chunk, run by a kernel."""
    body = build("bahdanau-deep")
    above = [layer.layer for layer in body.decoder.layers.layers[1:]]
    assert len(above) == 2 and all(isinstance(layer, Recurrent) and layer.cell.kernel == "lstm" for layer in above)
    unfed = [layer.layer for layer in build("luong-unfed").decoder.layers.layers]
    assert [getattr(getattr(layer, "cell", None), "kernel", None) for layer in unfed] == ["lstm", "lstm", None]


def test_dropout_is_between_all_layers_and_off_in_evaluation():
    for way in ("bahdanau-deep", "luong-deep", "luong-unfed", "bottleneck"):
        for kind in ("plain", "locked"):
            body = build(way, dropout=0.5, dropout_kind=kind)
            memory = body.eval().encode(SOURCE, MASK)
            quiet = [body(TOKENS, None, body.initial_state(2, memory))[0] for _ in range(2)]
            assert torch.equal(*quiet)
            body.train()
            loud = [body(TOKENS, None, body.initial_state(2, memory))[0] for _ in range(2)]
            assert not torch.equal(*loud)


def test_hard_attention_adds_terms_to_a_task_only_in_training():
    translator = Translator("hard")
    batch = reversals(3)
    terms = translator(batch)
    assert set(terms) == {"loss", "policy", "entropy"}
    assert terms["entropy"].weight == 0.01 and all(term.count == batch.mask.sum() for term in terms.values())
    total(terms).backward()
    score = translator.body.decoder.layers.layers[0].layer.cell.attention.score
    assert all(bool(parameter.grad.any()) for parameter in score.parameters())
    assert set(translator.eval()(batch)) == {"loss"}
    assert set(Translator("bahdanau")(batch)) == {"loss"}


@pytest.mark.slow
def test_hard_attention_learns_where_to_attend():
    """Only attention connects the source to the decoder, and the target is one source word at a random position."""
    torch.manual_seed(0)
    translator = Translator("hard", bridge="zero", dim=16, embedding_dim=16, direction="forward", entropy_weight=0.0)
    optimiser = torch.optim.Adam(translator.parameters(), 0.02)
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        marked = torch.randint(3, 8, (64,), generator=generator)
        source = torch.full((64, 5), 2)
        source[torch.arange(64), torch.randint(5, (64,), generator=generator)] = marked
        tokens = torch.full((64, 1), START)
        memory = translator.body.encode(source)
        hidden, state = translator.body(tokens, None, translator.body.initial_state(64, memory))
        log_probs = translator.output(hidden).log_softmax(-1).gather(-1, marked[:, None, None])[..., 0]
        terms = translator.body.hard_terms(state, log_probs)
        optimiser.zero_grad()
        (-log_probs.mean() + total(terms)).backward()
        optimiser.step()
    assert float(log_probs.detach().mean()) > -0.4  # guessing gives -1.6


def test_a_seq2seq_has_its_number_of_parameters_by_formula():
    dim, width, vocabulary, source = 6, 4, 11, 9
    body = build_seq2seq(Seq2SeqConfig(cell="gru", dim=dim, embedding_dim=width), Tokens(vocabulary), Tokens(source))
    gru = 3 * dim * (width + dim + 1) + dim
    looking = 3 * dim * (width + 2 * dim + dim + 1) + dim
    score = 2 * dim * dim + 2 * dim * (2 * dim) + 2 * dim + 2 * dim
    readout = 2 * dim * (dim + 2 * dim + width + 1)
    bridge = dim * (2 * dim + 1)
    assert (
        sum(p.numel() for p in body.parameters())
        == (vocabulary + source) * width + 2 * gru + looking + score + readout + bridge
    )


def test_an_initial_scale_bounds_every_parameter():
    body = build("bottleneck", init_scale=0.08)
    largest = max(float(parameter.detach().abs().max()) for parameter in body.parameters())
    assert 0.07 < largest <= 0.08


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(ValidationError, match=r"unknown score 'addtive'; did you mean 'additive'"):
        Seq2SeqConfig(score="addtive")
    with pytest.raises(
        UserError,
        match="model.hard=true draws where to attend, but model.attention=none does not attend; use before or after",
    ):
        build("bottleneck", hard=True)
    with pytest.raises(
        UserError,
        match="with model.attention=none and model.bridge=zero nothing of the source would reach the decoder"
        "; use copy or dense",
    ):
        build("bottleneck", bridge="zero")
    with pytest.raises(
        UserError,
        match="model.bridge=copy needs one reader and as many encoder as decoder layers, not direction both and 1"
        ".*; use dense, or model.direction=backward",
    ):
        build("bahdanau", bridge="copy")
    body = build("bahdanau", score={"name": "location", "max_length": 3})
    batch = pair_of([[2, 3, 4, 5]])
    state = body.initial_state(1, body.encode(batch.source))
    with pytest.raises(
        UserError,
        match="location scores have 3 positions, but a key has position 4; raise the score's option max_length",
    ):
        body(batch.tokens, None, state)
