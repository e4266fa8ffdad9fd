"""Dialogues in plain text: a turn a line, an empty line between two dialogues. A reply is written after the turns
before it."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from clew.data.examples import Dialogue, Pair
from clew.data.lines import read_lines
from clew.data.notes import Notes
from clew.data.records import check_found

TURN = " | "
"""What stands between the turns that a reply is written after."""


def read_dialogues(path: Path, *, notes: Notes | None = None) -> Iterator[Dialogue]:
    """A dialogue of one turn has no reply, and is a fault."""
    notes = Notes() if notes is None else notes
    name, turns, found = str(path), [], False
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
                "this turn has no other after it before an empty line, so there is no reply",
            )
        elif dialogue.turns:
            found = True
            yield dialogue
    check_found(found, path, False, notes)


def replies(dialogue: Dialogue, most: int) -> Iterator[Pair]:
    """Every turn but the first, with at most so many turns before it as its source."""
    for turn in range(1, len(dialogue.turns)):
        history = dialogue.turns[max(0, turn - most) : turn]
        yield Pair(TURN.join(history), dialogue.turns[turn], f"{dialogue.file}:{dialogue.line + turn}")
