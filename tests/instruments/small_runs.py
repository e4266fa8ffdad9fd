"""Small untrained runs, built in memory, one of each kind that instruments support. Nothing is written or trained."""

from functools import cache
from pathlib import Path

from clew.data.examples import Answer, Labelled, Pair, Parsed, Question, Sentence
from clew.data.syntax.trees import parse_tree
from clew.recipes.resolving import config_of
from clew.runs.build import build_task
from clew.runs.loaded import Run
from clew.runs.tokenizers import RunTokenizers
from clew.tasks import TASKS
from tests.runs.small import BERT, GPT, LSTM, REVERSER, TEXT

TEXTS = ["the walls were tall", "she went in", "a red fox", "the thread was small"]
EXAMPLES = {
    "pairs": [Pair(text, " ".join(reversed(text.split()))) for text in TEXTS],
    "labelled texts": [
        Labelled(text, (label,)) for text, label in zip(TEXTS, ("good", "bad", "odd", "good"), strict=True)
    ],
    "tagged words": [
        Sentence(tuple(text.split()), tuple("DN"[place % 2] for place in range(len(text.split())))) for text in TEXTS
    ],
    "trees": [Parsed(parse_tree("(TOP (S (NP (DT the) (NN thread)) (VP (VBD was) (ADJP (JJ small)))))"), "1")],
    "questions": [Question("who went in ?", "the fox was red . she went in .", (Answer("she", 18),), "1")],
}
WORDS = ["model.dim=8", "text.tokenizer=word", "text.size=null", "text.min_count=1", "device=cpu"]
RUNS = {
    "elman": ("text-lstm", [*LSTM, "model.cell=elman"]),
    "lstm": ("text-lstm", LSTM),
    "bytes": ("text-lstm", [*LSTM, "text.tokenizer=bpe", "text.size=300"]),
    "words": ("text-lstm", [*LSTM, "text.tokenizer=word"]),
    "gpt": ("text-gpt", [*GPT, "model.num_layers=2"]),
    "subwords": ("text-gpt", [*GPT, "text.tokenizer=bpe", "text.size=300"]),
    "llama": ("text-llama", GPT),
    "bert": ("text-bert", BERT),
    "elmo": ("text-elmo", ["model.dim=8", "device=cpu"]),
    "attentive": ("tatoeba-lstm", REVERSER),
    "transformer": ("tatoeba-transformer", [*REVERSER, "model.num_heads=2", "model.num_layers=2"]),
    "classifier": ("sentiment-lstm", WORDS),
    "heads": ("sentiment-attention", WORDS),
    "tagger": ("tag", WORDS),
}
OTHERS = {
    "gru": ("text-lstm", [*LSTM, "model.cell=gru"]),
    "published gru": ("text-lstm", [*LSTM, "model.cell=gru", "model.cell.reset=before"]),
    "parser": (
        "craft-parser",
        [*(setting for setting in REVERSER if not setting.startswith("data.")), "text.min_count=1"],
    ),
    "answerer": ("answer-facts", WORDS),
    "pairs": ("sentiment-lstm", [*WORDS, "data.second=second"]),
    "pruned": ("text-gpt", [*GPT, "model.num_layers=3", 'model.heads={"1": [], "3": [2]}']),
}
"""Runs on which only some instruments are tested."""


@cache
def small_run(name: str) -> Run:
    """The run of a kind. It is cached, so tests must undo their changes to it."""
    recipe, settings = (RUNS | OTHERS)[name]
    config = config_of(recipe, [*settings, "data.train=nowhere.txt", "data.corpus=null"])
    learning = TASKS[config.task.name].learns
    vocabularies = learning.vocabularies(EXAMPLES.get(learning.reads, [TEXT]), RunTokenizers(config), config.task)
    return Run(Path("runs") / name, config, vocabularies, build_task(config, vocabularies, to_train=False).eval())
