import pytest
import torch

from clew.core.errors import UserError
from clew.data.plans import TokenBatch
from tests.thread.models import LINES, gpt, lines_batch, lstm


@pytest.mark.parametrize("make", [lstm, gpt])
def test_the_loss_is_the_sum_over_real_targets_of_what_they_cost(make) -> None:
    task = make().double()
    batch = lines_batch(task)
    terms, _ = task(batch)
    by_hand = 0.0
    for line in LINES:
        ids = torch.tensor(task.encode(line + "\n"))
        hidden, _ = task.body(ids[None, :-1])
        by_hand -= task.logits(hidden)[0].log_softmax(-1).gather(1, ids[1:, None]).sum()
    torch.testing.assert_close(terms["loss"].sum, by_hand, rtol=1e-10, atol=0)
    assert int(terms["loss"].count) == sum(len(line) for line in LINES)
    assert int(task.counts(batch)["loss"]) == int(terms["loss"].count)


def test_what_stands_on_padding_changes_nothing() -> None:
    task = lstm().double()
    batch = lines_batch(task)
    other = batch._replace(targets=batch.targets.masked_fill(~batch.mask, 3), tokens=batch.tokens.masked_fill(~batch.mask, 5))
    torch.testing.assert_close(task(other)[0]["loss"].sum, task(batch)[0]["loss"].sum, rtol=1e-12, atol=0)


@torch.no_grad()
def test_predict_gives_each_target_its_log_probability_and_padding_none() -> None:
    task = gpt()
    batch = lines_batch(task)
    log_probs, _ = task.predict(batch)
    torch.testing.assert_close(-log_probs.sum(), task(batch)[0]["loss"].sum)
    assert not log_probs[~batch.mask].any()
    assert (log_probs[batch.mask] < 0).all()


def test_collating_pairs_each_token_with_the_next() -> None:
    task = lstm()
    batch = task.collate([[1, 2, 3], [4, 5]])
    assert batch.tokens.tolist() == [[1, 2], [4, 5]]
    assert batch.targets.tolist() == [[2, 3], [5, 0]]
    assert batch.mask.tolist() == [[True, True], [True, False]]
    assert task.collate([[1, 2, 3], [4, 5, 6]]).mask is None
    with pytest.raises(UserError, match="a text needs at least two tokens: one to read and one to predict"):
        task.collate([[1], []])


@torch.no_grad()
def test_the_stepper_gives_the_models_own_distribution() -> None:
    task = gpt().eval()
    ids = torch.tensor([task.encode(LINES[0])])
    log_probs, _ = task.stepper()(ids, None, task.stepper().initial_state(1))
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(1, len(LINES[0])))
    predicted, _ = task.predict(TokenBatch(ids[:, :-1], ids[:, 1:]))
    torch.testing.assert_close(log_probs[:, :-1].gather(-1, ids[:, 1:, None])[..., 0], predicted)


def test_a_tied_output_layer_is_the_embedding() -> None:
    task = gpt()
    assert task.output_weight is None
    hidden = torch.randn(2, task.body.dim)
    torch.testing.assert_close(task.logits(hidden), hidden @ task.body.embedding.weight.T + task.output_bias)
