import itertools
import math

import torch
from torch import Tensor

from clew.tour.search import beam_path, enumerate_paths, most_probable
from clew.tour.training import language_run


class Chain:
    """A Markov chain whose greedy path is not the best: 0 is more likely first, but 1 leads to an almost certain
    token."""

    vocabulary = 3
    log_probs = torch.tensor([[0.4, 0.3, 0.3], [0.04, 0.95, 0.01], [0.55, 0.45, 0.0]]).log()

    def initial_state(self, rows: int, capacity: int | None = None) -> Tensor:
        return torch.zeros(rows, 1)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_probs[tokens], state


def test_enumeration_finds_the_path_that_greedy_misses() -> None:
    chain, prompt = Chain(), torch.tensor([[2]])
    by_hand = {
        path: 0.0 + sum(float(Chain.log_probs[before, after]) for before, after in itertools.pairwise((2, *path)))
        for path in itertools.product(range(3), repeat=3)
    }
    best = most_probable(chain, prompt, 3)
    assert best.tokens == max(by_hand, key=by_hand.__getitem__) == (1, 1, 1)
    assert math.isclose(best.log_prob, math.log(0.45 * 0.95**2), rel_tol=1e-6)
    assert beam_path(chain, prompt, 3, 1).tokens == (0, 0, 0) and beam_path(chain, prompt, 3, 2)[0] == (1, 1, 1)


def test_every_continuation_of_a_model_has_its_log_probability() -> None:
    run = language_run("abc", {"family": "recurrent", "cell": "lstm", "dim": 8}, seed=3)
    prompt = torch.tensor([run.tokenizer.encode("ab")])
    with torch.no_grad():
        sums = enumerate_paths(run.task.stepper(), prompt, 3)
        assert math.isclose(float(sums.exp().sum()), 1.0, rel_tol=1e-5)
        vocabulary = run.task.body.vocabulary
        for path in ((0, 1, 2), (3, 3, 1)):
            hidden, _ = run.task.body(torch.cat([prompt, torch.tensor([path])], 1))
            log_probs = run.task.log_probs(hidden)[0]
            whole = sum(float(log_probs[1 + step, token]) for step, token in enumerate(path))
            place = sum(token * vocabulary ** (2 - step) for step, token in enumerate(path))
            assert math.isclose(float(sums[place]), whole, rel_tol=1e-5)
