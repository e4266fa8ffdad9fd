import re
from pathlib import Path

import torch

from benchmarks.speculation import BODIES, agreement, main, small_model
from clew.decoding.drafts import DraftStepper, PromptLookup

FROZEN = Path(__file__).parent.parent / "runs" / "frozen" / "format-1" / "early"


def test_every_text_is_the_same_in_float64(capsys):
    main(["equality", "--prompts", "48", "--rows", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == list(BODIES)
    assert all(re.match(r"\w+ +float64: 0 of 6 texts differ; \d+% of guesses accepted", line) for line in lines[1::2])


def test_a_text_that_differs_is_counted():
    class Changing:
        """A stepper whose chunks are not its steps."""

        vocabulary = 27

        def __init__(self):
            self.inner = small_model("llama", 1, torch.float64).stepper()

        def initial_state(self, rows, capacity=None):
            return self.inner.initial_state(rows, capacity)

        def __call__(self, tokens, mask, state):
            log_probs, state = self.inner(tokens, mask, state)
            return log_probs.flip(-1) if tokens.shape[1] > 1 else log_probs, state

    stepper = Changing()
    assert agreement(stepper, [PromptLookup(), DraftStepper(stepper.inner)], 8, 4).unequal > 0


def test_speed_is_printed_with_the_acceptance(capsys):
    main(["speed", str(FROZEN), "prompt", str(FROZEN), "--max-new", "12", "--rounds", "1", "--prompt", "the"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == [
        "prompt, greedy",
        "prompt, sample at 0.8",
        "prompt, sample at 1.0",
    ]
    assert lines[3].endswith("100% of guesses accepted, 5.50 tokens per call, 1 of 1 texts are equal")
    assert re.search(r": \d+\.\d\d times as fast \(\d+\.\d\d s, \d+\.\d\d s\), by CPU time \d+\.\d\d; ", lines[0])


def test_sizes_are_timed_with_guesses_that_are_right_at_the_given_rate(capsys):
    main(["sizes", "--layers", "2", "--dim", "32", "--agree", "0", "--agree", "1", "--max-new", "12", "--rounds", "1"])
    never, always = capsys.readouterr().out.splitlines()
    assert never.startswith("0% of guesses right: ") and ", 1.00 tokens per call; " in never
    assert always.startswith("100% of guesses right: ") and ", 5.50 tokens per call; " in always
