"""Training data of the frozen runs: sentences written for clew, in every format that a task reads."""

import json
from itertools import product
from typing import Any

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
DOCUMENTS = "".join(
    f"{first} .\n{second} .\n\n"
    for first, second in zip(SENTENCES * 3, [*SENTENCES[1:], SENTENCES[0]] * 3, strict=True)
)
OBJECTS = "".join(
    json.dumps({"title": f"page {number}", "body": f"{sentence} ."}) + "\n"
    for number, sentence in enumerate(SENTENCES * 3)
)
WORDS = {
    "colour": (("red", "rot"), ("blue", "blau"), ("old", "alt")),
    "noun": (("thread", "Faden"), ("door", "Tor"), ("lamp", "Licht"), ("wall", "Wand")),
    "verb": (("falls", "faellt"), ("stands", "steht")),
}
FRENCH = {
    "red": "rouge",
    "blue": "bleu",
    "old": "vieux",
    "thread": "fil",
    "door": "porte",
    "lamp": "lampe",
    "wall": "mur",
}
FRENCH |= {"falls": "tombe", "stands": "reste"}
PHRASES = list(product(WORDS["colour"], WORDS["noun"], WORDS["verb"]))
PAIRS = [(f"{colour[1]} {noun[1]} {verb[1]}", f"{noun[0]} {verb[0]} {colour[0]}") for colour, noun, verb in PHRASES]
ENGLISH = [target for _, target in PAIRS]
DIALOGUES = "\n".join(
    f"where is the {noun[0]} ?\nthe {noun[0]} is {colour[0]} .\nwho has the {noun[0]} ?\nshe has the {colour[0]}"
    f" {noun[0]} .\n"
    for colour, noun in product(WORDS["colour"], WORDS["noun"])
)
TREES = "\n".join(
    f"( (S (NP (DT the) (JJ {colour[0]}) (NN {noun[0]})) (VP (VBZ {verb[0]})) (. .)) )\n"
    f"(S (NP (PRP she)) (VP (VBZ {'sees' if verb[0] == 'falls' else 'takes'}) (NP (DT a) (NN {noun[0]}))) (. .))"
    for colour, noun, verb in PHRASES
)
OPINIONS = [
    ("lost", "bad"),
    ("dark", "bad"),
    ("cut", "bad"),
    ("home", "good"),
    ("bright", "good"),
    ("whole", "good"),
    ("long", "odd"),
]
LABELLED = [
    (f"the {colour[0]} {noun[0]} is {word}", label)
    for colour, noun, (word, label) in product(*[*WORDS.values()][:2], OPINIONS)
]
NAMED_LABELS = {"good": "2", "bad": "0", "odd": "1"}
NUMBERS = {"good": 2.5, "bad": -1.5, "odd": 0.25}
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
    """Dependency trees in CoNLL-U, optionally with a comment that gives the kind of sentence."""
    sentences = []
    for number, ((colour, _), (noun, _), (verb, _)) in enumerate(PHRASES, start=1):
        words = [
            ("the", "DET", 3, "det"),
            (colour, "ADJ", 3, "amod"),
            (noun, "NOUN", 4, "nsubj"),
            (verb, "VERB", 0, "root"),
        ]
        mark = "?" if verb == "falls" else "."
        words.append((mark, "PUNCT", 4, "punct"))
        comments = [
            f"# sent_id = {number}",
            *([f"# s_type = {'ask' if mark == '?' else 'tell'}"] if with_types else []),
        ]
        lines = [
            f"{place}\t{word}\t{word}\t{tag}\t_\t_\t{head}\t{relation}\t_\t_"
            for place, (word, tag, head, relation) in enumerate(words, 1)
        ]
        sentences.append("\n".join([*comments, *lines]) + "\n\n")
    return "".join(sentences)


def questions() -> list[dict[str, Any]]:
    """Questions about where people live; every fifth cannot be answered from its passage."""
    rows = []
    for number, (person, place, other) in enumerate(product(PEOPLE, PLACES, PEOPLE)):
        if person == other:
            continue
        passage = (
            f"{other} likes tea . {person} lives in {place} ."
            if number % 2
            else f"{person} lives in {place} . {other} likes tea ."
        )
        asked = person if number % 5 else other
        answers = [{"text": place, "answer_start": passage.index(place)}] if asked == person else []
        rows.append(
            {"id": str(number), "question": f"where does {asked} live ?", "passage": passage, "answers": answers}
        )
    return rows


def squad(rows: list[dict[str, Any]]) -> str:
    paragraphs = [
        {"context": each["passage"], "qas": [{key: each[key] for key in ("id", "question", "answers")}]}
        for each in rows
    ]
    return json.dumps({"version": "2.0", "data": [{"title": "the maze", "paragraphs": paragraphs}]}, indent=0) + "\n"


def scored_trees() -> str:
    """Trees with a class at every node."""
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
