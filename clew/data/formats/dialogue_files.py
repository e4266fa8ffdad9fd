"""Dialogues in plain text: one turn per line, and an empty line between dialogues. A reply is generated from the turns
before it."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from clew.data.examples import Dialogue, Pair
from clew.data.lines import read_lines
from clew.data.notes import Notes
from clew.data.records import check_found

TURN = " | "
"""The separator of the turns before a reply."""


def read_dialogues(path: Path, *, notes: Notes | None = None) -> Iterator[Dialogue]:
    """Yield the dialogues. A dialogue of one turn has no reply and is a fault."""
    notes = Notes() if notes is None else notes
    name, turns, has_dialogues = str(path), [], False
    for number, line in enumerate(chain(read_lines(path), [""]), start=1):
        if line.strip():
            turns.append(line.strip())
            continue
        dialogue = Dialogue(tuple(turns), name, number - len(turns))
        turns = []
        if len(dialogue.turns) == 1:
            notes.fault(
                "dialogue of one turn",
                dialogue.id,
                "the dialogue has one turn, so there is no reply",
            )
        elif dialogue.turns:
            has_dialogues = True
            yield dialogue
    check_found(has_dialogues, path, False, notes)


def replies(dialogue: Dialogue, most: int) -> Iterator[Pair]:
    """Yield every turn but the first as a target; the source is at most the `most` turns before it."""
    for turn in range(1, len(dialogue.turns)):
        history = dialogue.turns[max(0, turn - most) : turn]
        yield Pair(TURN.join(history), dialogue.turns[turn], f"{dialogue.file}:{dialogue.line + turn}")
