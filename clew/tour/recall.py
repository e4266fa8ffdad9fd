"""The experiment `recall`: complete "I live in France, ..., and I know" with a word that depends on an earlier word.
The number of words between them is the gap.

The words between are random and carry no information; only the last word is trained and tested. The logarithm of the
gap is uniform in training, since short gaps help to learn long ones. For recurrent models the gradient of the answer's
loss with respect to earlier states is measured as well, to see how far gradients reach when a long dependency must be
learnt.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.modes import evaluating
from clew.core.types import State
from clew.data.plans import TokenBatch
from clew.drawing.views import Lines, Note, Part, Series, View
from clew.inspection.gradient_flow import reach, state_gradients, token_losses, with_gradients
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
    "LSTM, forget bias 1": {"family": "recurrent", "cell": {"name": "lstm", "forget_bias": 1.0}},
    "Transformer": {"family": "gpt", "num_layers": 2, "num_heads": 4},
}
RATES = (1e-3, 1e-2)
"""The learning rates. Every model is trained with each, and the one with the lower final loss is shown. The simple
network learns nothing with the first."""
ENOUGH = 0.9
SENTENCES = 4
"""The number of sentences over which gradients are averaged."""
FLOOR = 1e-12
SIZES: dict[Scale, tuple[int, int, int, int]] = {
    "quick": (16, 12, 8, 32),
    "tour": (64, 1500, 40, 200),
    "full": (96, 4000, 100, 400),
}
"""Width, training steps, the longest gap, and the number of test sentences per gap."""


def draw(run: Run, gap: int, rows: int, *seed: int) -> TokenBatch:
    """Return random sentences with a gap of `gap` words, determined by the seed; only the last word is a target."""
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


def drawn_gaps(longest: int, steps: int, seed: int) -> list[int]:
    """Return a gap for every training step, from 1 to the longest, with a uniform logarithm."""
    draws = torch.rand(steps, generator=generator(seed, 7), dtype=torch.float64)
    return ((longest + 1.0) ** draws).long().clamp(1, longest).tolist()


def accuracy(run: Run, gap: int, rows: int, seed: int) -> float:
    """Return the share of new sentences for which the right word is the most probable."""
    batch = draw(run, gap, rows, seed, 1)
    with evaluating([run.task]):
        hidden, _ = run.task.body(batch.tokens, None)
        guesses = run.task.logits(hidden[:, -1]).argmax(-1)
    return float((guesses == batch.targets[:, -1]).float().mean())


def answer_gradients(run: Run, gap: int, seed: int) -> Tensor:
    """Return |d loss / d s_{t-k}| of the answer at t against k, back to the country, averaged over some sentences. s is
    the cell if there is one, and the hidden state otherwise."""
    body, rows = run.task.body, list[Tensor]()
    batch = draw(run, gap, SENTENCES, seed, 2)
    with with_gradients(run.task):
        for tokens, targets in zip(batch.tokens, batch.targets, strict=True):

            def step(t: int, state: State, tokens: Tensor = tokens, targets: Tensor = targets) -> tuple[Tensor, State]:
                hidden, state = body(tokens[None, t : t + 1], None, state)
                return token_losses(run.task.log_probs(hidden[0]), targets[t : t + 1])[0], state

            last = len(tokens) - 1
            by_state = state_gradients(step, body.initial_state(1), [last], last - len(BEFORE))
            rows.append(by_state.get("0.c", by_state["0.h"])[0])
    return torch.stack(rows).mean(0)


class RecallResults(NamedTuple):
    """The tested gaps, and for each model the accuracy at each gap, the answer's gradient by distance, and the better
    learning rate."""

    gaps: list[int]
    right: dict[str, list[float]]
    gradients: dict[str, Tensor]
    rates: dict[str, float]


def measure(scale: Scale, seed: int, report: Report) -> RecallResults:
    dim, steps, longest, rows = SIZES[scale]
    words = sorted({*BEFORE, ",", *AFTER, *BETWEEN, *LANGUAGES, *LANGUAGES.values()})
    gaps = sorted({max(1, round(longest * part / 10)) for part in range(11)} | {2, 4, 8})
    accuracies, gradients = dict[str, list[float]](), dict[str, Tensor]()
    rates = dict[str, float]()
    for name, settings in MODELS.items():
        model = {**settings, "dim": dim, **({"max_length": longest + 10} if settings["family"] == "gpt" else {})}
        lengths = drawn_gaps(longest, steps, seed)
        trials = []
        for rate in RATES:
            run = language_run(words, model, seed=seed)
            losses = train_task(
                run.task,
                lambda step, run=run, lengths=lengths: draw(run, lengths[step], 32, seed, 0, step),  # type: ignore[misc]
                steps=steps,
                seed=seed,
                learning_rate=rate,
                name=f"{name}, {rate:g}",
                report=report,
            )
            trials.append((sum(losses[-max(steps // 10, 1) :]), rate, run))
        _, rates[name], run = min(trials, key=lambda trial: trial[:2])
        accuracies[name] = [accuracy(run, gap, rows, seed) for gap in gaps]
        if settings["family"] == "recurrent":
            gradients[name] = answer_gradients(run, longest, seed)
        report(f"{name}: right after a gap of {gaps[-1]} words: {accuracies[name][-1]:.0%}")
    return RecallResults(gaps, accuracies, gradients, rates)


def remembered(gaps: list[int], right: list[float]) -> int:
    """Return the longest gap up to which the accuracy is ENOUGH at every tested gap; 0 if there is none."""
    longest = 0
    for gap, share in zip(gaps, right, strict=True):
        if share < ENOUGH:
            break
        longest = gap
    return longest


def run(scale: Scale, seed: int, report: Report) -> Finding:
    return show(measure(scale, seed, report))


def show(results: RecallResults) -> Finding:
    gaps, accuracies, gradients, rates = results
    series = [Series(name, gaps, right) for name, right in accuracies.items()]
    lines = Lines(
        series,
        "words between",
        "share of right answers",
        "I live in France, ..., and I know",
        thresholds=[("guessing", 1 / len(LANGUAGES)), (f"{ENOUGH:.0%}", ENOUGH)],
    )
    relative = {name: (curve / curve[0].clamp(min=1e-300)).clamp(min=FLOOR) for name, curve in gradients.items()}
    flow = Lines(
        [Series(name, list(range(len(curve))), curve.tolist()) for name, curve in relative.items()],
        "k, words back",
        "|d loss / d s_(t-k)|, relative to k = 0",
        f"Gradient of the answer with respect to the state k words earlier; the country is {gaps[-1]} words away",
        log_y=True,
        thresholds=[("1 %", 0.01)],
    )
    reaches = {name: reach(curve).steps for name, curve in gradients.items()}
    back = {
        name: f"all {len(gradients[name]) - 1} steps" if steps is None else f"{steps} steps"
        for name, steps in reaches.items()
    }
    reached = {name: remembered(gaps, right) for name, right in accuracies.items()}
    longest_gaps = ", ".join(f"{name} {gap}" for name, gap in reached.items())
    at_last = ", ".join(f"{name} {right[-1]:.0%}" for name, right in accuracies.items())
    note = Note(
        "There are ten countries and languages, so guessing is right in one case of ten. The words between are drawn"
        f" from {len(BETWEEN)} uninformative ones. Gaps in training are 1 to {gaps[-1]} words, as often from 1 to 2 as"
        " from 2 to 4 and so on. The better of two learning rates is shown:"
        f" {', '.join(f'{name} {rate:g}' for name, rate in rates.items())}. Gers et al. (2000) and Jozefowicz et al."
        " (2015) recommend an initially open forget gate (bias 1)."
    )
    gradient_reach = ", ".join(f"{steps} in the {name}" for name, steps in back.items())
    gradient_note = Note(
        "Gradients are measured after training. Memory and the reach of gradients are different: a state that holds a"
        " value robustly is insensitive to small changes of it, so a good memory may have small gradients"
        " (Bengio et al. 1994)."
    )
    parts: list[Part] = [lines, note, flow, gradient_note]
    facts = {"gaps": gaps, "right": accuracies, "remembered": reached, "reach": reaches, "rates": rates}
    return Finding(
        "Recall against the gap",
        "As the gap grows, recurrent networks fail to connect the two ends; LSTMs do not have this problem"
        " (Olah 2015, after Bengio et al. 1994).",
        f"The longest gap, of up to {gaps[-1]} words, with 90 % right answers: {longest_gaps}. Accuracy at {gaps[-1]}:"
        f" {at_last}. Gradients stay above 1 % for {gradient_reach}.",
        View("Recall", parts, "", facts),
        [
            (
                f"longest gap with 90 % right answers, {name}",
                CLAIMS[name],
                f"{gap} of {gaps[-1]} words; {accuracies[name][-1]:.0%} right at {gaps[-1]}",
            )
            for name, gap in reached.items()
        ]
        + [
            (f"steps until 1 % of the gradient is left, trained to recall, {name}", "7 and 100", steps)
            for name, steps in back.items()
        ],
    )


CLAIMS = {
    "simple network (Elman)": "short",
    "GRU": "long",
    "LSTM": "long",
    "LSTM, forget bias 1": "long",
    "Transformer": "any gap within its window",
}
RECALL = Experiment('recall against the gap: "I live in France, ..., and I know"', run)
