"""Scores that explain a transcript: its probability, or that of one of its symbols, as a function of the sound."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.layers.losses.ctc import least_frames
from clew.tasks.offers import ModelInput
from clew.tasks.shared.input_reading import GIVEN
from clew.tasks.uses.explaining import Explained


def explain_transcription(task: Any, model_input: ModelInput, of: str | None, place: int | None) -> Explained:
    """Explain log p of a text, summed over all paths that collapse to it (without a text, that of the best path):

        log sum over paths that collapse to the text of prod_t softmax(logits_t)[path_t]

    With a `place`, explain log softmax(logits_t)[symbol] of that symbol of the text, at the frame t of its best
    alignment with the highest probability.
    """
    encoded, batch = task.one_row(model_input)
    with torch.no_grad():
        logits = task.logits(batch)
    ids = (
        list(task.transcripts(batch, 1)[0].tokens)
        if of is None
        else [id for id in task.target.encode(of) if id != task.target.end]
    )
    targets = torch.tensor([ids], dtype=torch.long, device=logits.device)
    check_spoken(task, targets, of, place, encoded.input.length)

    def logits_of(inputs: Any) -> Tensor:
        logits: Tensor = task.logits(batch._replace(inputs=inputs, mask=None))
        return logits

    text = task.target.decode(ids).strip()
    score: Callable[[Any], Tensor]
    if place is None:
        what = f"log p of {text!r}"

        def score(inputs: Any) -> Tensor:
            rows = logits_of(inputs)
            log_probs: Tensor = task.ctc.log_likelihood(rows, targets.expand(len(rows), -1))
            return log_probs

    else:
        symbol, log_probs = ids[place - 1], logits[0].log_softmax(-1)
        is_own = task.ctc.align(logits, targets).labels[0] == place - 1
        frame = int(log_probs[:, symbol].masked_fill(~is_own, -torch.inf).argmax())
        layout = task.reader.layout(model_input.text, encoded.input.length)
        what = f"log p of {task.target.piece(symbol)!r} at {layout.names[frame]}, symbol {place} of {text!r}"

        def score(inputs: Any) -> Tensor:
            return logits_of(inputs)[:, frame].log_softmax(-1)[:, symbol]

    layout, canvas = task.reader.layout(model_input.text, encoded.input.length), task.reader.canvas(model_input.text)
    return Explained.of_input(task, batch.inputs, score, what, layout, canvas, GIVEN)


def check_spoken(task: Any, targets: Tensor, of: str | None, place: int | None, frames: int) -> None:
    count = targets.shape[1]
    if of is not None and (task.target.unknown in targets or not count):
        raise UserError(f"of={of!r} has symbols that the model does not know, or none; give a text that may be said")
    if (needed := int(least_frames(targets))) > frames:
        raise UserError(f"of={of!r} needs at least {needed} frames, and the sound has {frames}; give a shorter text")
    if place is not None and place > count:
        raise UserError(f"there is no symbol {place} in the transcript; it has {count}")
