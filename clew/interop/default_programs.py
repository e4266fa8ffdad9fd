"""Default programs of a task that defines none: its logits, and the levels of its body."""

from collections.abc import Callable
from inspect import signature
from typing import Any, NoReturn, get_args, get_type_hints

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.interop.readers import Example, traced_text
from clew.interop.signatures import SIZES
from clew.layers.context import Pieces
from clew.layers.embeddings import TokenEmbedding
from clew.models import MODELS, SHAPES
from clew.runs.loaded import Run
from clew.tasks.uses.programs import ReadingProgram, Traced, levels

HOW = "give it a method `programs`, as described in clew.tasks.uses.programs"


def default_programs(run: Run) -> list[ReadingProgram]:
    """Return the programs of a task over a body that reads one sequence of tokens: `logits`, if their argument is
    known, and the body's levels."""
    task, family = run.task, MODELS[run.config.model.family]
    name = type(task).__name__
    if family.encodes or not family.reads_sequence:
        what = "a source and a target" if family.encodes else SHAPES[family.reads]
        raise UserError(f"{name} defines no programs, and there is no default for a body that reads {what}; {HOW}")
    body: Any = getattr(task, "body", None)
    if not hasattr(body, "levels") or not isinstance(body.embedding, TokenEmbedding):
        raise UserError(
            f"{name} defines no programs, and has no `body` that reads tokens and whose vectors could be exported;"
            f" {HOW}"
        )
    call = logits_call(task)
    return (
        [levels(body)]
        if call is None
        else [ReadingProgram("logits", ["logits"], call, words=reads_words(task, call)), levels(body)]
    )


def logits_call(task: Any) -> Callable[[Traced], tuple[Tensor]] | None:
    """Return `task.logits` as a function of a text, or None. The annotation of its argument must be the body's vectors,
    pieces, or a batch that holds pieces."""
    argument_type = logits_argument_type(task)
    if argument_type is Tensor:
        return lambda traced: (task.logits(task.body(traced.texts[0].inputs, traced.texts[0].mask)[0]),)
    if argument_type is Pieces:
        return lambda traced: (task.logits(traced.texts[0]),)
    fields = get_type_hints(argument_type) if hasattr(argument_type, "_fields") else {}
    if not any(holds_pieces(kind) for kind in fields.values()):
        return None

    def call(traced: Traced) -> tuple[Tensor]:
        batch = {name: Unread(name) for name in argument_type._fields if name not in argument_type._field_defaults}
        text = {
            name: traced.texts if get_args(kind) else traced.texts[0]
            for name, kind in fields.items()
            if holds_pieces(kind)
        }
        try:
            return (task.logits(argument_type(**{**batch, **text})),)
        except MissingField as error:
            if error.field in Pieces._fields:
                raise
            raise UserError(
                f"the logits of {type(task).__name__} need more than a text: `{error.field}` of its"
                f" {argument_type.__name__}; {HOW}"
            ) from None

    return call


def logits_argument_type(task: Any) -> Any:
    """Return the annotated type of the argument of `task.logits`; None if there is no method or no annotation."""
    logits = getattr(task, "logits", None)
    if logits is None:
        return None
    try:
        return get_type_hints(logits).get(next(iter(signature(logits).parameters), ""))
    except NameError:  # a name that the user's file imports for type checkers only
        return None


def holds_pieces(kind: Any) -> bool:
    """Whether a field holds a text, or a tuple of texts."""
    return kind is Pieces or (get_args(kind) or (None,))[0] is Pieces


def reads_words(task: Any, call: Callable[[Traced], tuple[Tensor]]) -> bool:
    """Whether a function reads the places of each word's pieces."""
    traced = traced_text(task.body, Example(task.body, texts=1, words=False)(SIZES))
    nowhere: Any = {"starts": Unread("starts"), "ends": Unread("ends")}
    text = traced.texts[0]._replace(**nowhere)
    try:
        with torch.no_grad():
            call(traced._replace(texts=(text,)))
    except MissingField:
        return True
    return False


class MissingField(Exception):
    """A field was read that a program does not have."""

    def __init__(self, field: str):
        super().__init__(field)
        self.field = field


class Unread:
    """A placeholder for what a batch has and a text does not, such as targets. Any use of it raises MissingField."""

    def __init__(self, field: str):
        object.__setattr__(self, "field", field)

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise MissingField(object.__getattribute__(self, "field"))

    __getattr__ = __getitem__ = __len__ = __iter__ = __bool__ = __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = (
        refuse
    )
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = __truediv__ = (
        __rtruediv__
    ) = refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __neg__ = __abs__ = __index__ = (
        __float__
    ) = __int__ = refuse
    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        arguments = [
            part
            for each in (*args, *(kwargs or {}).values())
            for part in (each if isinstance(each, tuple) else (each,))
        ]
        raise MissingField(next(each.__dict__["field"] for each in arguments if isinstance(each, cls)))
