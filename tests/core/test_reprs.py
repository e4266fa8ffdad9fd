"""Results have a repr on one line, without addresses and shortened."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clew.core.trees import Tree
from clew.drawing.views import Heatmap, Note, Table, View
from clew.tasks.captioning import Caption
from clew.tasks.cell_labelling import LabelledPicture
from clew.tasks.classification import Classified
from clew.tasks.parsing import Parse
from clew.tasks.question_answering import AnsweredQuestion
from clew.tasks.shared.alignment import Alignment, Tokens
from clew.tasks.shared.labelled_inputs import JudgedInput
from clew.tasks.shared.paragraph_rows import WrittenParagraph
from clew.tasks.shared.transcripts import Transcription
from clew.tasks.tagging import TaggedText, TaggedWord
from clew.tasks.translation import ScoredPair, Translation
from clew.tasks.tree_classification import ClassifiedTree
from clew.tasks.uses.choices import Chosen
from clew.tasks.uses.filling import Filled, Guess
from clew.tasks.uses.generation import Generated
from clew.training.callbacks import Ended, Evaluated, Saved
from clew.training.fitting import Fit
from clew.training.records import HostCopy, Record

LONG = "word " * 400
IDS = list(range(400))
RECORD = Record(3, 0, 0.1, 10, {"loss": 2.0}, HostCopy(torch.ones(2)))
RESULTS: dict[str, Any] = {
    "Generated('To be or not', log_prob=-1.5)": Generated("To be", " or not", IDS, -1.5),
    "Translation('eine Katze', log_prob=-0.5)": Translation("a cat", "eine Katze", IDS, -0.5, -0.1),
    "ScoredPair('eine Katze', log_prob=-3)": ScoredPair("a cat", "eine Katze", ["eine", "Katze"], [-1.0, -2.0]),
    "Classified('late', label='delivery', probability=0.75)": Classified(
        "late", ("delivery",), {"delivery": 0.75, "billing": 0.25}
    ),
    "Classified('late', label='a|b')": Classified("late", ("a", "b"), {"a": 0.75, "b": 0.75}),
    "Classified('late', number=3.5)": Classified("late", (), {}, 3.5),
    "Chosen('late', label='good', probability=0.75)": Chosen(
        "late", ("good",), {"good": 0.75, "bad": 0.25}, log_probs={"good": -1.0}
    ),
    "ClassifiedTree('(S late)', label='good', probability=1)": ClassifiedTree(
        "(S late)", ("good",), {"good": 1.0}, nodes=("a",) * 400
    ),
    "JudgedInput('a.png', label='cat', probability=1)": JudgedInput("a.png", ("cat",), {"cat": 1.0}),
    "TaggedText('Ada/PER left/O')": TaggedText(
        "Ada left", [TaggedWord("Ada", "PER", 1.0, 0, 3), TaggedWord("left", "O", 1.0, 4, 8)], []
    ),
    "Filled('to be', probability=0.5)": Filled("to [MASK]", [[Guess("be", 3, 0.5, "to be")]]),
    "Parse('(S late)', log_prob=-1)": Parse(Tree("S", word="late"), -1.0, -1.0),
    "AnsweredQuestion('', probability=0.5)": AnsweredQuestion("1", LONG, None, (), 0.5),
    "Alignment('eine Katze', words=2 x 1)": Alignment(
        Tokens(["a"], ["a"], [0]), Tokens(["eine", "Katze"], ["eine", "Katze"], [0, 1]), torch.ones(2, 1)
    ),
    "Caption('a dog', log_prob=-1)": Caption("a.png", "a dog", IDS, -1.0, -1.0),
    "LabelledPicture('a.png', cells=1 x 2)": LabelledPicture(
        "a.png", 4, [["a", "b"]], [[1.0, 1.0]], np.ones((400, 400))
    ),
    "WrittenParagraph('A dog. It runs.', log_prob=-1)": WrittenParagraph("a.png", ["A dog.", "It runs."], -1.0),
    "Transcription('four', log_prob=-1)": Transcription("a.wav", "four", -1.0),
    "View('Norms': Heatmap, Table, Note)": View(
        "Norms", [Heatmap(np.ones((400, 400)), IDS, IDS), Table(("a",), []), Note("well")], "2"
    ),  # type: ignore[arg-type]
    "Fit('runs/a': Linear, 5 steps, best at step 3, loss 0.25)": Fit(
        torch.nn.Linear(1, 1), Path("runs/a"), 5, 3, {"loss": 0.25}, 1.0
    ),
}


@pytest.mark.parametrize("expected", RESULTS)
def test_the_repr_of_a_result_describes_it(expected: str) -> None:
    assert repr(RESULTS[expected]) == expected


def test_long_texts_are_shortened() -> None:
    text = repr(Generated(LONG, LONG, IDS, -1.0))
    assert len(text) < 100 and text.endswith("...', log_prob=-1)")


@pytest.mark.parametrize(
    "record", [RECORD, Evaluated(3, {"loss": 1.0}, True), Saved(3, Path("a")), Ended(3, 2, {}, 1.0, Path("a"))]
)
def test_records_have_no_addresses(record: Any) -> None:
    assert not re.search("0x[0-9a-f]+", repr(record)) and "\n" not in repr(record)


def test_a_view_is_printed_as_its_title_and_parts() -> None:
    view = View("Norms", [Heatmap(np.ones((2, 2)), ["a"], ["b"], title="by layer"), Note("All are one.")], "2 vectors")
    assert str(view) == "Norms\n2 vectors\nHeatmap: by layer\nAll are one."
