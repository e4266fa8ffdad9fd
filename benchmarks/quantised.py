"""`python -m benchmarks.quantised [RUN]`: decoding with weights in float32, int8 and int4, timed in turns.

A character GPT of 6 x 384 decodes greedily with 1 and 16 rows; the base Transformer decodes with beam 5. Their weights
are random, so only speed and memory are meaningful. RUN, the directory of a language model's run, is measured with its
trained weights. Also printed: the share of tokens that equal those of float32, and the increase of the loss on the
answer of float32, in nats per token. On a CPU, times are CPU times of one thread.
"""

import argparse
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from benchmarks.side_by_side import default_device
from clew.bench.timing import interleave, ratio, synchroniser
from clew.bench.workloads.gpt_sizes import CHARACTERS
from clew.bench.workloads.transformer_beam import BEAMS, FULL, numbered_words
from clew.decoding.beam import beam_search
from clew.decoding.sampling import greedy_sequences
from clew.layers.precision import num_bytes, quantise
from clew.models.transformer import TransformerConfig, build_transformer
from clew.runs.loaded import load_run
from clew.sources.tokens import Tokens
from clew.tasks.shared.sequence import SequenceBatch, SequenceToSequence

PRECISIONS = ("float32", "int8", "int4")


def compare(
    name: str, task: Any, stepper: Callable[[Any], Any], decode: Callable[[Any], Tensor], prompt: Tensor, rounds: int
) -> None:
    """Compare precisions; `decode(stepper)` returns the tokens (rows, new) that follow a prompt (rows, length)."""
    tasks = {precision: quantise(deepcopy(task), precision) for precision in PRECISIONS}
    answers = {precision: decode(stepper(quantised)) for precision, quantised in tasks.items()}
    calls = {precision: lambda task=quantised: decode(stepper(task)) for precision, quantised in tasks.items()}
    clock = time.process_time if default_device().type == "cpu" else time.perf_counter
    times = interleave(calls, rounds=rounds, wait=synchroniser(default_device()), clock=clock)
    reference = answers["float32"]
    losses = {precision: mean_loss(stepper(tasks[precision]), prompt, reference) for precision in PRECISIONS}
    print(f"{name}: {reference.numel()} tokens")
    for precision in PRECISIONS:
        relative = ratio(times[precision], times["float32"])
        print(
            f"  {precision:8} {reference.numel() / times[precision].median:>8,.0f} tokens/s  time {relative.value:.2f}x"
            f" ({relative.low:.2f} to {relative.high:.2f})   {num_bytes(tasks[precision]) / 1e6:>6.1f} MB  "
            f" {(answers[precision] == reference).double().mean():>4.0%} equal tokens  "
            f" {losses[precision] - losses['float32']:+.5f} nats",
            flush=True,
        )


@torch.no_grad()
def mean_loss(stepper: Any, prompt: Tensor, answer: Tensor) -> float:
    """Compute the mean of -log p over the tokens of an answer, given the prompt."""
    tokens = torch.cat([prompt, answer], 1)
    log_probs, _ = stepper(tokens[:, :-1], None, stepper.initial_state(len(tokens)))
    return -float(log_probs[:, prompt.shape[1] - 1 :].gather(-1, answer[..., None]).mean())


def compare_gpt(name: str, task: Any, prompt: Tensor, new: int, rounds: int = 7) -> None:
    compare(
        name,
        task,
        lambda task: task.stepper(),
        lambda stepper: greedy_sequences(stepper, prompt, max_new=new).tokens,
        prompt,
        rounds,
    )


def compare_transformer(rounds: int = 3) -> None:
    batch, length, new = 4, 16, 16
    vocabulary, dim, layers, heads = FULL.values()
    config = TransformerConfig(dim=dim, num_layers=layers, num_heads=heads, dropout=0.0, shared_embeddings=True)
    words = numbered_words(vocabulary)
    body = build_transformer(config, Tokens(vocabulary), Tokens(vocabulary))
    task = SequenceToSequence(body, words, words).to(default_device()).eval()
    start = torch.full((batch, 1), task.start, device=default_device())
    source = torch.randint(2, vocabulary, (batch, length), device=default_device())
    source_batch = SequenceBatch(
        source, None, start, start, None, torch.zeros(batch, dtype=torch.long, device=default_device())
    )

    def decode(stepper: Any) -> Tensor:
        return beam_search(stepper, start, beams=BEAMS, max_new=new, end=None).tokens[:, 0]

    name = f"Transformer {layers} + {layers} x {dim}, beam {BEAMS}, batch {batch}"
    with torch.no_grad():
        compare(name, task, lambda task: task.stepper(source_batch), decode, start, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("run", metavar="RUN", nargs="?", help="run directory of a language model")
    parser.add_argument("--prompt", default="\n", metavar="TEXT", help="the prompt")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if options.run is not None:
        run = load_run(options.run, device=str(default_device()))
        prompt = torch.tensor([run.tokenizer.encode(options.prompt)], device=default_device())
        compare_gpt(options.run, run.task, prompt, 96)
        return
    for batch in (1, 16):
        task = CHARACTERS.ours(default_device()).eval()
        compare_gpt(
            f"GPT {CHARACTERS}, batch {batch}",
            task,
            torch.randint(CHARACTERS.vocabulary, (batch, 16), device=default_device()),
            64,
        )
    compare_transformer()


if __name__ == "__main__":
    main()
