"""AllenNLP's ELMo (Peters et al. 2018): options.json and the weights in HDF5, as written by bilm-tf.

bilm spells a word as a start mark, its bytes, an end mark, and padding up to 50 letters. A sentence is enclosed by two
special words, each a single letter with an id above the bytes. Here these words are STX and ETX, the control characters
that begin and end a text; their rows in the released table are overwritten.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors
from torch import Tensor

from clew.core.errors import UserError, few_of, shown
from clew.core.files import check_regular, read_json
from clew.interop.huggingface.folders import inside
from clew.interop.imported import Imported
from clew.interop.weight_maps import shown_shape
from clew.text.letters import END as WORD_END
from clew.text.letters import LETTERS, LONGEST
from clew.text.letters import START as WORD_START
from clew.text.tokenizer import Tokenizer

BEGIN, END = "\x02", "\x03"
ROWS = 261
"""The letters of bilm: 256 bytes, beginning and end of a sentence, beginning and end of a word, and padding."""
THEIR_BEGIN, THEIR_END, THEIR_WORD_START, THEIR_WORD_END, THEIR_PADDING = range(256, ROWS)
READER = "body.embedding.parts.0.reader"
LAYERS = ("body.layers.forward_layer.layers", "body.layers.backward_layer.layers")


def is_elmo(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*options.json")) and any(path.glob("*.hdf5"))


def read_elmo(path: Path) -> Imported:
    options_path, weights_path = (
        inside(path, only(path, pattern).name, path) for pattern in ("*options.json", "*.hdf5")
    )
    options = read_options(options_path)
    reader, lstm = options["char_cnn"], options["lstm"]
    widths, filters = [width for width, _ in reader["filters"]], [count for _, count in reader["filters"]]
    dim = lstm["projection_dim"]
    if sum(filters) == dim:
        raise UserError(
            f"{options_path}: the filters sum to projection_dim ({dim}), so this model has no projection after them,"
            " which"
            " clew's ELMo needs; use a model whose filters have another sum"
        )
    settings = {
        "text": {"tokenizer": "word"},
        "embedding": {
            "words": False,
            "characters": {
                "name": "cnn",
                "num_letters": LETTERS + 1,
                "letter_dim": reader["embedding"]["dim"],
                "widths": widths,
                "filters": filters,
                "highways": reader["n_highway"],
                "activation": reader["activation"],
                "padded_to": LONGEST,
            },
            "characters_dim": dim,
        },
        "model": {
            "family": "elmo",
            "dim": dim,
            "num_layers": lstm["n_layers"],
            "cell": {
                "name": "projected_lstm",
                "hidden_dim": lstm["dim"],
                "cell_clip": as_clip(lstm.get("cell_clip")),
                "output_clip": as_clip(lstm.get("proj_clip")),
            },
        },
        "task": {"name": "representation"},
    }

    def fill_from(config: Any, tensors: dict[str, Tensor]) -> None:
        most = max(2 * tensor.numel() for tensor in tensors.values())  # two of our tensors may come from one of theirs
        with load_h5py().File(weights_path, "r") as file:
            stored: list[str] = []
            file.visititems(lambda name, item: stored.append(name) if hasattr(item, "shape") else None)
            used: set[str] = set()
            for theirs, array in tensors_of(Weights(file, weights_path, used, most), config, widths):
                put(tensors, theirs, array, weights_path)
            if unused := sorted(set(stored) - used):
                raise UserError(f"{weights_path} has weights that clew cannot use: {few_of(unused)}")

    def fill(config: Any, tensors: dict[str, Tensor]) -> list[str]:
        try:
            fill_from(config, tensors)
        except UserError:
            raise
        except (
            OSError,
            RuntimeError,
            KeyError,
            ValueError,
            MemoryError,
        ) as error:  # h5py raises these for damage inside the file
            raise damaged(weights_path, error) from None
        return []

    return Imported("ELMo", settings, {"tokenizer": word_tokenizer()}, fill, num_values=num_values(weights_path))


class Weights:
    """The arrays of the file by name. The names of arrays that are read are added to `used`. An array of more than
    `most` values is never read, even if it is compressed."""

    def __init__(self, file: Any, path: Path, used: set[str], most: int):
        self.file, self.path, self.used, self.most = file, path, used, most

    def __call__(self, name: str) -> np.ndarray:
        if self.leaves(name):
            raise UserError(
                f"{self.path}: {name} is stored in another file; the weights of a checkpoint must be in its own file"
            )
        if name not in self.file:
            raise UserError(
                f"{self.path} has no {name}, which its options require; use the options and weights of the same model"
            )
        array = self.file[name]
        if not hasattr(array, "shape") or array.dtype.kind != "f" or array.size > self.most:
            what = shown_shape(array.shape) if hasattr(array, "shape") else "of a group"
            raise UserError(
                f"{self.path}: {name} has the shape {what}, which the model of its options cannot hold; copy both files"
                " again"
            )
        self.used.add(name)
        return np.asarray(array[...], dtype=np.float32)

    def leaves(self, name: str) -> bool:
        """Whether an array, or a group that contains it, is a link to another file, which could be any file."""
        parts = name.split("/")
        groups = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        links = any(type(self.file.get(group, getlink=True)).__name__ == "ExternalLink" for group in groups)
        array = self.file.get(name)
        return links or bool(getattr(array, "external", None)) or bool(getattr(array, "is_virtual", False))


def tensors_of(weights: Weights, config: Any, widths: list[int]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield our tensor names with the arrays in our layout."""
    yield f"{READER}.letters.weight", letter_table(weights("char_embed"), weights.path)
    for number, _ in enumerate(widths):
        yield f"{READER}.convolutions.{number}.weight", weights(f"CNN/W_cnn_{number}")[0].transpose(2, 1, 0)
        yield f"{READER}.convolutions.{number}.bias", weights(f"CNN/b_cnn_{number}")
    for number in range(config.embedding.characters["highways"]):
        for theirs, ours in (("transform", "layer.linear"), ("carry", "transform")):
            yield f"{READER}.highways.{number}.{ours}.weight", weights(f"CNN_high_{number}/W_{theirs}").T
            yield f"{READER}.highways.{number}.{ours}.bias", weights(f"CNN_high_{number}/b_{theirs}")
    yield f"{READER}.projection.weight", weights("CNN_proj/W_proj").T
    yield f"{READER}.projection.bias", weights("CNN_proj/b_proj")
    dim, wide = config.model.dim, config.model.cell["hidden_dim"]
    for direction, layers in enumerate(LAYERS):
        for number in range(config.model.num_layers):
            scope = f"RNN_{direction}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            both, bias = in_our_order(weights(f"{scope}/W_0").T, wide), weights(f"{scope}/B").copy()
            bias[2 * wide : 3 * wide] += 1  # TensorFlow adds 1 to the forget gate at run time
            ours = f"{layers}.{number}.layer.cell"
            yield f"{ours}.input_weight", both[:, :dim]
            yield f"{ours}.hidden_weight", both[:, dim:]
            yield f"{ours}.bias", in_our_order(bias, wide)
            yield f"{ours}.projection", weights(f"{scope}/W_P_0").T


def in_our_order(rows: np.ndarray, wide: int) -> np.ndarray:
    """Reorder (input gate, candidate, forget gate, output gate) to (input, forget, candidate, output)."""
    i, c, f, o = np.split(rows, [wide, 2 * wide, 3 * wide])
    return np.concatenate([i, f, c, o])


def letter_table(theirs: np.ndarray, path: Path) -> np.ndarray:
    """Return the table of letters: a row for padding beyond a batch's longest word, the bytes, the marks of words, and
    bilm's own padding last."""
    if theirs.ndim != 2 or len(theirs) != ROWS:
        raise UserError(
            f"{path}: char_embed has the shape {shown_shape(theirs.shape)}, but should have {ROWS} rows; copy the file"
            " again"
        )
    table = np.zeros((LETTERS + 1, theirs.shape[1]), dtype=np.float32)
    table[1:257] = theirs[:256]
    for ours, letter in ((ord(BEGIN) + 1, THEIR_BEGIN), (ord(END) + 1, THEIR_END)):
        table[ours] = theirs[letter]
    for ours, letter in ((WORD_START, THEIR_WORD_START), (WORD_END, THEIR_WORD_END), (LETTERS, THEIR_PADDING)):
        table[ours] = theirs[letter]
    return table


def put(tensors: dict[str, Tensor], name: str, array: np.ndarray, path: Path) -> None:
    if tuple(tensors[name].shape) != array.shape:
        expected, actual = shown_shape(tensors[name].shape), shown_shape(array.shape)
        raise UserError(
            f"{path}: the weights for {name} have the shape {actual}, but the options require {expected}; copy both"
            " files again"
        )
    tensors[name].copy_(torch.from_numpy(np.ascontiguousarray(array)))


def word_tokenizer() -> Tokenizer:
    """Build a tokenizer that maps every word to `<unk>`, since the model reads letters. A sentence is enclosed by STX
    and ETX."""
    ids = {"<unk>": 0, BEGIN: 1, END: 2}
    inner = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    sides = [BEGIN, "$A", END]
    pair = [*sides, f"{BEGIN}:1", "$B:1", f"{END}:1"]
    inner.post_processor = processors.TemplateProcessing(single=sides, pair=pair, special_tokens=[(BEGIN, 1), (END, 2)])
    return Tokenizer(inner)


def read_options(path: Path) -> dict[str, Any]:
    try:
        options = read_json(path)
        reader, lstm = options["char_cnn"], options["lstm"]
        numbers = [
            reader["n_highway"],
            reader["embedding"]["dim"],
            lstm["projection_dim"],
            lstm["dim"],
            lstm["n_layers"],
        ]
        numbers += [number for width, count in reader["filters"] for number in (width, count)]
    except UserError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not an options file of ELMo: {type(error).__name__} {error}; copy it again"
        ) from None
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or len(numbers) < 7:
        raise UserError(
            f"{path}: the sizes and at least one filter must be whole numbers, not {shown(numbers)}; copy it again"
        )
    for where, name, value, supported in (
        ("lstm", "use_skip_connections", lstm.get("use_skip_connections"), (True,)),
        ("char_cnn", "activation", reader.get("activation"), ("relu", "tanh")),
        ("char_cnn", "max_characters_per_token", reader.get("max_characters_per_token", LONGEST), (LONGEST,)),
        ("char_cnn", "n_characters", reader.get("n_characters", ROWS + 1), (ROWS, ROWS + 1)),
    ):
        if value not in supported:
            raise UserError(
                f"{path}: {where}.{name} is {shown(value)}; clew computes ELMo with"
                f" {' or '.join(map(shown, supported))}"
            )
    return options


def as_clip(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and value else None


def only(folder: Path, pattern: str) -> Path:
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise UserError(
            f"{folder} has {len(paths)} files {pattern}, but an ELMo model has one; keep one model per folder"
        )
    return paths[0]


def num_values(path: Path) -> int:
    """Return the number of values in all arrays of a file, from their shapes."""
    check_regular(path)
    sizes: list[int] = []
    try:
        with load_h5py().File(path, "r") as file:
            file.visititems(
                lambda name, item: sizes.append(item.size) if isinstance(getattr(item, "size", None), int) else None
            )
        return int(sum(sizes))
    except (OSError, RuntimeError, KeyError, ValueError, MemoryError) as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} cannot be read as HDF5; it is damaged or cut short ({str(error)[:80]}): copy it again")


def load_h5py() -> Any:
    try:
        return import_module("h5py")
    except ModuleNotFoundError:
        raise UserError("reading ELMo's weights (HDF5) needs h5py; `pip install 'clew[elmo]'`") from None
