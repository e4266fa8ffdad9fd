"""Python code that runs an export without clew, shown on its model card."""

from collections.abc import Sequence

from clew.interop.signatures import Program
from clew.runs.loaded import Run
from clew.sources.words import WordReader
from clew.text.tokenizer import Tokenizer

OPENINGS = {
    "onnx": (
        """
import json
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

about = json.loads(Path("export.json").read_text(encoding="utf-8"))
programs = {name: onnxruntime.InferenceSession(program["file"]) for name, program in about["programs"].items()}


def run(name, tensors):
    inputs, outputs = ([port["name"] for port in about["programs"][name][side]] for side in ("inputs", "outputs"))
    return dict(zip(outputs, programs[name].run(outputs, {each: tensors[each] for each in inputs})))
"""
    ),
    "torch": (
        """
import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

about = json.loads(Path("export.json").read_text(encoding="utf-8"))
programs = {name: torch.export.load(program["file"]).module() for name, program in about["programs"].items()}


def run(name, tensors):
    inputs, outputs = ([port["name"] for port in about["programs"][name][side]] for side in ("inputs", "outputs"))
    results = programs[name](*(torch.from_numpy(tensors[each]) for each in inputs))
    return {each: tensor.numpy() for each, tensor in zip(outputs, results)}
"""
    ),
}

READ = """
def read_tokenizer(role):
    tokenizer = Tokenizer.from_file(about["vocabulary"][role])
    tokenizer.encode_special_tokens = True  # "<eos>" in a text is ordinary text
    return tokenizer
"""

STEP = """
def step(tensors, tokens):
    ids = np.array([tokens])
    mask = np.ones_like(ids, dtype=bool)  # with several rows: False at padding
    results = run("step", {**tensors, "tokens": ids, "mask": mask})
    after = {name.replace("next.", "state.", 1): value for name, value in results.items() if name.startswith("next.")}
    return {**tensors, **after}, int(results["log_probs"][0, -1].argmax())
"""

CONTINUE = """
tokenizer = read_tokenizer("tokenizer")
sizes = {"batch": 1, "past": 0}  # the initial state is zeros, with no past
state = {
    port["name"]: np.zeros([sizes.get(side, side) for side in port["shape"]], port["dtype"])
    for port in about["programs"]["step"]["inputs"]
    if port["name"].startswith("state.")
}
tokens = [*about["before"], *tokenizer.encode("The", add_special_tokens=False).ids]
state, new = step(state, tokens)
for _ in range(10):
    tokens.append(new)
    state, new = step(state, [new])
print(tokenizer.decode(tokens, skip_special_tokens=False))
"""

SEQUENCE = """
source, target = read_tokenizer("source"), read_tokenizer("target")
ids = np.array([[*FIRST, *source.encode("TEXT", add_special_tokens=False).ids, *about["source_after"]]])
read = {"source": ids, "source_mask": np.ones_like(ids, dtype=bool)}
state, new = step({**read, **run("encoder", read)}, [about["start"]])
tokens = []
while new != about["end"] and len(tokens) < 20:
    tokens.append(new)
    state, new = step(state, [new])
print(target.decode(tokens, skip_special_tokens=False))
"""

LETTERS = """
def letters_of(words):
    rows = [[257, *(byte + 1 for byte in word.encode()[:48]), 258] for word in words]
    return np.array([[row + [0] * (max(map(len, rows)) - len(row)) for row in rows]])
"""

WORDS = """
tokenizer = read_tokenizer("ROLE")
words = "TEXT".split()  # punctuation marks are words
encoded = tokenizer.encode(" ".join(words), add_special_tokens=FRAMED)
tensors = {"tokens": np.array([encoded.ids]), "mask": np.ones((1, len(encoded.ids)), dtype=bool)}
"""

PLACES = """
def places_of(encoded, words):
    stops = np.cumsum([len(word) + 1 for word in words]) - 1  # the end of each word in the text
    word_of = [int(np.searchsorted(stops, stop)) if stop > start else -1 for start, stop in encoded.offsets]
    starts = [word_of.index(word) for word in range(len(words))]
    ends = [len(word_of) - word_of[::-1].index(word) for word in range(len(words))]
    return np.array([starts]), np.array([ends])
"""

PIECES = """\
tensors["starts"], tensors["ends"] = places_of(encoded, words)
tensors["word_mask"] = np.ones((1, len(words)), dtype=bool)
"""

CONTEXT = """\
other = read_tokenizer("context")  # of the context body, whose vectors the model also reads
read = other.encode(" ".join(words), add_special_tokens=FRAMED)
ids = [*MARK, *read.ids, *MARK]
tensors["context_tokens"], tensors["context_mask"] = np.array([ids]), np.ones((1, len(ids)), dtype=bool)
tensors["context_starts"], tensors["context_ends"] = (places + len(MARK) for places in places_of(read, words))
"""

SECOND = """\
tensors |= {f"second_{name}": tensor for name, tensor in tensors.items()}  # the second text
"""


def usage_of(run: Run, program: Program, to: str) -> str:
    """Return the code that loads and runs a program."""
    tokenizers = [(role, each) for role, each in run.vocabularies.items() if isinstance(each, Tokenizer)]
    if not tokenizers:
        return f"{OPENINGS[to].strip()}\n\n\n{program.usage or shown_ports(program)}"
    role, tokenizer = tokenizers[0]
    sample = sample_of(tokenizer)
    lines = program.usage or f'print(run("{program.name}", tensors))\n'
    if not program.alone:
        lines = sentence_lines(run, program.inputs, role, tokenizer) + lines
    lines = lines.replace("TEXT", sample).replace("QUESTION", sample.split()[0])
    blocks = [
        READ,
        *(LETTERS for _ in range("letters_of(" in lines)),
        *(PLACES for _ in range("places_of(" in lines)),
        lines,
    ]
    return "\n\n\n".join(block.strip() for block in (OPENINGS[to], *blocks))


def shown_ports(program: Program) -> str:
    """Return code that prints the inputs and outputs, for a program that reads no text."""
    return f'print(about["programs"]["{program.name}"])\n'


def sentence_lines(run: Run, inputs: Sequence[str], role: str, tokenizer: Tokenizer) -> str:
    """Return code that makes `tensors` from a sentence, for a program with these inputs."""
    lines = WORDS.replace("ROLE", role).replace("FRAMED", str(tokenizer.frame is not None))
    if "letters" in inputs:
        lines += 'tensors["letters"] = letters_of(words)\n'
    if "segments" in inputs:
        lines += 'tensors["segments"] = np.array([encoded.type_ids])\n'
    if (other := getattr(getattr(run.task, "reader", None), "context", None)) is not None:
        lines += context_lines(other)
    if "starts" in inputs:
        lines += PIECES
    return lines + SECOND if "second_mask" in inputs else lines


def context_lines(reader: WordReader) -> str:
    """Return code that makes the context body's inputs from the same words."""
    tokenizer = reader.tokenizer
    lines = CONTEXT.replace("MARK", str([] if reader.mark is None else [reader.mark]))
    lines = lines.replace("FRAMED", str(tokenizer.frame is not None))
    if reader.letters:
        mark = [] if reader.mark is None else [tokenizer.token(reader.mark)]
        spelt = (
            "words"
            if not reader.running or tokenizer.inner.normalizer is None
            else "map(other.normalizer.normalize_str, words)"
        )
        lines += f'tensors["context_letters"] = letters_of([*{mark}, *{spelt}, *{mark}])\n'
    if reader.segmented:
        lines += 'tensors["context_segments"] = np.array([read.type_ids])\n'
    return lines


def sample_of(tokenizer: Tokenizer) -> str:
    """Return three words that the tokenizer knows, or three that it can split."""
    known_words = [token for token in tokenizer.tokens if token.isalpha()] if tokenizer.unit == "word" else []
    return " ".join(known_words[:3]) or "where is it"
