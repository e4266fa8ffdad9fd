"""Recall against the gap: "I live in France, ..., and I know" asks for what was said before so many other words.

The words between are drawn and tell nothing; only the last word is learnt and judged. Gaps are drawn evenly in training, so that short
ones may lead to long ones.
"""

from typing import Any

import torch

from clew.core.modes import evaluating
from clew.data.plans import TokenBatch
from clew.inspection.views import Lines, Note, Series, View
from clew.runs.loaded import Run
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.training import generator, language_run, train_task

LANGUAGES = {
    "France": "French",
    "Spain": "Spanish",
    "Germany": "German",
    "Italy": "Italian",
    "Poland": "Polish",
    "Greece": "Greek",
    "Norway": "Norwegian",
    "Japan": "Japanese",
    "Turkey": "Turkish",
    "Russia": "Russian",
}
STORY = "the sun rose over hills and we walked home by a river where old boats lay in grass while rain fell on stones"
BETWEEN = STORY.split()
BEFORE, AFTER = ("I", "live", "in"), ("and", "I", "know")
MODELS: dict[str, dict[str, Any]] = {
    "simple network (Elman)": {"family": "recurrent", "cell": "elman"},
    "GRU": {"family": "recurrent", "cell": "gru"},
    "LSTM": {"family": "recurrent", "cell": "lstm"},
    "Transformer": {"family": "gpt", "num_layers": 2, "num_heads": 4},
}
ENOUGH = 0.9
SIZES: dict[Scale, tuple[int, int, int, int]] = {"quick": (16, 12, 8, 32), "tour": (64, 500, 40, 200), "full": (96, 3000, 100, 400)}
"""Width, training steps, the longest gap, and how many sentences a gap is judged on."""


def draw(run: Run, gap: int, rows: int, *seed: int) -> TokenBatch:
    """Sentences with a gap of so many words, the same for the same seed; the last word alone is to be learnt."""
    draws = generator(gap, *seed)
    countries = list(LANGUAGES)
    chosen = torch.randint(len(countries), (rows,), generator=draws).tolist()
    fillers = torch.randint(len(BETWEEN), (rows, gap), generator=draws).tolist()
    sentences = [
        (*BEFORE, countries[country], ",", *(BETWEEN[word] for word in between), *AFTER, LANGUAGES[countries[country]])
        for country, between in zip(chosen, fillers, strict=True)
    ]
    ids = torch.tensor([run.tokenizer.encode(" ".join(sentence)) for sentence in sentences])
    within = torch.zeros_like(ids[:, 1:], dtype=torch.bool)
    within[:, -1] = True
    return TokenBatch(ids[:, :-1], ids[:, 1:], within=within)


def accuracy(run: Run, gap: int, rows: int, seed: int) -> float:
    """How often the right word is the likeliest, on sentences that were not trained on."""
    batch = draw(run, gap, rows, seed, 1)
    with evaluating([run.task]):
        hidden, _ = run.task.body(batch.tokens, None)
        guesses = run.task.logits(hidden[:, -1]).argmax(-1)
    return float((guesses == batch.targets[:, -1]).float().mean())


def measure(scale: Scale, seed: int, report: Report) -> tuple[list[int], dict[str, list[float]]]:
    dim, steps, longest, rows = SIZES[scale]
    words = sorted({*BEFORE, ",", *AFTER, *BETWEEN, *LANGUAGES, *LANGUAGES.values()})
    gaps = sorted({max(1, round(longest * part / 10)) for part in range(11)})
    found = {}
    for name, settings in MODELS.items():
        model = {**settings, "dim": dim, **({"max_length": longest + 10} if settings["family"] == "gpt" else {})}
        run = language_run(words, model, seed=seed)
        lengths = torch.randint(1, longest + 1, (steps,), generator=generator(seed, 7)).tolist()
        rate = 1e-3 if settings["family"] == "gpt" or settings["cell"] == "elman" else 3e-3
        train_task(
            run.task,
            lambda step, run=run, lengths=lengths: draw(run, lengths[step], 32, seed, 0, step),  # type: ignore[misc]
            steps=steps,
            seed=seed,
            learning_rate=rate,
            name=name,
            report=report,
        )
        found[name] = [accuracy(run, gap, rows, seed) for gap in gaps]
        report(f"{name}: right after a gap of {gaps[-1]} words: {found[name][-1]:.0%}")
    return gaps, found


def remembered(gaps: list[int], right: list[float]) -> int:
    """The longest gap up to which every one that was tried is answered well enough; 0 where none is."""
    longest = 0
    for gap, share in zip(gaps, right, strict=True):
        if share < ENOUGH:
            break
        longest = gap
    return longest


def run(scale: Scale, seed: int, report: Report) -> Finding:
    gaps, found = measure(scale, seed, report)
    series = [Series(name, gaps, right) for name, right in found.items()]
    lines = Lines(
        series,
        "words between",
        "share of right answers",
        "I live in France, ..., and I know",
        thresholds=[("guessing", 1 / len(LANGUAGES)), (f"{ENOUGH:.0%}", ENOUGH)],
    )
    reached = {name: remembered(gaps, right) for name, right in found.items()}
    told = ", ".join(f"{name} {gap}" for name, gap in reached.items())
    note = Note(
        f"Ten countries and their languages, so that guessing is right in one case of ten; the words between are drawn from {len(BETWEEN)} "
        f"that tell nothing. Trained on gaps of 1 to {gaps[-1]} words."
    )
    return Finding(
        "Recall against the gap",
        "As the gap grows, recurrent networks become unable to learn to connect the two ends, and LSTMs do not have this problem (Olah "
        "2015, after Bengio et al. 1994).",
        f"Words between up to which nine in ten answers are right, of {gaps[-1]} tried: {told}.",
        View("Recall", [lines, note], "", {"gaps": gaps, "right": found, "remembered": reached}),
        [(f"gap up to which 90 % are right, {name}", CLAIMS[name], f"{gap} of {gaps[-1]} words") for name, gap in reached.items()],
    )


CLAIMS = {"simple network (Elman)": "short", "GRU": "long", "LSTM": "long", "Transformer": "any within its window"}
RECALL = Experiment('recall against the gap: "I live in France, ..., and I know"', run)
