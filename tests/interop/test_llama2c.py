"""Imported llama2.c checkpoints agree with its equations, implemented in NumPy from the file format."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.interop.checkpoints import import_checkpoint
from clew.runs.loaded import load_run

DIM, HIDDEN, LAYERS, HEADS, GROUPS, LENGTH = 16, 20, 2, 4, 2, 32
PIECES = [
    "<unk>",
    "\n<s>\n",
    "\n</s>\n",
    *(f"<0x{byte:02X}>" for byte in range(256)),
    " t",
    "he",
    " the",
    " c",
    "at",
    " cat",
    *"the ca",
]
SCORES = {" the": -1.0, " cat": -2.0, "he": -3.0, " t": -4.0, "at": -5.0, " c": -6.0}


def make(folder: Path, tied: bool, version: int = 0, group: int = 8) -> dict[str, Any]:
    """Write a checkpoint; return its weights, for version 2 after quantisation."""
    draw = np.random.default_rng(3)
    vocabulary, head_dim = len(PIECES), DIM // HEADS
    group_dim = GROUPS * head_dim
    shapes = {
        "table": (vocabulary, DIM),
        "norm_1": (LAYERS, DIM),
        "q": (LAYERS, DIM, DIM),
        "k": (LAYERS, group_dim, DIM),
        "v": (LAYERS, group_dim, DIM),
        "o": (LAYERS, DIM, DIM),
        "norm_2": (LAYERS, DIM),
        "w1": (LAYERS, HIDDEN, DIM),
        "w2": (LAYERS, DIM, HIDDEN),
        "w3": (LAYERS, HIDDEN, DIM),
        "norm": (DIM,),
        "waves": (2, LENGTH, head_dim // 2),
        **({} if tied else {"output": (vocabulary, DIM)}),
    }
    weights = {name: 0.3 * draw.standard_normal(shape) for name, shape in shapes.items()}
    sizes = struct.pack(
        "<7i", DIM, HIDDEN, LAYERS, HEADS, GROUPS, vocabulary if tied or version else -vocabulary, LENGTH
    )
    if version:
        content = (b"24ka" + struct.pack("<i", version) + sizes + bytes([tied]) + struct.pack("<i", group)).ljust(
            256, b"\0"
        )
        order = [
            "norm_1",
            "norm_2",
            "norm",
            "table",
            "q",
            "k",
            "v",
            "o",
            "w1",
            "w2",
            "w3",
            *([] if tied else ["output"]),
        ]
    else:
        content, order = sizes, list(shapes)
    for name in order:
        each = [weights[name]] if len(shapes[name]) < 3 and not name.startswith("norm_") else list(weights[name])
        for layer, weight in enumerate(each):
            if version < 2 or weight.ndim == 1:
                content += weight.astype("<f4").tobytes()
                continue
            groups = weight.reshape(-1, group)
            scales = (np.abs(groups).max(1) / 127).astype("<f4")
            numbers = np.round(groups / scales[:, None]).astype(np.int8)
            content += numbers.tobytes() + scales.tobytes()
            dequantised = (numbers * scales[:, None].astype(np.float64)).reshape(weight.shape)
            if len(each) == 1:
                weights[name] = dequantised
            else:
                weights[name][layer] = dequantised
    (folder / "stories.bin").write_bytes(content)
    tokens = b"".join(
        struct.pack("<fi", SCORES.get(piece, -1e3), len(piece.encode())) + piece.encode() for piece in PIECES
    )
    (folder / "tokenizer.bin").write_bytes(struct.pack("<i", 7) + tokens)
    # Quantised weights are accurate to about the last bit.
    return {name: weight.astype("<f4").astype(np.float64) for name, weight in weights.items()}


def logits(weights: dict[str, Any], tokens: list[int]) -> Any:
    """The forward pass of llama2.c, one token at a time, with rotation of neighbouring features."""
    head_dim, keys, values, rows = DIM // HEADS, [[] for _ in range(LAYERS)], [[] for _ in range(LAYERS)], []

    def norm(x: Any, g: Any) -> Any:
        return g * x / np.sqrt((x**2).mean() + 1e-5)

    def rotated(x: Any, place: int) -> Any:
        y = x.copy()
        for i in range(0, len(x), 2):
            angle = place / 10000 ** ((i % head_dim) / head_dim)
            y[i] = x[i] * np.cos(angle) - x[i + 1] * np.sin(angle)
            y[i + 1] = x[i] * np.sin(angle) + x[i + 1] * np.cos(angle)
        return y

    for place, token in enumerate(tokens):
        x = weights["table"][token].copy()
        for n in range(LAYERS):
            h = norm(x, weights["norm_1"][n])
            q = rotated(weights["q"][n] @ h, place)
            keys[n].append(rotated(weights["k"][n] @ h, place))
            values[n].append(weights["v"][n] @ h)
            context = np.zeros(DIM)
            for head in range(HEADS):
                mine, theirs = slice(head * head_dim, (head + 1) * head_dim), head * GROUPS // HEADS * head_dim
                shared = slice(theirs, theirs + head_dim)
                scores = np.array([q[mine] @ key[shared] / np.sqrt(head_dim) for key in keys[n]])
                attention = np.exp(scores - scores.max())
                attention /= attention.sum()
                context[mine] = sum(a * value[shared] for a, value in zip(attention, values[n], strict=True))
            x = x + weights["o"][n] @ context
            h = norm(x, weights["norm_2"][n])
            inner = weights["w1"][n] @ h
            x = x + weights["w2"][n] @ (inner / (1 + np.exp(-inner)) * (weights["w3"][n] @ h))
        rows.append(weights.get("output", weights["table"]) @ norm(x, weights["norm"]))
    return np.stack(rows)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("tied", [True, False])
def test_a_llama2c_checkpoint_matches_its_equations(tied: bool, version: int, tmp_path: Path) -> None:
    weights = make(tmp_path, tied, version)
    imported = import_checkpoint(tmp_path / "stories.bin", tmp_path / "run")
    assert imported.architecture == "llama2.c"
    run = load_run(tmp_path / "run", device="cpu")
    text = "the cat é"
    ids = [PIECES.index(piece) for piece in (" the", " cat")]
    assert run.tokenizer.encode(text)[:2] == ids and run.tokenizer.decode(run.tokenizer.encode(text)) == text
    tokens = [1, *run.tokenizer.encode(text)]
    with torch.no_grad():
        actual = run.task.logits(run.task.body(torch.tensor([tokens]))[0])[0]
    np.testing.assert_allclose(actual.numpy(), logits(weights, tokens), atol=1e-5)
    written = list(tokens)
    for _ in range(5):
        scores = logits(weights, written)[-1]
        scores[2] = -np.inf  # with stop=False there is no end token
        written.append(int(scores.argmax()))
    assert run.generate(text, method="greedy", max_new=5, stop=False).tokens == written[len(tokens) :]


def test_invalid_llama2c_files_are_rejected_in_one_line(tmp_path: Path) -> None:
    make(tmp_path, True)
    path, tokenizer_path = tmp_path / "stories.bin", tmp_path / "tokenizer.bin"
    whole, tokens = path.read_bytes(), tokenizer_path.read_bytes()
    faults = {
        "has a header of 28": whole[:20],
        r"bytes, but its header \(dim=16, .*\) requires .*; it is cut short: copy it again": whole[:-4],
        "it is not a llama2.c checkpoint of version 0: write it again with llama2.c's export.py": whole + b"1234",
        "has version 3 of the llama2.c format; clew reads 0, 1 and 2": struct.pack("<2i", 0x616B3432, 3) + whole[8:],
        "version 2 has a header of 256; it is cut short": struct.pack("<2i", 0x616B3432, 2) + whole[8:200],
        "its header says dim=-1, .*; convert a torch pickle with llama2.c's export.py": b"\xff\xff\xff\xff" + whole[4:],
        "may be a pickle": b"PK\x03\x04" + whole[4:],
    }
    for message, content in faults.items():
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            import_checkpoint(path, tmp_path / "run")
    make(tmp_path, True, version=2)
    quantised = path.read_bytes()
    for message, content in {
        "is cut short": quantised[:-1],
        "not a llama2.c checkpoint of version 2": quantised + b"1",
        "the group size .7. does not divide the weights.*; write it again with export.py": quantised[:37]
        + struct.pack("<i", 7)
        + quantised[41:],
    }.items():
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            import_checkpoint(path, tmp_path / "run")
    path.write_bytes(whole)
    for message, content in {
        "is not a llama2.c tokenizer, or is cut short; copy it again": tokens[:-1],
        "has 269 tokens, but the model has 271.*; use the tokenizer that belongs to it": tokens[:-18],
    }.items():
        tokenizer_path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            import_checkpoint(path, tmp_path / "run")
    tokenizer_path.unlink()
    with pytest.raises(UserError, match="tokenizer.bin is missing; put the checkpoint's tokenizer there, under"):
        import_checkpoint(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()
