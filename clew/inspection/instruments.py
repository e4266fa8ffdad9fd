"""The table of instruments, by the name that the command line and the page know them by."""

from collections.abc import Callable

from clew.inspection.ablation import ABLATION
from clew.inspection.attention import ATTENTION
from clew.inspection.attributing import ATTRIBUTION
from clew.inspection.cells import CELLS
from clew.inspection.contextuality_views import CONTEXTUALITY, OCCURRENCES
from clew.inspection.corpus_text import has_corpus_text
from clew.inspection.gates import GATES
from clew.inspection.gradients import GRADIENTS
from clew.inspection.graph_view import GRAPH
from clew.inspection.instrument import Instrument
from clew.inspection.learning_curves import CURVES
from clew.inspection.logit_lens import LOGIT_LENS
from clew.inspection.next_tokens import NEXT
from clew.inspection.places import TAPS
from clew.inspection.prediction import PREDICTION
from clew.inspection.run_cost import COST
from clew.inspection.sampling import SAMPLING
from clew.inspection.searching import BEAM
from clew.inspection.similarity_views import CKA, HEADS
from clew.inspection.surprisal import SURPRISAL
from clew.inspection.tokens import TOKENS
from clew.inspection.tracked_cells import TRACK
from clew.inspection.word_alignment import ALIGNMENT
from clew.inspection.worst_errors import ERRORS
from clew.runs.loaded import Run

INSTRUMENTS: dict[str, Instrument] = {
    "tokens": TOKENS,
    "surprisal": SURPRISAL,
    "next": NEXT,
    "cells": CELLS,
    "track": TRACK,
    "gates": GATES,
    "gradients": GRADIENTS,
    "graph": GRAPH,
    "taps": TAPS,
    "attention": ATTENTION,
    "alignment": ALIGNMENT,
    "prediction": PREDICTION,
    "ablation": ABLATION,
    "contextuality": CONTEXTUALITY,
    "occurrences": OCCURRENCES,
    "cka": CKA,
    "heads": HEADS,
    "attribution": ATTRIBUTION,
    "logit_lens": LOGIT_LENS,
    "beam": BEAM,
    "sampling": SAMPLING,
    "cost": COST,
    "errors": ERRORS,
    "curves": CURVES,
}
OWN_TEXT: dict[str, Callable[[Run], bool]] = {"track": has_corpus_text, "gradients": has_corpus_text, "heads": lambda run: True}
"""Those that find a text of their own in a run where none is given; the others are given one, or have nothing to read."""
