"""Foreign modules for instruments: single layers and bodies, `torch.nn`, `transformers`. They are called with tensors
in the form that they take, and watched with hooks.

The input is one row. Tokens are named by a tokenizer if there is one, otherwise by their ids; vectors are named by
their places.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.errors import UserError, shown
from clew.inspection.layer_outputs import first_tensor, flatten_places, layer_outputs
from clew.inspection.recording import intervene, record
from clew.layers.recurrence.torch_recurrent import as_stack
from clew.layers.sequence import SequenceLayer
from clew.tasks.offers import Carried, Levels, ModelInput, Reading
from clew.tasks.shared.reading import levels_of, no_text
from clew.tasks.uses.explaining import Explained
from clew.text.tokenizer import check_is_text


class Call(NamedTuple):
    """The arguments of a module; `main` is the position or name of the tensor that it reads."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    main: int | str

    @property
    def value(self) -> Tensor:
        return self.args[self.main] if isinstance(self.main, int) else self.kwargs[self.main]

    def with_value(self, value: Tensor) -> "Call":
        if isinstance(self.main, int):
            return self._replace(args=(*self.args[: self.main], value, *self.args[self.main + 1 :]))
        return self._replace(kwargs={**self.kwargs, self.main: value})


class AnyModule:
    """Any torch module, called with `inputs`: a tensor, a tuple of tensors, or a mapping from names to tensors. Without
    inputs, a `tokenizer` encodes a text to token ids (1, length)."""

    text_name = "text"

    def __init__(self, module: nn.Module, inputs: Any = None, tokenizer: Any = None):
        self.original = module
        # Recurrences of torch.nn become clew layers with the same weights, since the values inside a fused kernel
        # cannot be watched.
        self.module: Any = as_stack(module) if isinstance(module, nn.RNNBase) else module
        self.inputs = inputs
        self.tokenizer = tokenizer

    @property
    def name(self) -> str:
        return type(self.original).__name__

    def reads(self, model_input: ModelInput, *, any_length: bool = False) -> Reading:
        call = self.call_of(model_input)
        value = call.value
        if is_ids(value):
            ids = tuple(value.flatten().tolist())
            tokens = tuple(token_name(self.tokenizer, id) for id in ids)
        else:
            places = value.shape[:-1].numel()
            ids, tokens = (), tuple(map(str, range(1, places + 1)))
        return Reading(self, model_input.text if self.inputs is None else "", tokens, ids, call)

    def call_of(self, model_input: ModelInput) -> Call:
        """Return the arguments with which the module is called."""
        if self.inputs is not None:
            if model_input.text:
                raise UserError("text= and inputs= exclude each other; give one of them")
            return self.checked(as_call(self.inputs))
        if self.tokenizer is None:
            raise UserError(f"{self.name} reads tensors; give inputs= as it takes them, or text= with a tokenizer=")
        check_is_text(model_input.text, "text")
        if not model_input.text.strip() or not (ids := encoded(self.tokenizer, model_input.text)):
            raise no_text()
        parameter = next(self.module.parameters(), None)
        return self.checked(Call((torch.tensor([ids], device=None if parameter is None else parameter.device),), {}, 0))

    def checked(self, call: Call) -> Call:
        """Check that the input is one row, in the module's layout; for torch's recurrences convert it to (1, length,
        dim)."""
        value = call.value
        if isinstance(self.original, nn.RNNBase):
            return Call((recurrent_row(self.original, value),), {}, 0)
        rows, need = (
            value.shape[:-1] if not is_ids(value) else value.shape,
            "give (1, length) ids or (1, length, dim) vectors",
        )
        if value.dim() == 0 or value.numel() == 0:
            raise UserError(f"inputs of shape {tuple(value.shape)} have no places to look at; {need}")
        if len(rows) > 1 and sorted(rows)[-2] > 1:
            raise UserError(f"inputs of shape {tuple(value.shape)} are several rows, and only one can be shown; {need}")
        return call

    def called(self, call: Call, **more: Any) -> Any:
        """Call the module. If it does not accept the inputs, raise a UserError with its own error message."""
        try:
            return self.module(*call.args, **{**call.kwargs, **more})
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            sentence = " ".join(str(error).split())[:200]
            shape = tuple(call.value.shape)
            raise UserError(
                f"{self.name} cannot be run on inputs of shape {shape}: {sentence or type(error).__name__}"
            ) from None

    def output(self, call: Call) -> Tensor:
        """Return the first tensor of the module's output as (places, dim)."""
        tensor = first_tensor(self.called(call))
        if tensor is None or tensor.dim() < 2:
            raise UserError(f"{self.name} returns no tensor of vectors, so there is nothing to look at")
        return tensor.reshape(-1, tensor.shape[-1])

    def runs(self, reading: Reading) -> Tensor:
        return self.output(reading.batch)[None]

    def levels(self, reading: Reading) -> list[Levels]:
        """Return the levels, in halves if parts of the model read different places."""
        call: Call = reading.batch
        if self.is_body:
            self.called(call)
            return [levels_of(self.module, self.module.levels(*call.args, **call.kwargs), reading.tokens)]
        halves: dict[int, list[tuple[str, Tensor]]] = {}
        for path, values in layer_outputs(self.module, lambda: self.called(call)):
            halves.setdefault(len(values), []).append((path, values))
        result = []
        for places, levels in halves.items():
            tokens = reading.tokens if places == len(reading.tokens) else tuple(map(str, range(1, places + 1)))
            half = "" if len(halves) == 1 else f"{places} places"
            result.append(Levels(half, tokens, tuple(path for path, _ in levels), [values for _, values in levels]))
        return result

    def carries(self, reading: Reading) -> Carried | None:
        module, value = self.module, reading.batch.value
        if not getattr(module, "causal", False) or getattr(module, "encodes", False) or len(reading.batch.args) != 1:
            return None
        if isinstance(module, SequenceLayer):
            return Carried(
                lambda t, state: module(value[:, t : t + 1], None, state), module.initial_state(1, like=value)
            )
        if hasattr(module, "initial_state") and is_ids(value):
            return Carried(lambda t, state: module(value[:, t : t + 1], None, state), module.initial_state(1))
        return None

    def entrance(self, reading: Reading) -> str:
        """Return the path of the embedding of ids; empty if the module reads vectors."""
        if not is_ids(reading.batch.value):
            return ""
        return "embedding" if self.is_body else self.table(reading.batch)

    def table(self, call: Call) -> str:
        """Return the path of the first embedding table that looks up the ids; empty if there is none."""
        paths: list[str] = []

        def looked_up(path: str) -> Callable[..., None]:
            def keep(part: nn.Module, args: tuple[Any, ...]) -> None:
                if (
                    args
                    and isinstance(args[0], Tensor)
                    and args[0].shape == call.value.shape
                    and bool((args[0] == call.value).all())
                ):
                    paths.append(path)

            return keep

        tables = {path: part for path, part in self.module.named_modules() if isinstance(part, nn.Embedding)}
        hooks = [part.register_forward_pre_hook(looked_up(path)) for path, part in tables.items()]
        try:
            with torch.no_grad():
                self.called(call)
        finally:
            for hook in hooks:
                hook.remove()
        return paths[0] if paths else ""

    @property
    def is_body(self) -> bool:
        """Whether the module is a clew body."""
        return hasattr(self.module, "embedding") and hasattr(self.module, "levels")

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain one number of the output: entry `of`, counted from 0, of the vector at a place; by default the
        largest entry at the last place."""
        reading = self.reads(model_input)
        call: Call = reading.batch
        with torch.no_grad():
            output = self.output(call)
        place = len(output) if place is None else place
        if place > len(output):
            raise UserError(f"there is no place {place}; {self.name} gives {len(output)}")
        entry = self.chosen_entry(output[place - 1], of)
        embedding: str | None = None
        if is_ids(call.value) and not (embedding := self.entrance(reading)):
            raise UserError(
                f"{self.name} looks ids up in no embedding table that is known, so there are no vectors to explain by;"
                " give it vectors as inputs="
            )
        what = f"entry {entry} of what {self.name} gives at place {place}"
        own = (True,) * len(reading.tokens)

        def score(call: Call) -> Tensor:
            return self.output(call)[place - 1, entry][None]

        return ExplainedModule(self.module, call, score, reading.tokens, own, what, None, embedding, movable=False)

    def chosen_entry(self, vector: Tensor, of: str | None) -> int:
        if of is None:
            return int(vector.argmax())
        if of.removeprefix("-").isdecimal():
            entry = int(of)
        else:
            ids = [] if self.tokenizer is None else encoded(self.tokenizer, of)
            if len(ids) != 1:
                raise UserError(
                    f"of={of!r} names no entry of what {self.name} gives; give a number from 0 to {len(vector) - 1}"
                )
            (entry,) = ids
        if not 0 <= entry < len(vector):
            raise UserError(f"there is no entry {entry}; {self.name} gives {len(vector)} at each place, counted from 0")
        return entry


@dataclass(frozen=True)
class ExplainedModule(Explained):
    """A score of any module, computed row by row. Vectors replace the output of its embedding table, or its input."""

    def vectors(self, inputs: Any = None) -> Tensor:
        if self.embedding is None:
            return flatten_places(self.inputs.value)
        with torch.no_grad(), record(self.module, self.embedding) as recorded:
            self.score(self.inputs)
        return flatten_places(recorded[self.embedding])

    def of_vectors(self, x: Tensor) -> Tensor:
        return torch.cat([self.of_row(row) for row in x])

    def of_row(self, x: Tensor) -> Tensor:
        if self.embedding is None:
            return self.score(self.inputs.with_value(x.reshape(self.inputs.value.shape)))
        with intervene(self.module, {self.embedding: lambda value: x.reshape(value.shape)}):
            return self.score(self.inputs)


def as_call(inputs: Any) -> Call:
    if isinstance(inputs, Tensor):
        return Call((inputs,), {}, 0)
    if isinstance(inputs, Mapping):
        by_name = {str(name): value for name, value in inputs.items()}
        main = next((name for name, value in by_name.items() if isinstance(value, Tensor)), None)
        if main is not None:
            return Call((), by_name, main)
    if isinstance(inputs, (tuple, list)) and inputs and isinstance(inputs[0], Tensor):
        return Call(tuple(inputs), {}, 0)
    raise UserError(
        f"inputs are a tensor, several in a tuple, or by name in a dict, as the module takes them, not {shown(inputs)}"
    )


def is_ids(value: Tensor) -> bool:
    return not value.is_floating_point()


def recurrent_row(module: nn.RNNBase, value: Tensor) -> Tensor:
    """Convert the input of a torch recurrence to (1, length, dim)."""
    layout = "(1, length, dim)" if module.batch_first else "(length, 1, dim)"
    if value.dim() == 2:
        value = value[None]
    elif value.dim() == 3:
        value = value if module.batch_first else value.transpose(0, 1)
    if value.dim() != 3 or len(value) != 1 or value.shape[1] == 0 or is_ids(value):
        raise UserError(
            f"{type(module).__name__} reads one row of vectors here, {layout} or (length, dim), not shape"
            f" {tuple(value.shape)}"
        )
    if value.shape[-1] != module.input_size:
        raise UserError(
            f"{type(module).__name__} reads vectors of width {module.input_size}, and inputs have {value.shape[-1]}"
        )
    return value


def encoded(tokenizer: Any, text: str) -> list[int]:
    """Encode a text with any tokenizer that returns a list of ids."""
    encode: Callable[[str], Any] | None = getattr(tokenizer, "encode", None)
    if encode is None:
        raise UserError(f"a tokenizer needs encode(text) -> ids, which {shown(tokenizer)} does not have")
    encoding = encode(text)
    ids = getattr(encoding, "ids", encoding)
    if not isinstance(ids, (list, tuple)) or not all(isinstance(id, int) for id in ids):
        raise UserError(f"tokenizer.encode(text) must return a list of ids, and this one returned {shown(encoding)}")
    return list(ids)


def token_name(tokenizer: Any, id: int) -> str:
    """Return the name of a token, or its id if it has none."""
    for name in ("piece", "convert_ids_to_tokens", "id_to_token"):
        if callable(give := getattr(tokenizer, name, None)):
            return str(give(id))
    if callable(decode := getattr(tokenizer, "decode", None)):
        return str(decode([id]))
    return str(id)
