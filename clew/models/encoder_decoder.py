"""An encoder-decoder: one body encodes the whole source, another writes the target word by word and attends to it.

It knows no family and no task. Apart from `encode`, a task sees an ordinary body: a language model that starts from a
memory.
"""

from typing import Any

from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import has_documents
from clew.core.state import map_tree
from clew.core.types import Memory, Source, State, Term
from clew.layers.attending.hard_attention import Reinforce, find_draws
from clew.layers.embeddings import Embedding
from clew.layers.positions import Position
from clew.models.body import Body


class EncoderDecoder(nn.Module):
    """`p(target | source) = product over t of p(y_t | y_<t, source)`.

        memory = encode(source)              values (batch, length, dim), mask, and a recurrent decoder's initial state
        state  = initial_state(batch_size, memory)
        hidden = decoder(tokens, state)

    `bridge` maps the encoder's last states to the initial states of the decoder's first layers. `reinforce` is given if
    attention is hard; a task then adds `hard_terms` to its loss.
    """

    causal = True
    encodes = True

    def __init__(
        self, encoder: Body, decoder: Body, bridge: nn.Module | None = None, reinforce: Reinforce | None = None
    ):
        super().__init__()
        if not decoder.causal:
            raise UserError(
                "a decoder writes word by word, so each of its layers must be causal; these see the whole sequence at"
                " once"
            )
        self.encoder = encoder
        self.decoder = decoder
        self.bridge = bridge
        self.reinforce = reinforce
        self.dim = decoder.dim
        self.vocabulary = decoder.vocabulary
        self.source_vocabulary = encoder.vocabulary

    @property
    def embedding(self) -> Embedding:
        """The target's embedding. Shared embeddings have one table with the source; a tied output layer uses it too."""
        return self.decoder.embedding

    @property
    def source_embedding(self) -> Embedding:
        return self.encoder.embedding

    @property
    def shares_embeddings(self) -> bool:
        return self.source_embedding.tokens is self.embedding.tokens

    @property
    def max_length(self) -> int | None:
        """The number of learnt target positions; None if unbounded."""
        return self.decoder.max_length

    @property
    def source_max_length(self) -> int | None:
        return self.encoder.max_length

    @property
    def is_hard(self) -> bool:
        """Whether attention is hard, so that training needs `hard_terms`."""
        return self.reinforce is not None

    def encode(self, inputs: Any, mask: Tensor | None = None) -> Memory:
        """The memory of a source. A row without real positions is encoded from its padding."""
        refuse_documents(mask)
        values, state = self.encoder(inputs, mask)
        return Memory(
            values, self.encoder.layers.out_mask(mask), None if self.bridge is None else self.bridge(state.layers)
        )

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor | None = None
    ) -> State:
        """The state before the first word. `batch_size` may be a multiple of the memory's rows: hypotheses then share
        these."""
        if memory is None:
            raise UserError(
                "an encoder-decoder writes from a source; give initial_state a memory: body.encode(inputs, mask)"
            )
        sentences = memory.values.shape[0]
        if sentences == 0 or batch_size % sentences:
            raise UserError(
                f"{batch_size} rows cannot share {sentences} rows of memory; the rows must be a multiple of the"
                " sentences"
            )
        beams = batch_size // sentences
        if beams > 1 and memory.final is not None:
            memory = Memory(
                memory.values, memory.mask, map_tree(lambda leaf: leaf.repeat_interleave(beams, 0), memory.final)
            )
        return self.decoder.initial_state(batch_size, memory, capacity, like=like)

    def forward(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        """Run the decoder over a chunk of target tokens."""
        if state is None:
            raise UserError(
                "an encoder-decoder writes from a source; give it a state of initial_state(batch_size, memory), "
                "where memory is encode(inputs, mask)"
            )
        refuse_documents(mask)
        output: tuple[Tensor, State] = self.decoder(inputs, mask, state)
        return output

    def levels(self, inputs: Any, mask: Tensor | None = None, memory: Memory | None = None) -> list[Tensor]:
        """The target embedding and every decoder layer's output."""
        refuse_documents(mask)
        tokens = inputs if isinstance(inputs, Tensor) else inputs.tokens
        return self.decoder.levels(inputs, mask, self.initial_state(tokens.shape[0], memory))

    def source_levels(self, inputs: Any, mask: Tensor | None = None) -> list[Tensor]:
        """The source embedding and every encoder layer's output."""
        return self.encoder.levels(inputs, mask)

    def hard_terms(self, state: State, log_probs: Tensor, mask: Tensor | None = None) -> dict[str, Term]:
        """The loss terms of hard attention by name, from the state after a training chunk and log p (batch, length) of
        its targets, detached. Empty if attention is soft or in evaluation."""
        draws = None if self.reinforce is None else find_draws(state)
        return {} if draws is None or self.reinforce is None else self.reinforce(draws, log_probs, mask)


def refuse_documents(mask: Tensor | None) -> None:
    # Each document in a row would need its own memory.
    if has_documents(mask):
        raise UserError(
            "an encoder-decoder has one source and one target per row; give it a boolean mask, not document numbers"
        )


def embeddings(
    target: Source,
    source: Source | None,
    dim: int,
    *,
    shared: bool,
    position: Position | None = None,
    source_position: Position | None = None,
    word_dropout: float = 0.0,
    **around: Any,
) -> tuple[Embedding, Embedding]:
    """The embeddings of source and target. With `shared` both use one table (Press and Wolf 2017), owned by the
    target's embedding. The default of `source` is `target`."""
    source = target if source is None else source
    if shared and source.width != target.width:
        raise UserError(
            f"shared embeddings need one vocabulary, but the source has {source.width} tokens and the target"
            f" {target.width}; train one tokenizer on both, or set model.shared_embeddings=false"
        )
    writes = target.embedding(dim, position=position, word_dropout=word_dropout, **around)
    table = {"table": writes.tokens} if shared else {}
    return source.embedding(dim, position=source_position, **table, **around), writes
