"""The option --precision, and the comparison with float32 that an evaluation shows."""

import argparse
from collections.abc import Callable
from typing import Any

FULL = "float32"
PRECISIONS = [FULL, "bfloat16", "int8", "int4"]
"""The same as in `clew.layers.precision`, which would load torch for a help text."""


def add_precision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--precision",
        default=FULL,
        choices=PRECISIONS,
        help=(
            "the type of the weights in memory; the run's files do not change. int8: about a quarter of the memory,"
            " and faster on x86 CPUs with VNNI, where activations are rounded to 8 bits too. int4: about an eighth,"
            " and slower. bfloat16: half, for a GPU; slower on most CPUs (default: float32)"
        ),
    )


def compare_with_full(options: argparse.Namespace, score: Any, rescore: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the measures of the run in float32, scored by `rescore`, and the differences from them; nothing if the
    weights are in float32 anyway."""
    if options.full_run is None:
        return {}
    full = rescore(options.full_run).measures
    differences = {name: score.measures[name] - value for name, value in full.items()}
    return {"precision": options.precision, FULL: full, "difference": differences}


def show_comparison(score: Any, comparison: dict[str, Any]) -> None:
    from clew.cli.terminal.tables import show_table

    if comparison:
        full, differences = comparison[FULL], comparison["difference"]
        rows = [
            [name, f"{score.measures[name]:.4f}", f"{full[name]:.4f}", f"{differences[name]:+.4f}"] for name in full
        ]
        show_table(["measure", comparison["precision"], FULL, "difference"], rows, right=[1, 2, 3])


def say_sizes(options: argparse.Namespace, run: Any) -> None:
    from clew.cli.terminal.progress import say
    from clew.layers.precision import num_bytes

    small, full = num_bytes(run.task), num_bytes(options.full_run.task)
    say(f"weights take {small:,} bytes in {options.precision}, {full:,} in {FULL}")
