import math

import pytest
import torch

from clew.core.errors import UserError
from clew.data.plans import TokenBatch
from clew.kernels import only_equations
from clew.models.elmo import ELMoConfig, build_elmo
from clew.sources.tokens import Tokens
from clew.tasks.bidirectional import BidirectionalLanguageModel, BidirectionalLanguageModelConfig
from clew.text.train import train_character, train_word
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import adamw
from clew.training.records import Progress
from clew.training.schedules import Cosine
from tests.references.agreement import randomise
from tests.thread.models import batches_of

LINES = ["one day", "two old keys", "six mice", "the red door", "an old man", "far away", "by night", "up there we go"]
TOKENIZER = train_word(["\n".join(LINES) + "\n"])


def model(dim=6, **options):
    torch.manual_seed(0)
    body = build_elmo(ELMoConfig(dim=dim, cell="lstm"), Tokens(TOKENIZER.vocabulary))
    return BidirectionalLanguageModel(body, TOKENIZER, BidirectionalLanguageModelConfig(**options))


def lines(task):
    """A batch of lines, each between two end tokens."""
    return task.collate([[TOKENIZER.end, *task.encode(line + "\n")] for line in LINES])


@pytest.mark.parametrize("tied", [False, True])
def test_the_loss_is_the_mean_of_two_language_models(tied):
    task = randomise(model(tied=tied))
    expected = torch.zeros((), dtype=torch.float64)
    for line in LINES:
        ids = torch.tensor([[TOKENIZER.end, *task.encode(line + "\n")]])
        ahead, back = task.body(ids)[0].chunk(2, -1)
        for hidden, targets in ((ahead[0, :-1], ids[0, 1:]), (back[0, 1:], ids[0, :-1])):
            log_probs = (hidden @ task.weight.T + task.output_bias).log_softmax(-1)
            expected -= log_probs.gather(1, targets[:, None]).sum() / 2
    batch = lines(task)
    terms, state = task(batch)
    torch.testing.assert_close(terms["loss"].sum, expected, rtol=1e-10, atol=0)
    assert state is None
    assert int(terms["loss"].count) == sum(len(line.split()) + 1 for line in LINES) == int(task.counts(batch)["loss"])
    with only_equations():
        torch.testing.assert_close(task(batch)[0]["loss"].sum, expected, rtol=1e-10, atol=0)
    ahead, back = task.predict(batch)
    assert (ahead.sum() + back.sum()).item() == pytest.approx(-2 * expected.item(), rel=1e-5)


def test_no_direction_reads_the_word_that_it_predicts():
    """The forward reader at 0, 1 and 2, which predicts 1, 2 and 3, does not depend on the word at 3; nor does the
    backward reader from 4 on."""
    task = randomise(model())
    rows = torch.tensor([[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 8, 5, 6, 7]])
    directions = task.read(TokenBatch(rows[:, :-1], rows[:, 1:]))
    assert (directions.nexts.tolist(), directions.previous.tolist()) == (rows[:, 1:].tolist(), rows[:, :-1].tolist())
    assert (directions.ahead[0] != directions.ahead[1]).any(-1).tolist() == [False, False, False, True, True, True]
    assert (directions.back[0] != directions.back[1]).any(-1).tolist() == [True, True, True, False, False, False]


def test_words_too_rare_to_be_predicted_are_still_read():
    """Ids from 4 on are predicted as <unk>, which is 0, but distinguished as inputs."""
    task, whole = randomise(model(predicted=4)).eval(), model()
    rows = torch.tensor([[1, 2, 5, 3], [1, 2, 6, 3]])
    directions = task.read(TokenBatch(rows[:, :-1], rows[:, 1:]))
    assert directions.nexts.tolist() == [[2, 0, 3], [2, 0, 3]] and directions.previous.tolist() == [
        [1, 2, 0],
        [1, 2, 0],
    ]
    assert not torch.equal(directions.ahead[0, 2], directions.ahead[1, 2])
    torch.manual_seed(0)
    samples = torch.stack([task.train().read(TokenBatch(rows[:1, :-1], rows[:1, 1:])).ahead[0, 2] for _ in range(40)])
    assert len(samples.unique(dim=0)) == 2  # read as it is, or as <unk>
    assert task.weight.shape == (4, 6) and task.named(rows.numpy()).tolist() == [[1, 2, 0, 3], [1, 2, 0, 3]]
    assert whole.named(rows) is rows
    with pytest.raises(
        UserError, match="task.predicted counts words, the most frequent first, and a token is a .* here; leave it out"
    ):
        config = BidirectionalLanguageModelConfig(predicted=4)
        BidirectionalLanguageModel(whole.body, train_character(["one day"]), config)


def test_tokens_on_padding_change_nothing():
    task = randomise(model())
    batch = lines(task)
    padded = batch._replace(
        targets=batch.targets.masked_fill(~batch.mask, 3), tokens=batch.tokens.masked_fill(~batch.mask, 5)
    )
    torch.testing.assert_close(task(padded)[0]["loss"].sum, task(batch)[0]["loss"].sum, rtol=1e-12, atol=0)


@pytest.mark.slow
def test_eight_sentences_are_memorised_in_both_directions():
    task = model(dim=24)
    batch = lines(task)
    terms, _ = task(batch)
    assert float(terms["loss"].sum.detach() / terms["loss"].count) == pytest.approx(
        math.log(TOKENIZER.vocabulary), rel=0.1
    )
    optimiser = adamw(task.parameters(), 0.03, weight_decay=0.0)
    steps = 80
    list(
        train(
            task,
            batches_of([batch]),
            optimiser,
            Cosine(steps, floor=0.05),
            StepOptions(seed=0, clip_norm=1.0),
            steps=steps,
            progress=Progress(),
        )
    )
    ahead, back = task.predict(batch)
    predictable = batch.mask.clone()
    predictable[:, 0] = False  # the first word identifies the line
    assert float(ahead.detach()[predictable].exp().min()) > 0.4  # "old" is followed by two words
    last = batch.mask.sum(1) - 1
    predictable = batch.mask.clone()
    predictable[torch.arange(len(LINES)), last] = False
    assert float(back.detach()[predictable].exp().min()) > 0.9


def test_packed_documents_and_mismatched_widths_are_rejected():
    task = model()
    rows = torch.tensor([[1, 2, 3]])
    with pytest.raises(UserError, match="reads one document per row; pass a mask that is True at real tokens"):
        task(TokenBatch(rows, rows, torch.tensor([[1, 1, 2]])))
    task.body.embedding.enrich(torch.nn.Embedding(TOKENIZER.vocabulary, 5))
    with pytest.raises(UserError, match=r"needs the width of a direction \(6\) to be the embedding's \(5\)"):
        BidirectionalLanguageModel(task.body, TOKENIZER, BidirectionalLanguageModelConfig(tied=True))
