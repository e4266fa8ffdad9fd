"""Shakespeare for experiments: the parts of the corpus, in full or as plain letters, and random windows of ids."""

import re
from functools import cache

import torch
from torch import Tensor

from clew.data.kinds.text import TextData, find_texts
from clew.data.plans import TokenBatch
from clew.runs.loaded import Run
from clew.tour.training import generator

LETTERS = "abcdefghijklmnopqrstuvwxyz "


@cache
def shakespeare() -> dict[str, str]:
    """Return the full training and validation parts of Tiny Shakespeare."""
    return {name: "".join(source) for name, source in find_texts(TextData(corpus="tinyshakespeare")).items()}


def plain_letters(text: str) -> str:
    """Return the text in lower-case letters, with a space for everything else."""
    return re.sub("[^a-z]+", " ", text.lower())


def ids_of(run: Run, text: str) -> Tensor:
    """Encode a text as ids (length,)."""
    return torch.tensor(run.tokenizer.encode(text))


def windows(ids: Tensor, rows: int, length: int, *seed: int) -> TokenBatch:
    """Return random windows of a text, determined by the seed."""
    starts = torch.randint(len(ids) - length, (rows, 1), generator=generator(*seed))
    pieces = ids[starts + torch.arange(length + 1)]
    return TokenBatch(pieces[:, :-1], pieces[:, 1:])
