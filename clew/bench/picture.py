"""Results as a view: a bar chart of all ratios, and the figures below."""

from collections.abc import Sequence

from clew.bench.results import Result
from clew.drawing.views import Bars, Table, View


def view_of(results: Sequence[Result], machine: str) -> View:
    named = [(f"{result.workload}, {peer}", each.value) for result in results for peer, each in result.ratios.items()]
    bars = Bars(
        [name for name, _ in named],
        [value for _, value in named],
        "time, clew's over the peer's: below 1 is faster",
        low=0.0,
    )
    rows = [
        (result.workload, name, result.tokens / side.timing.median, 1000 * side.timing.median, 100 * side.timing.spread)
        for result in results
        for name, side in result.sides.items()
    ]
    table = Table(("workload", "side", "tokens/s", "ms a call", "spread, %"), rows, keys=2)
    return View("Time beside peers", [bars, table], machine, {"results": [result.record() for result in results]})
