"""The parser: its inputs and outputs, and that every output is a tree over the given words."""

from typing import Any

import pytest
import torch

from clew.core.errors import UserError
from clew.core.trees import Tree
from clew.data.corpora.samples import sample_path
from clew.data.examples import Parsed
from clew.data.syntax.linearisation import delinearise, linearise
from clew.data.syntax.trees import cleaned, parse_tree, read_trees, tree_words
from clew.decoding.sampling import greedy_sequences
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.parsing import ConstituencyParser, ParsingConfig, train_parsing_vocabularies
from clew.tasks.uses.writing import DecodingConfig
from clew.text.train import train_bpe, train_character, train_word
from tests.crossing import crossed

TREES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))",
    "(S (NP (PRP it)) (VP (VBZ rains)) (. .))",
    "(NP (NP (DT a) (NN dog)) (-LRB- -LRB-) (ADJP (JJ old)) (-RRB- -RRB-))",
    "(S (NP (PRP she)) (VP (VBZ hears) (SBAR (S (NP (PRP it)) (VP (VBZ barks))))))",
]
EXAMPLES = [Parsed(cleaned(parse_tree(tree)), f"tree {number}") for number, tree in enumerate(TREES, start=1)]  # type: ignore[arg-type]
SENTENCES = [
    tree_words(text) for text in ("the dog", "it", "she hears a dog ( old ) .", "never seen these words", "it rains .")
]

BODIES: dict[str, dict[str, Any]] = {
    "luong": {"family": "seq2seq", "dim": 12, "attention": "after", "score": "general"},
    "bahdanau": {"family": "seq2seq", "dim": 12, "cell": "gru"},
    "transformer": {
        "family": "transformer",
        "dim": 12,
        "num_heads": 2,
        "num_layers": 1,
        "hidden_dim": 16,
        "dropout": 0.0,
        "max_length": 64,
    },
}
METHODS = {
    "greedy": DecodingConfig(method="greedy"),
    "beam": DecodingConfig(method="beam", beams=3, n_best=3, length_penalty=0.0),
    "sample": DecodingConfig(method="sample", temperature=1.5, top_p=0.9),
}


def parser(
    body: str = "luong",
    examples: list[Parsed] = EXAMPLES,
    tokenizer: Any = train_word,
    tags: bool = False,
    **model: Any,
) -> Any:
    """An untrained parser in float64, with output distributions far from uniform."""
    config = ParsingConfig(tags=tags)
    vocabularies = train_parsing_vocabularies(
        lambda texts, specials: tokenizer(texts, specials=specials), False, examples, config
    )
    source, target = vocabularies["source"], vocabularies["target"]
    settings = {**BODIES[body], **model}
    family = MODELS[settings["family"]]
    torch.manual_seed(5)
    task = ConstituencyParser(
        family.build(family.config(**settings), Tokens(target.vocabulary), Tokens(source.vocabulary)),
        source,
        target,
        config,
    )
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.mul_(3.0)
    return task.double().eval()


def symbols_of(task: ConstituencyParser, tokens: list[int]) -> str:
    return " ".join(task.target.token(token) for token in tokens)


def test_an_example_is_encoded_as_words_and_brackets() -> None:
    task = parser()
    sides = task.encode(EXAMPLES[:1])[0]
    assert symbols_of(task, sides.target) == "(TOP (S (NP XX XX )NP (VP XX )VP XX )S )TOP"
    assert [task.source.token(token) for token in sides.source] == ["the", "dog", "barks", ".", "<eos>"]
    assert sides.words == 4


def test_with_tags_each_word_symbol_is_its_tag() -> None:
    task = parser(tags=True)
    assert symbols_of(task, task.encode(EXAMPLES[:1])[0].target) == "(TOP (S (NP DT NN )NP (VP VBZ )VP . )S )TOP"
    (parse,), *_ = task.parse([["it", "rains"]], METHODS["greedy"])
    assert set(parse.tree.tags) <= {tag for example in EXAMPLES for tag in example.tree.tags}


@pytest.mark.parametrize("tokenizer", [train_word, train_bpe, train_character])
@pytest.mark.parametrize("word", ["New York", "a\u200ab", "\u00a0", "two\nlines", "(", ")", "(S", "<eos>", "XX"])
def test_any_word_is_one_word_of_the_tree(tokenizer: Any, word: str) -> None:
    if tokenizer is train_character:
        task = parser(tokenizer=lambda texts, specials: train_character(texts, specials=["<eos>", *specials]))
    else:
        task = parser(tokenizer=tokenizer)
    sentence = ["it", word, "rains"]
    assert task.parse([sentence], METHODS["greedy"])[0][0].tree.words == sentence
    if tokenizer is train_word and word != "<eos>":
        assert len(task.encode_words([sentence])[0].source) == 4  # one token per word, and the end


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("body", BODIES)
def test_every_output_of_an_untrained_parser_is_a_tree_over_the_words(body: str, method: str) -> None:
    task = parser(body)
    labels = {node.label for example in EXAMPLES for node in example.tree.nodes() if not node.is_leaf}
    for words, parses in zip(SENTENCES, task.parse(SENTENCES, METHODS[method], seed=3), strict=True):
        assert len(parses) == (3 if method == "beam" else 1)
        for each in parses:
            assert each.tree.words == words and not each.tree.is_leaf
            assert {node.label for node in each.tree.nodes() if not node.is_leaf} <= labels
            assert set(each.tree.tags) == {"XX"}
            assert len(linearise(each.tree)) + 1 <= 4 * len(words) + 10
        assert [each.score for each in parses] == sorted((each.score for each in parses), reverse=True)
        assert len({each.tree for each in parses}) == len(parses)


@pytest.mark.parametrize(("method", "body"), crossed(["greedy", "beam"], BODIES))
def test_sentences_are_parsed_equally_in_a_batch_and_alone(body: str, method: str) -> None:
    task = parser(body)
    together = task.parse(SENTENCES, METHODS[method])
    alone = [task.parse([words], METHODS[method])[0] for words in SENTENCES]
    assert [[each.tree for each in parses] for parses in together] == [
        [each.tree for each in parses] for parses in alone
    ]
    for one, other in zip(together, alone, strict=True):
        assert [each.log_prob for each in one] == pytest.approx([each.log_prob for each in other], rel=1e-9)


@pytest.mark.parametrize("body", BODIES)
def test_stepwise_log_probabilities_equal_those_of_the_whole_tree(body: str) -> None:
    task = parser(body)
    batch = task.collate(task.encode_words(SENTENCES))
    sequences = greedy_sequences(
        task.stepper(batch),
        torch.full((len(SENTENCES), 1), task.end),
        max_new=int(task.max_new(batch, METHODS["greedy"]).max()),
        end=task.end,
    )
    with torch.no_grad():
        for row, length in enumerate(sequences.lengths.tolist()):
            tokens = sequences.tokens[row, :length].tolist()
            encoded = task.encode_words([SENTENCES[row]])[0]._replace(target=tokens[:-1])
            one = task.collate([encoded])
            log_probs, _ = task.stepper(one)(one.tokens, None, task.stepper(one).initial_state(1))
            assert [int(token) for token in log_probs[0].argmax(-1)] == tokens
            uncached = task.log_probs(task.decode(one)[0])[0, range(length), tokens]
            assert uncached.tolist() == pytest.approx(sequences.log_probs[row, :length].tolist(), rel=1e-9)


def test_sampling_is_reproducible_by_seed() -> None:
    task = parser()
    first, same, other = (task.parse(SENTENCES, METHODS["sample"], seed=seed) for seed in (1, 1, 2))
    assert first == same != other


@pytest.mark.slow
def test_a_sentence_of_300_words_and_one_of_one_are_parsed_together() -> None:
    task = parser()
    words = ["dog", "it", "barks"] * 100
    long, short = task.parse([words, ["it"]], METHODS["greedy"])
    assert long[0].tree.words == words and short[0].tree.words == ["it"]
    [alone] = task.parse([["it"]], METHODS["greedy"])
    assert [each.tree for each in short] == [each.tree for each in alone]
    assert [each.log_prob for each in short] == pytest.approx([each.log_prob for each in alone], rel=1e-12)


def test_a_sentence_without_words_has_no_tree() -> None:
    task = parser()
    assert [len(parses) for parses in task.parse([[], ["it"], []], METHODS["greedy"])] == [0, 1, 0]
    assert task.parse([], METHODS["greedy"]) == []


def test_parsing_restores_training_mode() -> None:
    task = parser().train()
    task.parse([["it"]], METHODS["greedy"])
    assert task.training


def test_a_sentence_longer_than_the_positions_is_rejected_by_number() -> None:
    task = parser("transformer", position="learned", max_length=20)
    with pytest.raises(UserError) as caught:
        task.parse([["it"], ["it"] * 18], METHODS["greedy"], numbers=[7, 8])
    assert (
        str(caught.value)
        == "sentence 8: a tree over 18 words has at least 21 symbols, but the model has 20 positions; shorten"
        " the sentence, or train with a larger model.max_length or another model.position"
    )
    parse = task.parse([["it"] * 17], METHODS["greedy"])[0][0]
    assert len(linearise(parse.tree)) + 1 == 20  # there is room for only one bracket


def test_half_a_character_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"^character 4 of the sentence 1 \(U\+DC80\) is half a character; give it as UTF-8$"
    ):
        parser().parse([["it", "\udc80"]], METHODS["greedy"])


def test_unknown_symbols_are_encoded_as_unknown_and_never_generated() -> None:
    task = parser()
    strange = Parsed(parse_tree("(TOP (INTJ (UH oh)))"), "dev")
    assert symbols_of(task, task.encode([strange])[0].target) == "(TOP <unk> XX <unk> )TOP"
    terms, _ = task(task.collate(task.encode([strange])))
    assert torch.isfinite(terms["loss"].sum)
    predictions = task.predict(task.collate(task.encode([strange])))
    assert task.measure([strange], predictions).values["well_formed"] == 100
    assert "<unk>" not in predictions[0]


def test_gold_trees_score_100() -> None:
    for task in (parser(), parser(tags=True)):
        gold = [" ".join(linearise(example.tree, None if task.config.tags else "XX")) for example in EXAMPLES]
        values = task.measure(EXAMPLES, gold).values
        assert values == dict.fromkeys(values, 100.0)
        assert ("tags" in values) == task.config.tags
        assert task.sentence_scores(EXAMPLES, gold) == [100.0] * len(EXAMPLES)


def test_brackets_are_scored_like_evalb() -> None:
    # Of (S 0 3) (NP 0 2) (VP 2 3), the full stop left out, S and VP are right; (NP 0 1) is wrong.
    measured = parser().measure(EXAMPLES[:1], ["(TOP (S (NP XX )NP XX (VP XX )VP XX )S )TOP"])
    assert measured.values["f1"] == pytest.approx(100 * 2 / 3)
    assert measured.text == "F1 66.67, precision 66.67, recall 66.67, complete 0.00, well-formed 100.0 %"


def test_wrong_tags_lower_the_tagging_accuracy_but_no_bracket_score() -> None:
    task = parser(tags=True)
    measured = task.measure(EXAMPLES[:1], ["(TOP (S (NP DT VBZ )NP (VP VBZ )VP NN )S )TOP"])
    assert measured.values["tags"] == 50.0 and measured.values["f1"] == 100.0
    assert measured.text.endswith("tags 50.00 % right")


def test_a_prediction_is_shown_with_its_predicted_tags() -> None:
    gold = "(TOP (NP (NP (DT a) (NN dog)) (-LRB- -LRB-) (ADJP (JJ old)) (-RRB- -RRB-)))"
    description = parser(tags=True).described(EXAMPLES[2], "(TOP (NP DT VBZ )NP -LRB- JJ -RRB- )TOP")
    assert description == {
        "source": "a dog ( old )",
        "target": gold,
        "prediction": "(TOP (NP (DT a) (VBZ dog)) (-LRB- -LRB-) (JJ old) (-RRB- -RRB-))",
    }
    assert parser().described(EXAMPLES[2], "(TOP XX")["prediction"] == "(TOP XX"


@pytest.mark.parametrize("text", ["", "(TOP (S XX XX )S", "(TOP XX XX XX XX XX )TOP", "XX"])
def test_malformed_output_counts_as_no_tree(text: str) -> None:
    measured = parser().measure(EXAMPLES[:2], [text, " ".join(linearise(EXAMPLES[1].tree))])
    assert measured.values["well_formed"] == 50.0
    assert parser().sentence_scores(EXAMPLES[:1], [text]) == [0.0]


def test_every_gold_tree_of_the_embedded_treebank_is_allowed_by_the_constraint() -> None:
    examples = [
        Parsed(tree, "") for tree in map(cleaned, read_trees(sample_path("craft") / "dev.mrg")) if tree is not None
    ]
    examples.sort(key=lambda example: 4 * len(example.tree.words) - len(linearise(example.tree)))
    task = parser(examples=examples[:60])
    batch = task.collate(task.encode(examples[:60]))
    stepper = task.stepper(batch)
    with torch.no_grad():
        log_probs, _ = stepper(batch.tokens, batch.mask, stepper.initial_state(60))
    assert bool((log_probs.gather(-1, batch.targets[..., None])[..., 0][batch.mask] > -torch.inf).all())


def test_words_and_brackets_share_no_vocabulary() -> None:
    with pytest.raises(
        UserError, match=r"^a parser reads words and writes brackets, which share no vocabulary; set text\.joint=false$"
    ):
        train_parsing_vocabularies(lambda texts, specials: train_word(texts), True, EXAMPLES, ParsingConfig())


def test_training_memorises_two_trees() -> None:
    torch.manual_seed(1)
    task = parser("bahdanau", dim=24).float().train()
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.div_(3.0)
    examples = [EXAMPLES[0], EXAMPLES[2]]
    batch = task.collate(task.encode(examples))
    optimiser = torch.optim.Adam(task.parameters(), 0.02)
    for _ in range(60):
        loss = task(batch)[0]["loss"]
        optimiser.zero_grad()
        (loss.sum / loss.count).backward()
        optimiser.step()
    parses = task.parse([example.tree.words for example in examples], METHODS["greedy"])
    assert [parse[0].tree for parse in parses] == [untagged(example.tree) for example in examples]
    assert str(parses[1][0]) == "(TOP (NP (NP (XX a) (XX dog)) (XX -LRB-) (ADJP (XX old)) (XX -RRB-)))"


def untagged(tree: Tree) -> Tree:
    return delinearise(linearise(tree), tree.words)
