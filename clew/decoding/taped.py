"""A step on a CPU that runs from a tape once it has made the same calls twice."""

import logging
from collections.abc import Callable, Hashable, Sequence

from torch import Tensor

from clew.core.pauses import pause
from clew.core.state import leaves, with_leaves
from clew.core.taps import is_watching
from clew.core.types import Tree
from clew.decoding.recording import Recording
from clew.decoding.repeated import Advance, Outputs, stacked
from clew.decoding.tape import Tape
from clew.kernels.step_mode import step_mode

WAITS, TRIES, MISSES = 8, 4, 3
"""WAITS: eager steps before recording, for new shapes or after a tape has failed; recording two steps and making a tape
costs about as much. TRIES: the most recorded steps, per call, or in total if steps are apart. MISSES: failures of a
tape in a row after which it is dropped."""

log = logging.getLogger("clew.decoding")


class Taped:
    """A step that runs eagerly until two steps in a row make the same calls, and then from a tape of these calls.

    `waits` eager steps come before the first recording: a step that runs only a few times is not worth a tape. With
    `apart`, every step continues from a separate frame, any number of positions away from the last. Once released, it
    keeps no frame alive, and unless `apart` no model either.
    """

    owns_frame = False

    def __init__(self, advance: Advance, frame: Tree, waits: int = 0, apart: bool = False):
        self.tape: Tape | None = None
        self.before: Recording | None = None
        self.waits, self.apart = waits, apart
        self.can_be_taped, self.tries = True, TRIES
        self.is_taken = False
        self.facts: list[Hashable] = []
        self.restart(advance, frame)

    def restart(self, advance: Advance, frame: Tree) -> None:
        """Continue from another frame of the same shapes."""
        self.advance: Advance | None = advance
        self.form, self.leaves = frame, leaves(frame)
        self.replay: Callable[[Sequence[Tensor]], tuple[Tensor, ...]] | None = None
        self.misses, self.tries = 0, self.tries if self.apart else TRIES

    def release(self) -> None:
        self.advance = self.replay = self.form = None
        self.leaves = []
        if not self.apart:
            self.before, self.waits = None, 0

    @property
    def frame(self) -> Tree:
        return with_leaves(self.form, self.leaves)

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        return stacked([self.step(None if fed is None else fed[step]) for step in range(count)])

    def step(self, fed: Tensor | None) -> Outputs:
        pause()
        if is_watching():
            return self.run_eagerly(fed)
        if self.tape is not None and self.misses < MISSES:
            try:
                self.replay = self.replay or self.tape.begin()
                results = self.replay(self.leaves if fed is None else [*self.leaves, fed])
            except Exception as error:
                # Run the step eagerly: it raises the proper error, or makes other calls. Later steps may match the tape
                # again.
                log.debug("a step does not match its tape: %s", error)
                self.replay, self.misses, self.waits = None, self.misses + 1, WAITS
                return self.run_eagerly(fed)
            self.leaves = list(results[: len(self.leaves)])
            self.misses = 0
            return results[len(self.leaves) :]
        if self.waits or not self.can_be_taped or not self.tries:
            self.waits = max(self.waits - 1, 0)
            return self.run_eagerly(fed)
        return self.note(fed)

    def run_eagerly(self, fed: Tensor | None) -> Outputs:
        assert self.advance is not None
        with step_mode(self.leaves[0].device):
            self.form, outputs = self.advance(self.frame, fed)
        self.leaves, self.before = leaves(self.form), None
        return outputs

    def note(self, fed: Tensor | None) -> Outputs:
        """Run the step eagerly and record its calls."""
        before, inputs = self.before, distinct(self.leaves if fed is None else [*self.leaves, fed])
        self.leaves = inputs[: len(self.leaves)]
        recording = Recording(inputs, before, unit=None if self.apart else 1)
        with recording:
            outputs = self.run_eagerly(None if fed is None else inputs[-1])
        recording.end([*self.leaves, *outputs])
        self.tries -= 1
        if recording.reason is not None:
            log.debug("a step is not recorded: %s", recording.reason)
            self.can_be_taped = before is not None
        elif before is None:
            self.before = recording
        else:
            self.tape, self.replay, self.misses = Tape(recording), None, 0
            log.debug("decoding runs from a tape of %d calls", len(recording.entries))
        return outputs


def distinct(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors as distinct objects; repeated ones become views of the same memory."""
    ids = [id(tensor) for tensor in tensors]
    return [tensor.view_as(tensor) if id(tensor) in ids[:place] else tensor for place, tensor in enumerate(tensors)]
