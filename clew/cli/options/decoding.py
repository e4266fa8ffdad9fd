"""Options that say how a text is written, which several verbs take."""

import argparse
from typing import Any

FIELDS = (
    "method",
    "max_new",
    "temperature",
    "top_k",
    "top_p",
    "repetition_penalty",
    "no_repeat_ngram",
    "beams",
    "length_penalty",
    "length_form",
    "coverage_penalty",
    "n_best",
)


def add_decoding(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--method", choices=["beam", "greedy", "sample"], help="how the next token is chosen (default: the run's)")
    add("--beams", type=int, metavar="N", help="beam search's width")
    add("--length-penalty", type=float, metavar="X", help="beam scores are log p / length^X")
    add(
        "--length-form",
        choices=["power", "gnmt"],
        help="length^X, or ((5 + length) / 6)^X as GNMT has it (default: the run's)",
    )
    add(
        "--coverage-penalty",
        type=float,
        metavar="X",
        help="beam scores have X times GNMT's coverage of the source added",
    )
    add("--max-new", type=int, metavar="N", help="tokens written at most")
    add("--temperature", type=float, metavar="T", help="below 1 sharpens the distribution, above 1 flattens it")
    add("--top-k", type=int, metavar="K", help="only the K most probable tokens")
    add("--top-p", type=float, metavar="P", help="only the most probable tokens whose mass reaches P (nucleus)")
    add("--repetition-penalty", type=float, metavar="X", help="above 1 discourages tokens that were written already")
    add("--no-repeat-ngram", type=int, metavar="N", help="no N tokens in a row twice")


def decoding_options(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for; a beam's width or several texts ask for beam search."""
    from clew.core.errors import UserError

    changed = {name: getattr(options, name) for name in FIELDS if getattr(options, name, None) is not None}
    beam = [f"--{name.replace('_', '-')}" for name in ("beams", "n_best") if name in changed]
    if beam and changed.setdefault("method", "beam") != "beam":
        raise UserError(f"{beam[0]} is for beam search, and --method is {changed['method']}; leave one of them out")
    return changed
