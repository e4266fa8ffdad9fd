"""Time of the host in a whole decoding call that replays CUDA graphs, with models so small that arithmetic is
negligible.

    python -m benchmarks.decoding_host [beam] [gpt] [--device cpu] [--profile]

The models have width 16 and the number of layers of the base Transformer (beam 5, 32 tokens) and of GPT-2 (128 tokens
after 16). Replaying a graph does nothing here, so only Python and the launches outside graphs are timed. A CPU has no
graphs; there the same Python code runs with a stand-in for them: a captured function runs once, when it is captured,
and a kernel launch is a small operation of the CPU. Also printed: the number of operations outside graphs, and how
often the host reads a number and therefore waits for the device. --profile lists where the time goes.
"""

import argparse
import cProfile
import pstats
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from clew.bench.timing import Call, synchroniser, timed
from clew.bench.workloads.transformer_beam import numbered_words
from clew.decoding import beam, engine, graphs, sampling
from clew.decoding.beam import beam_search
from clew.decoding.recording import READS, SIZED_BY_DATA
from clew.decoding.sampling import greedy_sequences
from clew.models.gpt import GPTConfig, build_gpt
from clew.models.transformer import TransformerConfig, build_transformer
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.tasks.shared.sequence import SequenceBatch, SequenceToSequence

WIDTH, HEADS, WORDS, ROUNDS = 16, 2, 100, 50


class StubGraph:
    """A stand-in for a captured graph."""

    def replay(self) -> None:
        """Do nothing: tensors keep their values."""


def run_once(function: Callable[[], object], pool: Any = None) -> StubGraph:
    function()
    return StubGraph()


@contextmanager
def graphs_of(device: torch.device) -> Iterator[None]:
    """Within this context decoding captures its steps, even on a CPU."""
    if device.type == "cuda":
        yield
        return

    def made_for(advance: Any, frame: Any, steps: int, fed: bool, *rest: Any) -> graphs.Captured:
        graph = graphs.Captured(advance, frame, fed)
        graph.restart(advance, frame)
        return graph

    patches = [
        patch.object(graphs, "capture", run_once),
        patch.object(graphs, "side_stream", nullcontext),
        patch.object(engine, "on_current_gpu", lambda tensors: True),
        patch.object(engine, "made_for", made_for),
        *(patch.object(module, "looks_every", lambda device: graphs.LOOK) for module in (beam, sampling)),
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


class Launches(TorchDispatchMode):
    """Count operations that are not views."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view and "_local_scalar_dense" not in str(func)
        return func(*args, **(kwargs or {}))


class HostReads(TorchFunctionMode):
    """Count calls that make the host wait for a number."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") in READS | SIZED_BY_DATA
        return func(*args, **(kwargs or {}))


def beam_call(device: torch.device) -> Call:
    batch, length, new = 8, 8, 32
    words, config = (
        numbered_words(WORDS),
        TransformerConfig(dim=WIDTH, num_layers=6, num_heads=HEADS, dropout=0.0, shared_embeddings=True),
    )
    task = SequenceToSequence(build_transformer(config, Tokens(WORDS), Tokens(WORDS)), words, words).to(device).eval()
    source = torch.randint(2, WORDS, (batch, length), device=device)
    mask = torch.arange(length, device=device) < torch.randint(length // 2, length + 1, (batch, 1), device=device)
    start = torch.full((batch, 1), task.start, device=device)
    source_batch = SequenceBatch(source, mask, start, start, None, torch.zeros_like(start[:, 0]))

    @torch.no_grad()
    def call() -> object:
        return beam_search(task.stepper(source_batch), start, beams=5, max_new=new, end=None)

    return call


def gpt_call(device: torch.device) -> Call:
    length, new = 16, 128
    body = build_gpt(GPTConfig(dim=WIDTH, num_layers=12, num_heads=HEADS, max_length=length + new), Tokens(WORDS))
    task: nn.Module = LanguageModel(body, None).to(device).eval()  # type: ignore[arg-type]
    prompt = torch.randint(WORDS, (4, length), device=device)
    return lambda: greedy_sequences(task.stepper(), prompt, max_new=new)  # type: ignore[operator]


CALLS: dict[str, Callable[[torch.device], Call]] = {"beam": beam_call, "gpt": gpt_call}


def show_host(name: str, device: torch.device, with_profile: bool) -> None:
    with graphs_of(device):
        call = CALLS[name](device)
        for _ in range(4):
            call()
        with patch.object(torch.cuda.CUDAGraph, "replay", lambda graph: None):
            seconds = [timed(call, synchroniser(device)) for _ in range(ROUNDS)]
            with Launches() as launches, HostReads() as reads:
                call()
            least, median = 1e6 * min(seconds), 1e6 * statistics.median(seconds)
            counts = f"{launches.count} operations, {reads.count} reads"
            print(f"{name}: {median:,.0f} us on the host (minimum {least:,.0f}), {counts}", flush=True)
            if with_profile:
                with cProfile.Profile() as profile:
                    call()
                pstats.Stats(profile, stream=sys.stdout).sort_stats("cumtime").print_stats(30)
    engine.forget_graphs()


def main(arguments: list[str] | None = None) -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding_host", description=__doc__.split("\n\n")[0])
    parser.add_argument("calls", nargs="*", metavar="CALL", help=f"calls to measure: {', '.join(CALLS)} (default: all)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", action="store_true", help="list where the time goes")
    options = parser.parse_args(arguments)
    if unknown := set(options.calls) - set(CALLS):
        parser.error(f"unknown call {min(unknown)!r}; known: {', '.join(CALLS)}")
    torch.set_num_threads(1)
    for name in options.calls or CALLS:
        show_host(name, torch.device(options.device), options.profile)


if __name__ == "__main__":
    main()
