"""Decoding on a CPU, compared with inference runtimes: CTranslate2, ONNX Runtime and llama.cpp, in float32 and in
int8."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from clew.bench.published import generate_published, generation, gpt2_model, llama_model, marian_model
from clew.bench.runtimes import ctranslate2_generator, ctranslate2_translator, llama_cpp, onnx_beam, onnx_greedy
from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload, decoding_cost
from clew.bench.workloads import transformer_beam
from clew.bench.workloads.gpt_sizes import GPT2, GPTSizes
from clew.bench.workloads.llama_decode import LlamaSizes
from clew.bench.workloads.steps import decode_greedily
from clew.bench.workloads.transformer_beam import BEAMS, base_transformer, run_beam
from clew.layers.precision import quantise

FLOAT = f"{OURS}, float32"
RUNTIMES = {"CTranslate2": "ctranslate2", "ONNX Runtime": "onnxruntime", "llama.cpp": "xllamacpp"}
"""The peers, each with the package that it needs."""
CPU = torch.device("cpu")
GPT, SMALL_GPT = GPTSizes(512, 384, 6, 6, 256), GPTSizes(512, 128, 2, 2, 64)
LLAMA, SMALL_LLAMA = LlamaSizes(512, 384, 8, 6, 1024, 256), LlamaSizes(512, 128, 2, 2, 352, 64)
PROMPT = 16


def peers(
    compute: str, calls: dict[str, Callable[[], Call]], theirs: Callable[[], Call], ours: Callable[[], Call]
) -> list[Side]:
    """Return the sides of the peers. The first is transformers in float32; it has no int8 of its own, so in int8 the
    first is our own model in float32."""
    runtimes = [Side(name, call, needs=RUNTIMES[name]) for name, call in calls.items()]
    return (
        [Side("transformers", theirs, needs="transformers"), *runtimes]
        if compute == "float32"
        else [Side(FLOAT, ours), *runtimes]
    )


def generation_workload(
    name: str, about: str, full: Any, quick: Any, model: Callable[[dict[str, int]], Any], compute: str, new: int
) -> Workload:
    """Build a workload for greedy decoding of one text with a model of these sizes."""

    def build(setting: Setting) -> Work:
        sizes, written = setting.sizes((full, new), quick=(quick, 24))
        prompt = torch.randint(4, sizes.vocabulary - 1, (1, PROMPT))

        def ours(compute: str) -> Call:
            task = sizes.ours(CPU, torch.float32).eval()
            quantise(task, compute)
            return decode_greedily(task, prompt, written)

        def published(run: Callable[[Any, Tensor, int, str], Call]) -> Call:
            return run(model(sizes._asdict()), prompt, written, compute)

        calls: dict[str, Callable[[], Call]] = {
            "CTranslate2": lambda: published(ctranslate2_generator),
            "ONNX Runtime": lambda: onnx_greedy(sizes.ours(CPU, torch.float32).eval(), prompt, written, compute),
            "llama.cpp": lambda: published(llama_cpp),
        }

        def theirs() -> Call:
            return generate_published(model(sizes._asdict()), prompt, written, torch.float32)

        sides = [Side(OURS, partial(ours, compute)), *peers(compute, calls, theirs, partial(ours, "float32"))]
        cost = sizes.decoding_cost(1, PROMPT, written, torch.int8 if compute == "int8" else torch.float32)
        return Work(sides, f"{sizes}, {compute}, one text, {written} tokens after {PROMPT}", written, cost)

    return workload(name, about, build, compute, RUNTIMES)


def translation_workload(compute: str) -> Workload:
    """Build a workload for beam search of one sentence with the base Transformer."""

    def build(setting: Setting) -> Work:
        sizes, length, new = setting.sizes((transformer_beam.FULL, 16, 32), quick=(transformer_beam.QUICK, 10, 10))
        source = torch.randint(4, sizes["vocabulary"] - 1, (1, length))

        def ours(compute: str) -> Call:
            task = base_transformer(sizes)
            quantise(task, compute)
            return run_beam(task, source, None, new)

        def theirs() -> Call:
            model, start = marian_model(sizes), sizes["vocabulary"] - 1
            return generation(model, source, max_new_tokens=new, num_beams=BEAMS, decoder_start_token_id=start)

        calls: dict[str, Callable[[], Call]] = {
            "CTranslate2": lambda: ctranslate2_translator(marian_model(sizes), source, new, BEAMS, compute),
            "ONNX Runtime": lambda: onnx_beam(base_transformer(sizes), source, new, BEAMS, compute),
        }
        sides = [Side(OURS, partial(ours, compute)), *peers(compute, calls, theirs, partial(ours, "float32"))]
        layers, dim = sizes["num_layers"], sizes["dim"]
        weights = layers * 14 * dim**2 + sizes["vocabulary"] * dim
        cost = decoding_cost(
            weights, BEAMS, new, torch.int8 if compute == "int8" else torch.float32, cached=layers * dim * new
        )
        shape = f"{layers} + {layers} layers of {dim}, {compute}"
        return Work(sides, f"{shape}, beam {BEAMS}, one sentence, {new} tokens after {length}", new, cost)

    return workload(
        "translation-runtimes", "beam search of one sentence", build, compute, ("CTranslate2", "ONNX Runtime")
    )


def workload(name: str, about: str, build: Callable[[Setting], Work], compute: str, runtimes: Any) -> Workload:
    first = "transformers" if compute == "float32" else FLOAT
    name = name if compute == "float32" else f"{name}-{compute}"
    return Workload(
        name, f"{about} compared with runtimes, {compute}", build, (first, *runtimes), devices=("cpu",), rounds=9
    )


RUNTIME_WORKLOADS = [
    each
    for compute in ("float32", "int8")
    for each in (
        generation_workload(
            "gpt-runtimes", "greedy decoding with a GPT, 6 x 384,", GPT, SMALL_GPT, gpt2_model, compute, 128
        ),
        generation_workload(
            "gpt2-runtimes", "greedy decoding with GPT-2's sizes", GPT2, SMALL_GPT, gpt2_model, compute, 32
        ),
        generation_workload(
            "llama-runtimes", "greedy decoding with a Llama, 8 x 384,", LLAMA, SMALL_LLAMA, llama_model, compute, 128
        ),
        translation_workload(compute),
    )
]
