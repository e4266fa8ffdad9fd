"""Drafts for a language model: another one with the same tokens, or n-grams of the text itself."""

from clew.core.errors import UserError, shown
from clew.text.tokenizer import Tokenizer

PROMPT = "prompt"
"""What is given in the place of a model where n-grams of the text are the draft."""


def check_draft(tokenizer: Tokenizer, other: Tokenizer) -> None:
    """A draft's tokens stand for the same texts; how it would cut a text into them does not matter."""
    own, others = tokenizer.tokens, other.tokens
    if own == others:
        return
    remedy = "a draft needs the same vocabulary: train it on the same data with the same text settings"
    if len(own) != len(others):
        raise UserError(
            f"the draft has {len(others)} {other.unit}s, and the run {len(own)} {tokenizer.unit}s; {remedy}"
        )
    id = next(id for id, (token, guess) in enumerate(zip(own, others, strict=True)) if token != guess)
    raise UserError(f"token {id} is {shown(others[id])} to the draft and {shown(own[id])} to the run; {remedy}")
