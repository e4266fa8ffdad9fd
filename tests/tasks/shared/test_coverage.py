"""Coverage of the source by attention: as a penalty in beam search with any decoder, and as a term of the loss."""

import math
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.core.state import leaves
from clew.data.examples import Pair
from clew.decoding.stepper import read_at
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.tasks.shared.alignment import aligned_attention, attention_weights
from clew.tasks.shared.coverage import CoveringStepper
from clew.tasks.shared.sequence import SequenceConfig, SequenceToSequence
from clew.tasks.translation import translate
from clew.tasks.uses.writing import DecodingConfig
from tests.models.translators import LOOKING
from tests.tasks.sequences import PAIRS, batch_of, sequence_task
from tests.training.pairs import pair_settings

COVERING = DecodingConfig(
    method="beam", beams=3, n_best=3, max_new=9, length_penalty=0.6, length_form="gnmt", coverage_penalty=0.3
)


def ending(way: str) -> SequenceToSequence:
    """A task that ends most targets early, so that source positions are left uncovered."""
    task = sequence_task(way, config=SequenceConfig(tied=False))
    assert task.output_weight is not None and task.output_bias is not None
    with torch.no_grad():
        task.output_weight.mul_(0.2)
        task.output_bias.zero_()
        task.output_bias[task.end] = 1.5
    return task.eval()


def total_attention(task: SequenceToSequence, pair: Pair, tokens: list[int]) -> torch.Tensor:
    """The total attention on each source position while these tokens and the end are written, computed from the whole
    target."""
    [sides] = task.encode([pair._replace(target="")])
    return attention_weights(task, task.collate([sides._replace(target=tokens)]))[0].sum(0)


@pytest.mark.parametrize("way", LOOKING)
def test_scores_follow_gnmt_with_any_decoder(way: str) -> None:
    """In a batch of sources of unequal lengths, each hypothesis is scored as its own alignment implies."""
    task = ending(way)
    num_ended = 0
    for pair, best in zip(PAIRS, task.write(batch_of(task), COVERING), strict=True):
        for one in best:
            if len(one.tokens) == COVERING.max_new:
                continue  # it may not have ended
            coverage = sum(
                math.log(max(min(weight, 1.0), 2**-126)) for weight in total_attention(task, pair, one.tokens).tolist()
            )
            divisor = ((5 + len(one.tokens) + 1) / 6) ** 0.6
            assert one.score == pytest.approx(one.log_prob / divisor + 0.3 * coverage, rel=1e-5)
            num_ended += 1
    assert num_ended > 5


@pytest.mark.parametrize("way", ["bahdanau", "luong-unfed", "transformer"])
def test_a_coverage_penalty_selects_translations_that_cover_more(way: str) -> None:
    task = ending(way)
    plain, covering = (
        task.write(batch_of(task), COVERING.model_copy(update={"coverage_penalty": weight, "n_best": 1}))
        for weight in (0.0, 5.0)
    )
    least = [
        [
            float(total_attention(task, pair, best[0].tokens).clamp(max=1).log().sum())
            for pair, best in zip(PAIRS, hypotheses, strict=True)
        ]
        for hypotheses in (plain, covering)
    ]
    assert sum(least[1]) > sum(least[0]) and all(after >= before - 1e-6 for before, after in zip(*least, strict=True))


@pytest.mark.parametrize("way", ["luong", "transformer"])
def test_a_chunk_covers_the_same_as_its_tokens_one_by_one_and_padding_nothing(way: str) -> None:
    task = ending(way)
    batch = batch_of(task)
    stepper = task.stepper(batch, covering=True)
    assert isinstance(stepper, CoveringStepper)
    _, whole = stepper(batch.tokens, batch.mask, stepper.initial_state(len(batch.tokens)))
    state = stepper.initial_state(len(batch.tokens))
    for t in range(batch.tokens.shape[1]):
        real = None if batch.mask is None else batch.mask[:, t : t + 1]
        _, state = stepper(batch.tokens[:, t : t + 1], real, state)
    torch.testing.assert_close(state.coverage.weights, whole.coverage.weights)
    assert batch.source_mask is not None
    assert torch.equal(whole.coverage.weights[~batch.source_mask], torch.ones(int((~batch.source_mask).sum())))


@pytest.mark.parametrize("covering", [False, True])
def test_requested_positions_equal_those_of_the_whole_target(covering: bool) -> None:
    task = ending("luong")
    batch = batch_of(task)
    assert batch.mask is not None
    stepper, at = task.stepper(batch, covering=covering), batch.mask.sum(1, keepdim=True) - 1
    whole, expected = stepper(batch.tokens, batch.mask, stepper.initial_state(len(batch.tokens)))
    last, state = read_at(stepper, batch.tokens, batch.mask, stepper.initial_state(len(batch.tokens)), at)
    torch.testing.assert_close(last[:, 0], whole[torch.arange(len(whole)), at[:, 0]])
    torch.testing.assert_close(leaves(state), leaves(expected))


def test_ensembles_cover_by_the_mean_of_their_attention() -> None:
    one = ending("luong")
    sources = [Pair(pair.source, "") for pair in PAIRS[:3]]
    alone, twice = (translate(tasks, sources, COVERING) for tasks in ([one], [one, one]))
    assert [[each.score for each in best] for best in alone] == [
        pytest.approx([each.score for each in best]) for best in twice
    ]
    second = ending("bahdanau")
    mixed = translate([one, second], sources, COVERING)
    for pair, best in zip(sources, mixed, strict=True):
        weights = (total_attention(one, pair, best[0].tokens) + total_attention(second, pair, best[0].tokens)) / 2
        divisor = ((5 + len(best[0].tokens) + 1) / 6) ** 0.6
        expected = best[0].log_prob / divisor + 0.3 * float(weights.clamp(max=1).log().sum())
        assert best[0].score == pytest.approx(expected, rel=1e-5) or len(best[0].tokens) == 9


@pytest.mark.parametrize("way", ["bahdanau", "luong", "luong-unfed", "transformer", "convolutional"])
def test_the_coverage_term_follows_xu_and_trains_the_scores(way: str) -> None:
    """lambda * sum_i (1 - sum_t w_ti)^2 over the real places and targets of each row, counted like the loss."""
    task = sequence_task(way, config=SequenceConfig(tied=False, coverage_weight=0.7)).train()
    batch = batch_of(task)
    terms, _ = task(batch)
    weights = attention_weights(task, batch).tolist()
    expected = 0.0
    for row, sides in zip(weights, task.encode(PAIRS), strict=True):
        for place in range(len(sides.source)):
            expected += (1 - sum(row[t][place] for t in range(len(sides.target) + 1))) ** 2
    assert float(terms["coverage"].sum.detach()) == pytest.approx(expected)
    assert (
        terms["coverage"].weight == 0.7
        and terms["coverage"].count == terms["loss"].count == task.counts(batch)["coverage"]
    )
    plain = sequence_task(way, config=SequenceConfig(tied=False)).train()
    torch.testing.assert_close(terms["loss"].sum, plain(batch)[0]["loss"].sum)
    terms["coverage"].sum.backward()
    assert any(bool(parameter.grad.any()) for parameter in task.body.encoder.parameters() if parameter.grad is not None)
    assert all(parameter.grad is None for parameter in (task.output_weight, task.output_bias) if parameter is not None)
    assert set(task.eval()(batch)[0]) == set(task.counts(batch)) == {"loss"}


def test_the_coverage_term_spreads_attention_over_the_source() -> None:
    """Targets are as long as their sources, so that every position can be attended to once."""
    task = sequence_task("luong", config=SequenceConfig(tied=False, coverage_weight=1.0)).train()
    batch = batch_of(task, [Pair("a b c d", "D C B A"), Pair("e a", "E d"), Pair("b c e e a d", "A B A D E d")])
    with torch.no_grad():
        for parameter in aligned_attention(task).score.parameters():
            parameter.mul_(6.0)  # one or two positions get all attention
    optimiser = torch.optim.Adam(task.parameters(), 0.1)
    sums = []
    for _ in range(15):
        optimiser.zero_grad()
        uneven = task(batch)[0]["coverage"].sum
        uneven.backward()
        optimiser.step()
        sums.append(float(uneven.detach()))
    assert sums[0] > 1 and sums[-1] < 0.3 * sums[0]


def test_the_coverage_term_is_rejected_without_trainable_attention_weights(tmp_path: Path) -> None:
    config = SequenceConfig(coverage_weight=0.5)
    with pytest.raises(
        UserError,
        match=r"task.coverage_weight \(0.5\) is for soft attention, but this model samples the places that it"
        ".*; set it to 0",
    ):
        sequence_task("hard", config=config)
    with pytest.raises(
        UserError,
        match=r"task.coverage_weight \(0.5\) is for soft attention, but this model does not attend to its source",
    ):
        sequence_task("bottleneck", config=config)
    with pytest.raises(
        UserError, match="attention weights, which compiled code does not show; set training.compile=false"
    ):
        run_recipe(
            "translate",
            [*pair_settings(tmp_path), "task.coverage_weight=0.5", "training.compile=true"],
            out=tmp_path / "run",
        )


def test_a_model_without_attention_is_rejected_before_training(tmp_path: Path) -> None:
    sentence = (
        r"decoding.coverage_penalty \(0.3\) needs attention weights, but this model does not attend to its source"
        ".*; set it to 0"
    )
    task = ending("bottleneck")
    with pytest.raises(UserError, match=sentence):
        task.write(batch_of(task), COVERING)
    settings = [*pair_settings(tmp_path), "model.attention=none", "decoding.coverage_penalty=0.3"]
    with pytest.raises(UserError, match=sentence):
        run_recipe("translate", settings, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["translate-base", "translate-big"])
def test_the_published_transformers_search_as_published(name: str) -> None:
    decoding = config_of(name).decoding
    assert (decoding.method, decoding.beams, decoding.length_penalty, decoding.length_form) == ("beam", 4, 0.6, "gnmt")
    assert config_of("tatoeba-transformer").decoding.length_form == "power"
