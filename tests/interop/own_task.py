"""A user-defined task in a file outside the package: the number of stars of a text, one of five."""

from typing import Any, Literal, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.config import TaskSection
from clew.core.types import Term
from clew.layers.context import Pieces
from clew.sources.words import WordReader
from clew.tasks import TASKS
from clew.tasks.entry import TaskEntry
from clew.text.tokenizer import Tokenizer


class StarsConfig(TaskSection):
    name: Literal["stars"] = "stars"


class StarsBatch(NamedTuple):
    text: Pieces
    stars: Tensor
    fresh: bool = True


class Stars(nn.Module):
    """logits = W h_1."""

    def __init__(self, body: Any, reader: WordReader):
        super().__init__()
        self.body = body
        self.reader = reader
        self.output = nn.Linear(body.dim, 5)

    def forward(self, batch: StarsBatch, state: Any = None) -> tuple[dict[str, Term], None]:
        loss = F.cross_entropy(self.logits(batch), batch.stars, reduction="sum")
        return {"loss": Term(loss, self.counts(batch)["loss"])}, None

    def counts(self, batch: StarsBatch) -> dict[str, Tensor]:
        return {"loss": batch.stars.new_tensor(len(batch.stars))}

    def logits(self, batch: StarsBatch) -> Tensor:
        hidden, _ = self.body(batch.text.inputs, batch.text.mask)
        return self.output(hidden[:, 0])


STARS = TaskEntry(
    config=StarsConfig,
    build=lambda body, vocabularies, config: Stars(body, WordReader.of(body, vocabularies)),
    vocabularies={"tokenizer": Tokenizer},
    pipeline="text-classification",
)
TASKS["stars"] = STARS
