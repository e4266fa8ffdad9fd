"""A training step of a word-level LSTM language model with a carried state (the medium model of Zaremba et al. 2014),
compared with torch.nn.LSTM."""

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.bench.peers import PlainLSTM
from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload, training_cost
from clew.bench.workloads.steps import loop_step, train_step
from clew.data.plans import TokenBatch
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.training.optimisers import sgd

PEER = "nn.LSTM"


def build(setting: Setting) -> Work:
    vocabulary, dim, layers, batch, length = setting.sizes((10_000, 650, 2, 20, 35), quick=(500, 64, 2, 8, 35))
    tokens, targets = torch.randint(vocabulary, (2, batch, length), device=setting.device)

    def ours() -> Call:
        body = build_recurrent(RecurrentConfig(dim=dim, num_layers=layers), Tokens(vocabulary))
        task = LanguageModel(body, None).to(setting.device)  # type: ignore[arg-type]
        batch = TokenBatch(tokens.cpu(), targets.cpu(), None, False)
        return loop_step(task, batch, sgd(task.parameters(), 0.1), clip=0.25, carry=True)

    def theirs() -> Call:
        peer = PlainLSTM(vocabulary, dim, layers).to(setting.device)
        carried: tuple[Tensor, Tensor] | None = None

        def loss() -> Tensor:
            nonlocal carried
            logits, (hidden, cell) = peer(tokens, carried)
            carried = hidden.detach(), cell.detach()
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

        return train_step(torch.optim.SGD(peer.parameters(), lr=0.1), loss, clip=0.25)

    sizes = f"{layers} x {dim}, {batch} x {length} tokens, vocabulary {vocabulary:,}"
    cost = training_cost(8 * layers * dim**2 + vocabulary * dim, batch * length)
    return Work([Side(OURS, ours), Side(PEER, theirs)], sizes, batch * length, cost)


LSTM_TRAIN = Workload("lstm-train", "a training step of an LSTM language model", build, (PEER,))
