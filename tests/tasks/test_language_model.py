import pytest
import torch

from clew.core.errors import UserError
from clew.data.plans import TokenBatch
from clew.kernels import only_equations
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import sgd
from clew.training.records import Progress
from clew.training.schedules import Constant
from tests.thread.models import LINES, batches_of, gpt, lines_batch, lstm, regularised


@pytest.mark.parametrize("make", [lstm, gpt])
def test_the_loss_is_the_sum_of_costs_over_real_targets(make) -> None:
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


def test_tokens_on_padding_change_nothing() -> None:
    task = lstm().double()
    batch = lines_batch(task)
    padded = batch._replace(
        targets=batch.targets.masked_fill(~batch.mask, 3), tokens=batch.tokens.masked_fill(~batch.mask, 5)
    )
    torch.testing.assert_close(task(padded)[0]["loss"].sum, task(batch)[0]["loss"].sum, rtol=1e-12, atol=0)


@torch.no_grad()
def test_predict_gives_log_probabilities_of_targets_and_zero_on_padding() -> None:
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
def test_the_stepper_returns_the_models_distribution() -> None:
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


def penalised(**settings) -> LanguageModel:
    """A language model over the characters of the lines, with a body without dropout."""
    task = lstm()
    body = build_recurrent(RecurrentConfig(dim=6), Tokens(task.body.vocabulary))
    return LanguageModel(body, task.tokenizer, LanguageModelConfig(**settings)).double()


def total(terms) -> torch.Tensor:
    return sum(term.weight * term.sum / term.count for term in terms.values())


def test_penalties_are_the_published_means() -> None:
    """alpha * mean(dropped^2) + beta * mean((h_t - h_{t-1})^2) over a batch without padding, as awd-lstm-lm writes
    them."""
    task = penalised(dropout=0.5, dropout_kind="locked", activation_penalty=2.0, temporal_penalty=3.0)
    tokens = torch.randint(task.body.vocabulary, (4, 9))
    batch = TokenBatch(tokens[:, :-1], tokens[:, 1:])
    torch.manual_seed(3)
    terms, _ = task(batch)
    hidden, _ = task.body(batch.tokens)
    torch.manual_seed(3)
    dropped = hidden * torch.nn.functional.dropout(torch.ones_like(hidden[:, :1]), 0.5)
    loss = torch.nn.functional.cross_entropy(task.logits(dropped).flatten(0, 1), batch.targets.flatten())
    expected = loss + 2.0 * dropped.pow(2).mean() + 3.0 * (hidden[:, 1:] - hidden[:, :-1]).pow(2).mean()
    torch.testing.assert_close(total(terms), expected)


def test_penalties_and_smoothing_apply_only_in_training() -> None:
    task = penalised(dropout=0.5, label_smoothing=0.1, activation_penalty=2.0, temporal_penalty=1.0)
    batch = lines_batch(task)
    assert set(task(batch)[0]) == set(task.counts(batch)) == {"loss", "smoothing", "activation", "temporal"}
    task.eval()
    terms, _ = task(batch)
    assert set(terms) == set(task.counts(batch)) == {"loss"}
    assert terms["loss"].sum.item() == pytest.approx(-task.predict(batch)[0].sum().item(), rel=1e-5)


def test_counts_equal_those_of_the_terms_without_padding() -> None:
    task = penalised(label_smoothing=0.1, activation_penalty=2.0, temporal_penalty=1.0)
    for batch in (lines_batch(task), lines_batch(task, LINES[:1])):
        terms, _ = task(batch)
        counts = task.counts(batch)
        assert {name: int(term.count) for name, term in terms.items()} == {
            name: int(count) for name, count in counts.items()
        }
        targets = int(counts["loss"])
        assert (int(counts["activation"]), int(counts["temporal"])) == (targets, targets - len(batch.tokens))


def test_padding_is_not_penalised() -> None:
    task = penalised(activation_penalty=2.0, temporal_penalty=1.0)
    batch = lines_batch(task)
    padded = batch._replace(tokens=batch.tokens.masked_fill(~batch.mask, 5))
    for name, term in task(batch)[0].items():
        torch.testing.assert_close(task(padded)[0][name].sum, term.sum, rtol=1e-12, atol=0)


def test_a_smoothed_loss_is_reported_as_loss_and_smoothing() -> None:
    task, plain = penalised(label_smoothing=0.2), penalised()
    plain.load_state_dict(task.state_dict())
    batch = lines_batch(task)
    terms, _ = task(batch)
    torch.testing.assert_close(terms["loss"].sum, plain(batch)[0]["loss"].sum.detach())
    logits, real = task.logits(task.body(batch.tokens, batch.mask)[0]), batch.mask
    expected = torch.nn.functional.cross_entropy(logits[real], batch.targets[real], label_smoothing=0.2)
    torch.testing.assert_close(total(terms), expected)
    parameters = list(task.parameters())
    for actual, reference in zip(
        torch.autograd.grad(total(terms), parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(actual, reference, rtol=1e-9, atol=1e-11)


def test_the_kernel_has_the_gradients_of_the_equation() -> None:
    task = regularised().double()
    batch = lines_batch(task)
    parameters = list(task.parameters())
    fused = torch.autograd.grad(total(task(batch)[0]), parameters)
    with only_equations():
        equations = torch.autograd.grad(total(task(batch)[0]), parameters)
    for actual, reference in zip(fused, equations, strict=True):
        torch.testing.assert_close(actual, reference, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_penalised_lines_in_micro_batches_train_to_the_same_weights(parts: int) -> None:
    whole, cut = regularised().double(), regularised().double()
    batches = batches_of([lines_batch(whole)])
    records = []
    for task, accumulate in ((whole, 1), (cut, parts)):
        optimiser = sgd(task.parameters(), 0.5)
        steps = train(
            task,
            batches,
            optimiser,
            Constant(3),
            StepOptions(seed=1, accumulate=accumulate),
            steps=3,
            progress=Progress(),
        )
        records.append(list(steps))
    for expected, actual in zip(*records, strict=True):
        assert actual.losses == pytest.approx(expected.losses, rel=1e-11)
        assert set(actual.losses) == {"loss", "smoothing", "activation", "temporal"}
    for key, value in whole.state_dict().items():
        torch.testing.assert_close(cut.state_dict()[key], value, rtol=1e-10, atol=1e-12)
