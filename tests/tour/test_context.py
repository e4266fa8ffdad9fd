import math

import torch

from clew.tour.context import enough, losses
from clew.tour.training import language_run

TEXT = "the cat sat on the mat and the dog sat"


def test_the_loss_after_a_context_equals_that_of_the_piece_alone() -> None:
    run = language_run(TEXT, {"family": "recurrent", "cell": "gru", "dim": 8}, seed=1)
    ids = torch.tensor(run.tokenizer.encode(TEXT))
    places = torch.tensor([10, 20])
    actual = losses(run, ids, places, [1, 4])
    for context, loss in zip((1, 4), actual, strict=True):
        by_hand = []
        for place in places.tolist():
            with torch.no_grad():
                hidden, _ = run.task.body(ids[None, place - context : place])
                by_hand.append(-float(run.task.log_probs(hidden)[0, -1, ids[place]]))
        assert math.isclose(loss, sum(by_hand) / 2, rel_tol=1e-5)


def test_the_sufficient_context_has_a_loss_near_the_lowest() -> None:
    assert enough([1, 2, 4, 8], [3.0, 2.0, 1.504, 1.5]) == 4
    assert enough([1, 2], [1.0, 1.0]) == 1
    assert enough([1, 2, 4, 8], [3.0, 2.0, 1.5, 1.9]) == 4  # the longest context need not be the best
