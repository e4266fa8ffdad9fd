"""Options for decoding, which several verbs share."""

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
    add("--method", choices=["beam", "greedy", "sample"], help="how to choose the next token (default: the run's)")
    add("--beams", type=int, metavar="N", help="width of beam search")
    add("--length-penalty", type=float, metavar="X", help="divide the score of a beam, log p, by length^X")
    add(
        "--length-form",
        choices=["power", "gnmt"],
        help="the divisor: length^X, or ((5 + length) / 6)^X as in GNMT (default: the run's)",
    )
    add(
        "--coverage-penalty",
        type=float,
        metavar="X",
        help="add X times GNMT's coverage of the source to the score of a beam",
    )
    add("--max-new", type=int, metavar="N", help="generate at most N tokens")
    add(
        "--temperature",
        type=float,
        metavar="T",
        help="values below 1 sharpen the distribution, values above 1 flatten it",
    )
    add("--top-k", type=int, metavar="K", help="sample from the K most probable tokens only")
    add(
        "--top-p",
        type=float,
        metavar="P",
        help="sample from the most probable tokens whose total probability reaches P (nucleus)",
    )
    add(
        "--repetition-penalty",
        type=float,
        metavar="X",
        help="values above 1 discourage tokens that were generated already",
    )
    add("--no-repeat-ngram", type=int, metavar="N", help="never repeat an n-gram of N tokens")


def decoding_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given. --beams and --n-best imply beam search."""
    from clew.core.errors import UserError

    changed = {name: getattr(options, name) for name in FIELDS if getattr(options, name, None) is not None}
    beam = [f"--{name.replace('_', '-')}" for name in ("beams", "n_best") if name in changed]
    if beam and changed.setdefault("method", "beam") != "beam":
        raise UserError(f"{beam[0]} needs beam search, but --method is {changed['method']}; leave one of them out")
    return changed
