"""The fields of a config.json. Each is read with a type check, or checked against the values that clew supports. Unread
fields are reported."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shown

WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    dict: "an object",
    list: "a list",
}
MISSING = object()
HARMLESS = {
    "_name_or_path",
    "_num_labels",
    "architectures",
    "auto_map",
    "bos_token_id",
    "classifier_dropout",
    "decoder_start_token_id",
    "dtype",
    "eos_token_id",
    "finetuning_task",
    "forced_bos_token_id",
    "gradient_checkpointing",
    "id2label",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "label2id",
    "max_length",
    "model_type",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "pad_token_id",
    "problem_type",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "vocab_size",
}
"""Fields that do not affect the outputs of a model, or that are read elsewhere."""


class Fields:
    """The fields of a config, with a record of those that were read."""

    def __init__(self, values: Mapping[str, Any], path: Path):
        self.values = values
        self.path = path
        self.asked: set[str] = set()
        self.largest: int | None = None
        """The longest side of any tensor, once known; no size of the model can exceed it."""

    def get(self, name: str, kind: type, default: Any = MISSING) -> Any:
        """Return the value of a field, which is required if there is no default. An integer is accepted as a float."""
        self.asked.add(name)
        value = self.values.get(name, MISSING)
        if value is MISSING or (value is None and default is not MISSING):
            if default is MISSING:
                raise UserError(
                    f"{self.path} has no field {name}, which the model requires; add it, or copy the file again"
                )
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 1000:
            return float(value)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise UserError(f"{self.path}: {name} takes {WORDS[kind]}, not {shown(value)}")
        if isinstance(value, int) and kind is int and name not in SIGNED and value < 1:
            raise UserError(f"{self.path}: {name} must be at least 1, not {value}")
        if isinstance(value, int) and kind is int:
            self.check_size(name, value)
        return value

    def check_size(self, name: str, value: int) -> None:
        """Reject a size larger than any tensor of the checkpoint, before anything of that size is built."""
        most = MOST_POSITIONS if name in COMPUTED else self.largest
        if most is not None and value > most:
            why = (
                "clew reads texts of at most that many tokens"
                if name in COMPUTED
                else "no side of any tensor of the checkpoint is as long"
            )
            raise UserError(f"{self.path}: {name} ({shown(value)}) is above {most:,}: {why}; copy the checkpoint again")

    def expect(self, name: str, *supported: Any, default: Any = MISSING) -> Any:
        """Return the value of a field for which clew supports only some values. The default, for a missing field or
        null, is the first of them."""
        self.asked.add(name)
        value = self.values.get(name)
        if value is None:
            value = supported[0] if default is MISSING else default
        if not any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in supported):
            supported_text = " or ".join(shown(each) for each in supported)
            raise UserError(
                f"{self.path}: {name} is {shown(value)}; clew supports only {supported_text} for this architecture"
            )
        return value

    def choose(self, name: str, table: Mapping[str, str], default: str) -> str:
        """Return our name for the value of a field."""
        value = self.get(name, str, default)
        if value not in table:
            raise UserError(f"{self.path}: {name} is {shown(value)}; clew knows {', '.join(table)}")
        return table[value]

    def skip(self, *names: str) -> None:
        """Mark fields that do not affect a trained model's outputs as read."""
        self.asked |= set(names)

    def unread(self) -> list[str]:
        return sorted(set(self.values) - self.asked - HARMLESS)

    def check(self, rule: bool, sentence: str) -> None:
        """Raise a UserError if fields contradict each other."""
        if not rule:
            raise UserError(f"{self.path}: {sentence}")


COMPUTED = {"max_position_embeddings"}
"""Sizes that need not be sizes of a tensor, since some position encodings are computed."""
MOST_POSITIONS = 2**24
SIGNED = {
    "type_vocab_size",
    "pad_token_id",
    "eos_token_id",
    "bos_token_id",
    "decoder_start_token_id",
    "forced_eos_token_id",
}
"""Integers that may be 0 or negative."""
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
THEIR_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu", "tanh": "tanh"}
