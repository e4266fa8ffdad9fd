import pytest
import torch
from pydantic import ValidationError

from clew.core.errors import UserError
from clew.core.state import copy_state
from clew.core.taps import Tap
from clew.laws.cases import Sizes
from clew.laws.sequences import BODY_LAWS
from clew.layers.cells import CELLS
from clew.layers.positions import POSITIONS
from clew.layers.scores import SCORES
from clew.layers.wiring import WIRINGS
from clew.models import MODELS
from clew.models.gpt import GPTConfig, build_gpt
from clew.models.llama import LlamaConfig, build_llama
from clew.models.mixed import MixedConfig, build_mixed
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.models.window import WindowConfig, build_window
from clew.sources.tokens import Tokens
from tests.crossing import crossed

VOCABULARY = 7
SMALL = {
    "recurrent": {"dim": 4, "num_layers": 2, "embedding_dim": 3},
    "window": {"dim": 4, "embedding_dim": 3, "width": 3},
    "gpt": {"dim": 4, "num_layers": 2, "num_heads": 2, "max_length": 32},
    "llama": {"dim": 8, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2},
    "bert": {"dim": 4, "num_layers": 2, "num_heads": 2, "max_length": 32, "dropout": 0.0, "attention_dropout": 0.0},
    "bag": {"dim": 4},
    "cnn": {"dim": 4, "embedding_dim": 3, "widths": [1, 3]},
    "elmo": {"dim": 4, "num_layers": 2},
    "mixed": {"dim": 8, "layers": ["lstm", "attention", "convolution", "feedforward"]},
}
BODIES = [name for name, family in MODELS.items() if not family.encodes and family.reads_sequence]
RAGGED, SMALLEST = Sizes(2, 5, 0, 0, seed=1), Sizes(1, 1, 0, 0)


def build(family, **options):
    member = MODELS[family]
    return member.build(member.config(**{**SMALL[family], **options}), Tokens(VOCABULARY))


def obeys_every_law(family, sizes=RAGGED, **options):
    for law in BODY_LAWS.values():
        law(lambda _: build(family, **options), sizes)


@pytest.mark.parametrize(("sizes", "family"), crossed([RAGGED, SMALLEST], BODIES))
def test_every_family_obeys_the_laws_of_bodies(family, sizes):
    obeys_every_law(family, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("cell", [name for name in CELLS if name != "lstm"])
def test_a_recurrent_body_obeys_the_laws_with_every_cell(cell):
    obeys_every_law("recurrent", cell=cell, num_layers=1)


@pytest.mark.slow
@pytest.mark.parametrize("wiring", [name for name in WIRINGS if name != "plain"])
def test_a_recurrent_body_obeys_the_laws_with_every_connection(wiring):
    obeys_every_law("recurrent", cell="elman", wiring=wiring, embedding_dim=4)


@pytest.mark.slow
@pytest.mark.parametrize("position", [name for name in POSITIONS if name != "learned"])
def test_a_gpt_obeys_the_laws_with_every_position(position):
    obeys_every_law("gpt", position=position, num_layers=1)


@pytest.mark.slow
@pytest.mark.parametrize("score", [name for name in SCORES if name != "scaled"])
def test_a_gpt_obeys_the_laws_with_every_score(score):
    obeys_every_law("gpt", score=score, num_layers=1, window=2)


@pytest.mark.parametrize("family", [name for name in BODIES if name != "elmo"])
def test_every_level_feeds_the_next_and_each_layer_has_one(family):
    body = build(family)
    levels = body.levels(torch.randint(VOCABULARY, (2, 5)))
    assert len(levels) == 1 + len(body.layers.layers)
    expected = levels[0]
    for layer, level in zip(body.layers.layers, levels[1:-1], strict=False):
        expected, _ = layer(expected)
        torch.testing.assert_close(level, expected)


def count(body):
    return sum(parameter.numel() for parameter in body.parameters())


def test_a_gpt_has_the_published_number_of_parameters_by_formula():
    vocabulary, dim, layers, length = 11, 8, 3, 16
    body = build_gpt(GPTConfig(dim=dim, num_layers=layers, num_heads=2, max_length=length), Tokens(vocabulary))
    attention, network, norms = 4 * dim * dim + 4 * dim, 8 * dim * dim + 5 * dim, 4 * dim
    assert count(body) == vocabulary * dim + length * dim + layers * (attention + network + norms) + 2 * dim


def test_gpt_2_small_has_124_million_parameters():
    with torch.device("meta"):
        body = build_gpt(GPTConfig(dim=768, num_layers=12, num_heads=12, max_length=1024), Tokens(50257))
    assert count(body) == 124_439_808


def test_a_llama_has_the_published_number_of_parameters_by_formula():
    vocabulary, dim, layers, heads, kv_heads, hidden = 11, 8, 3, 4, 2, 20
    body = build_llama(
        LlamaConfig(dim=dim, num_layers=layers, num_heads=heads, num_kv_heads=kv_heads, hidden_dim=hidden),
        Tokens(vocabulary),
    )
    attention = 2 * dim * dim + 2 * dim * kv_heads * (dim // heads)
    assert count(body) == vocabulary * dim + layers * (attention + 3 * dim * hidden + 2 * dim) + dim


def test_llama_7b_has_its_published_number_of_parameters():
    with torch.device("meta"):
        body = build_llama(LlamaConfig(dim=4096, num_layers=32, num_heads=32, hidden_dim=11008), Tokens(32000))
    assert count(body) + 32000 * 4096 == 6_738_415_616  # including its output layer, which is not tied


def test_a_recurrent_body_has_its_number_of_parameters_by_formula():
    body = build_recurrent(RecurrentConfig(dim=6, embedding_dim=4, num_layers=2), Tokens(11))
    assert count(body) == 11 * 4 + 4 * 6 * (4 + 6 + 1) + 4 * 6 * (6 + 6 + 1)


def test_the_last_layer_and_the_embedding_may_have_their_own_width_and_dropout():
    config = RecurrentConfig(
        dim=6,
        embedding_dim=4,
        last_dim=5,
        num_layers=3,
        dropout=0.3,
        input_dropout=0.1,
        last_dropout=0.0,
        dropout_kind="locked",
    )
    body = build_recurrent(config, Tokens(11))
    assert [layer.dim for layer in body.layers.layers] == [6, 6, 5] and body.dim == 5
    assert [part.dropout.p for part in (body.embedding, *body.layers.layers)] == [0.1, 0.3, 0.3, 0.0]
    assert count(body) == 11 * 4 + 4 * 6 * (4 + 6 + 1) + 4 * 6 * (6 + 6 + 1) + 4 * 5 * (6 + 5 + 1)
    alike = build_recurrent(RecurrentConfig(dim=6, num_layers=2, dropout=0.3), Tokens(11))
    assert [part.dropout.p for part in (alike.embedding, *alike.layers.layers)] == [0.3, 0.3, 0.3]


def test_a_recurrent_body_with_a_narrow_last_layer_obeys_the_laws():
    obeys_every_law("recurrent", cell="lstm", last_dim=2)


def test_a_window_sees_exactly_its_width_of_words():
    body = build_window(WindowConfig(width=3, embedding_dim=4, dim=5), Tokens(VOCABULARY)).double()
    tokens = torch.randint(VOCABULARY, (1, 8))
    hidden, _ = body(tokens)
    for t in range(8):
        changed = tokens.clone()
        changed[0, t] = (tokens[0, t] + 1) % VOCABULARY
        moved = (body(changed)[0] - hidden).abs().amax(-1)[0] > 0
        assert moved.nonzero().flatten().tolist() == list(range(t, min(t + 3, 8)))


def test_a_window_is_the_tanh_of_a_linear_map_of_its_concatenated_words():
    body = build_window(WindowConfig(width=2, embedding_dim=3, dim=4), Tokens(VOCABULARY)).double()
    convolution = body.layers.layers[0].layer
    tokens = torch.randint(VOCABULARY, (1, 5))
    x = body.embedding.weight[tokens[0]]
    joined = torch.cat([x[:-1], x[1:]], -1)  # [x_{t-1}; x_t]
    matrix = torch.cat([convolution.weight[..., 0], convolution.weight[..., 1]], -1)
    torch.testing.assert_close(body(tokens)[0][0, 1:], torch.tanh(joined @ matrix.T + convolution.bias))


def test_residual_projections_of_a_gpt_are_initialised_smaller_with_depth():
    torch.manual_seed(0)
    body = build_gpt(GPTConfig(dim=128, num_layers=8, num_heads=4), Tokens(VOCABULARY))
    attention = body.layers.layers[0].layer
    assert float(attention.query.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(attention.output.weight.detach().std()) == pytest.approx(0.02 / 4, rel=0.05)


def test_an_initial_scale_bounds_every_parameter():
    body = build_recurrent(RecurrentConfig(dim=16, init_scale=0.05), Tokens(VOCABULARY))
    largest = max(float(parameter.detach().abs().max()) for parameter in body.parameters())
    assert 0.04 < largest <= 0.05


def test_options_of_a_position_reach_it():
    body = build_gpt(
        GPTConfig(dim=8, num_layers=1, num_heads=2, position={"name": "rotary", "base": 500.0}), Tokens(VOCABULARY)
    )
    assert body.layers.layers[0].layer.attention.position.base == 500.0
    assert body.max_length is None
    assert build("gpt").max_length == 32


def test_a_wirings_own_dropout_overrides_the_bodys():
    body = build_recurrent(
        RecurrentConfig(dim=4, dropout=0.5, wiring={"name": "residual", "dropout": 0.1}), Tokens(VOCABULARY)
    )
    assert body.layers.layers[0].dropout.p == 0.1
    assert body.embedding.dropout.p == 0.5


def test_a_dense_stack_grows_and_its_norm_fits():
    body = build_mixed(MixedConfig(dim=4, layers=["gru", "gru"], wiring="dense"), Tokens(VOCABULARY))
    assert body.dim == 4 + 4 + 8
    assert body(torch.zeros(1, 2, dtype=torch.long))[0].shape == (1, 2, 16)


def test_every_family_has_taps():
    without = {family for family in BODIES if not any(isinstance(part, Tap) for part in build(family).modules())}
    assert without == {"window", "bag", "cnn"}


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(ValidationError, match=r"unknown cell 'lstn'; did you mean 'lstm'\? known: coupled_lstm, elman"):
        RecurrentConfig(cell="lstn")
    with pytest.raises(
        ValidationError,
        match=r"layers takes a list with at least one layer, such as \[lstm, \{name: attention, window: 64\}\]",
    ):
        MixedConfig(layers=[])
    with pytest.raises(
        ValidationError, match=r"unknown layer 'atention'; did you mean 'attention'\? known: attention, convolution"
    ):
        MixedConfig(layers=["atention"])
    with pytest.raises(UserError, match=r"dim \(10\) must be divisible by num_heads \(4\); or give head_dim"):
        build_gpt(GPTConfig(dim=10, num_heads=4), Tokens(VOCABULARY))
    with pytest.raises(
        UserError, match=r"a Residual connection adds its input \(3 wide\) to its output \(4 wide\); make them equal"
    ):
        build("recurrent", wiring="residual")
    with pytest.raises(
        UserError,
        match="position 'learned' is added to the embedding, not inside a layer; write model.position=learned",
    ):
        build("mixed", layers=[{"name": "attention", "position": "learned"}])
    with pytest.raises(
        UserError, match="the sequence reaches position 33, but the model has learnt 32 positions; shorten it"
    ):
        build("gpt")(torch.zeros(1, 33, dtype=torch.long))


COMPILED = ["recurrent", "gpt"]


@pytest.mark.slow
@pytest.mark.parametrize("family", COMPILED)
def test_a_traced_body_gives_the_same_outputs(family):
    same_when_compiled(build(family, num_layers=1).eval(), "aot_eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("family", COMPILED)
def test_a_compiled_body_gives_the_same_outputs(family):
    same_when_compiled(build(family, num_layers=1).eval(), "inductor")


def same_when_compiled(body, backend):
    torch._dynamo.reset()
    compiled = torch.compile(body, backend=backend)
    tokens = torch.randint(VOCABULARY, (2, 6))
    mask = torch.arange(6) < torch.tensor([6, 4])[:, None]
    with torch.no_grad():
        expected, state = body(tokens)
        torch.testing.assert_close(compiled(tokens)[0], expected)
        torch.testing.assert_close(compiled(tokens, mask)[0][mask], body(tokens, mask)[0][mask])
        step = torch.randint(VOCABULARY, (2, 1))
        torch.testing.assert_close(compiled(step, None, copy_state(state))[0], body(step, None, state)[0])


@pytest.mark.parametrize(
    ("family", "settings", "sentence"),
    [
        (
            "gpt",
            {"score": {"name": "additive", "hidden_dim": "abc"}},
            "score option 'additive.hidden_dim' takes a whole number or null, not 'abc'",
        ),
        (
            "mixed",
            {"layers": [{"name": "attention", "num_heads": 0}]},
            "layer 'attention' cannot be built with {'num_heads': 0}",
        ),
        (
            "mixed",
            {"layers": [{"name": "feedforward", "hidden_dim": -1}]},
            "layer 'feedforward' cannot be built with {'hidden_dim': -1}",
        ),
        ("mixed", {"position": "alibi"}, "alibi positions act inside attention layers: write model.layers="),
    ],
)
def test_invalid_options_are_rejected_with_a_sentence(family: str, settings: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        MODELS[family].build(MODELS[family].config(**settings), Tokens(7))
    assert sentence in str(error.value)


def test_learned_positions_take_the_models_length() -> None:
    for part in ("learned", {"name": "learned"}):
        config = MODELS["gpt"].config(position=part, max_length=9, dim=4, num_heads=1, num_layers=1)
        assert MODELS["gpt"].build(config, Tokens(5)).max_length == 9
