"""Inference runtimes generate the same as the models that were exported to them."""

import pytest
import torch

from clew.bench.gguf_files import BYTES
from clew.bench.published import generate_published, generation, gpt2_model, llama_model, marian_model
from clew.bench.runtimes import (
    check_lengths,
    ctranslate2_generator,
    ctranslate2_translator,
    llama_cpp,
    onnx_beam,
    onnx_greedy,
)
from clew.bench.workload import Setting
from clew.bench.workloads import WORKLOADS
from clew.bench.workloads.runtimes import SMALL_GPT, SMALL_LLAMA
from clew.bench.workloads.steps import decode_greedily
from clew.bench.workloads.transformer_beam import base_transformer, run_beam

CPU, VOCABULARY, NEW = torch.device("cpu"), 3000, 12
MODELS = {"gpt2": gpt2_model, "llama": llama_model}
SIZES = {"vocabulary": VOCABULARY, "dim": 64, "num_layers": 2, "num_heads": 2, "hidden_dim": 96, "max_length": 64}
PROMPT = torch.arange(400, 407)[None]
name = pytest.mark.parametrize("name", MODELS)


def published_model(name: str):
    torch.manual_seed(3)
    model = MODELS[name](SIZES)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(4)  # otherwise all tokens have about the same probability
    return model, generate_published(model, PROMPT, NEW, torch.float32)()[0, PROMPT.shape[1] :].tolist()


@pytest.mark.slow
@name
def test_ctranslate2_generates_like_transformers(name):
    pytest.importorskip("ctranslate2")
    model, expected = published_model(name)
    assert ctranslate2_generator(model, PROMPT, NEW, "float32")() == [expected]
    assert len(ctranslate2_generator(model, PROMPT, NEW, "int8")()[0]) == NEW


@pytest.mark.slow
@name
def test_llama_cpp_generates_like_transformers(name):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gguf")
    model, expected = published_model(name)
    words = "".join(str(token - BYTES - 3) for token in expected if token >= BYTES + 3)
    assert words
    text = llama_cpp(model, PROMPT, NEW, "float32")()
    assert "".join(letter for letter in text if letter.isdigit()) == words
    assert llama_cpp(model, PROMPT, NEW, "int8")()


@pytest.mark.slow
def test_ctranslate2_translates_like_transformers():
    pytest.importorskip("ctranslate2")
    torch.manual_seed(3)
    model = marian_model(SIZES)
    expected = generation(model, PROMPT, max_new_tokens=NEW, num_beams=5, decoder_start_token_id=VOCABULARY - 1)()
    text = ctranslate2_translator(model, PROMPT, NEW, 5, "float32")()
    assert [int(word) + 2 for word in text[0]] == expected[0, 1:].tolist()


@pytest.mark.slow
# The quantisation of ONNX leaves a temporary folder to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("sizes", [SMALL_GPT, SMALL_LLAMA])
def test_onnx_runtime_generates_like_clew(sizes):
    pytest.importorskip("onnxruntime")
    torch.manual_seed(3)
    task = sizes.ours(CPU, torch.float32).eval()
    expected = decode_greedily(task, PROMPT, NEW)().tokens
    assert onnx_greedy(task, PROMPT, NEW, "float32")().tolist() == expected.tolist()
    assert onnx_greedy(task, PROMPT, NEW, "int8")().shape == expected.shape


@pytest.mark.slow
def test_onnx_runtime_searches_like_clew():
    pytest.importorskip("onnxruntime")
    torch.manual_seed(3)
    task = base_transformer({"vocabulary": 500, "dim": 64, "num_layers": 2, "num_heads": 2})
    source = torch.arange(4, 18).view(2, 7)
    expected = run_beam(task, source, None, NEW)()
    actual = onnx_beam(task, source, NEW, 5, "float32")()
    assert actual.tokens.tolist() == expected.tokens.tolist()
    torch.testing.assert_close(actual.log_probs, expected.log_probs, rtol=1e-4, atol=1e-4)


def test_a_peer_that_stops_early_is_not_timed():
    assert check_lengths([[1, 2], [3, 4]], 2) == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="generated 1 tokens instead of 2"):
        check_lengths([[1, 2], [3]], 2)


def test_workloads_with_runtimes_run_clew_in_the_same_precision():
    names = [each for each in WORKLOADS if "-runtimes" in each]
    assert len(names) == 8
    for each in names:
        work = WORKLOADS[each].build(Setting(CPU, quick=True))
        assert tuple(side.name for side in work.sides[1:]) == WORKLOADS[each].peers
        assert ("int8" in work.sizes) == each.endswith("-int8")
