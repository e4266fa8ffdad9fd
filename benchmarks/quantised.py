"""`python -m benchmarks.quantised [RUN]`: decoding with weights in float32, int8 and int4, timed in turns.

A character GPT of 6 x 384 writes greedily, for one row and for sixteen; the base Transformer searches with 5 beams.
Their weights are drawn, so that only speed and memory mean much; RUN, a language model's directory, is measured with
what its weights know. Beside the speed: the share of tokens that are those of float32, and how much more surprising the
tokens of float32's answer are, in nats a token. On a CPU times are those of one thread, without what others take of it.
"""

import argparse
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from benchmarks.side_by_side import device
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
    """`decode(stepper)` gives the tokens (rows, new) that follow a prompt (rows, length)."""
    tasks = {precision: quantise(deepcopy(task), precision) for precision in PRECISIONS}
    answers = {precision: decode(stepper(each)) for precision, each in tasks.items()}
    calls = {precision: lambda each=each: decode(stepper(each)) for precision, each in tasks.items()}
    clock = time.process_time if device().type == "cpu" else time.perf_counter
    times = interleave(calls, rounds=rounds, wait=synchroniser(device()), clock=clock)
    whole = answers["float32"]
    losses = {precision: surprise(stepper(each), prompt, whole) for precision, each in tasks.items()}
    print(f"{name}: {whole.numel()} tokens")
    for precision in PRECISIONS:
        taken = ratio(times[precision], times["float32"])
        print(
            f"  {precision:8} {whole.numel() / times[precision].median:>8,.0f} tokens/s   time {taken.value:.2f}x"
            f" ({taken.low:.2f} to {taken.high:.2f})   {num_bytes(tasks[precision]) / 1e6:>6.1f} MB  "
            f" {(answers[precision] == whole).double().mean():>4.0%} the same tokens  "
            f" {losses[precision] - losses['float32']:+.5f} nats",
            flush=True,
        )


@torch.no_grad()
def surprise(stepper: Any, prompt: Tensor, answer: Tensor) -> float:
    """-log p of an answer's tokens after the prompt, their mean."""
    tokens = torch.cat([prompt, answer], 1)
    log_probs, _ = stepper(tokens[:, :-1], None, stepper.initial_state(len(tokens)))
    return -float(log_probs[:, prompt.shape[1] - 1 :].gather(-1, answer[..., None]).mean())


def compare_gpt(name: str, task: Any, prompt: Tensor, new: int, rounds: int = 7) -> None:
    compare(
        name,
        task,
        lambda each: each.stepper(),
        lambda step: greedy_sequences(step, prompt, max_new=new).tokens,
        prompt,
        rounds,
    )


def compare_transformer(rounds: int = 3) -> None:
    batch, length, new = 4, 16, 16
    vocabulary, dim, layers, heads = FULL.values()
    config = TransformerConfig(dim=dim, num_layers=layers, num_heads=heads, dropout=0.0, shared_embeddings=True)
    words = numbered_words(vocabulary)
    body = build_transformer(config, Tokens(vocabulary), Tokens(vocabulary))
    task = SequenceToSequence(body, words, words).to(device()).eval()
    start = torch.full((batch, 1), task.start, device=device())
    source = torch.randint(2, vocabulary, (batch, length), device=device())
    read = SequenceBatch(source, None, start, start, None, torch.zeros(batch, dtype=torch.long, device=device()))

    def decode(step: Any) -> Tensor:
        return beam_search(step, start, beams=BEAMS, max_new=new, end=None).tokens[:, 0]

    name = f"Transformer {layers} + {layers} x {dim}, beam {BEAMS}, batch {batch}"
    with torch.no_grad():
        compare(name, task, lambda each: each.stepper(read), decode, start, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("run", metavar="RUN", nargs="?", help="a language model's run directory")
    parser.add_argument("--prompt", default="\n", metavar="TEXT", help="what the run goes on from")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if options.run is not None:
        run = load_run(options.run, device=str(device()))
        prompt = torch.tensor([run.tokenizer.encode(options.prompt)], device=device())
        compare_gpt(options.run, run.task, prompt, 96)
        return
    for batch in (1, 16):
        task = CHARACTERS.ours(device()).eval()
        compare_gpt(
            f"GPT {CHARACTERS}, batch {batch}",
            task,
            torch.randint(CHARACTERS.vocabulary, (batch, 16), device=device()),
            64,
        )
    compare_transformer()


if __name__ == "__main__":
    main()
