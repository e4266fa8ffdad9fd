"""Drafts for language models: the text is the same as without a draft."""

import pytest
import torch

from clew.core.errors import UserError
from clew.decoding.drafts import DraftStepper, PromptLookup
from clew.decoding.sampling import greedy_sequences
from clew.decoding.speculative import speculative_sequences
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig
from clew.tasks.use import Answered, TextRow
from clew.tasks.uses.drafting import check_draft
from clew.tasks.uses.generate import GENERATE, GenerateOptions
from clew.tasks.uses.generation import generate, stream
from clew.tasks.uses.writing import DecodingConfig
from clew.text.train import train_bpe, train_character
from tests.decoding.drafts import AGREEMENT, Scripted
from tests.thread.models import LINES, gpt, lstm

VOCABULARY = 11
BODIES = {
    "lstm": ("recurrent", {"cell": "lstm", "dim": 8, "embedding_dim": 8, "num_layers": 2}),
    "gru": ("recurrent", {"cell": "gru", "dim": 8, "embedding_dim": 8}),
    "gpt": ("gpt", {"dim": 8, "num_layers": 2, "num_heads": 2, "max_length": 64}),
    "llama": ("llama", {"dim": 8, "num_layers": 2, "num_heads": 2}),
    "window": ("window", {"width": 3, "embedding_dim": 8, "dim": 8}),
    "attention in windows": ("mixed", {"dim": 8, "layers": [{"name": "attention", "window": 3, "num_heads": 2}] * 2}),
    "convolution": ("mixed", {"dim": 8, "layers": ["convolution", {"name": "convolution", "width": 2}]}),
    "mixed": (
        "mixed",
        {
            "dim": 8,
            "layers": ["gru", {"name": "attention", "num_heads": 2}, "convolution", {"name": "attention", "window": 2}],
        },
    ),
}


def stepper(name: str, seed: int):
    torch.manual_seed(seed)
    family, settings = BODIES[name]
    body = MODELS[family].build(MODELS[family].config(**settings), Tokens(VOCABULARY))
    task = LanguageModel(body, train_character(["abcdefghij"]), LanguageModelConfig())
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.mul_(3)  # otherwise all tokens have equal probability
    return task.double().eval().stepper()


@pytest.mark.parametrize("agreement", AGREEMENT)
@pytest.mark.parametrize("name", BODIES)
def test_every_kind_of_body_generates_the_same_with_a_draft(name: str, agreement: str) -> None:
    model = stepper(name, 1)
    prompt = torch.randint(VOCABULARY, (4, 9), generator=torch.Generator().manual_seed(2))
    mask = torch.arange(9) < torch.tensor([9, 1, 4, 7])[:, None]
    plain = greedy_sequences(model, prompt, mask, max_new=30, end=0)
    draft = Scripted(plain.tokens, VOCABULARY, AGREEMENT[agreement])
    drafted, acceptance = speculative_sequences(model, draft, prompt, mask, max_new=30, end=0)
    assert drafted.tokens.tolist() == plain.tokens.tolist()
    torch.testing.assert_close(drafted.log_probs, plain.log_probs)
    if agreement != "never":
        assert acceptance.accepted.any()


@pytest.mark.parametrize("name", BODIES)
def test_every_kind_of_body_can_draft(name: str) -> None:
    model, draft = stepper("llama", 1), stepper(name, 3)
    prompt = torch.randint(VOCABULARY, (3, 5), generator=torch.Generator().manual_seed(2))
    plain = greedy_sequences(model, prompt, max_new=20, end=0)
    drafted, _ = speculative_sequences(model, DraftStepper(draft), prompt, max_new=20, end=0)
    assert drafted.tokens.tolist() == plain.tokens.tolist()
    own, acceptance = speculative_sequences(draft, DraftStepper(draft), prompt, max_new=20, seed=4)
    assert acceptance.accepted.tolist() == acceptance.proposed.tolist()


def test_a_full_ring_cache_can_be_rewound() -> None:
    model = stepper("attention in windows", 1)
    prompt = torch.randint(VOCABULARY, (2, 3), generator=torch.Generator().manual_seed(2))
    plain = greedy_sequences(model, prompt, max_new=150)
    for draft in (
        Scripted(plain.tokens, VOCABULARY, AGREEMENT["half"]),
        Scripted(plain.tokens, VOCABULARY, AGREEMENT["mostly"]),
        PromptLookup(),
    ):
        drafted, _ = speculative_sequences(model, draft, prompt, max_new=150)
        assert drafted.tokens.tolist() == plain.tokens.tolist()


@pytest.mark.parametrize("draft", [lstm, gpt, lambda: "prompt"])
@pytest.mark.parametrize("make", [lstm, gpt])
def test_a_draft_does_not_change_the_text(make, draft) -> None:
    """70 tokens, more than the GPT has positions, with filters that depend on earlier tokens."""
    task, config = make(), DecodingConfig(method="greedy", max_new=70, repetition_penalty=1.2, no_repeat_ngram=4)
    plain = generate(task, ["a ball", "it", ""], config)
    drafted = generate(task, ["a ball", "it", ""], config, draft=draft())
    assert [each.text for each in drafted] == [each.text for each in plain]
    assert [each.log_prob for each in drafted] == pytest.approx([each.log_prob for each in plain], rel=1e-4)
    assert all(each.guessed.rounds + each.guessed.accepted == 69 for each in drafted)
    assert "".join(stream(task, "a ball", config, draft=draft())) == plain[0].text


def test_drafted_samples_are_streamed_as_they_are_generated() -> None:
    task, config = gpt(), DecodingConfig(max_new=30)
    [drafted] = generate(task, ["a ball"], config, seed=3, draft=lstm())
    assert "".join(stream(task, "a ball", config, seed=3, draft=lstm())) == drafted.text
    assert not drafted.guessed.rounds > 29


def test_drafting_restores_training_modes() -> None:
    task, draft = gpt().train(), lstm().train()
    generate(task, ["a"], DecodingConfig(max_new=3), draft=draft)
    list(stream(task, "a", DecodingConfig(max_new=3), draft=draft))
    assert task.training and draft.training


def test_a_draft_with_other_tokens_is_refused() -> None:
    remedy = "a draft needs the same vocabulary: train it on the same data with the same text settings"
    own = train_character(["abc"])
    with pytest.raises(UserError) as error:
        check_draft(own, train_character(["abcd"]))
    assert str(error.value) == f"the draft has 5 characters, and the run 4 characters; {remedy}"
    with pytest.raises(UserError) as error:
        check_draft(own, train_character(["abd"]))
    assert str(error.value) == f"token 3 is 'd' to the draft and 'c' to the run; {remedy}"
    subwords = train_bpe(["\n".join(LINES)], size=300)
    with pytest.raises(UserError, match="^the draft has 300 subwords, and the run 4 characters; "):
        check_draft(own, subwords)
    check_draft(own, train_character(["abc"]))


def test_the_acceptance_of_a_draft_is_reported() -> None:
    options = GenerateOptions(method="greedy", max_new=30, draft="prompt", measure=True)
    task, row = lstm(), TextRow(text="a ball")
    [answer] = GENERATE.answer([task], [row], options, [1])
    [object] = GENERATE.objects(1, row, answer, options)
    assert object["rounds"] + object["accepted"] == 29 and object["accepted"] <= object["proposed"]
    *_, line = GENERATE.remarks([task], [Answered(1, row, answer)], options)
    rounds = object["rounds"]
    means = f"{object['accepted'] / rounds:.2f} of {object['proposed'] / rounds:.2f}"
    assert line == f"draft: {means} guesses per call were accepted, in {rounds} calls of the model"
