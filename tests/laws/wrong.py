"""Members that are each wrong in one way, to test that the laws detect it."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.config import TaskSection
from clew.core.masks import reverse_rows
from clew.core.state import map_tree
from clew.core.taps import is_watched
from clew.core.types import Fixed, Memory
from clew.layers.cells import GRU, LSTM, Cell, Elman
from clew.layers.characters import CharacterCNN
from clew.layers.norms import LayerNorm
from clew.layers.pooling import First
from clew.layers.positions import ALiBi, Position
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.scores import Dot, Score
from clew.layers.sequence import SequenceLayer
from clew.layers.shapes.graph_lstm import GraphLSTM
from clew.layers.shapes.grid_lstm import GridGRU, GridLSTM, GridLSTMCell
from clew.layers.shapes.tree_lstm import ChildSumTreeLSTM
from clew.layers.wiring import Plain
from clew.metrics.measures import Measured
from clew.models import Family
from clew.models.encoder_decoder import EncoderDecoder
from clew.models.seq2seq import Seq2SeqConfig, build_seq2seq
from clew.tasks.texts import TextTask, text_task, text_use


class Minimal(Cell):
    """h' = tanh(W [x; h]): a correct cell, from which the wrong ones are derived."""

    def __init__(self, input_dim, dim):
        super().__init__(input_dim, dim)
        self.linear = nn.Linear(input_dim + dim, dim)

    def forward(self, inputs, state):
        hidden = torch.tanh(self.linear(torch.cat([inputs, state], -1)))
        return hidden, hidden


class LooksAhead(Minimal):
    def inputs(self, x):
        return x.flip(1)


class CentresOverLength(Minimal):
    def inputs(self, x):
        return x - x.mean(1, keepdim=True)


class SumsOverRows(Minimal):
    def inputs(self, x):
        return x.cumsum(0)


class BatchNorms(Minimal):
    def __init__(self, input_dim, dim):
        super().__init__(input_dim, dim)
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, inputs, state):
        hidden, _ = super().forward(inputs, state)
        hidden = self.norm(hidden) if len(hidden) > 1 else hidden
        return hidden, hidden


class KeepsStateOnSelf(Minimal):
    kept = None

    def forward(self, inputs, state):
        before = self.kept if self.kept is not None and self.kept.shape == state.shape else state
        hidden, _ = super().forward(inputs, before)
        self.kept = hidden.detach()
        return hidden, hidden


class CountsSteps(Minimal):
    steps = 0

    def forward(self, inputs, state):
        self.steps += 1
        hidden, _ = super().forward(inputs + self.steps, state)
        return hidden, hidden


class WritesIntoState(Minimal):
    def forward(self, inputs, state):
        y, new = super().forward(inputs, state)
        with torch.no_grad():
            state.mul_(0.5)
        return y, new


class IgnoresState(Minimal):
    def forward(self, inputs, state):
        return super().forward(inputs, torch.zeros_like(state))


class SinglePrecision(Minimal):
    def initial_state(self, batch_size, memory=None, *, like):
        return torch.zeros(batch_size, self.dim)


class StateOfNumbers(Minimal):
    def initial_state(self, batch_size, memory=None, *, like):
        return like.new_zeros(batch_size, self.dim), 0

    def forward(self, inputs, state):
        y, hidden = super().forward(inputs, state[0])
        return y, (hidden, state[1] + 1)


class StateChangesForm(Minimal):
    def forward(self, inputs, state):
        y, hidden = super().forward(inputs, state)
        return y, (hidden, hidden)


class NoBatchInState(Minimal):
    def initial_state(self, batch_size, memory=None, *, like):
        return like.new_zeros(1 + self.dim, batch_size)


class WrongWidth(Minimal):
    def forward(self, inputs, state):
        y, hidden = super().forward(inputs, state)
        return torch.cat([y, y], -1), hidden


class OnlyOutput(Minimal):
    def forward(self, inputs, state):
        return super().forward(inputs, state)[0]


class FixedOfTheChunk(Minimal):
    """Uses a value that is fixed for a chunk but depends on the content of the chunk."""

    def inputs(self, x):
        return x, Fixed(x.sum(1))

    def forward(self, inputs, state):
        x, total = inputs
        return super().forward(x + total.value, state)


class IgnoresFinal(Minimal):
    def initial_state(self, batch_size, memory=None, *, like):
        return like.new_zeros(batch_size, self.dim)


class KernelOfAnother(GRU):
    """Changes the equation and keeps the name of the kernel that computes the old one."""

    def forward(self, inputs, state):
        hidden, _ = super().forward(inputs, state)
        return 0.5 * hidden, 0.5 * hidden


class LooksAheadBehindAKernel(Elman):
    """Wrong only in the equation: the inherited kernel never calls `inputs`."""

    def inputs(self, x):
        projected, weight = super().inputs(x)
        return projected.flip(1), weight


class Unsaved(Elman):
    """Uses a random matrix that is not a parameter."""

    def __init__(self, input_dim, dim):
        super().__init__(input_dim, dim)
        self.kernel = None
        self.mix = torch.rand(dim, dtype=torch.float64)

    def forward(self, inputs, state):
        hidden, _ = super().forward(inputs, state)
        return self.mix * hidden, self.mix * hidden


class NotACell(nn.Linear):
    pass


class NeedsMore(LSTM):
    def __init__(self, input_dim, dim, depth):
        super().__init__(input_dim, dim)


class DividesByZero(Minimal):
    def forward(self, inputs, state):
        y, hidden = super().forward(inputs, state)
        return y / 0.0, hidden


class Raises(Minimal):
    def forward(self, inputs, state):
        raise RuntimeError("no luck today")


class CountsOffset(Minimal):
    """Wrong only from the second step of a chunk on: every chunk starts with a zero state."""

    def inputs(self, x):
        first = torch.zeros_like(x[..., :1])
        first[:, :1] = 1
        return x, first

    def forward(self, inputs, state):
        x, first = inputs
        return super().forward(x, state * (1 - first))


class InputsOfItsOwn(GRU):
    """Transforms x correctly when it is complete, but not when it arrives in chunks."""

    def inputs(self, x):
        projected, fixed = super().inputs(x)
        return torch.tanh(projected), fixed


CELLS = {
    "late features": [InputsOfItsOwn],
    "purity": [KeepsStateOnSelf, CountsSteps, WritesIntoState],
    "batch": [SumsOverRows, BatchNorms],
    "causality": [LooksAhead, CentresOverLength, FixedOfTheChunk, LooksAheadBehindAKernel],
    "chunking": [LooksAhead, CentresOverLength, KeepsStateOnSelf, CountsOffset],
    "remembering": [IgnoresState],
    "contract": [
        SinglePrecision,
        StateOfNumbers,
        StateChangesForm,
        NoBatchInState,
        WrongWidth,
        OnlyOutput,
        NotACell,
        NeedsMore,
        DividesByZero,
        Raises,
    ],
    "handing over": [IgnoresFinal],
    "kernels": [KernelOfAnother, LooksAheadBehindAKernel],
    "watching": [KernelOfAnother],
    "saving": [Unsaved],
    "stacking": [CountsSteps],
    "padding": [CentresOverLength],
}


class Average(SequenceLayer):
    """y_t = the mean of x up to t, with sum and count as the state: a correct mixer."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def initial_state(self, batch_size, memory=None, capacity=None, *, like):
        return (
            like.new_zeros(batch_size, self.dim),
            like.new_zeros(batch_size, 1),
            torch.zeros(batch_size, dtype=torch.long),
        )

    def real(self, x, mask):
        return torch.ones_like(x[..., :1]) if mask is None else (mask > 0)[..., None].to(x.dtype)

    def forward(self, x, mask=None, state=None):
        total, count, document = self.initial_state(len(x), like=x) if state is None else state
        outputs = []
        real = self.real(x, mask)
        for t in range(x.shape[1]):
            keep = torch.ones_like(count)
            if mask is not None and mask.dtype != torch.bool:
                changed = (mask[:, t] > 0) & (mask[:, t] != document)
                document = torch.where(mask[:, t] > 0, mask[:, t], document)
                keep = (~changed)[:, None].to(x.dtype)
            total, count = total * keep + torch.where(real[:, t] > 0, x[:, t], 0.0), count * keep + real[:, t]
            outputs.append(total / count.clamp(min=1))
        return torch.stack(outputs, 1) if outputs else x, (total, count, document)


class ForgetsTheMask(Average):
    def real(self, x, mask):
        return torch.ones_like(x[..., :1])


class MeanOfAll(SequenceLayer):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask=None, state=None):
        return x - x.mean(1, keepdim=True), None


class Windowless(SequenceLayer):
    """y_t = x_t + x_{t-1}, but x_{t-1} is not carried between chunks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask=None, state=None):
        return x + F.pad(x, (0, 0, 1, 0))[:, :-1] if x.shape[1] else x, None


class ReadsDocumentsAsOne(Average):
    def forward(self, x, mask=None, state=None):
        return super().forward(x, None if mask is None else mask > 0, state)


class IgnoresGivenState(Average):
    def forward(self, x, mask=None, state=None):
        y, after = super().forward(x, mask, None)
        return y, after if state is None else state


class AnotherBeginning(Average):
    def initial_state(self, batch_size, memory=None, capacity=None, *, like):
        total, count, document = super().initial_state(batch_size, like=like)
        return total, count + 1, document

    def forward(self, x, mask=None, state=None):
        return super().forward(x, mask, super().initial_state(len(x), like=x) if state is None else state)


class DropsPrecision(Average):
    def forward(self, x, mask=None, state=None):
        y, state = super().forward(x, mask, state)
        return y.float(), state


class BackwardsQuietly(SequenceLayer):
    causal = False

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask=None, state=None):
        return x + reverse_rows(x, mask), None


class CannotReadNothing(Average):
    def forward(self, x, mask=None, state=None):
        return super().forward(x, mask, state) if x.shape[1] else (x.new_zeros(len(x), 0, 2 * self.dim), state)


class StateAcrossRows(Average):
    """Mixes the states of different rows."""

    def forward(self, x, mask=None, state=None):
        total, count, document = self.initial_state(len(x), like=x) if state is None else state
        return super().forward(x, mask, (total - total.mean(0), count, document))


class BufferTooShort(Average):
    """With a capacity, creates a state that it never updates."""

    def initial_state(self, batch_size, memory=None, capacity=None, *, like):
        total, count, document = super().initial_state(batch_size, like=like)
        return total, count + (0 if capacity is None else 1), document


class WrongRewind(tuple):
    @property
    def lengths(self):
        return self[1][:, 0].long()

    def rewind(self, lengths):
        return self


class RewindsNothing(Average):
    def initial_state(self, batch_size, memory=None, capacity=None, *, like):
        return WrongRewind(super().initial_state(batch_size, like=like))

    def forward(self, x, mask=None, state=None):
        y, after = super().forward(x, mask, state)
        return y, WrongRewind(after)


class WrongReorder(tuple):
    def reordered(self, move):
        return self


class ReordersNothing(Average):
    def initial_state(self, batch_size, memory=None, capacity=None, *, like):
        return WrongReorder(super().initial_state(batch_size, like=like))

    def forward(self, x, mask=None, state=None):
        y, after = super().forward(x, mask, state)
        return y, WrongReorder(after)


MIXERS = {
    "padding": [ForgetsTheMask, MeanOfAll],
    "causality": [MeanOfAll],
    "chunking": [Windowless, IgnoresGivenState],
    "documents": [ReadsDocumentsAsOne, Windowless],
    "beginning": [AnotherBeginning],
    "contract": [DropsPrecision],
    "refusal": [BackwardsQuietly],
    "no length": [CannotReadNothing],
    "rows": [StateAcrossRows],
    "reordering": [ReordersNothing],
    "batch": [StateAcrossRows],
    "caching": [BufferTooShort],
    "rewinding": [RewindsNothing],
}


class LooksAtAllKeys(Score):
    is_dot = False

    def forward(self, query, key, key_positions):
        return self.mapped(query) @ key.mT * key.norm(dim=2, keepdim=True).sum(-1, keepdim=True)


class AnotherDot(Dot):
    def forward(self, query, key, key_positions):
        return 0.5 * super().forward(query, key, key_positions)


class NegativeInfinity(Dot):
    is_dot = False

    def forward(self, query, key, key_positions):
        return super().forward(query, key, key_positions).log()


class WrongAxes(Dot):
    def forward(self, query, key, key_positions):
        return super().forward(query, key, key_positions).mT


class Unmaskable(Score):
    """Subtracts the largest score, including those of masked keys."""

    is_dot = False

    def forward(self, query, key, key_positions):
        scores = self.mapped(query) @ key.mT
        return scores / scores.abs().amax(-1, keepdim=True)


class AbsolutePlace(Score):
    """Prefers early positions, counted from the start of the row instead of the document."""

    is_dot = False

    def forward(self, query, key, key_positions):
        return self.mapped(query) @ key.mT - torch.arange(key.shape[2], dtype=key.dtype)


SCORES = {
    "pairs": [LooksAtAllKeys, Unmaskable, AbsolutePlace],
    "dot products": [AnotherDot],
    "preparing": [AnotherDot],
    "hidden keys": [LooksAtAllKeys, Unmaskable],
    "contract": [NegativeInfinity, WrongAxes],
    "causality, in self-attention": [LooksAtAllKeys],
    "kernels, in self-attention": [AnotherDot],
}


class AbsoluteBias(ALiBi):
    def scores(self, query, query_positions, key_positions):
        bias = 0.1 * key_positions[:, None, :] ** 2 + 0 * query_positions[:, :, None]
        return bias[:, None].to(query.dtype).expand(-1, query.shape[1], -1, -1)


class Unannounced(Position):
    in_layers = True

    def scores(self, query, query_positions, key_positions):
        return query.new_zeros(len(query), query.shape[1], query_positions.shape[1], key_positions.shape[1])


class SecretlyContent(ALiBi):
    def scores(self, query, query_positions, key_positions):
        return super().scores(query, query_positions, key_positions) * query.mean(-1, keepdim=True)


class CountsByItself(Position):
    """Uses arange for its waves instead of the given positions."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + torch.sin(torch.arange(x.shape[1], dtype=x.dtype))[:, None]


class CentresEmbedding(Position):
    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)


POSITIONS = {
    "shifting": [AbsoluteBias],
    "contract": [Unannounced],
    "content": [SecretlyContent],
    "chunking, in a small body": [CountsByItself],
    "documents, in a small body": [CountsByItself],
    "causality, in a small body": [CentresEmbedding],
    "levels, in a small body": [CentresEmbedding],
    "documents, in self-attention": [AbsoluteBias],
}


class OverPositions(LayerNorm):
    def forward(self, x):
        return x - x.mean(1, keepdim=True)


class Batched(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view_as(x) if x.shape[:2].numel() > 1 else x


NORMS = {"positions alone": [OverPositions, Batched]}


class MeanOfPadding(First):
    def forward(self, hidden, mask=None):
        return hidden.mean(1)


class MeanOfRows(First):
    def forward(self, hidden, mask=None):
        return hidden[:, 0] - hidden[:, 0].mean(0)


class PoolsNothing(First):
    def forward(self, hidden, mask=None):
        return hidden


class SeesPadding(CharacterCNN):
    def embed(self, letters):
        return self.letters(letters)


class CountsPlaces(CharacterCNN):
    def forward(self, letters):
        return super().forward(letters) + torch.arange(letters.shape[1])[:, None]


class OneVectorARow(CharacterCNN):
    def forward(self, letters):
        return super().forward(letters).mean(1)


CHARACTERS = {"words alone": [SeesPadding, CountsPlaces], "contract": [OneVectorARow]}

POOLINGS = {"real positions only": [MeanOfPadding, MeanOfRows], "contract": [PoolsNothing]}


class LooksAheadAround(Plain):
    def forward(self, x, mask=None, state=None):
        y, state = super().forward(x, mask, state)
        return y + x.sum(1, keepdim=True), state


class LosesState(Plain):
    def forward(self, x, mask=None, state=None):
        y, state = super().forward(x, mask, None)
        return y, state


WIRINGS = {"causality": [LooksAheadAround], "chunking": [LosesState]}


class ForgetsTheSourcesMask(EncoderDecoder):
    def encode(self, inputs, mask=None):
        return super().encode(inputs)._replace(mask=mask)


class LooksAtPadding(EncoderDecoder):
    def encode(self, inputs, mask=None):
        return super().encode(inputs, mask)._replace(mask=None)


class NeverLooks(EncoderDecoder):
    def initial_state(self, batch_size, memory=None, capacity=None, *, like=None):
        memory = memory and Memory(torch.zeros_like(memory.values), memory.mask)
        return super().initial_state(batch_size, memory, capacity, like=like)


class DealsBeamsOut(EncoderDecoder):
    """Starts beam 0 of every sentence, then beam 1 of every sentence."""

    def initial_state(self, batch_size, memory=None, capacity=None, *, like=None):
        if memory is not None and batch_size > len(memory.values):
            memory = memory._replace(final=map_tree(lambda leaf: leaf.repeat(batch_size // len(leaf), 1), memory.final))
            return self.decoder.initial_state(batch_size, memory, capacity, like=like)
        return super().initial_state(batch_size, memory, capacity, like=like)


class DoesWithoutASource(EncoderDecoder):
    def forward(self, inputs, mask=None, state=None):
        if state is None:
            state = self.initial_state(len(inputs), self.encode(inputs % self.source_vocabulary))
        return super().forward(inputs, mask, state)


class LevelsOfAnother(EncoderDecoder):
    def source_levels(self, inputs, mask=None):
        return super().source_levels(inputs.flip(1), mask)


def family(kind):
    def build(config, target, source):
        body = build_seq2seq(config, target, source)
        return kind(body.encoder, body.decoder, body.bridge)

    build.__name__ = kind.__name__
    return Family(Seq2SeqConfig, build, encodes=True)


MODELS = {
    "encoding": [family(ForgetsTheSourcesMask), family(LooksAtPadding)],
    "looking": [family(NeverLooks)],
    "sharing": [family(DealsBeamsOut)],
    "needing a source": [family(DoesWithoutASource)],
    "source levels": [family(LevelsOfAnother)],
}


class OnlyHidden(ChildSumTreeLSTM):
    def forward(self, x, trees):
        return super().forward(x, trees).hidden


class CentresOverNodes(ChildSumTreeLSTM):
    def forward(self, x, trees):
        return super().forward(x - x.mean((0, 1)), trees)


class ForgetsChildren(ChildSumTreeLSTM):
    def step(self, inputs, children):
        return super().step(inputs, map_tree(lambda leaf: leaf[:0], children))


class LooksUp(ChildSumTreeLSTM):
    """Every node also sees its root."""

    def forward(self, x, trees):
        return super().forward(x + (x * trees.roots[..., None]).sum(1, keepdim=True), trees)


class CountsNodes(ChildSumTreeLSTM):
    def forward(self, x, trees):
        return super().forward(x * torch.arange(1, x.shape[1] + 1)[:, None], trees)


TREE_LAYERS = {
    "contract": [OnlyHidden],
    "trees alone": [CentresOverNodes],
    "what is below": [ForgetsChildren, LooksUp],
    "places": [CountsNodes],
}


class OnlyHiddenOfGrids(GridLSTM):
    def forward(self, x, mask=None):
        return super().forward(x, mask)[0]


class ForgetsTheGridsMask(GridLSTM):
    """Reads from the bottom right, where the padding is."""

    def __init__(self, input_dim, dim):
        super().__init__(input_dim, dim, directions=2)

    def forward(self, x, mask=None):
        return super().forward(x)


class FlipsWithPadding(GridLSTM):
    """Flips the whole grid instead of each example within its own size."""

    def forward(self, x, mask=None):
        return (super().forward(x.flip(1), None if mask is None else torch.ones_like(mask))[0].flip(1),)


class CentresOverGrids(GridLSTM):
    def forward(self, x, mask=None):
        return super().forward(x - x.mean(0), mask)


class LooksBelow(GridLSTM):
    def forward(self, x, mask=None):
        return super().forward(x + x.roll(-1, 1), mask)


class ForgetsAbove(GridGRU):
    """Reads rows separately, without the state from above."""

    def forward(self, x, mask=None):
        rows = [
            super(ForgetsAbove, self).forward(row[:, None], None if mask is None else mask[:, :1])[0]
            for row in x.unbind(1)
        ]
        return (torch.cat(rows, 1),)


class OtherWhenWatched(GridLSTM):
    def forward(self, x, mask=None):
        return super().forward(2 * x if is_watched(self) else x, mask)


class ShowsDiagonals(GridGRU):
    """Its taps show single diagonals of varying shapes."""

    def forward(self, x, mask=None):
        for cell in self.cells.values():
            cell.hidden(x[:, 0])
        return super().forward(x, mask)


class HalfOutput(GridLSTMCell):
    def forward(self, inputs, up, left):
        hidden, cell = super().forward(inputs, up, left)
        return LSTMState(hidden / 2, cell)


class KernelOfAnotherGrid(GridLSTM):
    def __init__(self, input_dim, dim):
        super().__init__(input_dim, dim)
        self.cells["top_left"] = HalfOutput(input_dim, dim)


GRID_LAYERS = {
    "contract": [OnlyHiddenOfGrids],
    "padding": [ForgetsTheGridsMask, FlipsWithPadding],
    "batch": [CentresOverGrids],
    "causality": [LooksBelow, ForgetsAbove],
    "watching": [OtherWhenWatched, ShowsDiagonals],
    "kernels": [KernelOfAnotherGrid],
}


class OnlyHiddenOfNodes(GraphLSTM):
    def forward(self, x, graphs):
        return super().forward(x, graphs).hidden


class CentresOverGraphs(GraphLSTM):
    def forward(self, x, graphs):
        return super().forward(x - x.mean((0, 1)), graphs)


class CountsGraphNodes(GraphLSTM):
    def forward(self, x, graphs):
        return super().forward(x * torch.arange(1, x.shape[1] + 1)[:, None], graphs)


class ForgetsNeighbours(GraphLSTM):
    def step(self, inputs, neighbours):
        return super().step(inputs, map_tree(lambda leaf: leaf[:0], neighbours))


class LooksAtAll(GraphLSTM):
    """Every node sees all nodes of its graph."""

    def forward(self, x, graphs):
        return super().forward(x + (x * graphs.mask[..., None]).sum(1, keepdim=True), graphs)


GRAPH_LAYERS = {
    "contract": [OnlyHiddenOfNodes],
    "graphs alone": [CentresOverGraphs],
    "renamed nodes": [CountsGraphNodes],
    "what a node sees": [ForgetsNeighbours, LooksAtAll],
}


class OwnConfig(TaskSection):
    name: Literal["own"] = "own"


class Own(TextTask):
    """A correct task: predicts one number from the mean of a text's vectors."""

    def __init__(self, body, reader, config):
        super().__init__(body, reader, config)
        self.output = nn.Linear(body.dim, 1)

    def target(self, example):
        return float(example.label)

    def logits(self, batch):
        return self.output(self.mean(batch))[:, 0]

    def loss(self, batch):
        return ((self.logits(batch) - batch.targets) ** 2).sum()

    def predictions(self, batch):
        return self.logits(batch).tolist()

    def measure(self, examples, predictions):
        return Measured({"mean": sum(predictions) / len(predictions)}, "")


class CountsOther(Own):
    def forward(self, batch, state=None):
        terms, state = super().forward(batch, state)
        return {"loss": terms["loss"]._replace(count=terms["loss"].count + 1)}, state


class MeanLoss(Own):
    def loss(self, batch):
        return super().loss(batch) / len(batch.targets)


class MeanOverPadding(Own):
    def mean(self, batch):
        return self.hidden(batch).mean(1)


class RanksRows(Own):
    def predictions(self, batch):
        return [value - max(super(RanksRows, self).predictions(batch)) for value in super().predictions(batch)]


class TellsTensors(Own):
    def predictions(self, batch):
        return list(self.logits(batch))


class CountsTexts(Own):
    """The ids of a text depend on how many texts are encoded together."""

    def encode(self, examples):
        return [each._replace(target=each.target + len(examples)) for each in super().encode(examples)]


class SelectsByAnother(Own):
    best = "accuracy"


def own_task(task):
    return text_task(task, OwnConfig, text_use("a number", "number"))


TASKS = {
    "counts": [own_task(CountsOther)],
    "exact means": [own_task(MeanLoss)],
    "padding": [own_task(MeanOverPadding)],
    "batched is single": [own_task(RanksRows)],
    "json": [own_task(TellsTensors)],
    "best": [own_task(SelectsByAnother)],
    "on disk": [own_task(CountsTexts)],
}
