"""Word vectors from characters, for any word, in the vocabulary or not.

Members of CHARACTERS are built as `C(dim, *, num_letters, ...)`. Their input is letters (batch, length, letters), with
0 as padding after a word's last letter: `forward(letters) -> (batch, length, dim)`, zeros at places without letters.
Each word is encoded independently.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError, shortened, shown, unknown
from clew.core.modes import is_exporting
from clew.core.types import State
from clew.layers.cells import LSTM
from clew.layers.dropouts import Dropout
from clew.layers.feedforward import Linear
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import shares
from clew.layers.wiring import Highway


class Characters(nn.Module):
    """The shared part of character readers: a table of letters, and each distinct word of a batch read only once."""

    def __init__(self, dim: int, num_letters: int, letter_dim: int, dropout: float):
        super().__init__()
        for name, value in (("dim", dim), ("num_letters", num_letters), ("letter_dim", letter_dim)):
            if value < 1:
                raise UserError(f"{name} ({value}) must be at least 1")
        self.dim = dim
        self.letters = nn.Embedding(num_letters, letter_dim)
        nn.init.uniform_(self.letters.weight, -math.sqrt(3 / letter_dim), math.sqrt(3 / letter_dim))
        self.dropout = Dropout(dropout)

    def forward(self, letters: Tensor) -> Tensor:
        if is_exporting():  # shapes in an exported program cannot depend on which words are equal
            words = letters.flatten(0, 1)
            read = torch.where((words > 0).any(1, keepdim=True), self.read(words), 0.0)
            return torch.unflatten(read, 0, letters.shape[:2])
        counts = (letters > 0).sum(-1)
        longest = int(counts.max()) if counts.numel() else 0
        if longest == 0:
            return self.letters.weight.new_zeros(*letters.shape[:2], self.dim)
        words, place = letters[..., :longest].flatten(0, 1).unique(dim=0, return_inverse=True)
        empty = int(words[0, 0] == 0)  # unique() sorts, so a word without letters comes first
        return torch.unflatten(F.pad(self.read(words[empty:]), (0, 0, empty, 0))[place], 0, letters.shape[:2])

    def embed(self, letters: Tensor) -> Tensor:
        """Vectors (words, letters, letter_dim), zeros on padding."""
        x = self.letters(letters)
        return torch.where((letters > 0)[..., None], self.dropout(x) if self.training else x, 0.0)

    def read(self, letters: Tensor) -> Tensor:
        """Vectors (words, dim) of words (words, letters), each with at least one letter."""
        raise NotImplementedError


class CharacterCNN(Characters):
    """Convolutions over a word's letters, and the maximum of each filter (Ma and Hovy 2016). With filters of several
    widths and highway layers above them, it is the reader of Kim et al. (2016) and ELMo.

        f_w = max_t (W_w [x_t; ..; x_{t + w - 1}] + b_w)     t over the word's letters, zeros after the last
        y   = P highway(.. highway(g([f_w; f_w'; ..])))       P only if the number of filters is not `dim`

    `filters` is the number of filters of each width; by default the widths share `dim`. `padded_to` = n pads every word
    to n letters with the last letter of the table, and t runs over all windows that lie within them (as ELMo was
    released).
    """

    def __init__(
        self,
        dim: int,
        *,
        num_letters: int = 259,
        letter_dim: int = 30,
        widths: list[int] | None = None,
        filters: list[int] | None = None,
        highways: int = 0,
        activation: str = "relu",
        dropout: float = 0.0,
        padded_to: int | None = None,
    ):
        super().__init__(dim, num_letters, letter_dim, dropout)
        if activation not in ("relu", "tanh"):
            raise unknown("activation", activation, ["relu", "tanh"])
        widths = [3] if widths is None else widths
        filters = shares(dim, len(widths)) if filters is None else filters
        if not widths or len(widths) != len(filters) or min(widths) < 1 or min(filters) < 1 or not 0 <= highways <= 100:
            raise UserError(
                "a character CNN needs one number of filters per width, all at least 1, and highways from 0 to 100;"
                f" not widths={shortened(shown(widths), 50)}, filters={shortened(shown(filters), 50)},"
                f" highways={shown(highways)}"
            )
        if padded_to is not None and padded_to < max(widths):
            raise UserError(
                f"padded_to ({shown(padded_to)}) must be at least the widest filter's width ({shown(max(widths))})"
            )
        self.padded_to = padded_to
        self.padding = num_letters - 1
        self.activation = torch.relu if activation == "relu" else torch.tanh
        self.convolutions: Any = nn.ModuleList(
            nn.Conv1d(letter_dim, count, width) for width, count in zip(widths, filters, strict=True)
        )
        total = sum(filters)
        self.highways: Any = nn.ModuleList(Highway(total, Rectified(total, total)) for _ in range(highways))
        self.projection = nn.Linear(total, dim) if total != dim else None

    def read(self, letters: Tensor) -> Tensor:
        if self.padded_to is not None:
            letters = F.pad(letters, (0, self.padded_to - letters.shape[1]))
            x = self.embed(torch.where(letters > 0, letters, self.padding))
            maxima = [convolution(x.mT).amax(-1) for convolution in self.convolutions]
        else:
            features = self.over_all if is_exporting() else self.over_letters
            maxima = features(
                letters, F.pad(self.embed(letters), (0, 0, 0, max(c.kernel_size[0] for c in self.convolutions) - 1))
            )
        y = self.activation(torch.cat(maxima, -1))
        for highway in self.highways:
            y, _ = highway(y)
        return y if self.projection is None else self.projection(y)

    def over_letters(self, letters: Tensor, x: Tensor) -> list[Tensor]:
        """The maximum of each filter. Only windows that start at a letter are computed: most of the others are
        padding."""
        word, place = letters.nonzero(as_tuple=True)
        maxima = []
        for convolution in self.convolutions:
            weight = convolution.weight.flatten(1)  # (filters, letter_dim * width)
            windows = x.unfold(1, convolution.kernel_size[0], 1)[word, place].flatten(1)
            y = F.linear(windows, weight, convolution.bias)
            lowest = y.new_full((len(letters), len(weight)), -math.inf)
            maxima.append(lowest.scatter_reduce(0, word[:, None].expand_as(y), y, "amax"))
        return maxima

    def over_all(self, letters: Tensor, x: Tensor) -> list[Tensor]:
        """The same with fixed shapes, for export: all windows are computed, and those that start at padding are
        masked."""
        padding = (letters == 0)[:, None]
        # (words, filters, letters)
        values = [convolution(x.mT)[..., : letters.shape[1]] for convolution in self.convolutions]
        return [y.masked_fill(padding, -math.inf).amax(-1) for y in values]


class CharacterLSTM(Characters):
    """Two LSTMs over a word's letters, one from each end, and their last states (Lample et al. 2016): y = [ahead_last;
    back_first]."""

    def __init__(self, dim: int, *, num_letters: int = 259, letter_dim: int = 25, dropout: float = 0.0):
        super().__init__(dim, num_letters, letter_dim, dropout)
        if dim % 2:
            raise UserError(f"dim ({dim}) must be even, since each of the two directions has half of it; add 1")
        self.reader = Bidirectional(Recurrent(LSTM(letter_dim, dim // 2)), Recurrent(LSTM(letter_dim, dim // 2)))

    def read(self, letters: Tensor) -> Tensor:
        _, (ahead, back) = self.reader(self.embed(letters), letters > 0)
        return torch.cat([ahead.cell.hidden, back.cell.hidden], -1)


class Rectified(Linear):
    """y = relu(W x + b)."""

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        return torch.relu(self.linear(x)), None


CHARACTERS: dict[str, Callable[..., Characters]] = {"cnn": CharacterCNN, "lstm": CharacterLSTM}
