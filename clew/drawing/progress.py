"""Progress for a notebook: messages, with a bar below them."""

from collections.abc import Sequence

from clew.drawing.letters import verbatim


def progress_html(messages: Sequence[str], done: int, total: int, text: str) -> str:
    """`done` of `total`, called `text`; no bar without a total."""
    bar = ""
    if total:
        bar = (
            f'<progress max="{total}" value="{done}" style="width: 20em; vertical-align: middle"></progress>'
            f" <span>{verbatim(text)}</span>"
        )
    lines = verbatim("\n".join(messages))
    return f'<div style="font-size: 90%"><div style="white-space: pre-wrap; opacity: 0.75">{lines}</div>{bar}</div>'
