"""Checkpoints of format 1, which stored sentences instead of facts. To compare them, the current facts are written as
the same sentences."""

from collections.abc import Callable, Mapping
from typing import Any

from clew.core.identity import Known

Facts = Mapping[str, Any]


def agrees_with_words(name: str, before: str, now: Known) -> bool:
    """Whether the sentence in a checkpoint of format 1 is true for the current facts."""
    facts = now.facts
    if name in DATA:
        return before == DATA[name](facts)
    if name == "model":  # the digest covered every field of that time; the config has them, and is hashed
        return before.rpartition(", ")[0] == f"{facts['settings']['family']} of {facts['parameters']:,} parameters"
    return before.endswith(f", {facts['hash'][:8]}")


def order_of_batches(facts: Facts) -> str:
    seed = f"seed {facts['seed']}"
    if "batching" in facts:
        kind = f"{'varied ' if facts['vary_length'] else ''}{facts['batching']}"
        apart = ", documents apart," if facts["documents"] == "apart" else ""
        return f"{kind}{apart} of {facts['batch_size']} x {facts['length']}, {seed}"
    rows = "rows" if "length" in facts else "examples"
    size = f"{facts['batch_tokens']:,} tokens" if "batch_tokens" in facts else f"{facts['batch_size']} {rows}"
    length = f" of {facts['length']}" if "length" in facts else ""
    return f"batches of {size}{length}, {seed}"


DATA: dict[str, Callable[[Facts], str]] = {
    "training text": lambda facts: f"{facts['tokens']:,} tokens, {facts['key'][:8]}",
    "training documents": lambda facts: f"{facts['documents']:,} of {facts['tokens']:,} tokens, {facts['digest'][:8]}",
    "training examples": lambda facts: f"{facts['examples']:,}, {facts['digest'][:8]}",
    "order of batches": order_of_batches,
}
