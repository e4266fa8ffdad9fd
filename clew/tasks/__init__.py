"""Tasks, one per file: each turns a body's vectors into scores, a loss and predictions."""

from clew.tasks.bidirectional import BIDIRECTIONAL_LANGUAGE_MODEL
from clew.tasks.captioning import CAPTIONING
from clew.tasks.cell_labelling import CELL_LABELLING
from clew.tasks.classification import CLASSIFICATION
from clew.tasks.entry import TaskEntry
from clew.tasks.graph_classification import GRAPH_CLASSIFICATION
from clew.tasks.language_model import LANGUAGE_MODEL
from clew.tasks.listening import LISTENING
from clew.tasks.masked_language_model import MASKED_LANGUAGE_MODEL
from clew.tasks.node_labelling import NODE_LABELLING
from clew.tasks.paragraphs import PARAGRAPHS
from clew.tasks.parsing import PARSING
from clew.tasks.picture_classification import PICTURE_CLASSIFICATION
from clew.tasks.question_answering import QUESTION_ANSWERING
from clew.tasks.representation import REPRESENTATION
from clew.tasks.shared.sequence import SEQUENCE, TRANSLATION
from clew.tasks.sound_classification import SOUND_CLASSIFICATION
from clew.tasks.tagging import TAGGING
from clew.tasks.transcription import TRANSCRIPTION
from clew.tasks.tree_classification import TREE_CLASSIFICATION
from clew.tasks.use import Shared
from clew.tasks.uses.choices import CHOOSE, takes_choices
from clew.tasks.uses.text_vectors import EMBED, reads_texts

TASKS: dict[str, TaskEntry] = {
    "language_model": LANGUAGE_MODEL,
    "bidirectional_language_model": BIDIRECTIONAL_LANGUAGE_MODEL,
    "masked_language_model": MASKED_LANGUAGE_MODEL,
    "translation": TRANSLATION,
    "sequence": SEQUENCE,
    "parsing": PARSING,
    "classification": CLASSIFICATION,
    "tagging": TAGGING,
    "question_answering": QUESTION_ANSWERING,
    "representation": REPRESENTATION,
    "tree_classification": TREE_CLASSIFICATION,
    "transcription": TRANSCRIPTION,
    "listening": LISTENING,
    "captioning": CAPTIONING,
    "paragraphs": PARAGRAPHS,
    "picture_classification": PICTURE_CLASSIFICATION,
    "sound_classification": SOUND_CLASSIFICATION,
    "cell_labelling": CELL_LABELLING,
    "node_labelling": NODE_LABELLING,
    "graph_classification": GRAPH_CLASSIFICATION,
}

USES: dict[str, Shared] = {"classify": Shared(CHOOSE, takes_choices), "embed": Shared(EMBED, reads_texts)}
"""Further uses by verb, each for the runs of several tasks."""
