"""Instruments on modules without a run: composed by hand, from torch.nn and from transformers. Their values equal the
modules' own outputs."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import clew
from clew.core.errors import UserError
from clew.inspection.attribution import input_x_gradient
from clew.instruments import INSTRUMENTS
from clew.instruments.looking import fitting, look
from clew.instruments.subjects.subject import Subject, subject_names, subject_of
from clew.layers.attention import SelfAttention
from clew.layers.cells import LSTM
from clew.layers.recurrent import Recurrent
from clew.layers.sequence import Stack
from clew.layers.wiring import PreNorm
from clew.tasks.offers import Judged, offered
from clew.tasks.shared.reading import ReadsText
from tests.instruments.small_runs import small_run

IDS = torch.tensor([[3, 1, 4, 1, 5]])
WORDS = ["<pad>", "the", "walls", "were", "tall", "thread"]


class Spelling:
    """An invalid tokenizer: it encodes a text as the text, not as ids."""

    def encode(self, text: str) -> str:
        return text


class Tokenizer:
    """A tokenizer of a few words."""

    def encode(self, text: str) -> list[int]:
        return [WORDS.index(word) for word in text.split()]

    def decode(self, ids: list[int]) -> str:
        return " ".join(WORDS[id] for id in ids)


def vectors(length: int = 5, dim: int = 8) -> Tensor:
    return torch.randn(1, length, dim, generator=torch.Generator().manual_seed(3))


def composed() -> Stack:
    torch.manual_seed(0)
    return Stack([Recurrent(LSTM(8, 8)), PreNorm(8, SelfAttention(8, 2))]).eval()


def encoder(batch_first: bool = True) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first), 2, enable_nested_tensor=False
    ).eval()


def gpt2():
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    return GPT2Model(
        GPT2Config(vocab_size=6, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    ).eval()


def bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 16,
    }
    return BertModel(BertConfig(vocab_size=6, **sizes)).eval()


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 16,
    }
    return LlamaForCausalLM(LlamaConfig(vocab_size=6, bos_token_id=0, eos_token_id=0, **sizes)).eval()


CASES = {
    "composed": (composed, vectors()),
    "nn.LSTM": (lambda: nn.LSTM(8, 5, num_layers=2, bidirectional=True), vectors().transpose(0, 1)),
    "nn.GRU": (lambda: nn.GRU(8, 5, batch_first=True), vectors()),
    "nn.RNN": (lambda: nn.RNN(8, 5), vectors()[0]),
    "nn.TransformerEncoder": (encoder, vectors()),
    "nn.Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (vectors(), vectors(3))),
    "body": (lambda: small_run("gpt").task.body, IDS),
    "GPT-2": (gpt2, IDS),
    "BERT": (bert, {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}),
    "Llama": (llama, IDS),
}
SLOW = {
    "attribution": {"steps": 3},
    "gradients": {"steps": 2},
    "cost": {"lengths": [4], "repeats": 0},
    "ablation": {"heads": ["1.1"]},
}


@pytest.mark.parametrize("name", CASES)
def test_instruments_draw_modules_or_say_what_is_missing(name):
    build, inputs = CASES[name]
    module = build()
    if hasattr(module, "config"):
        module(IDS, output_attentions=True)  # transformers adds its own hooks, once
    was = {path: len(part._forward_hooks) + len(part._forward_pre_hooks) for path, part in module.named_modules()}
    subject = subject_of(module, inputs=inputs)
    applicable = fitting(subject)
    assert {"tokens", "levels", "gradients", "graph", "taps", "attribution"} <= set(applicable)
    for instrument in INSTRUMENTS:
        if instrument not in applicable:
            with pytest.raises(
                UserError, match=f"'{instrument}' cannot look at this: .*; instruments that can: tokens, "
            ):
                clew.look(module, instrument, inputs=inputs)
        elif (name, instrument) != ("nn.Transformer", "gradients"):
            view = clew.look(module, instrument, inputs=inputs, **SLOW.get(instrument, {}))
            json.dumps(view.facts, allow_nan=False)
            assert "<svg" in view.svg() and view.title in view.html()
    assert was == {
        path: len(part._forward_hooks) + len(part._forward_pre_hooks) for path, part in module.named_modules()
    }


def levels(module: nn.Module, inputs: object, **options: object) -> list[dict]:
    return clew.look(module, "levels", inputs=inputs, **options).facts["halves"]  # type: ignore[arg-type]


def lengths(values: Tensor) -> list[float]:
    """|h| at every position of one row."""
    return values.detach().reshape(-1, values.shape[-1]).norm(dim=-1).tolist()


def test_levels_of_a_stack_composed_by_hand_are_its_layers_outputs():
    module, x = composed(), vectors()
    (half,) = levels(module, x)
    with torch.no_grad():
        first, _ = module.layers[0](x)
        second, _ = module.layers[1](first)
    assert half["levels"] == ["input", "layers.0", "layers.1"] and half["tokens"] == ["1", "2", "3", "4", "5"]
    for actual, expected in zip(half["norms"], (x, first, second), strict=True):
        assert actual == pytest.approx(lengths(expected), rel=1e-4)


def test_levels_of_a_torch_recurrence_equal_those_of_fewer_layers():
    """The first layer's output is that of a recurrence with only that layer."""
    torch.manual_seed(0)
    module = nn.LSTM(8, 5, num_layers=2, bidirectional=True)
    x = vectors().transpose(0, 1)
    single = nn.LSTM(8, 5, bidirectional=True)
    single.load_state_dict({name: value for name, value in module.state_dict().items() if "_l0" in name})
    (half,) = levels(module, x)
    for actual, expected in zip(half["norms"], (x, single(x)[0], module(x)[0]), strict=True):
        assert actual == pytest.approx(lengths(expected), rel=1e-4)


@pytest.mark.parametrize("batch_first", [True, False])
def test_levels_of_a_torch_encoder_are_its_layers_outputs(batch_first):
    module = encoder(batch_first)
    x = vectors() if batch_first else vectors().transpose(0, 1)
    (half,) = levels(module, x)
    with torch.no_grad():
        first = module.layers[0](x)
        second = module.layers[1](first)
    assert half["levels"] == ["input", "layers.0", "layers.1"]
    for actual, expected in zip(half["norms"], (x, first, second), strict=True):
        assert actual == pytest.approx(lengths(expected), rel=1e-4)


@pytest.mark.parametrize("build", [gpt2, bert, llama])
def test_levels_of_transformers_models_are_their_hidden_states(build):
    module = build()
    with torch.no_grad():
        states = module(IDS, output_hidden_states=True).hidden_states
    (half,) = levels(module, IDS)
    assert len(half["norms"]) >= len(states)
    for actual, expected in zip(half["norms"][: len(states) - 1], states[:-1], strict=True):
        assert actual == pytest.approx(lengths(expected), rel=1e-4)
    if build is not llama:  # llama's output is over tokens; the others return the last state, after the last norm
        assert half["norms"][-1] == pytest.approx(lengths(states[-1]), rel=1e-4)


@pytest.mark.parametrize("build", [gpt2, bert, llama])
def test_attention_of_transformers_models_equals_their_eager_output(build):
    module = build()
    was = module.config._attn_implementation
    assert was != "eager"
    view = clew.look(module, "attention", inputs=IDS, layer=1, head=2)
    assert module.config._attn_implementation == was
    module.set_attn_implementation("eager")
    with torch.no_grad():
        expected = module(IDS, output_attentions=True).attentions
    np.testing.assert_allclose(view.facts["values"], expected[0][0, 1], atol=1e-5)
    assert view.facts["names"] == [["1.1", "1.2"], ["2.1", "2.2"]] and view.facts["rows"] == ["3", "1", "4", "1", "5"]


def test_attention_of_a_torch_encoder_equals_its_attention_module():
    module, x = encoder(), vectors()
    view = clew.look(module, "attention", inputs=x, layer=1, head=1)
    with torch.no_grad():
        _, expected = module.layers[0].self_attn(x, x, x, average_attn_weights=False)
    np.testing.assert_allclose(view.facts["values"], expected[0, 0], atol=1e-5)


def test_attention_of_a_stack_composed_by_hand_equals_its_tap():
    module, x = composed(), vectors()
    view = clew.look(module, "attention", inputs=x, head=2)
    with torch.no_grad(), clew.record(module, "*.weights") as recorded:
        module(x)
    np.testing.assert_allclose(view.facts["values"], recorded["*.weights"][0, 1], atol=1e-5)


def test_attention_of_a_torch_transformer_is_shown_by_kind():
    module = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    inputs = (vectors(), vectors(3))
    shapes = {
        kind: np.shape(clew.look(module, "attention", inputs=inputs, heads=kind).facts["values"])
        for kind in ("self", "decoder", "cross")
    }
    assert shapes == {"self": (5, 5), "decoder": (3, 3), "cross": (3, 5)}
    assert clew.look(module, "attention", inputs=inputs).facts["heads"] == "cross"


def test_gates_of_a_torch_recurrence_are_computed_from_its_weights():
    torch.manual_seed(0)
    module, x = nn.LSTM(3, 4, batch_first=True), torch.randn(1, 1, 3)
    gates = clew.look(module, "gates", inputs=x).facts["layers"]["1"]["gates"]
    sums = (
        module.weight_ih_l0 @ x[0, 0] + module.bias_ih_l0 + module.bias_hh_l0
    )  # there is nothing before the first position
    for gate, part in zip(("input", "forget"), sums.chunk(4), strict=False):
        assert gates[gate]["mean"] == pytest.approx(torch.sigmoid(part).mean().item(), abs=1e-5)


def test_a_recurrences_gradients_equal_autograd():
    """|d |h_t| / d x_{t-k}| of nn.RNN, one position at a time."""
    torch.manual_seed(0)
    module, x = nn.RNN(8, 5, batch_first=True), vectors(9).requires_grad_()
    facts = clew.look(module, "gradients", inputs=x.detach(), steps=3, places=1).facts
    (gradient,) = torch.autograd.grad(module(x)[0][0, 3].norm(), x)  # the first position that has 3 before it
    assert facts["as it is"]["x"] == pytest.approx(gradient[0, :4].norm(dim=-1).flip(0).tolist(), rel=1e-4)
    assert list(facts["as it is"]) == ["1 h", "x"] and "untrained" not in facts


@pytest.mark.parametrize("name", ["composed", "nn.TransformerEncoder", "GPT-2"])
def test_an_attribution_is_the_gradient_of_the_requested_entry(name):
    build, inputs = CASES[name]
    module = build()
    facts = clew.look(module, "attribution", inputs=inputs, method="input_x_gradient", of="2", place=4).facts
    if name == "GPT-2":
        x, run = module.wte(inputs).detach(), lambda rows: module(inputs_embeds=rows).last_hidden_state
    else:
        x, run = inputs, lambda rows: outputs if isinstance(outputs := module(rows), Tensor) else outputs[0]
    expected = input_x_gradient(lambda rows: run(rows)[:, 3, 2], x[0])
    assert facts["values"] == pytest.approx(expected.values.tolist(), abs=1e-5)
    assert facts["score"] == pytest.approx(expected.score, abs=1e-5)


def test_a_text_is_tokenized_and_its_tokens_are_named():
    module = gpt2()
    by_text = clew.look(module, "levels", text="were the tall the thread", tokenizer=Tokenizer())
    by_ids = clew.look(module, "levels", inputs=IDS)
    assert by_text.facts["halves"][0]["tokens"] == ["were", "the", "tall", "the", "thread"]
    assert by_text.facts["halves"][0]["norms"] == by_ids.facts["halves"][0]["norms"]
    run = small_run("gpt")
    tokens = clew.look(run.task.body, "tokens", text="the walls", tokenizer=run.tokenizer).facts
    assert "".join(tokens["tokens"]) == "the walls" and tokens["ids"] == run.tokenizer.encode("the walls")


def test_a_task_without_a_run_is_inspected_like_its_run():
    run = small_run("gpt")
    for instrument, options in (
        ("surprisal", {}),
        ("attention", {}),
        ("next", {}),
        ("levels", {}),
        ("beam", {"max_new": 3}),
    ):
        assert (
            clew.look(run.task, instrument, text="the walls", **options).facts
            == clew.look(run, instrument, text="the walls", **options).facts
        )
    assert subject_of(run.task).name == "LanguageModel" and subject_of(run).name == "runs/gpt"


class OwnTask(ReadsText, nn.Module):
    """A user's task: a body, a reader, and one more capability."""

    def __init__(self, body, reader):
        super().__init__()
        self.body, self.reader = body, reader

    def judges(self, inputs):
        return Judged(("long" if len(inputs.text) > 5 else "short",), {"long": 0.75, "short": 0.25})


def test_a_user_task_works_with_instruments_for_its_capabilities():
    run = small_run("gpt")
    task = OwnTask(run.task.body, run.task.vectors().reader)
    assert offered(task) == ["reads", "judges", "vectors"]
    for instrument in ("tokens", "attention", "levels", "gradients", "taps"):
        of_own, of_run = (clew.look(model, instrument, text="the walls") for model in (task, run))
        assert [type(part) for part in of_own.parts][:1] == [type(part) for part in of_run.parts][:1]
    attention = [clew.look(model, "attention", text="the walls").facts["values"] for model in (task, run)]
    assert attention[0] == attention[1]
    assert clew.look(task, "prediction", text="the walls").title == "Prediction: long"
    with pytest.raises(
        UserError, match="OwnTask gives no probability to a token; instruments that can: tokens, gradients"
    ):
        clew.look(task, "surprisal", text="the walls")


def test_subjects_get_distinct_names():
    lstm = nn.LSTM(2, 2)
    assert subject_names([subject_of(lstm), subject_of(small_run("gpt"))]) == ["LSTM", "gpt"]
    assert subject_names([subject_of(lstm)] * 2) == ["1: LSTM", "2: LSTM"]
    view = clew.look([nn.LSTM(8, 4, batch_first=True), nn.GRU(8, 4, batch_first=True)], "levels", inputs=vectors())
    assert set(view.facts) == {"LSTM", "GRU"}


class OneHot(nn.Module):
    """A model without an embedding table."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.map(nn.functional.one_hot(ids, 6).float())


class Counts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


@pytest.mark.parametrize(
    ("model", "instrument", "options", "sentence"),
    [
        (3, "levels", {}, "expected a run, its folder or a torch module to look at, found 3"),
        ("lstm", "levels", {}, "LSTM reads tensors; give inputs= as it takes them, or text= with a tokenizer="),
        (
            "lstm",
            "levels",
            {"inputs": torch.zeros(2, 3, 8)},
            r"LSTM reads one row of vectors here, \(1, length, dim\) or",
        ),
        ("lstm", "levels", {"inputs": torch.zeros(1, 3, 7)}, "LSTM reads vectors of width 8, and inputs have 7"),
        ("lstm", "levels", {"inputs": IDS}, "LSTM reads one row of vectors here"),
        ("lstm", "levels", {"inputs": [1, 2]}, "inputs are a tensor, several in a tuple, or by name in a dict"),
        (
            "lstm",
            "attention",
            {"inputs": vectors()},
            "LSTM has no attention, and so no heads; instruments that can: tokens, cells",
        ),
        (
            "lstm",
            "surprisal",
            {"inputs": vectors()},
            "LSTM gives no probability to a token; instruments that can: tokens, cells",
        ),
        ("lstm", "curves", {"inputs": vectors()}, "LSTM is a module, not a run with a log"),
        (
            "encoder",
            "levels",
            {"inputs": torch.zeros(1, 3, 7)},
            r"TransformerEncoder cannot be run on inputs of shape \(1, 3, 7\): ",
        ),
        (
            "encoder",
            "levels",
            {"inputs": torch.zeros(2, 3, 8)},
            r"inputs of shape \(2, 3, 8\) are several rows, and only one can be shown",
        ),
        (
            "encoder",
            "levels",
            {"inputs": torch.zeros(1, 0, 8)},
            r"inputs of shape \(1, 0, 8\) have no places to look at",
        ),
        (
            "encoder",
            "attention",
            {"inputs": vectors(), "kind": "scores"},
            "TransformerEncoder shows the weights of its heads, but not the scores before the softmax; leave kind= out",
        ),
        (
            "encoder",
            "attention",
            {"inputs": vectors(), "heads": "cross"},
            "TransformerEncoder has no cross attention here; it has self",
        ),
        (
            "encoder",
            "ablation",
            {"inputs": vectors(), "heads": ["1.1"]},
            "can be watched, but not switched off from outside; instruments",
        ),
        (
            "encoder",
            "attention",
            {"inputs": vectors(), "off": ["1.1"]},
            "can be watched, but not switched off from outside; leave off= out",
        ),
        (
            "encoder",
            "attribution",
            {"inputs": vectors(), "of": "9"},
            "there is no entry 9; TransformerEncoder gives 8 at each place, counted from 0",
        ),
        (
            "encoder",
            "attribution",
            {"inputs": vectors(), "of": "good"},
            "of='good' names no entry of what TransformerEncoder gives",
        ),
        (
            "encoder",
            "attribution",
            {"inputs": vectors(), "place": 9},
            "there is no place 9; TransformerEncoder gives 5",
        ),
        (
            "table",
            "levels",
            {"text": " ", "tokenizer": Tokenizer()},
            "there is no text to read; give at least one word",
        ),
        ("table", "levels", {"text": "the", "inputs": IDS}, "text= and inputs= exclude each other; give one of them"),
        (
            "table",
            "levels",
            {"text": "the", "tokenizer": 3},
            r"a tokenizer needs encode\(text\) -> ids, which 3 does not have",
        ),
        (
            "table",
            "levels",
            {"text": "the", "target": "a", "tokenizer": Tokenizer()},
            "Embedding reads a text and writes none; leave target= out",
        ),
        (
            "table",
            "levels",
            {"text": "the", "tokenizer": Spelling()},
            r"tokenizer.encode\(text\) must return a list of ids, and this one returned 'the'",
        ),
        (
            "counts",
            "gradients",
            {"inputs": vectors()},
            "Counts returns no tensor of vectors, so there is nothing to look at",
        ),
        (
            "run",
            "levels",
            {"inputs": IDS},
            "runs/gpt has its own tokenizer and reads texts; pass text=, and leave inputs= out",
        ),
        (
            "task",
            "levels",
            {"text": "the", "tokenizer": Tokenizer()},
            "LanguageModel has its own tokenizer and reads texts",
        ),
        (
            "one hot",
            "attribution",
            {"inputs": IDS},
            "OneHot looks ids up in no embedding table that is known, so there are no vectors to explain by; give it"
            " vectors as inputs=",
        ),
        (
            "encoder",
            "attribution",
            {"inputs": vectors(), "baseline": "mask"},
            "this model has no neutral token to replace others with; set baseline=zero",
        ),
        ("task", "gradients", {"text": ""}, "there is no text to read"),
        (
            "halves",
            "gradients",
            {"inputs": (vectors(), vectors(3))},
            "gradients need one output for each place that is read, but this model reads 5 and returns 3; look at a"
            " part"
            " of it that returns one for each, such as its encoder",
        ),
        (
            "task",
            "cka",
            {"corpus": "own"},
            "LanguageModel is a module without its own data; name a corpus",
        ),
    ],
)
def test_unsuitable_models_and_inputs_are_rejected_with_a_sentence(model, instrument, options, sentence):
    models = {
        "lstm": nn.LSTM(8, 4, batch_first=True),
        "encoder": encoder(),
        "table": nn.Embedding(6, 8),
        "counts": Counts(),
        "one hot": OneHot(),
        "halves": nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
        "run": small_run("gpt"),
        "task": small_run("gpt").task,
    }
    with pytest.raises(UserError, match=sentence) as caught:
        clew.look(models.get(model, model), instrument, **options)
    assert "\n" not in str(caught.value)


def test_a_subject_can_be_reused():
    subject = subject_of(composed(), inputs=vectors())
    assert isinstance(subject, Subject) and subject_of(subject) is subject
    assert look(subject, "levels", {}).facts == look([subject], "levels", {}).facts


def test_the_guides_code_and_error_message_are_correct(capsys):
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "inspecting.md").read_text(encoding="utf-8")
    section = guide.partition("## Any torch module")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(block, {})
    (sentence,) = re.findall(r"```\n('surprisal'.*?)\n```", section, re.DOTALL)
    with pytest.raises(UserError, match=re.escape(sentence)):
        clew.look(nn.LSTM(2, 2), "surprisal", inputs=torch.zeros(3, 2))
