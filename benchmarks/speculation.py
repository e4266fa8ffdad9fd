"""What a draft changes: nothing that is written, and how long it takes.

    python -m benchmarks.speculation equality [--prompts 10000] [--rows 50]
    python -m benchmarks.speculation speed RUN DRAFT ... [--max-new 300] [--rounds 3] [--prompt TEXT ...]
    python -m benchmarks.speculation sizes [--layers 8] [--dim 384] [--agree 0.7 ...] [--max-new 200] [--rounds 3]

`equality` writes continuations of random prompts with small models of random weights, plainly and with drafts, and
counts the texts that differ. Chunks and steps round differently, so that in float32 a text may part from the other
where the two most probable tokens are all but equal; the largest such gap is shown, and in float64 there is none.
`speed` times one text at a time, plain and drafted in turn. `sizes` does so for a Llama of random weights whose draft,
a GRU, is right at a given rate: what a trained pair of these sizes would gain.
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
            parameter.mul_(2)  # or every token is about as probable as any other
    return task.to(dtype).eval()


def nearly(task: LanguageModel, noise: float) -> LanguageModel:
    """A model that agrees with another more often than not."""
    other = copy.deepcopy(task)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(noise * parameter.std().nan_to_num() * torch.randn_like(parameter))
    return other


class Agreement(NamedTuple):
    texts: int
    unequal: int
    gap: float  # the largest gap in log p between the two most probable tokens where two texts part
    accepted: float  # of all guesses


def batches(count: int, rows: int, vocabulary: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(7)
    for start in range(0, count, rows):
        size = min(rows, count - start)
        lengths = torch.randint(1, 17, (size,), generator=generator)
        yield torch.randint(vocabulary, (size, 16), generator=generator), torch.arange(16) < lengths[:, None]


def gap_at(stepper: Stepper, prompt: Tensor, mask: Tensor, found: Sequences, plain: Sequences, row: int) -> float:
    """How far apart the two most probable tokens are where two texts of a row part."""
    shorter = min(found.tokens.shape[1], plain.tokens.shape[1])
    place = int((found.tokens[row, :shorter] != plain.tokens[row, :shorter]).int().argmax())
    read = torch.cat([prompt[row][mask[row]], plain.tokens[row, :place]])[None]
    with torch.no_grad():
        first, second = stepper(read, None, stepper.initial_state(1))[0][0, -1].topk(2).values.tolist()
    return float(first - second)


def agreement(stepper: Stepper, drafts: Sequence[Draft], count: int, rows: int, max_new: int = 40) -> Agreement:
    """The drafts take turns, a batch each; the first token ends a text."""
    unequal, gap, accepted, proposed = 0, 0.0, 0, 0
    for draft, (prompt, mask) in zip(itertools.cycle(drafts), batches(count, rows, stepper.vocabulary), strict=False):
        plain = greedy_sequences(stepper, prompt, mask, max_new=max_new, end=0)
        found, acceptance = speculative_sequences(stepper, draft, prompt, mask, max_new=max_new, end=0)
        accepted, proposed = accepted + int(acceptance.accepted.sum()), proposed + int(acceptance.proposed.sum())
        for row in range(len(prompt)):
            texts = [each.tokens[row, : each.lengths[row]].tolist() for each in (plain, found)]
            if texts[0] != texts[1]:
                unequal, gap = unequal + 1, max(gap, gap_at(stepper, prompt, mask, found, plain, row))
    return Agreement(count, unequal, gap, accepted / max(proposed, 1))


def equality(options: argparse.Namespace) -> None:
    each = -(-options.prompts // (2 * len(BODIES)))
    for name, dtype in itertools.product(BODIES, (torch.float32, torch.float64)):
        task, other = small_model(name, 1, dtype), small_model("lstm", 2, dtype)
        drafts = [
            DraftStepper(nearly(task, 0.1).stepper()),
            PromptLookup(),
            DraftStepper(other.stepper()),
            DraftStepper(task.stepper()),
        ]
        found = agreement(task.stepper(), drafts, each, options.rows)
        parted = f", the top two within {found.gap:.1g}" if found.unequal else ""
        kind = str(dtype).removeprefix("torch.")
        print(
            f"{name:6} {kind}: {found.unequal} of {found.texts} texts differ{parted}; {found.accepted:.0%} of guesses"
            " accepted",
            flush=True,
        )


class Agreeing(DraftStepper):
    """A draft that costs what its stepper does, and whose guesses at one text are right with a probability that is
    given."""

    def __init__(self, stepper: Stepper, text: Tensor, rate: float):
        super().__init__(stepper)
        self.text, self.rate, self.place = text, rate, 0
        self.generator = torch.Generator().manual_seed(1)

    def initial_state(self, rows: int, capacity: int) -> Settled:
        self.place = 1  # the first token is written without a guess
        return super().initial_state(rows, capacity)

    def propose(
        self, tokens: Tensor, mask: Tensor | None, most: Tensor, uniform: Tensor | None, state: Settled
    ) -> tuple[Proposal, Guessing]:
        proposal, after = super().propose(tokens, mask, most, uniform, state)
        right = self.text[:, self.place : self.place + proposal.tokens.shape[1]]
        is_right = torch.rand(right.shape, generator=self.generator) < self.rate
        return proposal._replace(tokens=torch.where(is_right, right, (right + 1) % self.stepper.vocabulary)), after

    def settle(self, accepted: Tensor, state: State) -> Settled:
        self.place += int(accepted) + 1
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
            found, acceptance = speculative_sequences(
                stepper, Agreeing(draft, text, rate), prompt, max_new=options.max_new
            )
            best = [min(best[0], middle - start), min(best[1], time.process_time() - middle)]
            assert torch.equal(found.tokens, text)
        calls = 1 + float(acceptance.accepted / acceptance.rounds)
        step = f"{1000 * best[0] / options.max_new:.1f} ms a plain step"
        print(
            f"{rate:.0%} of guesses right: {best[0] / best[1]:.2f} times as fast by CPU time, {calls:.2f} tokens a"
            f" call; {step}",
            flush=True,
        )


class Timed(NamedTuple):
    seconds: float
    cpu: float  # seconds of CPU time, which other processes change less
    text: str
    calls: int
    proposed: int
    accepted: int


def timed(run: Run, prompt: str, draft: "Run | str | None", options: dict[str, Any]) -> Timed:
    start, begun = time.perf_counter(), time.process_time()
    found = run.generate(prompt, **options, **({} if draft is None else {"draft": draft}))
    return Timed(
        time.perf_counter() - start,
        time.process_time() - begun,
        found.text,
        *(found.guessed or (len(found.tokens) - 1, 0, 0)),
    )


def compare(run: Run, draft: "Run | str", prompts: Sequence[str], rounds: int, options: dict[str, Any]) -> str:
    """Time over time, each the least of several rounds a prompt, plain and drafted in turn."""
    seconds, cpu = [0.0, 0.0], [0.0, 0.0]
    calls, accepted, proposed, same = 0, 0, 0, 0
    for prompt in prompts:
        both = [(timed(run, prompt, None, options), timed(run, prompt, draft, options)) for _ in range(rounds)]
        for side in (0, 1):
            seconds[side] += min(pair[side].seconds for pair in both)
            cpu[side] += min(pair[side].cpu for pair in both)
        one, other = both[0]
        calls, accepted, proposed = calls + other.calls, accepted + other.accepted, proposed + other.proposed
        same += one.text == other.text
    texts = f", {same} of {len(prompts)} texts are the same" if options["method"] == "greedy" else ""
    guesses = f"{accepted / max(proposed, 1):.0%} of guesses accepted, {1 + accepted / max(calls, 1):.2f} tokens a call"
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
            asked = {"method": method, "temperature": temperature, "max_new": options.max_new}
            told = compare(run, draft, options.prompt or SPEAKERS, options.rounds, asked)
            print(f"{name}, {method}{'' if method == 'greedy' else f' at {temperature}'}: {told}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speculation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(required=True)

    def add(name: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        part = parts.add_parser(name)
        part.set_defaults(do=run)
        return part

    equal = add("equality", equality)
    equal.add_argument("--prompts", type=int, default=10_000, metavar="N", help="over all models and both precisions")
    equal.add_argument("--rows", type=int, default=50, metavar="N", help="prompts that are continued together")
    fast = add("speed", speed)
    fast.add_argument("run", metavar="RUN")
    fast.add_argument("drafts", metavar="DRAFT", nargs="+", help="a smaller run, or `prompt`")
    fast.add_argument("--max-new", type=int, default=300, metavar="N")
    fast.add_argument("--rounds", type=int, default=3, metavar="N")
    fast.add_argument("--prompt", action="append", metavar="TEXT")
    alike = add("sizes", sizes)
    alike.add_argument("--layers", type=int, default=8, metavar="N")
    alike.add_argument("--dim", type=int, default=384, metavar="N")
    alike.add_argument(
        "--agree", type=float, action="append", metavar="P", help="how often a guess is right (default: 0.6 to 0.9)"
    )
    alike.add_argument("--max-new", type=int, default=200, metavar="N")
    alike.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args(arguments)
    options.do(options)


if __name__ == "__main__":
    main()
