"""Speculative decoding: equality of the output, and speed.

    python -m benchmarks.speculation equality [--prompts 10000] [--rows 50]
    python -m benchmarks.speculation speed RUN DRAFT ... [--max-new 300] [--rounds 3] [--prompt TEXT ...]
    python -m benchmarks.speculation sizes [--layers 8] [--dim 384] [--agree 0.7 ...] [--max-new 200] [--rounds 3]

`equality` continues random prompts with small random models, with and without drafts, and counts the texts that differ.
Chunks and single steps round differently, so in float32 two texts may diverge where the two most probable tokens are
nearly equal. The largest such gap is printed; in float64 no text should differ. `speed` times one text at a time, with
and without a draft in turn. `sizes` does the same for a random Llama with a GRU as draft, whose guesses are right at a
given rate. It predicts the gain of a trained pair of these sizes.
"""

import argparse
import copy
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.types import State
from clew.decoding.drafts import Draft, DraftStepper, Guessing, PromptLookup, Proposal, Settled
from clew.decoding.sampling import Sequences, greedy_sequences
from clew.decoding.speculative import speculative_sequences
from clew.decoding.stepper import Stepper
from clew.models import MODELS
from clew.runs.loaded import Run, load_run
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.text.train import train_character

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("recurrent", {"cell": "lstm", "dim": 32, "embedding_dim": 16, "num_layers": 2}),
    "gpt": ("gpt", {"dim": 32, "num_layers": 2, "num_heads": 2, "max_length": 64}),
    "llama": ("llama", {"dim": 32, "num_layers": 2, "num_heads": 2}),
    "mixed": (
        "mixed",
        {"dim": 32, "layers": ["gru", "attention", "convolution", {"name": "attention", "window": 4}, "feedforward"]},
    ),
}
SPEAKERS = ("ROMEO:", "JULIET:", "First Citizen:", "KING RICHARD III:", "To be, or not")


def small_model(name: str, seed: int, dtype: torch.dtype) -> LanguageModel:
    torch.manual_seed(seed)
    tokenizer, (family, settings) = train_character([LETTERS]), BODIES[name]
    body = MODELS[family].build(MODELS[family].config(**settings), Tokens(tokenizer.vocabulary))
    task = LanguageModel(body, tokenizer)
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.mul_(2)  # otherwise all tokens are about equally probable
    return task.to(dtype).eval()


def perturb(task: LanguageModel, noise: float) -> LanguageModel:
    """Copy a model with noise on its weights, so that it mostly agrees with the original."""
    copied = copy.deepcopy(task)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(noise * parameter.std().nan_to_num() * torch.randn_like(parameter))
    return copied


class Agreement(NamedTuple):
    texts: int
    unequal: int
    gap: float  # the largest gap in log p between the two most probable tokens where two texts diverge
    accepted: float  # share of all guesses


def batches(count: int, rows: int, vocabulary: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(7)
    for start in range(0, count, rows):
        size = min(rows, count - start)
        lengths = torch.randint(1, 17, (size,), generator=generator)
        yield torch.randint(vocabulary, (size, 16), generator=generator), torch.arange(16) < lengths[:, None]


def gap_at(stepper: Stepper, prompt: Tensor, mask: Tensor, drafted: Sequences, plain: Sequences, row: int) -> float:
    """Return the gap between the two most probable tokens where the two texts of a row diverge."""
    shorter = min(drafted.tokens.shape[1], plain.tokens.shape[1])
    position = int((drafted.tokens[row, :shorter] != plain.tokens[row, :shorter]).int().argmax())
    prefix = torch.cat([prompt[row][mask[row]], plain.tokens[row, :position]])[None]
    with torch.no_grad():
        first, second = stepper(prefix, None, stepper.initial_state(1))[0][0, -1].topk(2).values.tolist()
    return float(first - second)


def agreement(stepper: Stepper, drafts: Sequence[Draft], count: int, rows: int, max_new: int = 40) -> Agreement:
    """Compare texts with and without drafts. The drafts take turns, one batch each; token 0 ends a text."""
    unequal, gap, accepted, proposed = 0, 0.0, 0, 0
    for draft, (prompt, mask) in zip(itertools.cycle(drafts), batches(count, rows, stepper.vocabulary), strict=False):
        plain = greedy_sequences(stepper, prompt, mask, max_new=max_new, end=0)
        drafted, acceptance = speculative_sequences(stepper, draft, prompt, mask, max_new=max_new, end=0)
        accepted, proposed = accepted + int(acceptance.accepted.sum()), proposed + int(acceptance.proposed.sum())
        for row in range(len(prompt)):
            texts = [each.tokens[row, : each.lengths[row]].tolist() for each in (plain, drafted)]
            if texts[0] != texts[1]:
                unequal, gap = unequal + 1, max(gap, gap_at(stepper, prompt, mask, drafted, plain, row))
    return Agreement(count, unequal, gap, accepted / max(proposed, 1))


def equality(options: argparse.Namespace) -> None:
    count = -(-options.prompts // (2 * len(BODIES)))
    for name, dtype in itertools.product(BODIES, (torch.float32, torch.float64)):
        task, unrelated = small_model(name, 1, dtype), small_model("lstm", 2, dtype)
        drafts = [
            DraftStepper(perturb(task, 0.1).stepper()),
            PromptLookup(),
            DraftStepper(unrelated.stepper()),
            DraftStepper(task.stepper()),
        ]
        result = agreement(task.stepper(), drafts, count, options.rows)
        gap = f", where the top two are within {result.gap:.1g}" if result.unequal else ""
        precision = str(dtype).removeprefix("torch.")
        print(
            f"{name:6} {precision}: {result.unequal} of {result.texts} texts differ{gap};"
            f" {result.accepted:.0%} of guesses accepted",
            flush=True,
        )


class FixedRateDraft(DraftStepper):
    """A draft with the cost of its stepper, whose guesses at a given text are right with a given probability."""

    def __init__(self, stepper: Stepper, text: Tensor, rate: float):
        super().__init__(stepper)
        self.text, self.rate, self.position = text, rate, 0
        self.generator = torch.Generator().manual_seed(1)

    def initial_state(self, rows: int, capacity: int) -> Settled:
        self.position = 1  # the first token is generated without a guess
        return super().initial_state(rows, capacity)

    def propose(
        self, tokens: Tensor, mask: Tensor | None, most: Tensor, uniform: Tensor | None, state: Settled
    ) -> tuple[Proposal, Guessing]:
        proposal, after = super().propose(tokens, mask, most, uniform, state)
        right = self.text[:, self.position : self.position + proposal.tokens.shape[1]]
        is_right = torch.rand(right.shape, generator=self.generator) < self.rate
        return proposal._replace(tokens=torch.where(is_right, right, (right + 1) % self.stepper.vocabulary)), after

    def settle(self, accepted: Tensor, state: State) -> Settled:
        self.position += int(accepted) + 1
        return super().settle(accepted, state)


def sizes(options: argparse.Namespace) -> None:
    torch.manual_seed(1)
    tokenizer = train_character([LETTERS])
    shapes: dict[str, dict[str, Any]] = {
        "llama": {"dim": options.dim, "num_layers": options.layers, "num_heads": 4},
        "recurrent": {"cell": "gru", "dim": 192, "embedding_dim": 64},
    }
    bodies = [
        MODELS[family].build(MODELS[family].config(**shape), Tokens(tokenizer.vocabulary))
        for family, shape in shapes.items()
    ]
    stepper, draft = (LanguageModel(body, tokenizer).eval().stepper() for body in bodies)
    prompt = torch.randint(tokenizer.vocabulary, (1, 16))
    text = greedy_sequences(stepper, prompt, max_new=options.max_new).tokens
    for rate in options.agree or (0.6, 0.7, 0.8, 0.9):
        best = [float("inf"), float("inf")]
        for _ in range(options.rounds):
            start = time.process_time()
            greedy_sequences(stepper, prompt, max_new=options.max_new)
            middle = time.process_time()
            drafted, acceptance = speculative_sequences(
                stepper, FixedRateDraft(draft, text, rate), prompt, max_new=options.max_new
            )
            best = [min(best[0], middle - start), min(best[1], time.process_time() - middle)]
            assert torch.equal(drafted.tokens, text)
        calls = 1 + float(acceptance.accepted / acceptance.rounds)
        step = f"{1000 * best[0] / options.max_new:.1f} ms per plain step"
        print(
            f"{rate:.0%} of guesses right: {best[0] / best[1]:.2f} times as fast by CPU time, {calls:.2f} tokens per"
            f" call; {step}",
            flush=True,
        )


class Timed(NamedTuple):
    seconds: float
    cpu: float  # seconds of CPU time, which depend less on other processes
    text: str
    calls: int
    proposed: int
    accepted: int


def timed(run: Run, prompt: str, draft: "Run | str | None", options: dict[str, Any]) -> Timed:
    start, cpu_start = time.perf_counter(), time.process_time()
    generation = run.generate(prompt, **options, **({} if draft is None else {"draft": draft}))
    return Timed(
        time.perf_counter() - start,
        time.process_time() - cpu_start,
        generation.text,
        *(generation.guessed or (len(generation.tokens) - 1, 0, 0)),
    )


def compare(run: Run, draft: "Run | str", prompts: Sequence[str], rounds: int, options: dict[str, Any]) -> str:
    """Describe the speed-up of a draft. Times are sums over prompts of the fastest round, plain and drafted in turn."""
    seconds, cpu = [0.0, 0.0], [0.0, 0.0]
    calls, accepted, proposed, equal = 0, 0, 0, 0
    for prompt in prompts:
        both = [(timed(run, prompt, None, options), timed(run, prompt, draft, options)) for _ in range(rounds)]
        for side in (0, 1):
            seconds[side] += min(pair[side].seconds for pair in both)
            cpu[side] += min(pair[side].cpu for pair in both)
        plain, drafted = both[0]
        calls += drafted.calls
        accepted += drafted.accepted
        proposed += drafted.proposed
        equal += plain.text == drafted.text
    texts = f", {equal} of {len(prompts)} texts are equal" if options["method"] == "greedy" else ""
    guesses = (
        f"{accepted / max(proposed, 1):.0%} of guesses accepted, {1 + accepted / max(calls, 1):.2f} tokens per call"
    )
    times = (
        f"{seconds[0] / seconds[1]:.2f} times as fast ({seconds[0]:.2f} s, {seconds[1]:.2f} s), by CPU time"
        f" {cpu[0] / cpu[1]:.2f}"
    )
    return f"{times}; {guesses}{texts}"


def speed(options: argparse.Namespace) -> None:
    run = load_run(options.run, device="cpu")
    for name in options.drafts:
        draft: Run | str = name if name == "prompt" else load_run(name, device="cpu")
        for method, temperature in (("greedy", 1.0), ("sample", 0.8), ("sample", 1.0)):
            settings = {"method": method, "temperature": temperature, "max_new": options.max_new}
            comparison = compare(run, draft, options.prompt or SPEAKERS, options.rounds, settings)
            print(f"{name}, {method}{'' if method == 'greedy' else f' at {temperature}'}: {comparison}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speculation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(required=True)

    def add(name: str, measure: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        subparser = subparsers.add_parser(name)
        subparser.set_defaults(measure=measure)
        return subparser

    equality_parser = add("equality", equality)
    equality_parser.add_argument(
        "--prompts",
        type=int,
        default=10_000,
        metavar="N",
        help="number of prompts, over all models and both precisions",
    )
    equality_parser.add_argument("--rows", type=int, default=50, metavar="N", help="prompts per batch")
    speed_parser = add("speed", speed)
    speed_parser.add_argument("run", metavar="RUN")
    speed_parser.add_argument("drafts", metavar="DRAFT", nargs="+", help="a smaller run, or `prompt`")
    speed_parser.add_argument("--max-new", type=int, default=300, metavar="N")
    speed_parser.add_argument("--rounds", type=int, default=3, metavar="N")
    speed_parser.add_argument("--prompt", action="append", metavar="TEXT")
    sizes_parser = add("sizes", sizes)
    sizes_parser.add_argument("--layers", type=int, default=8, metavar="N")
    sizes_parser.add_argument("--dim", type=int, default=384, metavar="N")
    sizes_parser.add_argument(
        "--agree",
        type=float,
        action="append",
        metavar="P",
        help="probability that a guess is right (default: 0.6 to 0.9)",
    )
    sizes_parser.add_argument("--max-new", type=int, default=200, metavar="N")
    sizes_parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args(arguments)
    options.measure(options)


if __name__ == "__main__":
    main()
