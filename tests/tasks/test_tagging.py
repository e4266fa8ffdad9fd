"""The tagger: what it learns, which tags it may predict, and what it rejects."""

import itertools
import math
from typing import Any

import pytest
import torch

from clew.core.errors import UserError
from clew.core.tag_schemes import find_tag_fault
from clew.data.examples import Sentence
from clew.metrics.score import Score
from clew.models import MODELS
from clew.runs.config import TrainingConfig
from clew.sources.tokens import Tokens
from clew.tasks.learning import Encoding, Evaluation
from clew.tasks.tagging import TAGGING, TaggedText, Tagger, TaggingConfig, build_tagger, train_tagging_vocabularies
from clew.tasks.uses.writing import DecodingConfig
from clew.text.train import train_bpe, train_word
from clew.text.words import split_words

NAMES = [
    "Ada/B-PER Lovelace/I-PER met/O Bo/B-PER",
    "it/O rains/O in/O New/B-LOC York/I-LOC",
    "Bo/B-PER Bo/B-PER left/O Paris/B-LOC",
    "nobody/O left/O",
    "Paris/B-PER met/O Ada/B-PER in/O Paris/B-LOC",
    "Lovelace/B-LOC is/O a/O town/O",
    "Ada/B-PER",
    "York/B-LOC is/O not/O New/B-LOC York/I-LOC",
]


def sentence(text: str, number: int = 1) -> Sentence:
    words, tags = zip(*(pair.split("/") for pair in text.split()), strict=True)
    return Sentence(words, tags, id=f"names.conll:{number}")


EXAMPLES = [sentence(text, number) for number, text in enumerate(NAMES, start=1)]


def tagger(examples: list[Sentence] = EXAMPLES, tokenizer: Any = train_word, dim: int = 16, **settings: Any) -> Tagger:
    torch.manual_seed(3)
    config = TaggingConfig(**settings)
    vocabularies = train_tagging_vocabularies(lambda texts, specials: tokenizer(texts), False, examples, config)
    family = MODELS["recurrent"]
    body = family.build(family.config(dim=dim, bidirectional=True), Tokens(vocabularies["tokenizer"].vocabulary))
    return build_tagger(body, vocabularies, config)


def learn(task: Any, examples: list[Any], steps: int) -> None:
    task.prepare(task.encode(examples))
    batch = task.collate(task.encode(examples))
    optimiser = torch.optim.Adam(task.parameters(), lr=0.03)
    for _ in range(steps):
        optimiser.zero_grad()
        term = task(batch)[0]["loss"]
        (term.sum / term.count).backward()
        optimiser.step()
    task.eval()


@pytest.mark.parametrize("output", ["crf", "softmax"])
def test_eight_sentences_are_memorised(output: str) -> None:
    task = tagger(output=output)
    learn(task, EXAMPLES, 60)
    predictions = task.predict(task.collate(task.encode(EXAMPLES)))
    assert predictions == [list(example.tags or ()) for example in EXAMPLES]
    measured = task.measure(EXAMPLES, predictions)
    assert measured.values == {"f1": 100, "precision": 100, "recall": 100, "accuracy": 100}
    tagged = task.tag([example.words for example in EXAMPLES])
    assert [[tag for tag, _ in tags] for tags in tagged] == predictions
    assert all(0.5 < sure <= 1 for tags in tagged for _, sure in tags)
    assert task.report(EXAMPLES, predictions)[0].splitlines()[0] == "13 of 13 gold and 13 predicted phrases, 30 tags"


@pytest.mark.parametrize("pieces", ["first", "last", "mean"])
def test_words_of_several_subwords_get_one_tag(pieces: str) -> None:
    task = tagger(tokenizer=lambda texts: train_bpe(texts, size=270), pieces=pieces)
    assert (
        max(
            end - start
            for each in task.encode(EXAMPLES)
            for start, end in zip(each.words.starts, each.words.ends, strict=True)
        )
        > 1
    )
    learn(task, EXAMPLES, 60)
    assert task.predict(task.collate(task.encode(EXAMPLES))) == [list(example.tags or ()) for example in EXAMPLES]


@pytest.mark.parametrize("scheme", ["bioes", "iob2"])
def test_a_crf_never_predicts_tags_that_its_scheme_forbids(scheme: str) -> None:
    task = tagger(scheme=scheme)
    torch.nn.init.normal_(task.output.weight, std=20)
    batch = task.collate(task.encode(EXAMPLES * 4))
    assert task.crf is not None
    for ids in task.rows(task.crf.viterbi(task.emissions(batch), batch.mask)[0], batch.mask):
        assert find_tag_fault([task.tags.names[id] for id in ids], scheme) is None
    free = task.rows(task.emissions(batch).argmax(-1), batch.mask)
    assert any(find_tag_fault([task.tags.names[id] for id in ids], scheme) for ids in free), (
        "this test would forbid nothing"
    )


def test_the_probability_of_a_tag_is_its_marginal_over_all_sequences() -> None:
    task = tagger(scheme="iob2")
    words = ["Ada", "met", "Bo"]
    batch = task.collate(task.encode([sentence("Ada/O met/O Bo/O")]))
    assert task.crf is not None
    names, emissions = task.tags.names, task.emissions(batch)
    scores = {
        tags: math.exp(float(task.crf.score(emissions, torch.tensor([tags]))[0].detach()))
        for tags in itertools.product(range(len(names)), repeat=3)
    }
    for place, (tag, sure) in enumerate(task.tag([words])[0]):
        share = sum(score for tags, score in scores.items() if names[tags[place]] == tag) / sum(scores.values())
        assert sure == pytest.approx(share, rel=1e-4)


def test_parts_of_speech_are_tags_of_single_words() -> None:
    examples = [sentence("it/PRON rains/VERB"), sentence("she/PRON sings/VERB", 2)]
    task = tagger(examples)
    assert task.scheme is None and task.best == "accuracy" and task.tags.names == ("PRON", "VERB")
    assert task.measure(examples, [["PRON", "VERB"], ["VERB", "VERB"]]).values == {"accuracy": 75}
    assert task.intervals(examples, [["PRON", "VERB"]] * 2)["accuracy"] == (100, 100)
    described = task.described(examples[1], ["VERB", "VERB"])
    assert described["wrong"] == [{"word": 1, "gold": "PRON", "predicted": "VERB"}]


def test_sentences_without_words_have_no_tags_and_keep_the_order() -> None:
    task = tagger()
    words = [["Ada", "met", "Bo"], [], ["it", "rains"]]
    first, nothing, last = task.tag(words)
    assert nothing == [] and len(first) == 3
    assert [tag for tag, _ in task.tag([words[2]])[0]] == [tag for tag, _ in last]


def test_phrases_of_a_tagged_text_have_character_offsets() -> None:
    text = "  Ada Lovelace  didn't go. "
    tags = [("B-PER", 0.9), ("I-PER", 0.7), ("O", 1.0), ("O", 0.8), ("O", 1.0), ("O", 1.0)]
    tagged = TaggedText.of(text, split_words(text), tags, are_phrases=True)
    (span,) = tagged.spans
    assert (span.label, span.text, span.probability, text[span.start : span.stop]) == (
        "PER",
        "Ada Lovelace",
        0.7,
        "Ada Lovelace",
    )
    assert [text[word.start : word.stop] for word in tagged.words] == ["Ada", "Lovelace", "did", "n't", "go", "."]
    assert str(tagged).splitlines()[1] == "Lovelace\tI-PER\t0.7000"
    assert TaggedText.of(text, split_words(text), tags, are_phrases=False).spans == []


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (
            "Ada/B-PRE",
            (
                "names.conll:9, word 1: unknown label 'PRE'; did you mean 'PER'? known: LOC, PER; the training part"
                " does not have it"
            ),
        ),
        (
            "it/O Ada/NOUN",
            "names.conll:9, word 2: the tag 'NOUN' is not a phrase tag, and those of the training part are; "
            "correct it, or check data.tags",
        ),
    ],
)
@pytest.mark.parametrize("to_train", [True, False])
def test_an_unknown_tag_is_named_with_its_place(tags: str, message: str, to_train: bool) -> None:
    """In the training part, and in a part that has only unknown tags."""
    with pytest.raises(UserError) as error:
        encoded(tagger(), [sentence(tags, 9)], to_train=to_train)
    assert str(error.value).startswith(message)


def encoded(task: Tagger, examples: list[Sentence], *, to_train: bool = False) -> list[Any]:
    return list(TAGGING.learns.encode(task, examples, Encoding("test", TrainingConfig(), to_train=to_train)))


def judged(task: Tagger, examples: list[Sentence]) -> Score:
    """The score of an evaluated part."""
    evaluation = Evaluation(TrainingConfig(), DecodingConfig(), 1, is_final=True)
    score = TAGGING.learns.judge(task, task, examples, encoded(task, examples), evaluation)
    assert score is not None
    return score


@pytest.mark.parametrize("output", ["crf", "softmax"])
def test_an_unknown_tag_counts_as_wrong_in_an_evaluated_part(output: str) -> None:
    train = [sentence("it/PRON rains/VERB"), sentence("dogs/NOUN bark/VERB")]
    task = tagger(train, output=output)
    known_sentence, odd = sentence("it/PRON barks/VERB", 1), sentence("it/PRON hm/INTJ rains/VERB", 2)
    first, with_odd = judged(task, [known_sentence]), judged(task, [known_sentence, odd])
    right = {
        id: prediction.split()
        for id, prediction in ((id, fields["prediction"]) for id, fields in with_odd.predictions.items())
    }
    pairs = [
        *zip(right[known_sentence.id], known_sentence.tags or (), strict=True),
        *zip(right[odd.id], odd.tags or (), strict=True),
    ]
    assert with_odd.measures["accuracy"] == pytest.approx(100 * sum(a == b for a, b in pairs) / 5), (
        "of five words, one that cannot be right"
    )
    rows = with_odd.statistics[odd.id]["loss"]["mean"]
    assert rows[1] == (0 if output == "crf" else 2), (
        "without the word, or without a sentence whose tags are told together"
    )
    assert math.isfinite(with_odd.loss)
    assert with_odd.statistics[known_sentence.id]["loss"]["mean"] == pytest.approx(
        first.statistics[known_sentence.id]["loss"]["mean"]
    )
    if output == "crf":
        assert with_odd.loss == pytest.approx(first.loss)
    with pytest.raises(
        UserError, match="names.conll:2, word 2: unknown label 'INTJ'.*the training part does not have it"
    ):
        encoded(task, [known_sentence, odd], to_train=True)


def test_the_number_of_unknown_tags_is_reported() -> None:
    task = tagger([sentence("it/PRON rains/VERB"), sentence("dogs/NOUN bark/VERB")])
    part = [sentence("it/PRON hm/INTJ ha/INTJ", 1), sentence("it/PRON rains/X", 2)]
    assert TAGGING.learns.judged_remarks(task, "test", part) == [
        "test: 3 of 5 labels are not in the training part ('INTJ', 'X'; first: names.conll:1, word 2); "
        "counted as wrong, and left out of the loss"
    ]
    assert TAGGING.learns.judged_remarks(task, "test", [sentence("it/PRON rains/VERB")]) == []


def test_a_phrase_with_an_unknown_label_counts_as_missed() -> None:
    task = tagger()
    score = judged(task, [sentence("Ada/B-PER met/O IBM/B-ORG", 1)])
    gold = score.statistics["names.conll:1"]["f1"]["f1"]
    assert isinstance(gold, list) and gold[0] == 2, "both phrases are gold"
    assert score.statistics["names.conll:1"]["loss"]["mean"] == [0.0, 0.0]


def test_unsuitable_training_data_are_rejected() -> None:
    with pytest.raises(
        UserError, match="every word of the training part has the tag 'O', so there is nothing to tell apart"
    ):
        tagger([sentence("it/O rains/O")])
    with pytest.raises(
        UserError,
        match="task.best=f1 needs phrase tags such as B-PER, and these are not"
        "; leave it out, or set task.best=accuracy",
    ):
        tagger([sentence("it/PRON rains/VERB")], best="f1")
