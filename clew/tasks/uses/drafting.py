"""Checks of drafts for a language model. A draft is another model with the same vocabulary, or n-grams of the text."""

from clew.core.errors import UserError, shown
from clew.text.tokenizer import Tokenizer

PROMPT = "prompt"
"""Used in place of a draft model when n-grams of the text are the draft."""


def check_draft(tokenizer: Tokenizer, draft: Tokenizer) -> None:
    """Check that the draft has the same vocabulary. How it would tokenize a text does not matter."""
    tokens, draft_tokens = tokenizer.tokens, draft.tokens
    if tokens == draft_tokens:
        return
    remedy = "a draft needs the same vocabulary: train it on the same data with the same text settings"
    if len(tokens) != len(draft_tokens):
        raise UserError(
            f"the draft has {len(draft_tokens)} {draft.unit}s, and the run {len(tokens)} {tokenizer.unit}s; {remedy}"
        )
    id = next(
        id for id, (token, draft_token) in enumerate(zip(tokens, draft_tokens, strict=True)) if token != draft_token
    )
    raise UserError(
        f"token {id} is {shown(draft_tokens[id])} to the draft and {shown(tokens[id])} to the run; {remedy}"
    )
