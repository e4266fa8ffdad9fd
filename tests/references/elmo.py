"""ELMo as computed by bilm-tf from its own files, for one word, filter and step at a time (Peters et al. 2018)."""

import math

import numpy as np

from tests.references.cells import sigmoid


def letters(word: str | None, mark: int | None = None) -> list[int]:
    """50 ids: 258 begins a word and 259 ends it, 260 is padding; 256 and 257 are the words around a sentence."""
    inside = [mark] if mark is not None else list((word or "").encode()[:48])
    whole = [258, *inside, 259]
    return [*whole, *[260] * (50 - len(whole))]


def levels(options: dict, weights: dict, words: list[str], states: dict | None = None) -> np.ndarray:
    """(levels, words, 2 dim): the character vectors, twice, and then every layer of both readers. `states`, by
    direction and layer, are the initial states, and are replaced by the final ones."""
    spelled = [letters(None, 256), *(letters(word) for word in words), letters(None, 257)]
    x = np.array([word_vector(options, weights, ids) for ids in spelled])
    states = {} if states is None else states
    ahead = reader(options, weights, 0, x, states)
    back = [level[::-1] for level in reader(options, weights, 1, x[::-1], states)]
    return np.stack([np.concatenate(pair, -1)[1:-1] for pair in zip([x, *ahead], [x, *back], strict=True)])


def word_vector(options: dict, weights: dict, ids: list[int]) -> np.ndarray:
    table = weights["char_embed"]
    y = []
    for number, (width, count) in enumerate(options["char_cnn"]["filters"]):
        weight, bias = weights[f"CNN/W_cnn_{number}"][0], weights[f"CNN/b_cnn_{number}"]
        for k in range(count):
            values = [
                bias[k] + sum(table[ids[t + j]] @ weight[j, :, k] for j in range(width)) for t in range(50 - width + 1)
            ]
            y.append(max(max(values), 0.0))
    y = np.array(y)
    for number in range(options["char_cnn"]["n_highway"]):
        name = f"CNN_high_{number}"
        carry = np.array([sigmoid(v) for v in y @ weights[f"{name}/W_carry"] + weights[f"{name}/b_carry"]])
        new = np.maximum(y @ weights[f"{name}/W_transform"] + weights[f"{name}/b_transform"], 0)
        y = carry * new + (1 - carry) * y
    return y @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]


def carried_levels(options: dict, weights: dict, batches: list[list[list[str]]]) -> list[list[np.ndarray]]:
    """`levels` of every sentence of consecutive batches: in both directions and every layer, row r of a batch starts
    from the final state of the last sentence in row r, or from zeros if there was none, as documented for AllenNLP's
    ElmoLstm."""
    rows: dict[int, dict] = {}
    return [
        [levels(options, weights, words, rows.setdefault(row, {})) for row, words in enumerate(batch)]
        for batch in batches
    ]


def reader(options: dict, weights: dict, direction: int, x: np.ndarray, states: dict) -> list[np.ndarray]:
    """The outputs of every layer; TensorFlow puts the candidate before the forget gate, and adds 1 to the latter."""
    lstm, outputs = options["lstm"], []
    for number in range(lstm["n_layers"]):
        name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
        h, c = states.get((direction, number), (np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"])))
        out = []
        for x_t in x:
            i, j, f, o = np.split(np.concatenate([x_t, h]) @ weights[f"{name}/W_0"] + weights[f"{name}/B"], 4)
            c = [sigmoid(fk + 1) * ck + sigmoid(ik) * math.tanh(jk) for ik, jk, fk, ck in zip(i, j, f, c, strict=True)]
            c = np.clip(c, -lstm["cell_clip"], lstm["cell_clip"])
            h = np.array([sigmoid(ok) * math.tanh(ck) for ok, ck in zip(o, c, strict=True)]) @ weights[f"{name}/W_P_0"]
            h = np.clip(h, -lstm["proj_clip"], lstm["proj_clip"])
            out.append(h)
        states[direction, number] = h, c
        outputs.append(np.array(out) + (x if number else 0))
        x = outputs[-1]
    return outputs
