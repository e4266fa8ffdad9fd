"""The option --precision wherever a run is used, and what an evaluation says of it: the same measures in float32
beside."""

import argparse
from collections.abc import Callable
from typing import Any

WHOLE = "float32"
PRECISIONS = [WHOLE, "bfloat16", "int8", "int4"]
"""As `clew.layers.precision` has them, which a help must not load."""


def add_precision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--precision",
        default=WHOLE,
        choices=PRECISIONS,
        help=(
            "what weights are kept in; the run's folder stays as it is. int8: about a quarter of the memory, and faster"
            " on x86 CPUs with VNNI, which round what is multiplied with them to 8 bits too. int4: about an eighth, and"
            " slower. bfloat16: half, for a GPU, and slower on most CPUs (default: float32)"
        ),
    )


def beside_whole(options: argparse.Namespace, score: Any, again: Callable[[Any], Any]) -> dict[str, Any]:
    """Where weights are kept in less than float32: the measures of the run in float32, which `again` scores, and the
    differences from them."""
    if options.whole is None:
        return {}
    whole = again(options.whole).measures
    differences = {name: score.measures[name] - value for name, value in whole.items()}
    return {"precision": options.precision, WHOLE: whole, "difference": differences}


def show_beside(score: Any, beside: dict[str, Any]) -> None:
    from clew.cli.terminal.tables import show_table

    if beside:
        whole, differences = beside[WHOLE], beside["difference"]
        rows = [
            [name, f"{score.measures[name]:.4f}", f"{whole[name]:.4f}", f"{differences[name]:+.4f}"] for name in whole
        ]
        show_table(["measure", beside["precision"], WHOLE, "difference"], rows, right=[1, 2, 3])


def say_sizes(options: argparse.Namespace, run: Any) -> None:
    from clew.cli.terminal.progress import say
    from clew.layers.precision import num_bytes

    small, whole = num_bytes(run.task), num_bytes(options.whole.task)
    say(f"weights take {small:,} bytes in {options.precision}, {whole:,} in {WHOLE}")
