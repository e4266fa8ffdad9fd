"""The `Reads` capability of tasks whose body reads one sequence of vectors, of a picture or a sound."""

from typing import Any

from torch import Tensor

from clew.core.batches import to_device
from clew.core.types import State
from clew.inspection.recording import intervene, record
from clew.sources.inputs import InputReader
from clew.tasks.offers import Carried, ModelInput, Reading
from clew.tasks.shared.input_lengths import TakesPlaces, file_in
from clew.tasks.shared.reading import RunsBody

GIVEN = "body.embedding.given"
"""The tap that shows the embedding's input."""


class ReadsInput(RunsBody, TakesPlaces):
    """A task with a `body` and a `reader` of inputs. Its batches have `inputs` and a `mask`; `without_target` encodes
    an input alone."""

    body: Any
    reader: InputReader
    text_name = "input"
    names_files = True
    """Whether the text that it takes is the path of a file."""

    def without_target(self, example: Any) -> Any:
        """Encode an input without a target, as `collate` takes it."""
        raise NotImplementedError

    def collate(self, examples: Any) -> Any:
        raise NotImplementedError

    def one_row(self, model_input: ModelInput) -> tuple[Any, Any]:
        """Return an input, encoded and as a batch of one row."""
        encoded = self.without_target(file_in(model_input, self.text_name))
        self.check_length(encoded, model_input.text)
        return encoded, to_device(self.collate([encoded]), self.body.embedding.like.device)

    def reads(self, model_input: ModelInput, *, any_length: bool = False) -> Reading:
        encoded, batch = self.one_row(model_input)
        layout = self.reader.layout(model_input.text, encoded.input.length)
        return Reading(self, model_input.text, layout.names, (), batch, limit=self.body.max_length, layout=layout)

    def carries(self, reading: Reading) -> Carried | None:
        """The embedding's output is read vector by vector, because a picture's network reads the whole picture at
        once."""
        if not self.body.causal:
            return None
        with record(reading.module, self.entrance(reading)) as recording:
            reading.hidden()
        x, blank = recording[self.entrance(reading)], self.body.embedding.blank(1, 1)

        def step(t: int, state: State) -> tuple[Tensor, State]:
            with intervene(reading.module, {self.entrance(reading): lambda _: x[:, t : t + 1]}):
                hidden_and_state: tuple[Tensor, State] = self.body(blank, None, state)
            return hidden_and_state

        return Carried(step, self.body.initial_state(1))

    def entrance(self, reading: Reading) -> str:
        return "body.embedding"
