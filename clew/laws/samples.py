"""Small examples of each kind of data, with different lengths, for the laws of tasks. Users add samples of their own
kinds to SAMPLES."""

import math
from typing import Any, NamedTuple

import torch

from clew.core.trees import Tree
from clew.data.examples import (
    Answer,
    Captioned,
    Described,
    Labelled,
    LabelledGraph,
    LabelledInput,
    LabelledPixels,
    LabelledTree,
    Pair,
    Parsed,
    Question,
    Sentence,
    Transcribed,
)
from clew.data.files.text_files import TextString
from clew.data.formats.tree_files import labelled_nodes
from clew.data.kinds.captioned import CaptionedData
from clew.data.kinds.dependency_graphs import DependencyGraphsData
from clew.data.kinds.described import DescribedData, described_scene
from clew.data.kinds.documents import DocumentsData
from clew.data.kinds.labelled import LabelledData
from clew.data.kinds.labelled_graphs import LabelledGraphsData
from clew.data.kinds.labelled_pictures import LabelledPicturesData
from clew.data.kinds.labelled_pixels import LabelledPixelsData, SceneShapes
from clew.data.kinds.labelled_sounds import LabelledSoundsData
from clew.data.kinds.labelled_trees import LabelledTreesData
from clew.data.kinds.pairs import PairsData
from clew.data.kinds.questions import QuestionsData
from clew.data.kinds.section import DataSection
from clew.data.kinds.tagged import TaggedData
from clew.data.kinds.text import TextData
from clew.data.kinds.transcribed import TranscribedData
from clew.data.kinds.trees import TreesData
from clew.data.notes import Notes
from clew.data.sounds.sound_files import Sound
from clew.data.syntax.trees import parse_tree
from clew.data.synthetic.scene_texts import captions
from clew.data.synthetic.scenes import scenes

TEXTS = (
    "a red fox",
    "the fox ran in and out of the house",
    "she",
    "it rains on the red house",
    "the old dog saw a fox",
    "no",
)
BRACKETS = (
    "(S (NP (DT the) (NN fox)) (VP (VBD ran)))",
    "(S (NP (PRP it)) (VP (VBZ rains)))",
    "(S (NP (DT the) (JJ old) (NN dog)) (VP (VBD saw) (NP (DT a) (NN fox))))",
    "(NP (DT a) (NN house))",
)
JUDGED = (
    "(1 (0 a) (1 fox))",
    "(0 (0 the) (0 (1 old) (0 dog)))",
    "(1 (1 (0 red) (1 house)) (0 (0 in) (0 here)))",
    "(0 (0 no) (1 way))",
)


def labelled() -> list[Labelled]:
    return [Labelled(text, (str(number % 2),), id=f"text {number}") for number, text in enumerate(TEXTS)]


def tagged() -> list[Sentence]:
    words = [tuple(text.split()) for text in TEXTS]
    return [
        Sentence(each, tuple("N" if len(word) > 2 else "X" for word in each), id=f"sentence {n}")
        for n, each in enumerate(words)
    ]


def pairs() -> list[Pair]:
    return [Pair(text, " ".join(reversed(text.split())), id=f"pair {number}") for number, text in enumerate(TEXTS)]


def trees() -> list[Parsed]:
    return [Parsed(parse_tree(text), f"tree {number}") for number, text in enumerate(BRACKETS)]


def labelled_trees() -> list[LabelledTree]:
    parsed: list[Tree] = [parse_tree(text) for text in JUDGED]
    return list(labelled_nodes([Parsed(tree, f"tree {number}") for number, tree in enumerate(parsed)], Notes()))


def dependency_graphs() -> list[Sentence]:
    """Return dependency trees in which the middle word is the root and the head of all others."""
    sentences = []
    for sentence in tagged():
        root = len(sentence.words) // 2 + 1
        heads = tuple(0 if word == root else root for word in range(1, len(sentence.words) + 1))
        sentences.append(sentence._replace(heads=heads, relations=tuple("dep" if head else "root" for head in heads)))
    return sentences


def questions() -> list[Question]:
    questions = []
    for number, text in enumerate(TEXTS[:4]):
        first = text.split()[0]
        questions.append(Question(f"who is {first} ?", text, (Answer(first, 0),), f"question {number}"))
    return questions


class Tone(NamedTuple):
    """A sound with one tone per word, whose pitch follows the word's length."""

    text: str

    def sound(self) -> Sound:
        seconds = torch.arange(800) / 8000
        return Sound(
            torch.cat([torch.sin(2 * math.pi * 200 * len(word) * seconds) for word in self.text.split()]), 8000
        )


def transcribed() -> list[Transcribed]:
    return [Transcribed(Tone(text), text, f"sound {number}") for number, text in enumerate(TEXTS)]


def captioned() -> list[Captioned]:
    return [
        Captioned(scene, tuple(caption.text for caption in captions(scene)), f"scene {number}")
        for number, scene in enumerate(scenes(6, 1, "train", side=32))
    ]


def described() -> list[Described]:
    return [described_scene(scene, id=f"scene {number}") for number, scene in enumerate(scenes(6, 1, "train", side=32))]


def labelled_pictures() -> list[LabelledInput]:
    numbered = enumerate(scenes(6, 1, "train", side=32))
    return [LabelledInput(scene, (str(number % 2),), f"scene {number}") for number, scene in numbered]


def labelled_sounds() -> list[LabelledInput]:
    return [LabelledInput(Tone(text), (str(number % 2),), f"sound {number}") for number, text in enumerate(TEXTS)]


def labelled_graphs() -> list[LabelledGraph]:
    """Return sentences as chains of words."""
    graphs = []
    for number, sentence in enumerate(tagged()):
        edges = tuple((word, word + 1, "next") for word in range(len(sentence.words) - 1))
        graphs.append(LabelledGraph(sentence._replace(tags=None, edges=edges), (str(number % 2),), f"graph {number}"))
    return graphs


def labelled_pixels() -> list[LabelledPixels]:
    drawn_scenes = (scene for number in range(1, 4) for scene in scenes(2, number, "train", side=28 + 4 * number))
    return [
        LabelledPixels(scene, SceneShapes(scene), id=f"scene {number}") for number, scene in enumerate(drawn_scenes)
    ]


SAMPLES: dict[type[DataSection], Any] = {
    TextData: TextString("\n".join(TEXTS * 4) + "\n"),
    DocumentsData: TextString("\n\n".join("\n".join(TEXTS) for _ in range(4)) + "\n"),
    LabelledData: labelled(),
    TaggedData: tagged(),
    PairsData: pairs(),
    TreesData: trees(),
    LabelledTreesData: labelled_trees(),
    DependencyGraphsData: dependency_graphs(),
    QuestionsData: questions(),
    TranscribedData: transcribed(),
    CaptionedData: captioned(),
    DescribedData: described(),
    LabelledPicturesData: labelled_pictures(),
    LabelledSoundsData: labelled_sounds(),
    LabelledGraphsData: labelled_graphs(),
    LabelledPixelsData: labelled_pixels(),
}
