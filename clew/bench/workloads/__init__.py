"""The workloads: one file for each, or for several that differ only in sizes."""

from clew.bench.workload import Workload
from clew.bench.workloads.cells import CELLS_TRAIN
from clew.bench.workloads.gpt2_decode import GPT2_DECODE
from clew.bench.workloads.gpt2_train import GPT2_TRAIN
from clew.bench.workloads.gpt_decode import GPT_DECODE
from clew.bench.workloads.gpt_train import GPT_TRAIN
from clew.bench.workloads.llama_decode import LLAMA_DECODE
from clew.bench.workloads.lstm_decode import LSTM_DECODE
from clew.bench.workloads.lstm_train import LSTM_TRAIN
from clew.bench.workloads.mixed_decode import MIXED_DECODE
from clew.bench.workloads.runtimes import RUNTIME_WORKLOADS
from clew.bench.workloads.seq2seq_train import SEQ2SEQ_TRAIN
from clew.bench.workloads.transformer_beam import TRANSFORMER_BEAM

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in [
        LSTM_TRAIN,
        *CELLS_TRAIN,
        GPT_TRAIN,
        GPT2_TRAIN,
        *SEQ2SEQ_TRAIN,
        *LSTM_DECODE,
        *GPT_DECODE,
        *GPT2_DECODE,
        *LLAMA_DECODE,
        *MIXED_DECODE,
        TRANSFORMER_BEAM,
        *RUNTIME_WORKLOADS,
    ]
}
