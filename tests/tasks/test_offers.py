"""A law for each capability, tested for every task of TASKS that offers it, built small."""

import inspect
from functools import cache
from typing import Any

import pytest
import torch

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.decoding.sampling import greedy_sequences
from clew.inspection.recording import record
from clew.laws.cases import Sizes
from clew.laws.tasks import build_task_case
from clew.models import MODELS
from clew.sources.graph_nodes import EDGE_TYPES, GraphNodes
from clew.sources.tokens import Tokens
from clew.tasks import TASKS
from clew.tasks.node_labelling import train_node_vocabularies
from clew.tasks.offers import CAPABILITIES, ModelInput, Reading, lacking, languages_of, offered
from clew.tasks.parsing import tree_over
from clew.tasks.representation import RepresentationConfig, build_representation
from clew.tasks.shared.sequence import SequenceConfig, build_sequence
from clew.tasks.tree_classification import build_tree_classifier, train_tree_vocabularies
from clew.tasks.uses.generation import generate
from clew.tasks.uses.level_vectors import word_vectors
from clew.tasks.uses.writing import DecodingConfig
from clew.text.train import train_word
from tests.instruments.small_runs import small_run
from tests.tasks.test_node_labelling import EXAMPLES
from tests.tasks.test_tree_classification import trees

TEXT = "the walls were tall"
HEADS = "\n".join(
    f"{n}\t{word}\t_\t_\t_\t_\t{head}\t_\t_\t_"
    for n, (word, head) in enumerate(zip(TEXT.split(), (2, 4, 4, 0), strict=True), 1)
)
"""The same text with a graph, as CoNLL-U."""
GREEDY = DecodingConfig(method="greedy", max_new=6, stop=False)


@cache
def built(name: str) -> Any:
    torch.manual_seed(0)
    if name == "sequence":
        run = small_run("attentive")
        return build_sequence(run.task.body, run.vocabularies, SequenceConfig()).eval()
    if name == "representation":
        run = small_run("bert")
        return build_representation(run.task.body, run.vocabularies, RepresentationConfig()).eval()
    if name == "tree":
        entry = TASKS["tree_classification"]
        vocabularies = train_tree_vocabularies(
            lambda texts, specials: train_word(texts), False, trees(), entry.config()
        )  # type: ignore[arg-type]
        family = MODELS["tree_lstm"]
        body = family.build(family.config(dim=8), Tokens(vocabularies["tokenizer"].vocabulary))  # type: ignore[call-arg]
        return build_tree_classifier(body, vocabularies, entry.config()).eval()  # type: ignore[arg-type]
    if name == "graph":
        graphs = TASKS["node_labelling"]
        node_vocabularies = train_node_vocabularies(
            lambda texts, specials: train_word(texts), False, EXAMPLES, graphs.config()
        )  # type: ignore[arg-type]
        family = MODELS["graph_lstm"]
        source = GraphNodes(Tokens(node_vocabularies["tokenizer"].vocabulary), len(node_vocabularies[EDGE_TYPES]) + 1)
        return graphs.build(family.build(family.config(dim=8), source), node_vocabularies, graphs.config()).eval()  # type: ignore[call-arg]
    return small_run(name).task


CASES = {
    "language_model": ["elman", "lstm", "bytes", "words", "gpt", "subwords", "llama"],
    "bidirectional_language_model": ["elmo"],
    "masked_language_model": ["bert"],
    "translation": ["attentive", "transformer"],
    "sequence": ["sequence"],
    "parsing": ["parser"],
    "classification": ["classifier", "heads", "pairs"],
    "tagging": ["tagger"],
    "question_answering": ["answerer"],
    "representation": ["representation"],
    "tree_classification": ["tree"],
    "node_labelling": ["graph"],
}
NAMES = [name for names in CASES.values() for name in names]
OFFERS = {
    "language_model": ["reads", "predicts", "expects", "scores_tokens", "steps", "streams", "explains", "vectors"],
    "bidirectional_language_model": ["reads", "predicts", "vectors"],
    "masked_language_model": ["reads", "predicts", "expects", "scores_tokens", "explains", "vectors"],
    "translation": [
        "reads",
        "predicts",
        "expects",
        "scores_tokens",
        "own_target",
        "steps",
        "explains",
        "aligns",
        "vectors",
    ],
    "classification": ["reads", "judges", "explains", "vectors"],
    "tagging": ["reads", "judges", "explains", "vectors"],
    "question_answering": ["reads", "vectors"],
    "representation": ["reads", "vectors"],
    "tree_classification": ["judges"],
    "node_labelling": ["reads", "judges", "explains"],
}
OFFERS |= dict.fromkeys(("sequence", "parsing"), OFFERS["translation"])
OF_FILES = {
    "transcription": ["reads", "explains", "spells"],
    "listening": [
        "reads",
        "predicts",
        "expects",
        "scores_tokens",
        "own_target",
        "steps",
        "explains",
        "aligns",
        "spells",
    ],
    "captioning": [
        "reads",
        "predicts",
        "expects",
        "scores_tokens",
        "own_target",
        "steps",
        "explains",
        "aligns",
        "looks",
    ],
    "picture_classification": ["reads", "judges", "explains"],
    "sound_classification": ["reads", "judges", "explains"],
    "cell_labelling": ["reads"],
    "paragraphs": ["looks"],
    "graph_classification": [],
}
"""Tasks that read files, or graphs of any kind, instead of texts."""


def tasks_with(capability: str) -> list[str]:
    return [name for kind, names in CASES.items() if capability in OFFERS[kind] for name in names]


def reading_of(name: str) -> Reading:
    return built(name).reads(ModelInput(text_for(name)))


def text_for(name: str) -> str:
    return {"graph": HEADS, "tree": "(2 (2 A) (2 film))"}.get(name, TEXT)


def test_every_task_offers_the_listed_capabilities():
    assert set(CASES) == set(OFFERS) and set(CASES) | set(OF_FILES) == set(TASKS)
    for name, capabilities in OF_FILES.items():
        assert offered(build_task_case(TASKS[name], Sizes(1, 3, 2, 4)).task) == capabilities, name
    for kind, names in CASES.items():
        for name in names:
            assert offered(built(name)) == OFFERS[kind], name


@pytest.mark.parametrize("name", NAMES)
def test_offered_capabilities_have_their_methods_and_others_say_why_not(name):
    task = built(name)
    for capability, (protocol, missing) in CAPABILITIES.items():
        if (why := lacking(task, capability)) is None:
            methods = [
                method
                for method, each in vars(protocol).items()
                if inspect.isfunction(each) and not method.startswith("_")
            ]
            assert methods and all(callable(getattr(task, method)) for method in methods)
        else:
            assert why == missing or why == task.without(capability)


def test_a_model_that_lacks_a_capability_says_why():
    apart = small_run("classifier").task
    was = apart.config
    try:
        apart.config = was.model_copy(update={"pair": "apart"})
        assert (
            lacking(apart, "explains") == "reads two texts each by itself; attribution needs texts that are read as one"
        )
    finally:
        apart.config = was
    assert lacking(built("tree"), "reads") == "reads trees, not texts"
    assert lacking(object(), "judges") == "predicts no labels"


@pytest.mark.parametrize("name", tasks_with("reads"))
def test_a_reading_has_a_token_vector_and_levels_for_every_id(name):
    reading = reading_of(name)
    assert len(reading.tokens) == len(reading.ids) and len(reading.written) == len(reading.written_ids)
    hidden = reading.hidden()
    assert hidden.shape[:2] == (1, len(reading.written) or len(reading.ids))
    top = reading.levels()[-1]
    assert len(top.tokens) == hidden.shape[1] and len(top.names) == len(top.values)
    torch.testing.assert_close(top.values[-1], hidden[0])
    with record(reading.module, reading.model.entrance(reading)) as recorded:
        reading.hidden()
    assert recorded[reading.model.entrance(reading)].shape[:2] == hidden.shape[:2]


@pytest.mark.parametrize("name", tasks_with("reads"))
def test_a_row_read_token_by_token_has_the_same_vectors(name):
    reading = reading_of(name)
    with evaluating([reading.module]):
        carried = reading.model.carries(reading)
        if carried is None:
            assert not reading.module.body.causal  # type: ignore[union-attr]
            return
        state, rows = carried.state, []
        for t in range(len(reading.written) or len(reading.ids)):
            hidden, state = carried.step(t, state)
            rows.append(hidden)
    torch.testing.assert_close(torch.cat(rows, 1), reading.hidden(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", tasks_with("predicts"))
def test_predictions_are_probabilities_whose_cost_equals_the_loss(name):
    task, reading = built(name), reading_of(name)
    with evaluating([task]):
        predictions = task.predicts(reading)
        for one in predictions:
            assert len(one.ids) == len(one.places) == len(one.hidden) and max(one.places) < len(one.tokens)
            torch.testing.assert_close(one.log_probs().exp().sum(-1), torch.ones(len(one.ids)))
        costs = [-float(one.log_probs().gather(1, one.ids[:, None]).sum()) for one in predictions]
        if predictions[0].pseudo:
            return
        batch = reading.batch if reading.writes else task.collate([list(reading.ids)])
        loss = task(batch)[0]["loss"]
    assert sum(costs) / len(costs) == pytest.approx(float(loss.sum), rel=1e-4)


@pytest.mark.parametrize("name", tasks_with("expects"))
def test_expectations_are_probability_distributions(name):
    task = built(name)
    with evaluating([task]):
        expectations = task.expects(ModelInput("the [MASK] were [MASK]" if name == "bert" else TEXT))
    assert [one.at for one in expectations] == (["mask 1", "mask 2"] if name == "bert" else [""])
    for one in expectations:
        assert float(one.log_probs.exp().sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", tasks_with("scores_tokens"))
def test_the_last_level_scores_the_predicted_tokens(name):
    task, reading = built(name), reading_of(name)
    scores = task.scores_tokens(reading)
    with evaluating([task]):
        log_probs = scores.log_probs(reading.forward())[0]
        torch.testing.assert_close(scores.log_probs(scores.levels()[-1])[0], log_probs)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(len(log_probs)))
        (predicted,) = task.predicts(reading)
        if not predicted.pseudo:
            assert list(scores.ids) == predicted.ids.tolist()
            torch.testing.assert_close(log_probs[: len(scores.ids)], predicted.log_probs())


@pytest.mark.parametrize("name", tasks_with("steps"))
def test_greedy_stepping_generates_the_same_as_the_tasks_decoder(name):
    task = built(name)
    with evaluating([task]):
        begun = task.steps(ModelInput(TEXT), GREEDY)
        sequences = greedy_sequences(begun.stepper, begun.start, None, max_new=begun.most, end=list(begun.ends))
        tokens = sequences.tokens[0, : int(sequences.lengths[0])].tolist()
    if lacking(task, "own_target") is None:
        assert begun.text(tokens).strip() == task.own_target(ModelInput(TEXT), GREEDY)
        assert begun.before == "" and begun.ends == (task.end,)
    else:
        (own,) = generate(task, [TEXT], GREEDY)
        assert tokens == own.tokens and begun.text(tokens) == own.text and begun.before == TEXT


def test_a_parser_writes_trees_and_reads_them_as_brackets_or_symbols():
    task = built("parser")
    (parses,) = task.parse([TEXT.split()], GREEDY)
    symbols = task.own_target(ModelInput(TEXT), GREEDY).split()
    assert sum(not symbol.startswith(("(", ")")) for symbol in symbols) == 4
    assert tree_over(" ".join(symbols), TEXT.split()) == parses[0].tree
    readings = [
        task.reads(ModelInput("the thread", target))
        for target in ("(TOP (NP (DT the) (NN thread)))", "(TOP (NP DT NN )NP )TOP")
    ]
    assert [reading.written for reading in readings] == [("(TOP", "(NP", "DT", "NN", ")NP", ")TOP", "<eos>")] * 2
    with pytest.raises(
        UserError,
        match="the target '\\(TOP\\)' is not a tree over these words"
        ", or has symbols that this parser cannot write; give a bracketed tree over the words, or the symbols of one",
    ):
        task.reads(ModelInput("the thread", "(TOP)"))


@pytest.mark.parametrize("name", tasks_with("streams"))
def test_a_streams_offsets_cover_the_characters_of_its_tokens(name):
    task = built(name)
    streamed = task.streams(TEXT)
    assert streamed.tokens[streamed.before :] == task.tokenizer.encode(TEXT)
    covered = "".join(TEXT[start:stop] for start, stop in streamed.offsets)
    assert covered.replace(" ", "") == TEXT.replace(" ", "")


@pytest.mark.parametrize("name", tasks_with("judges"))
def test_labels_are_the_tasks_and_probabilities_sum_to_one(name):
    task = built(name)
    judgement = task.judges(ModelInput(text_for(name), second="a red fox" if name == "pairs" else None))
    if judgement.words:
        names = (task.labels if name == "graph" else task.tags).names
        assert [word.word for word in judgement.words] == TEXT.split() and all(
            word.tag in names for word in judgement.words
        )
        assert all(0 <= word.probability <= 1 for word in judgement.words)
    else:
        assert set(judgement.probabilities) == set(task.labels.names) and sum(
            judgement.probabilities.values()
        ) == pytest.approx(1.0, abs=1e-5)
        assert (
            judgement.labels[0]
            == max(judgement.probabilities, key=lambda label: judgement.probabilities[label])
            == str(judgement)
        )


@pytest.mark.parametrize("name", tasks_with("explains"))
def test_an_explained_score_is_equal_for_tokens_and_their_vectors(name):
    task = built(name)
    inputs = ModelInput(
        "the [MASK] were tall" if name == "bert" else text_for(name), second="a red fox" if name == "pairs" else None
    )
    with evaluating([task]):
        explained = task.explains(inputs)
        x = explained.vectors()
        assert len(x) == len(explained.tokens) == len(explained.own)
        torch.testing.assert_close(explained.of_vectors(x[None]), explained.score(explained.inputs))


@pytest.mark.parametrize("name", tasks_with("aligns"))
def test_every_target_token_attends_to_the_source_with_weights_that_sum_to_one(name):
    inputs = ModelInput(TEXT, "(TOP DT )TOP" if name == "parser" else "tall were")
    alignment = built(name).aligns(inputs)
    reading = built(name).reads(inputs)
    assert tuple(alignment.source.texts) == reading.tokens and tuple(alignment.target.texts) == reading.written
    torch.testing.assert_close(alignment.weights.sum(1), torch.ones(len(reading.written)))


@pytest.mark.parametrize("name", tasks_with("vectors"))
def test_every_word_has_a_vector_at_every_level(name):
    body, reader = built(name).vectors()
    levels = word_vectors(body, reader, [TEXT.split(), ["she"]])
    assert all(len(level) == 5 for level in levels)
    torch.testing.assert_close(levels[-1][4:], word_vectors(body, reader, [["she"]])[-1], atol=1e-5, rtol=1e-4)


def test_languages_are_those_that_a_source_can_request(tmp_path):
    from clew.runs.loaded import load_run
    from tests.runs.small import save_many_languages

    save_many_languages(tmp_path / "many")
    task = load_run(tmp_path / "many", device="cpu").task
    assert languages_of(task) == ["de", "en", "fr"] and languages_of(built("gpt")) == []
    assert (
        "vectors" not in offered(task)
        and task.reads(ModelInput("ein roter Fuchs", "a red fox", "en")).tokens[0] == "<2en>"
    )
