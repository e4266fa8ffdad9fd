"""Laws of encoder-decoders about their source. With an encoded source, an encoder-decoder is a body and also obeys the
laws of bodies."""

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.state import copy_state, leaves, reorder, select_rows
from clew.core.types import Memory, State
from clew.laws.cases import Build, Case, Chunk, Law, Sizes
from clew.laws.sequences import BODY_LAWS
from clew.models.encoder_decoder import EncoderDecoder

BEAMS = 2


class Conditioned(nn.Module):
    """An encoder-decoder with an encoded source. All rows share one row of memory."""

    causal = True

    def __init__(self, body: EncoderDecoder, length: int = 3):
        super().__init__()
        self.body = body
        self.length = length
        self.dim, self.vocabulary = body.dim, body.vocabulary

    def memory(self) -> Memory:
        return self.body.encode(torch.arange(self.length)[None] % self.body.source_vocabulary)

    def initial_state(self, batch_size: int, capacity: int | None = None) -> State:
        return self.body.initial_state(batch_size, self.memory(), capacity)

    def forward(self, tokens: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        return self.body(tokens, mask, self.initial_state(len(tokens)) if state is None else state)

    def levels(self, tokens: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        return self.body.levels(tokens, mask, self.memory())


def encoding(build: Build, sizes: Sizes) -> None:
    """A padded source has the same memory and the same outputs as without padding."""
    case = Case("encoding", build, sizes)
    case.module.eval()
    lengths = [case.randint(1, sizes.length) for _ in range(sizes.batch)]
    source, tokens = draw_source(case), case.draw()
    mask = torch.arange(sizes.length + 1) < torch.tensor(lengths)[:, None]
    wider = torch.cat([source, source[:, :1]], 1)
    padded = case.module.encode(torch.where(mask, wider, draw_source(case, sizes.length + 1)), mask)
    written = case.read(Chunk(tokens), state=case.module.initial_state(sizes.batch, padded)).rows
    for row, n in enumerate(lengths):
        memory = case.module.encode(source[row : row + 1, :n])
        # A pyramid has fewer positions than its input.
        num_places = n if padded.mask is None else int(padded.mask[row].sum())
        case.same(
            f"the memory of row {row}, of {n} places, alone", memory.values, padded.values[row : row + 1, :num_places]
        )
        for start, together in zip(leaves(memory.final), leaves(padded.final), strict=True):
            case.same(f"the decoder's start in row {row}", start, together[row : row + 1], axes=("row", "feature"))
        alone = case.read(Chunk(tokens[row : row + 1]), state=case.module.initial_state(1, memory)).rows
        case.same_rows(f"y from the source of row {row} alone", alone, written[row : row + 1])


def looking(build: Build, sizes: Sizes) -> None:
    """The outputs depend on the source."""
    case = Case("looking", build, sizes)
    case.module.eval()
    tokens = case.draw()
    sources = [torch.full((sizes.batch, sizes.length), token) for token in (0, 1)]
    one, other = (
        case.read(Chunk(tokens), state=case.module.initial_state(sizes.batch, case.module.encode(s))).rows
        for s in sources
    )
    if all(torch.equal(a, b) for a, b in zip(one, other, strict=True)):
        case.fail("y is the same for all sources; the decoder must attend to its memory, or start from memory.final")


def sharing(build: Build, sizes: Sizes) -> None:
    """Beams that share their sentence's row of memory give the same outputs as with one row each, in any order."""
    case = Case("sharing", build, sizes)
    case.module.eval()
    source, rows = draw_source(case), sizes.batch * BEAMS
    lengths = torch.tensor([case.randint(1, sizes.length) for _ in range(sizes.batch)])
    mask = torch.arange(sizes.length) < lengths[:, None]
    tokens, more = case.draw(rows), case.draw(rows)
    order = torch.tensor([row // BEAMS * BEAMS + case.randint(0, BEAMS - 1) for row in range(rows)])
    with torch.no_grad():
        shared, each = (
            case.module.encode(source, mask),
            case.module.encode(source.repeat_interleave(BEAMS, 0), mask.repeat_interleave(BEAMS, 0)),
        )
        for capacity in (None, 2 * sizes.length):
            states = [case.module.initial_state(rows, memory, capacity) for memory in (shared, each)]
            first, second = (case.read(Chunk(tokens), state=state) for state in states)
            case.same_rows("y of beams that share a row of memory", second.rows, first.rows)
            reordered = reorder(copy_state(first.state), order)
            apart = select_rows(copy_state(second.state), order, memory_rows=order)
            case.same_rows(
                f"y of beams {order.tolist()}",
                case.read(Chunk(more), state=apart).rows,
                case.read(Chunk(more), state=reordered).rows,
            )


def needing_a_source(build: Build, sizes: Sizes) -> None:
    """A call without a source, or with a mask that packs several targets into a row, raises a UserError."""
    case = Case("needing a source", build, sizes)
    tokens = case.draw()
    memory = case.module.encode(draw_source(case))
    documents = torch.ones(sizes.batch, sizes.length, dtype=torch.long)
    calls = {
        "initial_state without a memory": lambda: case.module.initial_state(sizes.batch),
        "forward without a state": lambda: case.module(tokens),
        "a mask of document numbers": lambda: case.module(
            tokens, documents, case.module.initial_state(sizes.batch, memory)
        ),
    }
    for what, call in calls.items():
        try:
            call()
        except UserError:
            continue
        case.fail(f"{what} was accepted silently; raise a UserError")


def source_levels(build: Build, sizes: Sizes) -> None:
    """The encoder's last level is the memory, and each position of its first level depends only on itself."""
    case = Case("source levels", build, sizes)
    case.module.eval()
    source = draw_source(case)
    source_levels = case.module.source_levels(source)
    case.same("the last level", case.module.encode(source).values, source_levels[-1])
    if sizes.length > 1:
        changed = torch.cat([source[:, :1], draw_source(case)[:, 1:]], 1)
        case.same(
            "the first level at position 0 when others change",
            source_levels[0][:, :1],
            case.module.source_levels(changed)[0][:, :1],
        )


def draw_source(case: Case, length: int | None = None) -> Tensor:
    length = case.sizes.length if length is None else length
    return torch.randint(case.module.source_vocabulary, (case.sizes.batch, length), generator=case.generator)


CONDITIONED_LAWS: dict[str, Law] = {name: law for name, law in BODY_LAWS.items() if name != "documents"}
"""Laws of `Conditioned`. Each packed document would need its own source, so such a mask is rejected."""

SOURCE_LAWS: dict[str, Law] = {
    "encoding": encoding,
    "looking": looking,
    "sharing": sharing,
    "needing a source": needing_a_source,
    "source levels": source_levels,
}
