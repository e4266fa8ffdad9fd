"""Two published recurrences through `from_torch` agree with their equations in NumPy: the GRUs of g2p_en and the BiLSTM
of g2pM.

Their packages are downloaded from the package index, or taken from the folder CLEW_WHEELS, and read as archives; they
are not imported.
"""

import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import clew
from clew.core.types import Memory

pytestmark = pytest.mark.slow
SECONDS = 60


def package(name: str, folder: Path) -> zipfile.ZipFile:
    """The archive of a package; the test is skipped if it is not available."""
    wheels = os.environ.get("CLEW_WHEELS")
    place = Path(wheels) if wheels else folder
    if wheels is None:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "-d",
            str(folder),
            name,
        ]
        try:
            subprocess.run(command, check=True, timeout=SECONDS, capture_output=True)
        except (subprocess.SubprocessError, OSError):
            pytest.skip(f"{name} cannot be fetched; CLEW_WHEELS=DIR names a folder that has it")
    archives = sorted(place.glob(f"{name}-*.whl"))
    if not archives:
        pytest.skip(f"{place} has no {name}")
    return zipfile.ZipFile(archives[-1])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gru_step(w: dict[str, Any], half: str, x: Any, h: Any) -> Any:
    """r, z = sigmoid(...); n = tanh(W x + b + r (U h + c)); h' = (1 - z) n + z h."""
    inputs, hidden = w[f"{half}_w_ih"] @ x + w[f"{half}_b_ih"], w[f"{half}_w_hh"] @ h + w[f"{half}_b_hh"]
    dim = len(h)
    r, z = sigmoid(inputs[:dim] + hidden[:dim]), sigmoid(inputs[dim : 2 * dim] + hidden[dim : 2 * dim])
    n = np.tanh(inputs[2 * dim :] + r * hidden[2 * dim :])
    return (1 - z) * n + z * h


def phonemes_by_numpy(w: dict[str, Any], word: str) -> tuple[list[int], Any]:
    """Up to 20 phonemes, each predicted from the last one, and the final state of the encoder."""
    h = np.zeros(w["enc_w_hh"].shape[1])
    for letter in letters(word):
        h = gru_step(w, "enc", w["enc_emb"][letter], h)
    encoded, written, last = h, [], 2
    for _ in range(20):
        h = gru_step(w, "dec", w["dec_emb"][last], h)
        last = int((w["fc_w"] @ h + w["fc_b"]).argmax())
        if last == 3:
            break
        written.append(last)
    return written, encoded


def letters(word: str) -> list[int]:
    """The ids of the letters: 0, 1 and 2 are padding, unknown and the end, followed by a to z."""
    return [3 + ord(letter) - ord("a") if "a" <= letter <= "z" else 1 for letter in word] + [2]


@torch.no_grad()
def test_the_grus_of_g2p_en_match_their_equations(tmp_path: Path) -> None:
    with (
        package("g2p_en", tmp_path) as archive,
        np.load(io.BytesIO(archive.read("g2p_en/checkpoint20.npz")), allow_pickle=False) as file,
    ):
        weights = {name: file[name].astype(np.float64) for name in file}
    halves: dict[str, Any] = {}
    for half in ("enc", "dec"):
        names = {"weight_ih_l0": "w_ih", "weight_hh_l0": "w_hh", "bias_ih_l0": "b_ih", "bias_hh_l0": "b_hh"}
        tensors = {ours: torch.from_numpy(weights[f"{half}_{theirs}"]) for ours, theirs in names.items()}
        dim, width = weights[f"{half}_w_hh"].shape[1], weights[f"{half}_w_ih"].shape[1]
        halves[half] = clew.from_torch(nn.GRU(width, dim).double())
        halves[half].load_state_dict(tensors)
    tables = {half: torch.from_numpy(weights[f"{half}_emb"]) for half in halves}
    words = [
        "activationist",
        "clew",
        "labyrinth",
        "perplexity",
        "ariadne",
        "tokenizer",
        "zyx's",
        "backpropagation",
        "theseus",
        "a",
    ]
    rows = [letters(word) for word in words]
    longest = max(map(len, rows))
    tokens = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    mask = torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None]
    _, state = halves["enc"](tables["enc"][tokens], mask)
    encoded = state[0].cell
    state = halves["dec"].initial_state(len(words), Memory(encoded, None, (encoded,)), like=encoded)
    written: list[list[int]] = [[] for _ in words]
    last, going = torch.full((len(words),), 2), [True] * len(words)
    for _ in range(20):
        y, state = halves["dec"](tables["dec"][last][:, None], None, state)
        last = (y[:, 0] @ torch.from_numpy(weights["fc_w"]).T + torch.from_numpy(weights["fc_b"])).argmax(-1)
        for number, token in enumerate(last.tolist()):
            going[number] = going[number] and token != 3
            if going[number]:
                written[number].append(token)
    for number, word in enumerate(words):
        expected, hidden = phonemes_by_numpy(weights, word)
        assert written[number] == expected, word
        np.testing.assert_allclose(encoded[number].numpy(), hidden, atol=1e-12)
    assert len({tuple(each) for each in written}) == len(words)


class Arrays(pickle.Unpickler):
    """An unpickler that accepts only arrays, dicts, strings and numbers."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype", "_frombuffer", "scalar"):
            return super().find_class(module, name)
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no array")


def lstm_by_numpy(w: dict[str, Any], suffix: str, rows: Any) -> Any:
    """h of every step, (length, dim): i, f, g, o = W x + U h + b + c; c' = f c + i g; h' = o tanh(c')."""
    dim = w[f"lstm.weight_hh_l0{suffix}"].shape[1]
    h, c, states = np.zeros(dim), np.zeros(dim), []
    for x in rows:
        both = w[f"lstm.weight_ih_l0{suffix}"] @ x + w[f"lstm.bias_ih_l0{suffix}"]
        i, f, g, o = np.split(both + w[f"lstm.weight_hh_l0{suffix}"] @ h + w[f"lstm.bias_hh_l0{suffix}"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states)


@torch.no_grad()
def test_the_bilstm_of_g2pm_matches_its_equations(tmp_path: Path) -> None:
    with package("g2pM", tmp_path) as archive:
        parts = [
            Arrays(io.BytesIO(archive.read(f"g2pM/{name}.pkl"))).load() for name in ("np_ckpt", "char2idx", "class2idx")
        ]
    weights = {name: np.asarray(array, dtype=np.float64) for name, array in parts[0].items()}
    ids, classes = parts[1], {number: name for name, number in parts[2].items()}
    dim, width = weights["lstm.weight_hh_l0"].shape[1], weights["lstm.weight_ih_l0"].shape[1]
    tensors: dict[str, Tensor] = {name: torch.from_numpy(array) for name, array in weights.items()}
    reader: Any = clew.from_torch(nn.LSTM(width, dim, bidirectional=True).double())
    reader.load_state_dict(
        {name.removeprefix("lstm."): tensor for name, tensor in tensors.items() if name.startswith("lstm.")}
    )
    sentences = ["然而，他红了20年以后，他竟退出了大家的视线。", "银行的行长在行走", "重要的事情要重复"]
    rows = [[ids["시"], *(ids.get(character, ids["<UNK>"]) for character in text), ids["끝"]] for text in sentences]
    longest = max(map(len, rows))
    tokens = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    mask = torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None]
    y, _ = reader(tensors["embedding.weight"][tokens], mask)
    inner = torch.relu(y @ tensors["logit_layer.0.weight"].T + tensors["logit_layer.0.bias"])
    logits = inner @ tensors["logit_layer.2.weight"].T + tensors["logit_layer.2.bias"]
    for number, row in enumerate(rows):
        vectors = weights["embedding.weight"][row]
        ahead, back = lstm_by_numpy(weights, "", vectors), lstm_by_numpy(weights, "_reverse", vectors[::-1])[::-1]
        hidden = np.maximum(
            np.concatenate([ahead, back], 1) @ weights["logit_layer.0.weight"].T + weights["logit_layer.0.bias"], 0
        )
        expected = hidden @ weights["logit_layer.2.weight"].T + weights["logit_layer.2.bias"]
        np.testing.assert_allclose(logits[number, : len(row)].numpy(), expected, atol=1e-10)
    sounds = {character: classes[int(logits[0, 1 + place].argmax())] for place, character in enumerate(sentences[0])}
    assert {character: sounds[character] for character in "了大的"} == {"了": "le5", "大": "da4", "的": "de5"}
