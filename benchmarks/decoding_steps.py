"""Greedy decoding and beam search on a GPU: tokens per second of whole calls, and of single steps, computed from the
difference between two lengths.

    python -m benchmarks.decoding_steps [gpt2] [lstm] [beam] [--device cuda] [--profile]

The models have random bfloat16 weights: GPT-2's sizes with batch 1, 32 and 256, 128 tokens after a prompt of 128; an
LSTM of 2 x 1024 with batch 1 and 64, 512 tokens after 16; the base Transformer with beam 5, batch 64 (`clew bench
transformer-beam` without its peer). --profile lists the kernels of a call. --quick uses small sizes.
"""

import argparse
import statistics
from collections.abc import Callable

import torch

from clew.bench.profiling import profile_call
from clew.bench.timing import Call, synchroniser, timed
from clew.bench.workload import Setting
from clew.bench.workloads.gpt_sizes import GPT2, SMALL
from clew.bench.workloads.steps import decode_greedily
from clew.bench.workloads.transformer_beam import TRANSFORMER_BEAM
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel

ROUNDS = 5


def median_of(call: Call, device: torch.device) -> float:
    """Return the median seconds of a call, after calls in which it captures its graphs."""
    for _ in range(3):
        call()
    return statistics.median(timed(call, synchroniser(device)) for _ in range(ROUNDS))


def show_kernels(call: Call, device: torch.device) -> None:
    for kernel_time in profile_call(call, device, synchroniser(device)):
        print(f"    {kernel_time.kernel[:90]:90} {kernel_time.runs:8,.0f} {1000 * kernel_time.seconds:9.2f} ms")


def show_decoding(
    name: str, task: LanguageModel, batches: tuple[int, ...], prompt: int, new: int, options: argparse.Namespace
) -> None:
    device = torch.device(options.device)
    for batch in batches:
        tokens = torch.randint(task.body.vocabulary, (batch, prompt), device=device)
        short, long = (median_of(decode_greedily(task, tokens, count), device) for count in (new, 2 * new))
        call_speed, step_speed = batch * new / short, batch * new / (long - short)
        print(
            f"{name}, batch {batch}, {new} after {prompt}: {call_speed:,.0f} tokens/s,"
            f" single steps {step_speed:,.0f} tokens/s",
            flush=True,
        )
        if options.profile:
            show_kernels(decode_greedily(task, tokens, new), device)


def show_gpt2(options: argparse.Namespace) -> None:
    sizes, batches, length = (SMALL, (1, 3), 24) if options.quick else (GPT2, (1, 32, 256), 128)
    show_decoding(
        f"GPT {sizes}",
        sizes.ours(torch.device(options.device), torch.bfloat16).eval(),
        batches,
        length,
        length,
        options,
    )


def show_lstm(options: argparse.Namespace) -> None:
    dim, vocabulary, batches, new = (64, 100, (1, 3), 24) if options.quick else (1024, 10_000, (1, 64), 512)
    body = build_recurrent(RecurrentConfig(dim=dim, num_layers=2), Tokens(vocabulary))
    task = LanguageModel(body, None).to(options.device, torch.bfloat16).eval()  # type: ignore[arg-type]
    show_decoding(f"LSTM 2 x {dim}", task, batches, 16, new, options)


def show_beam(options: argparse.Namespace) -> None:
    device = torch.device(options.device)
    workload = TRANSFORMER_BEAM.build(Setting(device, options.quick))
    call = workload.sides[0].make()
    print(f"Transformer, {workload.sizes}: {workload.tokens / median_of(call, device):,.0f} tokens/s", flush=True)
    if options.profile:
        show_kernels(call, device)


MODELS: dict[str, Callable[[argparse.Namespace], None]] = {"gpt2": show_gpt2, "lstm": show_lstm, "beam": show_beam}


def main(arguments: list[str] | None = None) -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding_steps", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help=f"models to measure: {', '.join(MODELS)} (default: all)"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--profile", action="store_true", help="list the kernels of a call")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args(arguments)
    if unknown := set(options.models) - set(MODELS):
        parser.error(f"unknown model {min(unknown)!r}; known: {', '.join(MODELS)}")
    for name in options.models or MODELS:
        MODELS[name](options)


if __name__ == "__main__":
    main()
