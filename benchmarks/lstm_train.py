"""A training step of a word LSTM language model beside torch.nn.LSTM: 2 x 650, vocabulary 10,000, batch 20, 35 steps (Zaremba's medium)."""

import torch
import torch.nn.functional as F

from benchmarks.peers import PlainLSTM
from benchmarks.side_by_side import Comparison, compare, device
from clew.core.state import detach_state
from clew.data.plans import TokenBatch
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel

VOCABULARY, DIM, LAYERS, BATCH, LENGTH = 10_000, 650, 2, 20, 35


def run() -> list[Comparison]:
    place = device()
    tokens, targets = torch.randint(VOCABULARY, (2, BATCH, LENGTH), device=place)
    task = LanguageModel(build_recurrent(RecurrentConfig(dim=DIM, num_layers=LAYERS), Tokens(VOCABULARY)), None).to(place)  # type: ignore[arg-type]
    peer = PlainLSTM(VOCABULARY, DIM, LAYERS).to(place)
    our_optimiser, their_optimiser = (torch.optim.SGD(model.parameters(), lr=0.1) for model in (task, peer))
    carried: dict[str, object] = {"ours": None, "theirs": None}

    def ours() -> None:
        terms, state = task(TokenBatch(tokens, targets, None, False), carried["ours"])
        carried["ours"] = detach_state(state)
        our_optimiser.zero_grad()
        (terms["loss"].sum / terms["loss"].count).backward()
        torch.nn.utils.clip_grad_norm_(task.parameters(), 0.25)
        our_optimiser.step()

    def theirs() -> None:
        logits, state = peer(tokens, carried["theirs"])  # type: ignore[arg-type]
        carried["theirs"] = tuple(part.detach() for part in state)
        their_optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 0.25)
        their_optimiser.step()

    return [compare("LSTM train step, 2 x 650, 20 x 35", "torch.nn.LSTM", ours, theirs, tokens=BATCH * LENGTH)]
