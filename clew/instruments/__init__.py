"""The table of instruments, by their names on the command line and the page."""

from clew.instruments.ablation import ABLATION
from clew.instruments.attention import ATTENTION
from clew.instruments.attributing import ATTRIBUTION
from clew.instruments.captions import CAPTION
from clew.instruments.cells import CELLS
from clew.instruments.contextuality_views import CONTEXTUALITY, OCCURRENCES
from clew.instruments.gates import GATES
from clew.instruments.gradients import GRADIENTS
from clew.instruments.graph_view import GRAPH
from clew.instruments.instrument import Instrument
from clew.instruments.learning_curves import CURVES
from clew.instruments.levels import LEVELS
from clew.instruments.logit_lens import LOGIT_LENS
from clew.instruments.next_tokens import NEXT
from clew.instruments.prediction import PREDICTION
from clew.instruments.run_cost import COST
from clew.instruments.sampling import SAMPLING
from clew.instruments.searching import BEAM
from clew.instruments.similarity_views import CKA, HEADS
from clew.instruments.subjects.places import TAPS
from clew.instruments.subjects.tokens import TOKENS
from clew.instruments.surprisal import SURPRISAL
from clew.instruments.tracked_cells import TRACK
from clew.instruments.transcripts import TRANSCRIPT
from clew.instruments.word_alignment import ALIGNMENT
from clew.instruments.worst_errors import ERRORS

INSTRUMENTS: dict[str, Instrument] = {
    "tokens": TOKENS,
    "surprisal": SURPRISAL,
    "next": NEXT,
    "cells": CELLS,
    "track": TRACK,
    "gates": GATES,
    "gradients": GRADIENTS,
    "graph": GRAPH,
    "levels": LEVELS,
    "taps": TAPS,
    "attention": ATTENTION,
    "alignment": ALIGNMENT,
    "caption": CAPTION,
    "transcript": TRANSCRIPT,
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
