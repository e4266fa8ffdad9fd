"""Peers that are inference runtimes: CTranslate2, ONNX Runtime and llama.cpp, on a CPU, in float32 or int8.

Each runs a model with random weights in its own format, which its own converter writes to a temporary folder:
CTranslate2 and llama.cpp from classes of transformers, ONNX Runtime from our own export. All generate the full number
of tokens.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clew.bench.gguf_files import write_gguf
from clew.bench.timing import Call
from clew.core.types import State
from clew.decoding.beam import beam_search
from clew.interop.generators import NEXT, STATE, stepping
from clew.interop.onnx_programs import write_onnx
from clew.interop.programs import quiet, without_gradients
from clew.tasks.uses.programs import SteppingProgram


@contextmanager
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name, quiet():
        yield Path(name)


def ctranslate2_generator(model: Any, prompt: Tensor, max_new: int, compute: str) -> Call:
    """Generate with CTranslate2. `model` is a model of transformers; `compute` is "float32" or "int8"."""
    with folder() as place:
        library, words = convert_model(model, place, compute)
        generator = library.Generator(
            str(place / "converted"), device="cpu", compute_type=compute, **ctranslate2_threads()
        )
    texts = [[words[token] for token in row] for row in prompt.tolist()]
    lengths = {"max_length": max_new, "min_length": max_new}

    def call() -> list[list[int]]:
        results = generator.generate_batch(
            texts, beam_size=1, sampling_topk=1, include_prompt_in_result=False, **lengths
        )
        return check_lengths([row.sequences_ids[0] for row in results], max_new)

    return call


def ctranslate2_translator(model: Any, source: Tensor, max_new: int, beams: int, compute: str) -> Call:
    with folder() as place:
        library, words = convert_model(model, place, compute)
        translator = library.Translator(
            str(place / "converted"), device="cpu", compute_type=compute, **ctranslate2_threads()
        )
    texts = [[words[token] for token in row] for row in source.tolist()]
    lengths = {"max_decoding_length": max_new, "min_decoding_length": max_new}

    def call() -> list[list[str]]:
        results = translator.translate_batch(texts, beam_size=beams, **lengths)
        return check_lengths([row.hypotheses[0] for row in results], max_new)

    return call


def ctranslate2_threads() -> dict[str, int]:
    return {"intra_threads": torch.get_num_threads(), "inter_threads": 1}


def convert_model(model: Any, place: Path, compute: str) -> tuple[Any, list[str]]:
    """Convert a model for CTranslate2 into the folder `converted`; return the library and the words of the model's
    tokens."""
    library = import_module("ctranslate2")
    import_module("transformers").utils.logging.disable_progress_bar()
    model.save_pretrained(place / "published")
    words = write_words(place / "published", model.config.vocab_size)
    converter = import_module("ctranslate2.converters").TransformersConverter(str(place / "published"))
    converter.convert(str(place / "converted"), quantization=None if compute == "float32" else compute)
    return library, words


def write_words(place: Path, vocabulary: int) -> list[str]:
    """Write a tokenizer in transformers' format and return its words, which are numbers; the last is padding, which
    Marian never writes."""
    tokenizers, transformers = import_module("tokenizers"), import_module("transformers")
    words = ["<eos>", "<unk>", *map(str, range(vocabulary - 3)), "<pad>"]
    model = tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    marks = {"eos_token": "<eos>", "bos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(model), **marks).save_pretrained(place)
    return words


def check_lengths(texts: Sequence[Any], max_new: int) -> Any:
    """Return the texts of a peer after checking that all have the full length."""
    if lengths := {len(text) for text in texts} - {max_new}:
        raise RuntimeError(f"generated {min(lengths)} tokens instead of {max_new}")
    return texts


class OnnxStepper:
    """A stepper that runs the programs of our own export in ONNX Runtime."""

    def __init__(self, task: Any, compute: str, source: Tensor | None = None):
        self.vocabulary: int = task.body.vocabulary
        with folder() as place, without_gradients(task):
            programs = stepping(task, SteppingProgram(source is not None, {}))
            sessions = [onnx_session(program, place, compute) for program in programs]
        self.step, self.encoder = sessions[-1], sessions[0]
        self.names = [value.name for value in self.step.get_inputs()]
        self.outputs = [value.name for value in self.step.get_outputs()]
        self.source = source

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        """Run the encoder and return its outputs, once per search; zeros if there is no encoder."""
        if self.source is None:
            state_inputs = [value for value in self.step.get_inputs() if value.name.startswith(STATE)]
            return {value.name: empty(value, rows) for value in state_inputs}
        feeds = {"source": self.source.numpy(), "source_mask": np.ones(self.source.shape, dtype=bool)}
        names = [value.name for value in self.encoder.get_outputs()]
        outputs = {**feeds, **dict(zip(names, self.encoder.run(None, feeds), strict=True))}
        repeats = rows // len(self.source)
        return {name: torch.from_numpy(np.repeat(outputs[name], repeats, 0)) for name in self.names if name in outputs}

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        inputs = {"tokens": tokens, "mask": real, **state}
        outputs = self.step.run(None, {name: np.ascontiguousarray(inputs[name].numpy()) for name in self.names})
        outputs_by_name = dict(zip(self.outputs, map(torch.from_numpy, outputs), strict=True))
        after = {
            STATE + name.removeprefix(NEXT): tensor for name, tensor in outputs_by_name.items() if name.startswith(NEXT)
        }
        return outputs_by_name["log_probs"], {**state, **after}


def empty(value: Any, rows: int) -> Tensor:
    """Return the initial zeros of a step's input, whose sizes may be `batch` and `past` (0)."""
    shape = [side if isinstance(side, int) else rows if side == "batch" else 0 for side in value.shape]
    return torch.zeros(shape, dtype=torch.long if "int64" in value.type else torch.float32)


def onnx_session(program: Any, place: Path, compute: str) -> Any:
    onnxruntime = import_module("onnxruntime")
    path = place / f"{program.name}.onnx"
    write_onnx(program, path)
    if compute == "int8":
        quantization, path = import_module("onnxruntime.quantization"), place / f"{program.name}-int8.onnx"
        quantization.quantize_dynamic(
            place / f"{program.name}.onnx", path, per_channel=True, weight_type=quantization.QuantType.QInt8
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, torch.get_num_threads()
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnx_greedy(task: Any, prompt: Tensor, max_new: int, compute: str) -> Call:
    """Decode greedily with the shortest loop around the step: arrays in, arrays out, and the most probable token."""
    stepper = OnnxStepper(task, compute)

    def call() -> Tensor:
        read, state, generated = prompt, stepper.initial_state(len(prompt)), []
        for _ in range(max_new):
            log_probs, state = stepper(read, None, state)
            read = log_probs[:, -1:].argmax(-1)
            generated.append(read)
        return torch.cat(generated, 1)

    return call


def onnx_beam(task: Any, source: Tensor, max_new: int, beams: int, compute: str) -> Call:
    """Run our own beam search with the programs. The keys and values of the source are repeated for the beams."""
    stepper = OnnxStepper(task, compute, source)
    start = torch.full((len(source), 1), task.start)
    return lambda: beam_search(stepper, start, beams=beams, max_new=max_new, end=None)


def llama_cpp(model: Any, prompt: Tensor, max_new: int, compute: str) -> Call:
    """Generate one text with the server of llama.cpp, called in process."""
    library = import_module("xllamacpp")
    settings = library.CommonParams()
    settings.n_parallel, settings.n_gpu_layers, settings.warmup, settings.verbosity = 1, 0, False, 0
    settings.n_ctx = prompt.shape[1] + max_new + 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = torch.get_num_threads()
    settings.cache_type_k = settings.cache_type_v = library.ggml_type.GGML_TYPE_F32
    with folder() as place:
        settings.model.path = write_gguf(model, str(place / "model.gguf"), compute)
        server = library.Server(settings)
    [tokens] = prompt.tolist()
    request = {
        "prompt": tokens,
        "n_predict": max_new,
        "samplers": ["top_k"],
        "top_k": 1,
        "ignore_eos": True,
        "cache_prompt": False,
    }

    def call() -> str:
        response = server.handle_completions(request)
        check_lengths([range(response["timings"]["predicted_n"])], max_new)
        text: str = response["choices"][0]["text"]
        return text

    return call
