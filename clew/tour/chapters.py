"""The tour's chapters on its two models. Each is a function from both models to a finding, with the instruments of
`clew look`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from clew.drawing.views import Bars, ColouredText, Lines, Note, Part, Table, View
from clew.instruments.looking import look
from clew.metrics.diversity import distinct
from clew.tour.experiment import Finding
from clew.tour.models import Models
from clew.tour.training import parameters_of

PASSAGE, SCORED = 420, 10_000
"""The number of characters of a displayed text, and of the text over which bits are averaged."""


class Chapter(NamedTuple):
    about: str
    show: Callable[[Models], Finding]


def meet(models: Models) -> Finding:
    """Show how both models were trained, their scores and samples."""
    both = {"LSTM": models.lstm, "GPT": models.gpt}
    measures = {"train.loss": "Training loss", "valid.loss": "Loss on unseen text"}
    curves = look(list(both.values()), "curves", {"measures": list(measures)})
    loss_curves = [
        Lines(
            [replace(one, name=name) for one, name in zip(part.series, both, strict=True)],
            "step",
            "nats per character",
            title,
        )
        for part, title in zip(curves.parts, measures.values(), strict=False)
        if isinstance(part, Lines)
    ]
    bits = {name: models.scores[name]["valid.bits_per_character"] for name in ("lstm", "gpt")}
    rows = [(name, f"{parameters_of(run.task):,}", f"{bits[name.lower()]:.3f}") for name, run in both.items()]
    parts: list[Part] = [Table(("model", "parameters", "bits per character, unseen text"), rows), *loss_curves]
    for name, run in both.items():
        text = (
            "ROMEO:"
            + run.generate(
                "ROMEO:", seed=1, max_new=min(300, (run.task.body.max_length or 300) - 6), temperature=0.8
            ).text
        )
        own = look(run, "surprisal", {"text": text}).parts[0]
        assert isinstance(own, ColouredText)
        parts.append(replace(own, title=f"What the {name} writes after ROMEO:, coloured by the model's surprisal"))
    start = math.log2(models.lstm.task.tokenizer.vocabulary)
    return Finding(
        "Two models, one text",
        "People who guess English text letter by letter need 0.6 to 1.3 bits per letter (Shannon 1951). An untrained"
        f" model knows nothing and needs {start:.2f} bits, the logarithm of the number of characters.",
        f"On unseen Shakespeare the LSTM needs {bits['lstm']:.2f} bits per character and the GPT {bits['gpt']:.2f}.",
        View(
            "Training of both models", parts, "An LSTM and a GPT trained from scratch on the characters of Shakespeare."
        ),
        [
            (
                "bits per character of Shakespeare, LSTM and GPT",
                "0.6 to 1.3 for people, on other text",
                f"{bits['lstm']:.2f} and {bits['gpt']:.2f}",
            )
        ],
    )


def surprise(models: Models) -> Finding:
    """Compare the surprisal of first letters and later letters of words."""
    text = models.passage(SCORED)
    firsts, laters, parts = [], [], list[Part]()
    for name, run in (("LSTM", models.lstm), ("GPT", models.gpt)):
        first, later = bits_of_letters(text, run.score(text).log_probs)
        view = look(run, "surprisal", {"text": text[: run.task.body.max_length or PASSAGE]})
        firsts.append(first)
        laters.append(later)
        coloured = view.parts[0]
        assert isinstance(coloured, ColouredText)
        parts.append(replace(coloured, title=f"{name}: {view.about}"))
    bars = Bars(
        ["LSTM", "GPT"],
        list(zip(firsts, laters, strict=True)),
        "bits",
        "Mean surprisal of a letter",
        ("first of a word", "later"),
    )
    return Finding(
        "Where a text is surprising",
        "Surprisal is high at the first letter of a word and falls within it, so it can be used to find words (Elman"
        " 1990).",
        f"For the LSTM, the first letter of a word has {firsts[0]:.2f} bits and a later letter {laters[0]:.2f}; for the"
        f" GPT, {firsts[1]:.2f} and {laters[1]:.2f}.",
        View(
            "Surprisal",
            [bars, *parts],
            f"Means over {len(text):,} characters of unseen text. The beginning of the text is coloured by surprisal.",
        ),
        [
            (f"bits of a word's first letter and of later ones, {name}", "higher", f"{first:.2f} and {later:.2f}")
            for name, first, later in zip(("LSTM", "GPT"), firsts, laters, strict=True)
        ],
    )


def bits_of_letters(text: str, log_probs: Sequence[float]) -> tuple[float, float]:
    """Return the mean bits of letters that begin a word and of other letters, from log p of every character except the
    first."""
    first, later = list[float](), list[float]()
    for before, character, log_prob in zip(text, text[1:], log_probs, strict=False):
        if character.isalpha():
            (later if before.isalpha() else first).append(-log_prob / math.log(2))
    return mean(first), mean(later)


def mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def cells(models: Models) -> Finding:
    """Find cells that track a property of the text."""
    view = look(models.lstm, "track", {"characters": 20_000, "show": 300, "margin": 0.2})
    best = max(
        (one for one in view.facts["best"] if one["property"] not in ("capital", "digit", "space")),
        key=lambda one: one["skill"],
    )
    silent = mean(list(view.facts["silent"].values()))
    what = best["property"].replace("_", " ")
    return Finding(
        "Interpretable cells",
        "Some cells of a recurrent network are interpretable: one counts the position in a line, one is on inside"
        " quotes; most are not (Karpathy et al. 2015).",
        f"The best is cell {best['unit']} for the {what}, with a skill of {best['skill']:.2f} on unseen text (1 is"
        f" perfect, 0 is a constant answer). {silent:.0%} of the cells track none of the tested properties.",
        view,
        [
            (
                f"best cell of the LSTM, {what}: skill on unseen text",
                "there are some",
                f"{best['skill']:.2f}; {silent:.0%} track nothing",
            )
        ],
    )


def gates(models: Models) -> Finding:
    """Measure how long cells keep their values."""
    view = look(models.lstm, "gates", {"text": models.passage(4 * PASSAGE)})
    (layer,) = view.facts["layers"].values()
    lives = np.array([math.inf if life is None else life for life in layer["half_lives"]])
    middle, longest = (float(np.quantile(lives, part, method="nearest")) for part in (0.5, 1.0))
    opened = layer["gates"]["forget"]["mean"]
    return Finding(
        "How long a cell remembers",
        "A cell keeps its value as long as its forget gate is open, for hundreds of steps if needed (Hochreiter and"
        " Schmidhuber 1997; Gers et al. 2000).",
        f"The mean value of the forget gates is {opened:.2f}. Half of a cell's value is gone after {middle:.1f}"
        f" characters in the median cell, and after {longest:.0f} in the cell that remembers longest.",
        view,
        [
            (
                "half-life of an LSTM's cells, median and longest, characters",
                "hundreds, if needed",
                f"{middle:.1f} and {longest:.0f}",
            )
        ],
    )


def gradients(models: Models) -> Finding:
    """Measure how far back the gradients of the loss reach in both models."""
    steps = 60
    options = {"steps": steps, "places": 6}
    lstm = look(models.lstm, "gradients", {**options, "text": models.passage(3 * steps)})
    window = models.gpt.task.body.max_length or 3 * steps
    gpt = look(models.gpt, "gradients", {**options, "text": models.passage(window)})
    cell, before, attended = (
        reach_of(view, state, of)
        for view, state, of in ((lstm, "trained", "1 c"), (lstm, "untrained", "1 c"), (gpt, "trained", "x"))
    )
    parts: list[Part] = [
        Note("The LSTM."),
        *lstm.parts[:2],
        Note("The GPT. It has no state, so these are gradients with respect to its inputs."),
        *gpt.parts[:2],
    ]
    return Finding(
        "How far back gradients reach",
        "In a recurrent network gradients shrink with every step back (Hochreiter 1991; Bengio et al. 1994);"
        " attention reaches any position in one step (Vaswani et al. 2017).",
        f"Less than 1 % of the gradient is left after {cell} characters for the trained LSTM's cell ({before}"
        f" untrained), and after {attended} for the GPT's inputs.",
        View("Gradient against distance", parts, lstm.about, {"lstm": lstm.facts["reach"], "gpt": gpt.facts["reach"]}),
        [
            (
                "characters until 1 % of the gradient is left: LSTM's cell, GPT's inputs",
                "shrinks; does not shrink",
                f"{cell}; {attended}",
            )
        ],
    )


def reach_of(view: View, state: str, of: str) -> str:
    steps = view.facts["reach"][state][of]
    return f"more than {view.facts['steps']}" if steps is None else str(steps)


def attention(models: Models) -> Finding:
    """Find a head that attends to the previous token."""
    text = models.passage(60)
    plain = look(models.gpt, "attention", {"text": text})
    habits = plain.facts["habits"]
    head, _, _, _, before, _ = max(habits, key=lambda row: row[4])
    layer, number = map(int, head.split("."))
    view = look(models.gpt, "attention", {"text": text, "layer": layer, "head": number})
    chance = mean([1 / (place + 1) for place in range(1, len(text))])
    return Finding(
        "Heads with a fixed pattern",
        "Some heads always attend to the same thing: the previous token, the first token, a separator (Clark et al."
        " 2019).",
        f"Head {head} gives {before:.0%} of its weight to the previous character on average; uniform attention gives"
        f" {chance:.0%}.",
        view,
        [
            (
                "weight of a GPT's head on the previous character",
                "nearly all, for some heads",
                f"{before:.0%} (head {head}); uniform: {chance:.0%}",
            )
        ],
    )


def lens(models: Models) -> Finding:
    """Show the prediction after each layer."""
    view = look(models.gpt, "logit_lens", {"text": models.passage(60)})
    names, far = view.facts["levels"], view.facts["mean_divergence_bits"]
    falls = all(low <= high for high, low in zip(far, far[1:], strict=False))
    distances = ", ".join(f"{bits:.1f} after {name}" for name, bits in zip(names[:-1], far[:-1], strict=True))
    return Finding(
        "The prediction, layer by layer",
        "If the output layer is applied to each level of a Transformer, the predictions come closer to the final one,"
        " layer by layer (nostalgebraist 2020).",
        f"The distance from the GPT's final prediction, in bits: {distances}. It"
        f" {'falls with every layer' if falls else 'does not fall with every layer'}.",
        view,
        [
            (
                "distance from the last level in bits, level by level",
                "falls",
                ", then ".join(f"{bits:.1f}" for bits in far[:-1]),
            )
        ],
    )


def beam(models: Models) -> Finding:
    """Compare greedy text, the most probable text, and sampled text."""
    wide, narrow = (
        look(models.gpt, "beam", {"text": "ROMEO:", "beams": beams, "max_new": 16, "length_penalty": 0.0})
        for beams in (4, 1)
    )
    best, greedy = (view.facts["found"][0]["log_prob"] for view in (wide, narrow))
    texts = {
        "greedy": models.gpt.generate("ROMEO:", method="greedy", max_new=110).text,
        "sampled": models.gpt.generate("ROMEO:", seed=1, method="sample", temperature=1.0, max_new=110).text,
    }
    shares = {name: distinct([text], 4) for name, text in texts.items()}
    parts: list[Part] = [*wide.parts, *(Note(f"{name}: {text!r}") for name, text in texts.items())]
    return Finding(
        "The most probable text",
        "Greedy decoding misses the most probable text, and a beam finds a more probable text; but the most probable"
        " text is dull and repeats itself (Holtzman et al. 2020).",
        f"The 16 characters after ROMEO: have log p {greedy:.2f} with greedy decoding and {best:.2f} with four beams."
        f" {shares['greedy']:.0%} of the 4-grams in 110 greedy characters are distinct, and {shares['sampled']:.0%} in"
        " sampled characters.",
        View("Beam search", parts, wide.about),
        [
            ("log p of 16 characters, greedy and four beams", "the beam's is higher", f"{greedy:.2f} and {best:.2f}"),
            (
                "distinct 4-grams of characters, greedy and sampled",
                "greedy repeats",
                f"{shares['greedy']:.0%} and {shares['sampled']:.0%}",
            ),
        ],
    )


CHAPTERS: dict[str, Chapter] = {
    "models": Chapter("train an LSTM and a GPT on Shakespeare's characters", meet),
    "surprisal": Chapter("where a text is surprising", surprise),
    "cells": Chapter("interpretable cells of the LSTM", cells),
    "gates": Chapter("how long its cells remember", gates),
    "gradients": Chapter("how far back gradients reach in both", gradients),
    "attention": Chapter("a head of the GPT that attends to the previous character", attention),
    "lens": Chapter("the GPT's prediction, layer by layer", lens),
    "beam": Chapter("greedy, most probable and sampled text", beam),
}
