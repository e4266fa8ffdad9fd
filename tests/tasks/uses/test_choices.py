"""Choices by likelihood: reading shared prefixes once and in batches equals reading whole texts one by one."""

import pytest
import tokenizers
import torch

from clew.core.errors import UserError
from clew.data.examples import Labelled
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.tasks.uses import choices as choices_module
from clew.tasks.uses.choices import Chooser, choices_of, parse_choices
from clew.text.tokenizer import Tokenizer
from clew.text.train import TOKENIZERS

WORDS = "the film was good bad very long and dull Review: It . A play that no one will see"
TEXTS = [
    "the film",
    "A play that no one will see and the film was very very long",
    "dull",
    "{choice} {text}, it was not",
]
BODIES = {
    "gpt": {"dim": 8, "num_layers": 2, "num_heads": 2, "max_length": 128},
    "llama": {"dim": 8, "num_layers": 1, "num_heads": 4, "num_kv_heads": 2},
    "recurrent": {"dim": 6},
    "mixed": {"dim": 8, "layers": ["gru", {"name": "attention", "window": 4}, "convolution"]},
}


def build(family="gpt", kind="bpe", **options):
    tokenizer = TOKENIZERS[kind](f"{WORDS} {' '.join(TEXTS)}\n" * 2)
    member = MODELS[family]
    torch.manual_seed(3)
    task = LanguageModel(
        member.build(member.config(**{**BODIES[family], **options}), Tokens(tokenizer.vocabulary)), tokenizer
    )
    for parameter in task.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return task.double()


def whole_text_cost(task, before, behind):
    """log p of the tokens that are not entirely in `before`, from one pass over the whole text."""
    ids, spans = task.tokenizer.encode_with_offsets(before + behind)
    start = next(place for place, span in enumerate(spans) if span[1] > len(before))
    if start == 0:
        ids, start = [task.tokenizer.end, *ids], 1
    with torch.no_grad():
        hidden, _ = task.eval().body(torch.tensor([ids[:-1]]))
        log_probs = task.logits(hidden)[0].log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    return float(log_probs[start - 1 :].sum()), len(ids) - start


@pytest.mark.parametrize(
    ("family", "kind"), [("gpt", "bpe"), ("llama", "unigram"), ("recurrent", "word"), ("mixed", "character")]
)
@pytest.mark.parametrize(
    "template", ["Review: {text} It was {choice}.", "{text} {choice}", "the {choice} film: {text}"]
)
def test_choices_cost_the_same_as_whole_texts_read_one_by_one(family, kind, template, monkeypatch):
    monkeypatch.setattr(choices_module, "BATCH_TOKENS", 120)
    monkeypatch.setattr(choices_module, "CHUNK", 5)
    task = build(family, kind)
    words = {"1": "good", "0": "very bad and dull", "-": "long"}
    answers = Chooser(task, choices_of(words, template=template)).choose(TEXTS)
    for text, chosen in zip(TEXTS, answers, strict=True):
        before, behind = template.split("{choice}")
        costs = {
            label: whole_text_cost(task, before.replace("{text}", text), words[label] + behind.replace("{text}", text))[
                0
            ]
            for label in words
        }
        assert chosen.log_probs == pytest.approx(costs, rel=1e-5)
        assert chosen.label == max(costs, key=costs.__getitem__) == next(iter(chosen.probabilities))
        shares = torch.tensor(list(costs.values())).softmax(0).tolist()
        assert chosen.probabilities == pytest.approx(dict(zip(costs, shares, strict=True)), abs=1e-5)


def test_a_prefix_is_read_once_for_all_choices():
    task = build()
    sizes = []
    task.body.register_forward_pre_hook(lambda module, inputs: sizes.append(tuple(inputs[0].shape)))
    Chooser(task, choices_of(["good", "bad"])).choose(["the film was very long and very dull"])
    prefix = len(task.encode("the film was very long and very dull"))
    assert sizes[0][0] == 1 and sizes[0][1] >= prefix - 1
    assert sizes[1][0] == 2 and sizes[1][1] < prefix


def test_scores_can_be_normalised_by_length_or_by_the_cost_without_text():
    task, template, words = build(), "Review: {text} It was {choice}.", ["good", "very very bad"]
    text = "the film"

    def scores(**options):
        return Chooser(task, choices_of(words, template=template, **options)).score([Labelled(text)])[2][0]

    costs = [whole_text_cost(task, f"Review: {text} It was ", f"{each}.") for each in words]
    anyway = [whole_text_cost(task, "Review:  It was ", f"{each}.") for each in words]
    assert scores() == pytest.approx([cost for cost, _ in costs], rel=1e-5)
    assert scores(normalise="tokens") == pytest.approx([cost / count for cost, count in costs], rel=1e-5)
    assert scores(normalise="characters") == pytest.approx(
        [cost / (len(each) + 1) for (cost, _), each in zip(costs, words, strict=True)], rel=1e-5
    )
    less = [cost - base for (cost, _), (base, _) in zip(costs, anyway, strict=True)]
    assert scores(calibrate=True) == pytest.approx(less, rel=1e-4)
    assert scores(calibrate=True, normalise="tokens") == pytest.approx(
        [each / n for each, (_, n) in zip(less, costs, strict=True)], rel=1e-4
    )


def test_a_text_that_is_too_long_loses_its_beginning():
    task = build("gpt", max_length=12)
    long = "dull and " * 9 + "the film was"
    (chosen,) = Chooser(task, choices_of(["good", "bad"])).choose([long])
    ids = task.encode(f"{long} good")
    assert chosen.left_out == len(ids) - 13
    with torch.no_grad():
        log_probs = task.logits(task.body(torch.tensor([ids[-13:-1]]))[0])[0, -1].log_softmax(-1)
    assert task.tokenizer.decode([ids[-1]]) == " good" and chosen.log_probs["good"] == pytest.approx(
        float(log_probs[ids[-1]]), rel=1e-5
    )
    with pytest.raises(
        UserError,
        match=r"text 1: the model has only 12 positions, and the longest choice .* leaves no room"
        " for anything before it; shorten it",
    ):
        Chooser(task, choices_of(["good", "bad " * 20])).choose(["the film"])


def test_tokens_that_a_tokenizer_prepends_are_read_first():
    task = build("llama")
    first = task.tokenizer.id("<eos>")
    inner = tokenizers.Tokenizer.from_str(task.tokenizer.to_json())
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<eos> $A", special_tokens=[("<eos>", first)]
    )
    task.tokenizer = Tokenizer(inner)
    (chosen,) = Chooser(task, choices_of(["good", "bad"])).choose(["the film"])
    ids = [first, *task.encode("the film good")]
    with torch.no_grad():
        log_probs = task.logits(task.body(torch.tensor([ids[:-1]]))[0])[0].log_softmax(-1)
    expected = sum(
        float(log_probs[place - 1, ids[place]]) for place in range(1 + len(task.encode("the film")), len(ids))
    )
    assert chosen.log_probs["good"] == pytest.approx(expected, rel=1e-5)


def test_a_tokenizer_without_an_end_needs_words_before_the_choice():
    task = build("recurrent", "word")
    task.tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(task.tokenizer.to_json().replace("<eos>", "<stop>")))
    message = "there is nothing before the choice for the model to read; put words before {choice} in the template"
    with pytest.raises(UserError, match=message):
        Chooser(task, choices_of(["good", "bad"], template="{choice} {text}")).choose(["the film"])


def test_answers_are_measured_like_those_of_a_classifier():
    chooser = Chooser(build(), choices_of({"1": "good", "0": "bad"}))
    examples = [Labelled("the film", ("1",), id="a:1"), Labelled("dull", ("0",), id="a:2")]
    answers, loss = chooser.predict(examples)
    right = [answer["probabilities"]["10".index(each.label)] for answer, each in zip(answers, examples, strict=True)]
    assert loss == pytest.approx(-sum(torch.tensor(right).log()).item() / 2, rel=1e-4)
    assert chooser.measure(examples, answers).values["accuracy"] == 50.0 * sum(share > 0.5 for share in right)
    with pytest.raises(
        UserError, match=r"a:3: the label 'great' is not among the choices \(1, 0\); add it, as LABEL=WORDS"
    ):
        chooser.predict([Labelled("x", ("great",), id="a:3")])


def test_choices_are_parsed():
    assert parse_choices("good, bad") == {"good": "good", "bad": "bad"}
    assert parse_choices("1=very good,0 = bad") == {"1": "very good", "0": "bad"}


@pytest.mark.parametrize(
    ("choices", "options", "sentence"),
    [
        (["good"], {}, r"choices needs at least two, separated by commas; found \['good'\]"),
        (["good", " "], {}, "a choice is empty; give each choice some words"),
        (["good", "good"], {}, r"a choice is given twice in \['good', 'good'\]"),
        ("good,bad", {}, "choices must be a list of texts, or a dict of label to words; found 'good,bad'"),
        (["good", 3], {}, "choices and their labels must be strings; found"),
        (
            ["good", "bad"],
            {"template": "{text}"},
            "a template must contain {choice} exactly once, in the place of the choice; found it 0 times",
        ),
        (
            ["good", "bad"],
            {"template": "{choice}"},
            "a template must contain {text} in the place of the text, e.g. 'Review: {text} It was",
        ),
        (["good", "bad"], {"normalise": "words"}, "unknown way to normalise 'words'; known: characters, none, tokens"),
    ],
)
def test_invalid_choices_are_rejected_with_a_sentence(choices, options, sentence):
    with pytest.raises(UserError, match=sentence):
        choices_of(choices, **options)


def test_a_choice_dropped_by_the_tokenizer_is_rejected():
    with pytest.raises(
        UserError, match="text 1: the tokenizer has no token for the choice '.u200b'; give it other words"
    ):
        Chooser(build("recurrent", "wordpiece"), choices_of(["good", "\u200b"])).choose(["the film"])


def test_a_choice_of_unknown_words_is_rejected():
    with pytest.raises(UserError, match="the choice 'superb' has words the model has never seen: 'superb'"):
        Chooser(build("recurrent", "word"), choices_of(["good", "superb"]))
