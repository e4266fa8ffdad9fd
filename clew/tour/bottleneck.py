"""The experiment `bottleneck`: reverse sequences of letters with a decoder that starts from one vector, and with one
that has attention. Shows accuracy against length, and the attention weights."""

from typing import Any

import numpy as np

from clew.data.synthetic.sequences import right_place, synthetic_lines
from clew.drawing.views import Lines, Note, Part, Series, View
from clew.instruments.looking import look
from clew.runs.loaded import Run
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.training import train_recipe

WAYS = {
    "one vector": ("model.attention=none", "model.direction=both", "model.bridge=dense"),
    "attention": (),
}
SIZES: dict[Scale, tuple[int, int, int, int]] = {
    "quick": (16, 10, 6, 8),
    "tour": (96, 400, 14, 60),
    "full": (128, 1500, 20, 200),
}
"""Width, training steps, the longest sequence, and the number of test sequences per length."""


def reversal_accuracy(run: Run, length: int, count: int, seed: int) -> tuple[float, float]:
    """Return the share of letters in the right position, and of entirely correct sequences, on sequences of one
    length."""
    lines = synthetic_lines("reverse", count, seed + 1_000_003, length, length)
    written = [
        words.text.split()
        for words in run.translate([line.source for line in lines], method="greedy", max_new=length + 5)
    ]
    right = [
        [place < len(words) and words[place] == symbol for place, symbol in enumerate(line.target.split())]
        for words, line in zip(written, lines, strict=True)
    ]
    whole = [words == line.target.split() for words, line in zip(written, lines, strict=True)]
    return float(np.mean(right)), float(np.mean(whole))


def attended_right(run: Run, length: int, count: int, seed: int) -> float:
    """Return the share of steps at which the decoder attends most to the letter that it must write."""
    is_right = []
    for line in synthetic_lines("reverse", count, seed + 2_000_003, length, length):
        weights = run.align(line.source, line.target).by_word().numpy()[:-1, :length]
        is_right += [int(row.argmax()) == right_place("reverse", line.source, step) for step, row in enumerate(weights)]
    return float(np.mean(is_right))


def run(scale: Scale, seed: int, report: Report) -> Finding:
    dim, steps, longest, count = SIZES[scale]
    lengths = sorted({1, *range(2, longest + 1, 2)})
    shared = [
        f"model.dim={dim}",
        f"data.longest={longest}",
        f"training.steps={steps}",
        f"training.evaluate_every={steps}",
        f"seed={seed}",
    ]
    shared += [f"training.schedule.warmup={steps // 20}", "data.size=20000"]
    shares_by_way: dict[str, list[tuple[float, float]]] = {}
    for name, settings in WAYS.items():
        model, _ = train_recipe("reverse", [*shared, *settings], name=name, report=report)
        shares_by_way[name] = [reversal_accuracy(model, length, count, seed) for length in lengths]
    middle = lengths[len(lengths) // 2]
    (example,) = synthetic_lines("reverse", 1, seed + 3_000_003, middle, middle)
    alignment = look(model, "alignment", {"text": example.source, "target": example.target})
    at_place, crossing = attended_right(model, middle, min(count, 20), seed), alignment.facts["crossing"]
    parts: list[Part] = [
        Lines(
            [Series(name, lengths, [whole for _, whole in shares]) for name, shares in shares_by_way.items()],
            "letters",
            "share of correct sequences",
            "Sequences reversed without an error",
        ),
        Lines(
            [Series(name, lengths, [letters for letters, _ in shares]) for name, shares in shares_by_way.items()],
            "letters",
            "share of letters",
            "Letters in the right position",
        ),
        Note(f"The attention of the decoder: {alignment.about}."),
        alignment.parts[0],
    ]
    longest_shares = {name: shares[-1][0] for name, shares in shares_by_way.items()}
    facts: dict[str, Any] = {
        "lengths": lengths,
        "right": {name: list(map(list, shares)) for name, shares in shares_by_way.items()},
    }
    facts |= {"attended_right": at_place, "crossing": crossing}
    return Finding(
        "The bottleneck",
        "One vector of fixed size cannot hold a long source; attention solves this"
        " (Cho et al. 2014; Bahdanau et al. 2015); its weights are an alignment, which need not be monotone.",
        f"On sequences of {lengths[-1]} letters, {longest_shares['one vector']:.0%} of the letters are right with one"
        f" vector and {longest_shares['attention']:.0%} with attention. At {at_place:.0%} of the steps the decoder"
        f" attends most to the letter that it must write; {crossing:.0%} of the pairs of steps cross.",
        View("Accuracy against length", parts, "An LSTM that reads letters and writes them in reverse order.", facts),
        [
            (
                f"share of right letters, length {lengths[-1]}, one vector and attention",
                "attention solves it",
                f"{longest_shares['one vector']:.0%} and {longest_shares['attention']:.0%}",
            ),
            ("pairs of steps that cross in the alignment of a reversal", "need not be monotone", f"{crossing:.0%}"),
        ],
    )


BOTTLENECK = Experiment("the bottleneck of one vector, with and without attention", run)
