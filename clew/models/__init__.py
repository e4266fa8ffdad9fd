"""Bodies, one family per file: a small frozen config and a build function."""

from collections.abc import Callable
from typing import Any, NamedTuple

from clew.core.config import ModelSection
from clew.models.bag import BagConfig, build_bag
from clew.models.bert import BERTConfig, build_bert
from clew.models.cnn import CNNConfig, build_cnn
from clew.models.convolutional import ConvolutionalConfig, build_convolutional
from clew.models.elmo import ELMoConfig, build_elmo
from clew.models.gpt import GPTConfig, build_gpt
from clew.models.graph_lstm import GraphLSTMConfig, build_graph_lstm
from clew.models.grid_lstm import GridLSTMConfig, build_grid_lstm
from clew.models.llama import LlamaConfig, build_llama
from clew.models.mixed import MixedConfig, build_mixed
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.models.seq2seq import Seq2SeqConfig, build_seq2seq
from clew.models.transformer import TransformerConfig, build_transformer
from clew.models.tree_lstm import TreeLSTMConfig, build_tree_lstm
from clew.models.window import WindowConfig, build_window


class Family(NamedTuple):
    """A family of bodies. `build(config, source)` composes layers above any source; a family that `encodes` has
    `build(config, target, source)`, where the target is what it writes. `reads` is "sequence" or one of SHAPES: "trees"
    (`TreeInputs`), "grid", "graph" (`GraphInputs`)."""

    config: type[ModelSection]
    build: Callable[..., Any]
    encodes: bool = False
    reads: str = "sequence"

    @property
    def reads_sequence(self) -> bool:
        return self.reads not in SHAPES


SHAPES = {"trees": "trees", "grid": "a grid", "graph": "a graph"}
"""The inputs of a family other than sequences, as phrases."""

MODELS: dict[str, Family] = {
    "recurrent": Family(RecurrentConfig, build_recurrent),
    "window": Family(WindowConfig, build_window),
    "gpt": Family(GPTConfig, build_gpt),
    "llama": Family(LlamaConfig, build_llama),
    "bert": Family(BERTConfig, build_bert),
    "bag": Family(BagConfig, build_bag),
    "cnn": Family(CNNConfig, build_cnn),
    "mixed": Family(MixedConfig, build_mixed),
    "elmo": Family(ELMoConfig, build_elmo),
    "seq2seq": Family(Seq2SeqConfig, build_seq2seq, encodes=True),
    "transformer": Family(TransformerConfig, build_transformer, encodes=True),
    "convolutional": Family(ConvolutionalConfig, build_convolutional, encodes=True),
    "tree_lstm": Family(TreeLSTMConfig, build_tree_lstm, reads="trees"),
    "grid_lstm": Family(GridLSTMConfig, build_grid_lstm, reads="grid"),
    "graph_lstm": Family(GraphLSTMConfig, build_graph_lstm, reads="graph"),
}
