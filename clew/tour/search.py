"""The experiment `search`: compare greedy decoding with the most probable continuation, found by enumerating all short
continuations under a small language model over 27 characters.

    y* = argmax over all y_1 .. y_n of log p(y_1 .. y_n | prompt)
"""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.modes import evaluating
from clew.core.state import select_rows
from clew.decoding.beam import beam_search
from clew.decoding.stepper import Stepper, prefill
from clew.drawing.views import Bars, Branches, Note, Part, Table, View
from clew.inspection.decoding_tree import search_tree
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.texts import LETTERS, ids_of, plain_letters, shakespeare, windows
from clew.tour.training import generator, language_run, train_task

BEAMS = (1, 2, 4, 8, 16)
PROMPT = 12
ROUNDING = 1e-4
"""Paths whose log-probabilities differ by less count as equally good."""
SIZES: dict[Scale, tuple[int, int, int, int]] = {
    "quick": (16, 20, 2, 4),
    "tour": (64, 500, 3, 60),
    "full": (128, 2000, 4, 100),
}
"""Width, training steps, number of generated characters, and number of prompts."""


class Path(NamedTuple):
    tokens: tuple[int, ...]
    log_prob: float


def enumerate_paths(stepper: Stepper, prompt: Tensor, steps: int) -> Tensor:
    """Return log p (vocabulary^steps,) of every continuation of a prompt (1, length); the last token changes
    fastest."""
    vocabulary = stepper.vocabulary
    log_probs, state = prefill(stepper, prompt, None, stepper.initial_state(1))
    sums = log_probs[0].double()
    for _ in range(steps - 1):
        rows = torch.arange(len(sums) // vocabulary, device=prompt.device).repeat_interleave(vocabulary)
        tokens = torch.arange(vocabulary, device=prompt.device).repeat(len(sums) // vocabulary)
        log_probs, state = stepper(tokens[:, None], None, select_rows(state, rows))
        sums = (sums[:, None] + log_probs[:, 0].double()).flatten()
    return sums


def most_probable(stepper: Stepper, prompt: Tensor, steps: int) -> Path:
    """Return the most probable continuation, by enumeration."""
    sums = enumerate_paths(stepper, prompt, steps)
    place = int(sums.argmax())
    tokens = [place // stepper.vocabulary ** (steps - 1 - step) % stepper.vocabulary for step in range(steps)]
    return Path(tuple(tokens), float(sums[place]))


def beam_path(stepper: Stepper, prompt: Tensor, steps: int, beams: int) -> Path:
    best = beam_search(stepper, prompt, beams=beams, max_new=steps, end=None, length_penalty=0.0)
    return Path(tuple(best.tokens[0, 0].tolist()), float(best.log_probs[0, 0]))


def run(scale: Scale, seed: int, report: Report) -> Finding:
    dim, steps, written, count = SIZES[scale]
    model = language_run(LETTERS, {"family": "recurrent", "cell": "lstm", "dim": dim}, seed=seed)
    texts = {name: ids_of(model, plain_letters(text)) for name, text in shakespeare().items()}
    train_task(
        model.task,
        lambda step: windows(texts["train"], 32, 64, seed, step),
        steps=steps,
        seed=seed,
        name="letters",
        report=report,
    )
    starts = torch.randint(len(texts["valid"]) - PROMPT, (count,), generator=generator(seed, 5)).tolist()
    prompts = [texts["valid"][start : start + PROMPT][None] for start in starts]
    stepper = model.task.stepper()
    with evaluating([model.task]):
        best = [most_probable(stepper, prompt, written) for prompt in prompts]
        beam_paths = {beams: [beam_path(stepper, prompt, written, beams) for prompt in prompts] for beams in BEAMS}
    gaps = {
        beams: [top.log_prob - path.log_prob for top, path in zip(best, paths, strict=True)]
        for beams, paths in beam_paths.items()
    }
    shares = {beams: sum(gap < ROUNDING for gap in each) / count for beams, each in gaps.items()}
    text_of = model.tokenizer.decode
    worst = sorted(range(count), key=lambda number: -gaps[1][number])
    rows = [
        (
            text_of(prompts[number][0].tolist()),
            text_of(list(beam_paths[1][number].tokens)),
            f"{beam_paths[1][number].log_prob:.3f}",
            text_of(list(best[number].tokens)),
            f"{best[number].log_prob:.3f}",
        )
        for number in worst[:8]
    ]
    with evaluating([model.task]):
        tree = search_tree(
            stepper,
            prompts[worst[0]],
            beams=2,
            max_new=written,
            ends=[],
            length_penalty=0.0,
            name=model.tokenizer.piece,
        )
    parts: list[Part] = [
        Bars(
            [f"{beams} beams" if beams > 1 else "greedy" for beams in BEAMS],
            list(shares.values()),
            "share of prompts",
            "How often the most probable continuation is found",
            low=0.0,
            high=1.0,
        ),
        Table(
            ("after", "greedy", "log p (nats)", "most probable", "its log p (nats)"),
            rows,
            "The prompts where greedy decoding loses most",
        ),
        Branches(tree.nodes, "Two beams after the first of these prompts"),
        Note(
            f"All {stepper.vocabulary}^{written} = {stepper.vocabulary**written:,} continuations of every prompt were"
            " scored."
        ),
    ]
    missed = [gap for gap in gaps[1] if gap >= ROUNDING]
    lost = sum(missed) / len(missed) if missed else 0.0
    enough = next((beams for beams in BEAMS if shares[beams] == 1), None)
    facts = {
        "found": {str(beams): share for beams, share in shares.items()},
        "written": written,
        "prompts": count,
        "lost": lost,
    }
    finds = f"{enough} beams always find it" if enough else f"{BEAMS[-1]} beams find it in {shares[BEAMS[-1]]:.0%}"
    return Finding(
        "Greedy decoding and the most probable text",
        "The most probable token at each step does not give the most probable sequence, since a choice cannot be"
        " undone; a small beam comes close (Graves 2012; Sutskever et al. 2014).",
        f"For {count} prompts and continuations of {written} characters, greedy decoding finds the most probable one in"
        f" {shares[1]:.0%}, two beams in {shares[2]:.0%}, four in {shares[4]:.0%}; {finds}. If greedy decoding misses"
        f" it, its text is {lost:.2f} nats less probable on average.",
        View("Greedy and exact search", parts, "An LSTM over 26 letters and the space, trained on Shakespeare.", facts),
        [
            (
                f"share of prompts whose most probable {written} characters are found: greedy, 2, 4 beams",
                "greedy misses",
                f"{shares[1]:.0%}, {shares[2]:.0%}, {shares[4]:.0%}",
            )
        ],
    )


SEARCH = Experiment("greedy decoding against the most probable text, found by enumeration", run)
