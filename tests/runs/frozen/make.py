"""How the frozen runs were made: `python -m tests.runs.frozen.make FOLDER [NAME ...]`.

Every task has a run of its own, and so has every way of storing one that differs. Each is trained twice: once to its end, and once
interrupted by Ctrl-C, which is kept, with its checkpoint. What the uninterrupted run measured and what the interrupted one answers are
recorded beside it. What is frozen is not made again; a new format has some runs of its own.

FOLDER/NAME/          the data that a run learns from
FOLDER/NAME/run/      the run directory
FOLDER/NAME/recorded.json
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch.multiprocessing import start_processes

import clew
from clew.cli.code import load_code
from clew.core.files import read_json, write_json
from clew.instruments import INSTRUMENTS
from clew.interop.checkpoints import import_checkpoint
from clew.interop.huggingface.sentence_folders import write_sentence_files
from clew.recipes.running import run_recipe
from clew.runs.directory import read_metrics, read_weights
from clew.tasks.representation import RepresentationConfig
from clew.training.checkpoints import checkpoint_folders
from clew.training.report import Silence
from clew.training.signals import Interrupted
from tests.runs.frozen.asking import ask, command, plain, rounded

STEPS, STOP, MORE = 96, 90, 6
"""Steps of a run, the step after which it is interrupted, and how many a finished one is asked for besides."""
TRAINING = [
    f"training.steps={STEPS}",
    "training.evaluate_every=40",
    "training.log_every=10",
    "training.keep=1",
    "device=cpu",
]
Ask = tuple[str, list[Any], dict[str, Any]]
"""A method of a run, its arguments and its options."""


@dataclass(frozen=True)
class Frozen:
    """A run to keep: how it is trained and on what, and what is asked of it."""

    recipe: str
    settings: list[str]
    files: dict[str, str] = field(default_factory=dict)
    asks: list[Ask] = field(default_factory=list)
    predict: list[str] | None = None
    """The lines of a file for `clew predict`."""
    predict_file: str = "asked.txt"
    is_scored: bool = True
    """Whether `clew evaluate RUN` has something to score the run by."""
    look: dict[str, Any] = field(default_factory=dict)
    """Options of the instruments that take them."""
    finished: bool = False
    code: str | None = None
    """The name of a user's file."""
    make: Callable[[str], None] | None = None
    """How a run is made that is not trained."""
    processes: int = 1


SENTENCES = [
    "the ball of thread was small and red",
    "she tied one end to the old door and went in",
    "the walls were tall and all the turns were the same",
    "he counted the steps but he lost the count",
    "when she had found him they followed the thread out again",
    "a lamp was burning at the end of the long hall",
    "the thread was cut but the end of it was near the door",
    "nobody knew how deep the maze was or who had built it",
]
STORY = "".join(f"{sentence} .\n" for sentence in SENTENCES * 4)
DOCUMENTS = "".join(f"{first} .\n{second} .\n\n" for first, second in zip(SENTENCES * 3, [*SENTENCES[1:], SENTENCES[0]] * 3, strict=True))
OBJECTS = "".join(json.dumps({"title": f"page {number}", "body": f"{sentence} ."}) + "\n" for number, sentence in enumerate(SENTENCES * 3))
WORDS = {
    "colour": (("red", "rot"), ("blue", "blau"), ("old", "alt")),
    "noun": (("thread", "Faden"), ("door", "Tor"), ("lamp", "Licht"), ("wall", "Wand")),
    "verb": (("falls", "faellt"), ("stands", "steht")),
}
FRENCH = {"red": "rouge", "blue": "bleu", "old": "vieux", "thread": "fil", "door": "porte", "lamp": "lampe", "wall": "mur"}
FRENCH |= {"falls": "tombe", "stands": "reste"}
PHRASES = list(product(WORDS["colour"], WORDS["noun"], WORDS["verb"]))
PAIRS = [(f"{colour[1]} {noun[1]} {verb[1]}", f"{noun[0]} {verb[0]} {colour[0]}") for colour, noun, verb in PHRASES]
ENGLISH = [target for _, target in PAIRS]
DIALOGUES = "\n".join(
    f"where is the {noun[0]} ?\nthe {noun[0]} is {colour[0]} .\nwho has the {noun[0]} ?\nshe has the {colour[0]} {noun[0]} .\n"
    for colour, noun in product(WORDS["colour"], WORDS["noun"])
)
TREES = "\n".join(
    f"( (S (NP (DT the) (JJ {colour[0]}) (NN {noun[0]})) (VP (VBZ {verb[0]})) (. .)) )\n"
    f"(S (NP (PRP she)) (VP (VBZ {'sees' if verb[0] == 'falls' else 'takes'}) (NP (DT a) (NN {noun[0]}))) (. .))"
    for colour, noun, verb in PHRASES
)
OPINIONS = [("lost", "bad"), ("dark", "bad"), ("cut", "bad"), ("home", "good"), ("bright", "good"), ("whole", "good"), ("long", "odd")]
LABELLED = [(f"the {colour[0]} {noun[0]} is {word}", label) for colour, noun, (word, label) in product(*[*WORDS.values()][:2], OPINIONS)]
NAMED_LABELS = {"good": "2", "bad": "0", "odd": "1"}
NUMBERS = {"good": 2.5, "bad": -1.5, "odd": 0.25}
TAGS = {"colour": "ADJ", "noun": "NOUN", "verb": "VERB"}
NAMES = [("Ada Lovelace", "PER"), ("Minos", "PER"), ("Crete", "LOC"), ("New Knossos", "LOC")]
PLACES = ["Rome", "Paris", "Crete", "Knossos"]
PEOPLE = ["Ada", "Bo", "Minos", "Eva"]


def table(header: list[str], rows: list[tuple[Any, ...]], separator: str) -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in [header, *rows])


def tagged_columns() -> str:
    """Four columns: word, lemma, part of speech, phrase."""
    rows = []
    for (name, label), (verb, _), (noun, _) in product(NAMES, WORDS["verb"], WORDS["noun"]):
        words = [(word, "NNP", f"{'B' if number == 0 else 'I'}-{label}") for number, word in enumerate(name.split())]
        words += [("and", "CC", "O"), ("the", "DT", "O"), (noun, "NN", "O"), (verb, "VBZ", "O")]
        rows.append("".join(f"{word} {word.lower()} {part} {phrase}\n" for word, part, phrase in words))
    return "\n".join(rows)


def tagged_conllu(with_types: bool = False) -> str:
    """Dependency trees; with a comment that says what kind of sentence each is."""
    found = []
    for number, ((colour, _), (noun, _), (verb, _)) in enumerate(PHRASES, start=1):
        words = [("the", "DET", 3, "det"), (colour, "ADJ", 3, "amod"), (noun, "NOUN", 4, "nsubj"), (verb, "VERB", 0, "root")]
        mark = "?" if verb == "falls" else "."
        words.append((mark, "PUNCT", 4, "punct"))
        comments = [f"# sent_id = {number}", *([f"# s_type = {'ask' if mark == '?' else 'tell'}"] if with_types else [])]
        lines = [
            f"{place}\t{word}\t{word}\t{tag}\t_\t_\t{head}\t{relation}\t_\t_" for place, (word, tag, head, relation) in enumerate(words, 1)
        ]
        found.append("\n".join([*comments, *lines]) + "\n\n")
    return "".join(found)


def questions() -> list[dict[str, Any]]:
    """Who lives where; of every fifth the passage does not say."""
    found = []
    for number, (person, place, other) in enumerate(product(PEOPLE, PLACES, PEOPLE)):
        if person == other:
            continue
        passage = f"{other} likes tea . {person} lives in {place} ." if number % 2 else f"{person} lives in {place} . {other} likes tea ."
        asked = person if number % 5 else other
        answers = [{"text": place, "answer_start": passage.index(place)}] if asked == person else []
        found.append({"id": str(number), "question": f"where does {asked} live ?", "passage": passage, "answers": answers})
    return found


def squad(some: list[dict[str, Any]]) -> str:
    paragraphs = [{"context": each["passage"], "qas": [{key: each[key] for key in ("id", "question", "answers")}]} for each in some]
    return json.dumps({"version": "2.0", "data": [{"title": "the maze", "paragraphs": paragraphs}]}, indent=0) + "\n"


def scored_trees() -> str:
    """A class at every node."""
    classes = {"good": "4", "bad": "0", "odd": "2"}
    return "".join(
        f"({classes[label]} (2 (2 the) (2 {noun[0]})) ({classes[label]} (2 is) ({classes[label]} {word})))\n"
        for noun, (word, label) in product(WORDS["noun"], OPINIONS)
    )


CELL = '''"""A cell of the user's own."""

import torch
from torch import nn

from clew.layers.cells import CELLS, Cell


class Leaky(Cell):
    """h' = (1 - rate) h + rate tanh(W x + U h)"""

    def __init__(self, input_dim, dim, *, rate=0.5):
        super().__init__(input_dim, dim)
        self.rate = rate
        self.input_weight = nn.Linear(input_dim, dim)
        self.hidden_weight = nn.Linear(dim, dim, bias=False)

    def inputs(self, x):
        return self.input_weight(x)

    def forward(self, inputs, state):
        hidden = (1 - self.rate) * state + self.rate * torch.tanh(inputs + self.hidden_weight(state))
        return hidden, hidden


CELLS["frozen_leaky"] = Leaky
'''


def imported(name: str) -> None:
    """An encoder of sentences in the layout of sentence-transformers, imported: the body of the masked language model."""
    base = clew.load("masked_language_model/run", device="cpu")
    shutil.rmtree("exported", ignore_errors=True)
    assert command("export", str(base.folder), "--to", "hf", "--out", "exported").status == 0
    weights, config = Path("exported/model.safetensors"), Path("exported/config.json")
    save_file({key: tensor for key, tensor in load_file(weights).items() if key.startswith("bert.")}, weights, {"format": "pt"})
    write_json(config, {**read_json(config), "architectures": ["BertModel"]})
    write_sentence_files(Path("exported"), RepresentationConfig(pooling="mean", normalise=True), base.task.body.dim, 24)
    import_checkpoint(Path("exported"), Path(name) / "run")
    shutil.rmtree("exported")


def pruned(name: str) -> None:
    """Two of four heads taken out of the language model."""
    found = command("prune", "language_model/run", "--off", "1.2", "2.1", "--out", f"{name}/run")
    assert found.status == 0, found.err


GPT = ["text.tokenizer=word", "text.size=null", "model.dim=12", "model.num_layers=2", "model.num_heads=2", "model.hidden_dim=16"]
GPT += ["model.max_length=32", "model.dropout=0", "training.batch_size=4", "training.length=32", "training.learning_rate=0.02"]
GREEDY = {"method": "greedy", "max_new": 12}
TEXT = "the thread was cut"
FINE = ["training.batch_size=8", "training.learning_rate=0.01", "training.schedule.warmup=6"]
WORD = ["text.tokenizer=word", "text.min_count=1", "text.size=null"]
WRITES = ["decoding.max_new=10", "decoding.beams=3", "task.label_smoothing=0.1"]

FROZEN: dict[str, Frozen] = {
    "language_model": Frozen(
        "text-gpt",
        ["data.train=language_model/story.txt", *GPT, "training.schedule.warmup=6", *TRAINING],
        {"story.txt": STORY},
        [
            (
                "generate",
                [
                    "the ",
                ],
                GREEDY,
            ),
            ("generate", [["she ", "when "]], {"method": "beam", "beams": 3, "n_best": 2, "max_new": 8}),
            ("score", [TEXT], {}),
            ("choose", [["the door was", "she went"], ["out", "in", "red"]], {"template": "{text} {choice}"}),
            ("embed", [TEXT], {"pooling": "last"}),
        ],
        ["the door", "she went"],
        look={"text": TEXT, "heads": "1.1", "word": "the"},
    ),
    "language_model_streams": Frozen(
        "text-lstm",
        [
            "data.train=language_model_streams/story.txt",
            "data.valid=language_model_streams/more.txt",
            "data.test_fraction=0.1",
            "text.tokenizer=word",
            "model.dim=16",
            "model.embedding_dim=8",
            "model.num_layers=2",
            "model.dropout=0.1",
            "training.batch_size=3",
            "training.length=8",
            "training.vary_length=true",
            "training.learning_rate=0.02",
            "training.schedule={name: plateau, decay: 0.5}",
            "training.average={name: ema, decay: 0.9}",
            "decoding.method=greedy",
            *TRAINING,
        ],
        {"story.txt": STORY, "more.txt": "".join(f"{sentence} .\n" for sentence in reversed(SENTENCES))},
        [("generate", ["the ball of"], GREEDY), ("score", [TEXT], {})],
        ["the walls were", "she tied"],
        look={"text": TEXT, "word": "the"},
    ),
    "language_model_documents": Frozen(
        "text-llama",
        [
            "data.train=language_model_documents/pages.jsonl",
            "data.text=body",
            "text.size=280",
            "model.dim=12",
            "model.num_layers=1",
            "model.num_heads=2",
            "model.num_kv_heads=1",
            "model.hidden_dim=24",
            "model.dropout=0",
            "training.batch_size=4",
            "training.length=24",
            "training.accumulate=2",
            "training.learning_rate=0.02",
            "training.schedule.warmup=6",
            *TRAINING,
        ],
        {"pages.jsonl": OBJECTS},
        [("generate", ["the"], GREEDY)],
        ["the walls", "she"],
        look={"text": TEXT, "heads": "1.1", "word": "the"},
    ),
    "language_model_finetuned": Frozen(
        "finetune-text",
        [
            "transfer.from=language_model/run",
            "transfer.layer_decay=0.8",
            "transfer.unfreeze_every=20",
            "data.train=language_model_finetuned/verse.txt",
            "training.batch_size=4",
            "training.length=24",
            "training.learning_rate=0.01",
            *TRAINING,
        ],
        {"verse.txt": "".join(f"{' '.join(sentence.split()[::-1])}\n" for sentence in SENTENCES * 4)},
        [("generate", ["door "], GREEDY)],
        ["red and"],
        look={"text": TEXT, "heads": "1.1", "word": "the"},
    ),
    "language_model_pruned": Frozen(
        "text-gpt",
        [],
        asks=[("generate", ["the "], GREEDY)],
        predict=["the door"],
        look={"text": TEXT, "heads": "1.1", "word": "the"},
        make=pruned,
    ),
    "language_model_sharded": Frozen(
        "text-lstm",
        [
            "data.train=language_model_sharded/story.txt",
            "model.dim=12",
            "model.embedding_dim=8",
            "model.dropout=0",
            "training.batch_size=4",
            "training.length=16",
            "training.learning_rate=0.02",
            "training.schedule=constant",
            "training.parallel=fsdp",
            *TRAINING,
        ],
        {"story.txt": STORY},
        [("generate", ["the "], GREEDY)],
        ["the door"],
        look={"text": TEXT, "word": "the"},
        processes=2,
    ),
    "language_model_code": Frozen(
        "text-lstm",
        [
            "data.train=language_model_code/story.txt",
            "model.cell={name: frozen_leaky, rate: 0.4}",
            "model.dim=16",
            "model.embedding_dim=8",
            "model.dropout=0",
            "training.batch_size=4",
            "training.length=16",
            "training.learning_rate=0.02",
            "training.schedule.warmup=6",
            *TRAINING,
        ],
        {"story.txt": STORY, "cell.py": CELL},
        [("generate", ["the "], GREEDY)],
        ["the door"],
        look={"text": TEXT, "word": "the"},
        code="cell.py",
    ),
    "bidirectional_language_model": Frozen(
        "text-elmo",
        [
            "data.train=bidirectional_language_model/story.txt",
            "embedding.characters={name: cnn, letter_dim: 3, widths: [1, 2], filters: [4, 4], highways: 1}",
            "embedding.characters_dim=8",
            "model.cell={name: projected_lstm, hidden_dim: 12}",
            "model.dim=8",
            "model.num_layers=2",
            "model.dropout=0",
            "task.predicted=40",
            "training.batch_size=4",
            "training.length=12",
            "training.learning_rate=0.02",
            "training.schedule.warmup=6",
            *TRAINING,
        ],
        {"story.txt": STORY},
        [("embed", [TEXT], {})],
        look={"text": TEXT, "word": "the"},
    ),
    "masked_language_model": Frozen(
        "text-bert",
        [
            "data.train=masked_language_model/stories.txt",
            "data.valid_fraction=0.2",
            "text.size=90",
            "model.dim=16",
            "model.num_layers=2",
            "model.num_heads=2",
            "model.hidden_dim=24",
            "model.max_length=40",
            "model.dropout=0",
            "model.attention_dropout=0",
            "training.batch_size=6",
            "training.batch_tokens=null",
            "training.length=32",
            "training.learning_rate=0.02",
            "training.schedule={name: linear, warmup: 6}",
            *TRAINING,
        ],
        {"stories.txt": DOCUMENTS},
        [
            ("fill", ["the [MASK] was small and [MASK]"], {"top": 3}),
            ("fill", [[["she went in", "the walls were tall"]]], {}),
            ("embed", [TEXT], {}),
        ],
        ["the [MASK] was cut", "she tied one [MASK] to the door"],
        look={"text": "the [MASK] was cut", "heads": "1.1", "word": "the"},
    ),
    "translation": Frozen(
        "translate",
        [
            "data.train=translation/pairs.csv",
            "data.source=german",
            "data.target=english",
            "data.test_fraction=0.1",
            *WORD,
            "text.joint=false",
            "model.family=seq2seq",
            "model.cell=gru",
            "model.dim=12",
            "model.attention=before",
            "training.batch_tokens=64",
            "training.learning_rate=0.02",
            "training.schedule.warmup=6",
            *WRITES,
            *TRAINING,
        ],
        {"pairs.csv": table(["number", "german", "english"], [(n, *pair) for n, pair in enumerate(PAIRS)], ",")},
        [
            ("translate", [["rot Faden faellt", "alt Wand steht"]], {"n_best": 2}),
            ("translate", ["blau Licht steht"], {"method": "greedy"}),
            ("score_translation", ["rot Faden faellt", "thread falls red"], {}),
            ("align", ["rot Faden faellt", "thread falls red"], {}),
        ],
        ["rot Tor steht", "", "blau Faden faellt"],
        look={"text": "rot Faden faellt", "target": "thread falls red", "heads": "cross.1.1", "max_new": 5, "word": "rot"},
    ),
    "translation_directions": Frozen(
        "translate",
        [
            "data.train=translation_directions/train",
            "data.directions=[de-en, en-de, en-fr]",
            *WORD,
            "text.joint=true",
            "model.dim=16",
            "model.num_layers=1",
            "model.num_heads=2",
            "model.hidden_dim=24",
            "model.dropout=0",
            "training.batch_tokens=160",
            "training.learning_rate=0.01",
            "training.schedule.warmup=6",
            *WRITES,
            *TRAINING,
        ],
        {
            "train.de": "".join(f"{source}\n" for source, _ in PAIRS),
            "train.en": "".join(f"{target}\n" for target in ENGLISH),
            "train.fr": "".join(" ".join(FRENCH[word] for word in target.split()) + "\n" for target in ENGLISH),
        },
        [("translate", ["rot Faden faellt"], {"into": "en"}), ("translate", ["thread falls red"], {"into": "fr"})],
        ["rot Tor steht"],
        look={"text": "rot Faden faellt", "into": "en", "heads": "cross.1.1", "max_new": 5, "word": "rot"},
    ),
    "translation_encoder": Frozen(
        "finetune-translate",
        [
            "transfer.from=masked_language_model/run",
            "data.train=[translation_encoder/train.en, translation_encoder/train.de]",
            *WORD,
            "model.dim=16",
            "model.num_layers=1",
            "model.num_heads=2",
            "model.hidden_dim=24",
            "model.dropout=0",
            "transfer.freeze=embedding",
            "training.batch_tokens=128",
            "training.learning_rate=0.001",
            "training.schedule.warmup=4",
            *WRITES,
            *TRAINING,
        ],
        {
            "train.en": "".join(f"{target}\n" for target in ENGLISH),
            "train.de": "".join(f"{source}\n" for source, _ in PAIRS),
        },
        [("translate", ["thread falls red"], {"method": "greedy"})],
        ["door stands blue"],
        look={"text": "thread falls red", "heads": "1.1", "max_new": 5, "word": "falls"},
    ),
    "sequence": Frozen(
        "reverse",
        [
            "data.size=400",
            "data.longest=3",
            "model.family=convolutional",
            "model.dim=16",
            "model.embedding_dim=12",
            "model.num_layers=1",
            "model.max_length=40",
            "model.dropout=0",
            "training.batch_size=32",
            "training.learning_rate=0.02",
            "training.schedule.warmup=6",
            "decoding.max_new=8",
            *TRAINING,
        ],
        asks=[("translate", [["a b c", "d a"]], {})],
        predict=["b c", "a d e"],
        look={"text": "a b c", "heads": "cross.1.1", "max_new": 5, "word": "a"},
    ),
    "sequence_dialogue": Frozen(
        "dialogue",
        [
            "data.train=sequence_dialogue/talk.txt",
            "data.turns=2",
            *WORD,
            "model.family=seq2seq",
            "model.cell=lstm",
            "model.dim=12",
            "model.attention=after",
            "training.batch_tokens=128",
            "training.learning_rate=0.02",
            "training.schedule=constant",
            *WRITES,
            *TRAINING,
        ],
        {"talk.txt": DIALOGUES},
        [("translate", ["where is the lamp ?"], {"method": "greedy"})],
        ["where is the door ?"],
        look={"text": "where is the lamp ?", "heads": "cross.1.1", "max_new": 5, "word": "the"},
    ),
    "parsing": Frozen(
        "parse",
        [
            "data.train=parsing/trees.mrg",
            "data.test_fraction=0.1",
            "text.min_count=1",
            "model.dim=12",
            "model.dropout=0",
            "training.batch_tokens=240",
            "training.learning_rate=0.02",
            "training.schedule.warmup=6",
            "decoding.beams=3",
            *TRAINING,
        ],
        {"trees.mrg": TREES},
        [("parse", [["the red door falls .", "she sees a lamp ."]], {}), ("parse", ["the old wall stands ."], {"n_best": 2})],
        ["the blue lamp stands .", "", "she takes a thread ."],
        look={"text": "the red door falls .", "heads": "cross.1.1", "max_new": 8, "word": "the"},
    ),
    "classification": Frozen(
        "classify",
        [
            "data.train=classification/opinions.csv",
            "data.text=said",
            "data.label=mark",
            'data.label_map={"0": bad, "1": null, "2": good}',
            "data.valid_fraction=0.2",
            *WORD,
            "model.family=cnn",
            "model.embedding_dim=8",
            "model.dim=12",
            "model.widths=[1, 2]",
            "model.dropout=0",
            "task.pooling=max",
            "task.dropout=0",
            "task.class_weights=balanced",
            "task.num_hidden=1",
            "training.batch_size=12",
            "training.learning_rate=0.005",
            "training.schedule=constant",
            *TRAINING,
        ],
        {"opinions.csv": table(["said", "mark"], [(text, NAMED_LABELS[label]) for text, label in LABELLED[::2]], ",")},
        [("classify", [["the red door is lost", "", "the old lamp is home"]], {}), ("embed", ["the red door is lost"], {})],
        ["the red thread is dark", "", "the old wall is bright"],
        look={"text": "the red door is lost", "word": "the"},
    ),
    "classification_pairs": Frozen(
        "classify",
        [
            "data.train=classification_pairs/pairs.jsonl",
            "data.text=premise",
            "data.second=claim",
            "data.label=verdict",
            "data.valid_fraction=0.2",
            *WORD,
            "model.family=recurrent",
            "model.bidirectional=true",
            "model.dim=12",
            "model.dropout=0",
            "task.pair=apart",
            "task.positive=follows",
            "task.best=f1",
            "task.dropout=0",
            "training.batch_size=12",
            "training.learning_rate=0.02",
            "training.schedule=constant",
            *TRAINING,
        ],
        {
            "pairs.jsonl": "".join(
                json.dumps(
                    {
                        "premise": f"the {colour[0]} {noun[0]} is {word}",
                        "claim": f"it is {said}",
                        "verdict": "follows" if label == said else "not",
                    }
                )
                + "\n"
                for colour, noun, (word, label), said in product(
                    [*WORDS.values()][0][:2], [*WORDS.values()][1][:3], OPINIONS[:6], ("good", "bad")
                )
            )
        },
        [("classify", [[["the red door is lost", "it is bad"], ["the blue lamp is lost", "it is good"]]], {})],
        ["the red door is lost\tit is bad", "the red lamp is home\tit is bad"],
        look={"text": "the red door is lost", "second": "it is bad", "word": "the"},
    ),
    "classification_several": Frozen(
        "classify",
        [
            "data.train=classification_several/tagged.tsv",
            "data.header=false",
            "data.text=1",
            "data.label=2",
            "data.label_separator=+",
            "data.valid_fraction=0.2",
            *WORD,
            "model.family=bag",
            "model.dim=12",
            "model.dropout=0",
            "task.labels=several",
            "task.dropout=0",
            "training.batch_size=12",
            "training.learning_rate=1.0",
            "training.optimiser={name: sgd, momentum: 0.9}",
            "training.schedule=constant",
            *TRAINING,
        ],
        {"tagged.tsv": "".join(f"{text}\t{label}+{text.split()[2]}\n" for text, label in LABELLED[::2])},
        [("classify", [["the red door is lost", "the old lamp is home"]], {})],
        ["the red thread is dark"],
        look={"text": "the red door is lost", "word": "the"},
    ),
    "classification_number": Frozen(
        "classify",
        [
            "data.train=classification_number/scores.tsv",
            "data.text=text",
            "data.label=score",
            "data.valid_fraction=0.2",
            "data.limit=40",
            *WORD,
            "model.family=mixed",
            "model.layers=[{name: attention, num_heads: 2, causal: false}, feedforward]",
            "model.dim=12",
            "model.dropout=0",
            "task.labels=number",
            "task.pooling=mean",
            "task.dropout=0",
            "training.batch_size=12",
            "training.learning_rate=0.01",
            "training.schedule=constant",
            *TRAINING,
        ],
        {"scores.tsv": table(["text", "score"], [(text, NUMBERS[label] + len(text) % 3 / 4) for text, label in LABELLED[::2]], "\t")},
        [("classify", [["the red door is lost", "the old lamp is home"]], {})],
        ["the red thread is dark"],
        look={"text": "the red door is lost", "heads": "1.1", "word": "the"},
        finished=True,
    ),
    "classification_adapter": Frozen(
        "finetune-classify",
        [
            "transfer.from=masked_language_model/run",
            "transfer.adapter={name: lora, rank: 4, alpha: 16}",
            "data.train=classification_adapter/opinions.tsv",
            "data.text=text",
            "data.label=label",
            "data.valid_fraction=0.2",
            "task.dropout=0",
            "training.batch_size=12",
            "training.learning_rate=0.05",
            "training.schedule.warmup=6",
            *TRAINING,
        ],
        {"opinions.tsv": table(["text", "label"], LABELLED[::2], "\t")},
        [("classify", [["the red door is lost", "the old lamp is home"]], {})],
        ["the red thread is dark"],
        look={"text": "the red door is lost", "heads": "1.1", "word": "the"},
    ),
    "tagging": Frozen(
        "tag",
        [
            "data.train=tagging/names.conll",
            "data.words=1",
            "data.tags=4",
            "data.valid_fraction=0.2",
            *WORD,
            "embedding.dim=8",
            "embedding.characters={name: lstm, letter_dim: 3}",
            "embedding.characters_dim=6",
            "embedding.dropout=0",
            "model.dim=8",
            "model.dropout=0",
            "task.dropout=0",
            "training.batch_size=8",
            "training.learning_rate=0.02",
            "training.schedule=constant",
            *TRAINING,
        ],
        {"names.conll": tagged_columns()},
        [
            ("tag", [["Ada Lovelace and the door stands", "the lamp falls in New Knossos"]], {}),
            ("tag", ["Minos falls"], {"tokenised": True}),
        ],
        ["Minos and the thread falls", "", "Crete and the wall stands"],
        look={"text": "Minos and the thread falls", "word": "the"},
        finished=True,
    ),
    "tagging_context": Frozen(
        "tag",
        [
            "data.train=tagging_context/sentences.conllu",
            "data.tags=upos",
            "data.valid_fraction=0.2",
            *WORD,
            "embedding.from=bidirectional_language_model/run",
            "embedding.characters=null",
            "embedding.dim=8",
            "embedding.dropout=0",
            "model.dim=8",
            "model.dropout=0",
            "task.output=softmax",
            "task.scheme=none",
            "task.dropout=0",
            "training.batch_size=8",
            "training.learning_rate=0.02",
            "training.schedule=constant",
            *TRAINING,
        ],
        {"sentences.conllu": tagged_conllu()},
        [("tag", [["the red door falls ?", "the old lamp stands ."]], {})],
        ["the blue thread stands ."],
        look={"text": "the red door falls ?", "word": "the"},
    ),
    "question_answering": Frozen(
        "answer-facts",
        [
            "data.corpus=null",
            "data.train=question_answering/train.json",
            "data.valid=question_answering/valid.json",
            "model.dim=16",
            "model.layers=[{name: convolution, width: 5, causal: false}, {name: attention, num_heads: 2, causal: false}, feedforward]",
            "task.window=32",
            "task.stride=8",
            "training.batch_size=8",
            "training.learning_rate=0.02",
            "training.schedule.warmup=6",
            *TRAINING,
        ],
        {"train.json": squad([each for number, each in enumerate(questions()) if number % 4]), "valid.json": squad(questions()[::4])},
        [
            ("answer", ["where does Ada live ?", "Ada lives in Rome . Bo likes tea ."], {"n_best": 2}),
            ("answer", [["where does Bo live ?"], "Eva likes tea . Bo lives in Paris ."], {}),
        ],
        [squad(questions()[::16])],
        "asked.json",
        look={"text": "where does Ada live ?", "heads": "1.1", "word": "lives"},
    ),
    "question_answering_table": Frozen(
        "answer",
        [
            "transfer.from=masked_language_model/run",
            "data.train=question_answering_table/questions.csv",
            "data.question=what",
            "data.passage=where",
            "data.answer=answer",
            "data.answer_start=begins",
            "data.valid_fraction=0.2",
            "task.dropout=0",
            "training.average={name: ema, decay: 0.8}",
            *FINE,
            *TRAINING,
        ],
        {
            "questions.csv": table(
                ["what", "where", "answer", "begins"],
                [(each["question"], each["passage"], one["text"], one["answer_start"]) for each in questions() for one in each["answers"]],
                ",",
            )
        },
        [("answer", ["where does Ada live ?", "Ada lives in Rome . Bo likes tea ."], {})],
        ["what,where", "where does Eva live ?,Eva lives in Crete . Bo likes tea ."],
        "asked.csv",
        look={"text": "where does Ada live ?", "heads": "1.1", "word": "lives"},
    ),
    "representation": Frozen(
        "imported",
        [],
        asks=[("embed", [["the thread was cut", "she went in"]], {}), ("embed", ["the door"], {"layer": 1, "normalise": False})],
        predict=["the thread was cut", "", "she went in"],
        is_scored=False,
        look={"text": TEXT, "heads": "1.1", "word": "the"},
        make=imported,
    ),
    "tree_classification": Frozen(
        "classify-trees",
        [
            "data.train=tree_classification/trees.txt",
            'data.label_map={"0": bad, "2": null, "4": good}',
            "data.valid_fraction=0.2",
            "text.min_count=1",
            "model.layer=n_ary_lstm",
            "model.dim=12",
            "model.dropout=0",
            "training.batch_size=8",
            "training.learning_rate=0.02",
            *TRAINING,
        ],
        {"trees.txt": scored_trees()},
        [("classify", [["(X (X (X the) (X door)) (X (X is) (X lost)))", "(X (X (X the) (X lamp)) (X (X is) (X home)))"]], {})],
        ["(X (X (X the) (X wall)) (X (X is) (X dark)))", "", "(X (X (X the) (X wall)) (X (X is) (X whole)))"],
        look={"text": "(X (X (X the) (X wall)) (X (X is) (X dark)))", "word": "the"},
    ),
    "tree_classification_heads": Frozen(
        "classify-trees",
        [
            "data.train=tree_classification_heads/trees.conllu",
            "data.label=s_type",
            "data.valid_fraction=0.2",
            "text.min_count=1",
            "model.layer=child_sum_lstm",
            "model.dim=12",
            "model.dropout=0",
            "training.batch_size=8",
            "training.learning_rate=0.02",
            "training.optimiser=adagrad",
            *TRAINING,
        ],
        {"trees.conllu": tagged_conllu(with_types=True)},
        [],
        [tagged_conllu(with_types=True).split("\n\n")[0], ""],
        "asked.conllu",
        look={"text": "the red door falls ?", "word": "the"},
    ),
}
LOOKS: dict[str, dict[str, Any]] = {
    "track": {"text": STORY},
    "gradients": {"text": SENTENCES[1], "steps": 4, "places": 2},
    "contextuality": {"corpus": "own", "sentences": 12, "least": 2},
    "occurrences": {"corpus": "own", "sentences": 12},
    "cka": {"corpus": "own", "sentences": 12},
    "cost": {"lengths": [4, 8], "repeats": 0},
    "attribution": {"steps": 8},
    "sampling": {"top_k": 1, "max_new": 5},
    "beam": {"max_new": 5},
}
"""What instruments are asked besides a fixture's own options, so that they are quick and draw nothing at random."""


SCORED: dict[str, list[list[str]]] = {
    "language_model": [["language_model/asked.txt"]],
    "language_model_documents": [["language_model_documents/pages.jsonl"]],
    "bidirectional_language_model": [["bidirectional_language_model/story.txt"]],
    "masked_language_model": [["masked_language_model/stories.txt"]],
    "translation": [
        ["translation/pairs.csv"],
        ["translation_encoder/train.de", "translation_encoder/train.en", "data.source=null", "data.target=null"],
    ],
    "translation_directions": [
        ["translation_directions/train.de", "translation_directions/train.fr", "--into", "fr"],
        ["data.directions=[de-fr]", "--pivot", "en"],
    ],
    "translation_encoder": [["translation_encoder/train.en", "translation_encoder/train.de"]],
    "sequence_dialogue": [["sequence_dialogue/talk.txt"]],
    "parsing": [["parsing/trees.mrg"]],
    "classification": [["classification/opinions.csv", "--errors", "2"]],
    "classification_pairs": [["classification_pairs/pairs.jsonl"]],
    "classification_several": [["classification_several/tagged.tsv"]],
    "classification_number": [["classification_number/scores.tsv", "--errors", "2"]],
    "tagging": [["tagging/names.conll"], ["tagging/names.conll", "data.words=2", "data.tags=4"]],
    "tagging_context": [["tagging_context/sentences.conllu"]],
    "question_answering": [["question_answering/train.json"]],
    "question_answering_table": [["question_answering_table/questions.csv"]],
    "tree_classification": [["tree_classification/trees.txt"]],
    "tree_classification_heads": [["tree_classification_heads/trees.conllu"]],
}
"""What comes after `clew evaluate RUN` besides nothing: files of one's own, and settings of the data section."""


class Stopping(Silence):
    """Ctrl-C at a step."""

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        if record.step == STOP:
            os.kill(os.getpid(), signal.SIGINT)


def train(frozen: Frozen, name: str, out: str, *, stop: bool = False, resume: bool = False, more: tuple[str, ...] = ()) -> Path:
    folder = Path(name) / out
    code = None if frozen.code is None else Path(name) / frozen.code
    settings = [] if resume else frozen.settings
    if code is not None:
        load_code(code)
    try:
        run_recipe(frozen.recipe, [*settings, *more], out=folder, resume=resume, code=code, report=Stopping() if stop else None)
    except Interrupted:
        assert stop
    return folder


def train_share(rank: int, processes: int, name: str, out: str, stop: bool) -> None:
    """One of several processes, started as torchrun starts them."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getppid() % 20000))
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
    train(FROZEN[name], name, out, stop=stop)
    os._exit(0)  # threads of the group that was stopped would abort the process


def write_data(name: str) -> None:
    Path(name).mkdir(exist_ok=True)
    for file, content in FROZEN[name].files.items():
        (Path(name) / file).write_text(content, encoding="utf-8")


def make(name: str) -> None:
    """The run that is kept, what the uninterrupted one measured, and what the kept one answers."""
    frozen, folder = FROZEN[name], Path(name)
    shutil.rmtree(folder / "run", ignore_errors=True)
    recorded: dict[str, Any] = {"recipe": frozen.recipe}
    if frozen.make is not None:
        frozen.make(name)
    else:
        recorded["resumed"] = trained(frozen, name)
    strip(folder / "run")
    recorded |= answers(frozen, name)
    write_compact(folder / "recorded.json", recorded)


def trained(frozen: Frozen, name: str) -> dict[str, Any]:
    """Trains the run twice, and checks that the kept one goes on to the bit of the other."""
    more = (f"training.steps={STEPS + MORE}",) if frozen.finished else ()
    more += ("training.log_every=1",)
    if frozen.processes > 1:
        for out, stop in (("run", True), ("whole", False)):
            start_processes(train_share, args=(frozen.processes, name, out, stop), nprocs=frozen.processes, start_method="spawn")
        kept, whole = Path(name) / "run", Path(name) / "whole"
    else:
        kept = train(frozen, name, "run", stop=not frozen.finished)
        whole = train(frozen, name, "whole", more=more)
    shutil.copytree(kept, Path(name) / "again")
    again = train(frozen, name, "again", resume=True, more=more)
    is_alone = frozen.processes == 1  # sums of several processes have other last bits
    for path in ("model.safetensors", f"checkpoints/{checkpoint_folders(again)[0].name}/model.safetensors"):
        one, other = (read_weights(each / path) for each in (whole, again)) if is_alone else ({}, {})
        assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one), (name, path)
    step = json.loads((checkpoint_folders(kept)[0] / "training.json").read_text())["step"]
    metrics = [record for record in read_metrics(again if frozen.processes > 1 else whole) if record["step"] > step]
    for folder in (whole, again):
        shutil.rmtree(folder)
    dropout = any("dropout" in setting and not setting.endswith("=0") for setting in frozen.settings)
    return {
        "from": step,
        "settings": list(more),
        "metrics": rounded_metrics(metrics),
        "draws": drawn() if dropout else None,
    }


def drawn() -> list[int]:
    """What dropout draws from a seed by this torch; another may draw otherwise."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return [int(kept) for kept in torch.nn.functional.dropout(torch.ones(32), 0.5) > 0]


def rounded_metrics(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every record what depends on the run alone, to six digits."""
    left_out = ("tokens_per_second", "seconds", "peak_memory")
    return [{key: float(f"{value:.6g}") for key, value in each.items() if key not in left_out} for each in records]


def strip(folder: Path) -> None:
    """Leaves out what nothing needs, and the name of the machine."""
    shutil.rmtree(folder / "events", ignore_errors=True)
    for name in ("lock", "pruning.html"):
        (folder / name).unlink(missing_ok=True)
    facts = read_json(folder / "environment.json")
    write_json(folder / "environment.json", {**facts, "platform": "Linux", "hardware": "x86_64"})


def answers(frozen: Frozen, name: str) -> dict[str, Any]:
    """What the kept run answers from Python and on the command line."""
    folder = f"{name}/run"
    code = [] if frozen.code is None else ["--code", f"{folder}/code.py"]
    run = clew.load(folder, device="cpu", code=code[-1] if code else None)
    asked = [{"method": method, "arguments": given, "options": options} for method, given, options in frozen.asks]
    recorded: dict[str, Any] = {
        "python": [{**each, "answer": rounded(ask(run, *each.values()))} for each in asked],
        "commands": [],
    }

    def record(*words: str) -> None:
        found = command(*words, *code)
        assert found.status == 0, (words, found.err)
        objects = [{key: value for key, value in each.items() if key != "text" or "part" not in each} for each in found.objects]  # no prose
        recorded["commands"].append({"arguments": [*words, *code], "objects": rounded(objects)})

    if frozen.predict is not None:
        (Path(name) / frozen.predict_file).write_text("".join(f"{line}\n" for line in frozen.predict), encoding="utf-8")
        into = ["--into", frozen.look["into"]] if "into" in frozen.look else []
        how = ["--method", "greedy", "--max-new", "10"] if "generate" in run.uses else []
        record("predict", folder, f"{name}/{frozen.predict_file}", "--json", "--device", "cpu", *into, *how)
    for files in [[], *SCORED.get(name, [])] if frozen.is_scored else []:
        record("evaluate", folder, *files, "--json", "--device", "cpu")
    (listed,) = command("runs", name, "--json", *code).objects
    recorded["listed"] = rounded(
        {key: value for key, value in listed.items() if key in ("folder", "recipe", "seed", "step", "steps", "state")}
    )
    fitting = [each["name"] for each in command("look", folder, "--json", "--device", "cpu", *code).objects if each["fits"]]
    recorded["looks"] = looks(frozen, run, fitting)
    return recorded


def looks(frozen: Frozen, run: Any, fitting: list[str]) -> list[dict[str, Any]]:
    """The facts of every instrument that fits; of one that refuses this run all the same there are none."""
    found = []
    for name in fitting:
        if name == "graph":  # its operations have the names that a version of torch gives them
            continue
        fields = INSTRUMENTS[name].options.model_fields
        options = {key: value for key, value in frozen.look.items() if key in fields and not (key == "heads" and name == "attention")}
        options |= LOOKS.get(name, {})
        if name in ("contextuality", "occurrences", "cka") and not frozen.files:
            options |= {"corpus": "ewt-sample", "sentences": 40}
        try:
            view = clew.look(run, name, **options)
        except Exception as error:
            print(f"  {name}: {error}", flush=True)
            continue
        found.append({"instrument": name, "options": options, "facts": rounded(plain(view.facts))})
    return found


def write_compact(path: Path, content: dict[str, Any]) -> None:
    """JSON with a line for each recorded thing."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            each = ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in value)
            lines.append(f"{json.dumps(key)}: [\n{each}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    target, *chosen = sys.argv[1:]
    Path(target).mkdir(parents=True, exist_ok=True)
    os.chdir(target)
    torch.set_num_threads(1)
    for each in FROZEN:
        write_data(each)
    for each in chosen or FROZEN:
        print(each, flush=True)
        make(each)
