"""The classifier: one label, several, or a number; of one text or two."""

import math
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.data.examples import Labelled
from clew.metrics.calibration import fit_temperature
from clew.metrics.score import Score
from clew.metrics.statistics import score
from clew.models import MODELS
from clew.runs.config import TrainingConfig
from clew.sources.tokens import Tokens
from clew.tasks.classification import (
    CLASSIFICATION,
    ClassificationConfig,
    Classifier,
    build_classifier,
    train_class_vocabularies,
)
from clew.tasks.learning import Encoding, Evaluation
from clew.tasks.uses.answers import OneLabel, SeveralLabels
from clew.tasks.uses.writing import DecodingConfig
from clew.text.labels import Labels
from clew.text.train import train_bpe, train_word
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import sgd
from clew.training.records import Progress
from clew.training.schedules import Constant
from tests.tasks.test_tagging import learn

TEXTS = [
    "a good film",
    "good , I say",
    "not good at all",
    "a bad film",
    "bad !",
    "not bad at all",
    "it rains",
    "it is wet",
]
LABELS = ["pos", "pos", "neg", "neg", "neg", "pos", "other", "other"]
EXAMPLES = [
    Labelled(text, (label,), id=f"t.csv:{n}")
    for n, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True), start=2)
]


def classifier(
    examples: list[Labelled] = EXAMPLES, tokenizer: Any = train_word, family: str = "recurrent", **settings: Any
) -> Classifier:
    torch.manual_seed(3)
    config = ClassificationConfig(**settings)
    vocabularies = train_class_vocabularies(lambda texts, specials: tokenizer(texts), False, examples, config)
    options = {"bidirectional": True} if family == "recurrent" else {}
    body = MODELS[family].build(MODELS[family].config(dim=16, **options), Tokens(vocabularies["tokenizer"].vocabulary))
    return build_classifier(body, vocabularies, config)


def predict(task: Classifier, examples: list[Labelled]) -> list[dict[str, Any]]:
    return task.predict(task.collate(task.encode(examples)))


@pytest.mark.parametrize("pooling", ["max", "mean", "last", "attention", "first"])
def test_eight_texts_are_memorised(pooling: str) -> None:
    task = classifier(pooling=pooling)
    learn(task, EXAMPLES, 80)
    predictions = predict(task, EXAMPLES)
    assert [answer["labels"] for answer in predictions] == [[label] for label in LABELS]
    assert task.measure(EXAMPLES, predictions).values["accuracy"] == 100
    assert task.sentence_scores(EXAMPLES, predictions) == [100] * 8
    assert task.classify(["a good film"])[0].label == "pos"


def test_subwords_are_read_too() -> None:
    task = classifier(tokenizer=lambda texts: train_bpe(texts, size=270), num_hidden=1)
    learn(task, EXAMPLES, 80)
    assert [answer["labels"][0] for answer in predict(task, EXAMPLES)] == LABELS


def test_a_batch_counts_input_tokens_not_labels() -> None:
    task = classifier()
    assert task.collate(task.encode(EXAMPLES)).num_tokens == sum(len(text.split()) for text in TEXTS)
    assert task.collate(task.encode(EXAMPLES[:1])).num_tokens == 3


def test_the_loss_of_weighted_labels_is_the_weighted_mean_of_logs() -> None:
    task = classifier(class_weights="balanced")
    encoded = task.encode(EXAMPLES)
    task.prepare(encoded)
    weights = {"neg": 8 / (3 * 3), "other": 8 / (3 * 2), "pos": 8 / (3 * 3)}
    assert task.answer.class_weights.tolist() == pytest.approx(list(weights.values()))
    term = task(task.collate(encoded))[0]["loss"]
    logs = [
        -math.log(answer["probabilities"][task.labels.id(label)])
        for answer, label in zip(predict(task, EXAMPLES), LABELS, strict=True)
    ]
    by_hand = sum(weights[label] * log for label, log in zip(LABELS, logs, strict=True)) / sum(
        weights[label] for label in LABELS
    )
    assert float(term.sum.detach() / term.count) == pytest.approx(by_hand, rel=1e-5)
    weighted = classifier(class_weights={"pos": 3.0})
    weighted.prepare(encoded)
    assert weighted.answer.class_weights.tolist() == [1, 1, 3]


def test_the_temperature_calibrates_probabilities_and_changes_no_label() -> None:
    task = classifier()
    with torch.no_grad():
        task.output.weight.mul_(500)
    before = predict(task, EXAMPLES)
    batch = task.collate(task.encode(EXAMPLES))
    losses = [float(task.measure(EXAMPLES, before).values["calibration_error"])]
    assert task.settle([([], batch)]) and float(task.answer.temperature) > 2
    after = predict(task, EXAMPLES)
    losses.append(float(task.measure(EXAMPLES, after).values["calibration_error"]))
    assert [answer["labels"] for answer in before] == [answer["labels"] for answer in after]
    assert losses[1] < losses[0] - 10
    assert not classifier(calibrate=False).settle([([], batch)])


def test_a_temperature_that_makes_the_error_worse_is_not_used() -> None:
    """Six of ten predictions with probability 0.6 are right, so they are calibrated already; but the others have the
    least likely label, so that flatter probabilities have a lower loss."""
    answer = OneLabel(Labels(["a", "b", "c"]))
    logits = torch.tensor([0.6, 0.39, 0.01]).log().repeat(10, 1)
    targets = F.one_hot(torch.tensor([0] * 6 + [2] * 4), 3).float()
    assert fit_temperature(logits, targets.argmax(1), smoothing=1 / 12) > 2
    assert answer.settle(logits, targets) and float(answer.temperature) == 1
    sentence = (
        r"probabilities are not calibrated: the temperature [\d.]+ would raise the calibration error from [\d.e-]+ to"
        r" [\d.]+ "
    )
    assert re.fullmatch(f"{sentence}on the validation part", answer.settled)
    second = F.one_hot(torch.tensor([0] * 6 + [1] * 4), 3).float()
    assert answer.settle(5 * logits, second) and answer.settled == "" and float(answer.temperature) > 2, (
        "a temperature that lowers the error is used"
    )


def test_a_temperature_may_be_rejected_for_its_loss_too() -> None:
    """All four predictions are right and very confident. The smoothed target lowers the confidence, which raises the
    calibration error and the loss."""
    answer = OneLabel(Labels(["a", "b"]))
    logits = torch.tensor([[20.0, 0.0]]).repeat(4, 1)
    assert answer.settle(logits, F.one_hot(torch.zeros(4, dtype=torch.long), 2).float())
    assert (
        float(answer.temperature) == 1
        and "the calibration error from" in answer.settled
        and "and the loss from" in answer.settled
    )


def test_with_several_labels_each_decision_is_calibrated() -> None:
    answer = SeveralLabels(Labels(["a", "b"]))
    sure = torch.full((6, 2), 20.0)
    assert answer.settle(sure, torch.ones(6, 2)) and float(answer.temperature) == 1 and answer.settled
    half = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3)
    assert answer.settle(sure, half) and float(answer.temperature) > 10 and answer.settled == ""


SEVERAL = [
    Labelled("red and round", ("red", "round"), id="1"),
    Labelled("red", ("red",), id="2"),
    Labelled("round", ("round",), id="3"),
    Labelled("nothing", (), id="4"),
]


def test_any_number_of_labels_is_predicted_if_not_exclusive() -> None:
    task = classifier(SEVERAL, labels="several")
    learn(task, SEVERAL, 60)
    predictions = predict(task, SEVERAL)
    assert [set(answer["labels"]) for answer in predictions] == [{"red", "round"}, {"red"}, {"round"}, set()]
    assert task.measure(SEVERAL, predictions).values == {
        "micro_f1": 100,
        "macro_f1": 100,
        "exact_match": 100,
        "accuracy": 100,
    }
    classified = task.classify(["round and red", "nothing"])
    assert (
        classified[1].label == ""
        and classified[1].labels == ()
        and set(classified[1].probabilities) == {"red", "round"}
    )
    with pytest.raises(
        UserError, match="1: expected one label, found 2; to train with any number of labels set task.labels=several"
    ):
        classifier().encode(SEVERAL)


def test_numbers_are_learnt_in_their_own_units() -> None:
    numbers = [Labelled(text, (str(100 + 10 * n),), id=f"n:{n}") for n, text in enumerate(TEXTS)]
    task = classifier(numbers, labels="number")
    learn(task, numbers, 80)
    numbers_predicted = [answer["number"] for answer in predict(task, numbers)]
    assert numbers_predicted == pytest.approx([100 + 10 * n for n in range(8)], abs=4)
    assert task.measure(numbers, predict(task, numbers)).values["pearson"] > 98
    assert str(task.classify([TEXTS[2]])[0]) == f"{numbers_predicted[2]:g}"
    with pytest.raises(UserError, match=r"t.csv:2: 'pos' is not a number, as task.labels=number requires"):
        task.encode(EXAMPLES)


@pytest.mark.parametrize("pair", ["joined", "apart"])
@pytest.mark.parametrize("family", ["recurrent", "bag"])
def test_two_texts_are_classified_together(pair: str, family: str) -> None:
    """Whether the second text repeats the first; neither text alone determines the label."""
    words = ["red", "blue", "green"]
    pairs = [Labelled(a, ("same" if a == b else "other",), b, f"{a} {b}") for a in words for b in words]
    task = classifier(pairs, pair=pair, family=family, num_hidden=1, pooling="mean" if family == "bag" else "max")
    learn(task, pairs, 100)
    right = [answer["labels"][0] == example.label for answer, example in zip(predict(task, pairs), pairs, strict=True)]
    assert all(right) or (family, pair) == ("bag", "joined")
    assert task.classify([("red", "red")])[0].second == "red"
    with pytest.raises(
        UserError,
        match="x: the second text is missing; either every example needs one, or none may have one"
        if pair == "joined"
        else "x: task.pair=apart is for two texts"
        " that are classified together; name the column of the second with data.second",
    ):
        task.encode([*pairs, Labelled("red", ("same",), id="x")])


def test_texts_are_classified_equally_in_a_batch_and_alone_even_empty_ones() -> None:
    task = classifier()
    texts = [*TEXTS, "", "words never seen before , at all " * 20]
    together = task.classify(texts)
    for text, batched in zip(texts, together, strict=True):
        alone = task.classify([text])[0]
        assert alone.labels == batched.labels
        assert dict(alone.probabilities) == pytest.approx(dict(batched.probabilities), abs=1e-5)
    assert list(together[0].probabilities.values()) == sorted(together[0].probabilities.values(), reverse=True)


def encoded(task: Classifier, examples: list[Labelled], *, to_train: bool = False) -> list[Any]:
    return list(CLASSIFICATION.learns.encode(task, examples, Encoding("test", TrainingConfig(), to_train=to_train)))


def judged(task: Classifier, examples: list[Labelled]) -> Score:
    evaluation = Evaluation(TrainingConfig(), DecodingConfig(), 1, is_final=True)
    result = CLASSIFICATION.learns.judge(task, task, examples, encoded(task, examples), evaluation)
    assert result is not None
    return result


@pytest.mark.parametrize("weights", ["none", "balanced"])
def test_an_unknown_label_counts_as_wrong_in_an_evaluated_part(weights: str) -> None:
    task = classifier(class_weights=weights, positive="pos")
    task.prepare(task.encode(EXAMPLES))
    odd = Labelled("hm", ("odd",), id="t.csv:99")
    with pytest.raises(UserError, match="t.csv:99: unknown label 'odd'.*data.label_map"):
        encoded(task, [*EXAMPLES, odd], to_train=True)
    without, with_odd = judged(task, EXAMPLES), judged(task, [*EXAMPLES, odd])
    assert with_odd.loss == pytest.approx(without.loss, rel=1e-5), "the loss is over the others"
    assert with_odd.measures["accuracy"] == pytest.approx(without.measures["accuracy"] * 8 / 9)
    assert with_odd.measures["macro_f1"] < without.measures["macro_f1"], "a separate label with no correct predictions"
    assert with_odd.predictions["t.csv:99"]["gold_probability"] == 0 and with_odd.examples["t.csv:99"] == 0
    assert "odd" in with_odd.report[1]
    assert CLASSIFICATION.learns.judged_remarks(task, "valid", [*EXAMPLES, odd]) == [
        "valid: 1 of 9 labels is not in the training part ('odd'; first: t.csv:99); counted as wrong, and left out of"
        " the loss"
    ]
    batch = task.collate(task.encode([*EXAMPLES, odd]))
    task.settle([([], batch)])
    temperature = float(task.answer.temperature)
    task.settle([([], task.collate(task.encode(EXAMPLES)))])
    assert float(task.answer.temperature) == pytest.approx(temperature), "the temperature is fitted on the others"


def test_an_unknown_label_among_several_counts_as_missed() -> None:
    task = classifier(SEVERAL, labels="several")
    odd = Labelled("red", ("red", "odd"), id="t.csv:99")
    with_odd, without = judged(task, [*SEVERAL, odd]), judged(task, [*SEVERAL, odd._replace(labels=("red",))])
    assert with_odd.loss == pytest.approx(without.loss), "it has no output"
    assert with_odd.statistics["t.csv:99"]["exact_match"] == {"share": [0.0, 1]}
    assert with_odd.measures["micro_f1"] <= without.measures["micro_f1"] and with_odd.intervals["accuracy"][1] <= 100
    (formula,) = with_odd.statistics["t.csv:99"]["accuracy"]
    assert score(formula, [each["accuracy"][formula] for each in with_odd.statistics.values()]) == pytest.approx(
        with_odd.measures["accuracy"]
    )


def test_invalid_data_and_settings_are_rejected_with_a_sentence() -> None:
    with pytest.raises(
        UserError,
        match=(
            r"t.csv:9: unknown label 'pso'; did you mean 'pos'\? known: neg, other, pos; the training part does not"
            r" have it"
        ),
    ):
        encoded(classifier(), [Labelled("a", ("pso",), id="t.csv:9")])
    with pytest.raises(
        UserError, match="every training example has the label 'pos', so there is nothing to tell apart"
    ):
        classifier(EXAMPLES[:2])
    with pytest.raises(
        UserError,
        match="task.best=f1 is not measured with task.labels=one; choose score, loss, accuracy, macro_f1, matthews",
    ):
        classifier(best="f1")
    with pytest.raises(UserError, match="task.positive: unknown label 'psitive'"):
        classifier(positive="psitive")
    with pytest.raises(
        UserError, match="task.positive is for labels that exclude each other; leave it out with task.labels=several"
    ):
        classifier(labels="several", positive="pos")
    assert classifier(positive="pos", best="f1").best == "f1"
    with pytest.raises(
        UserError, match="task.class_weights is for labels, and task.labels=number has none; leave it out"
    ):
        classifier([EXAMPLES[0]._replace(labels=("1",))], labels="number", class_weights="balanced")
    with pytest.raises(UserError, match="task.positive is for labels, and task.labels=number has none; leave it out"):
        classifier([EXAMPLES[0]._replace(labels=("1",))], labels="number", positive="1")
    many = [Labelled(f"text {n}", (f"{n / 7}",), id=str(n)) for n in range(60)]
    with pytest.raises(
        UserError, match="60 training examples have 60 different labels; if these are numbers, set task.labels=number"
    ):
        classifier(many)


@pytest.mark.parametrize("parts", [1, 3])
def test_weights_of_any_scale_train_alike_with_any_micro_batches(parts: int) -> None:
    """The loop divides by the total weight of the examples, which may be a fraction and below 1."""
    weights, losses = [], []
    for size in (1.0, 0.01):
        task = classifier(class_weights={"pos": 3 * size, "neg": size, "other": 0.7 * size})
        encoded = task.encode(EXAMPLES)
        task.prepare(encoded)
        batches = Batches(lambda epoch: 1, lambda epoch, number, task=task, encoded=encoded: task.collate(encoded))
        optimiser = sgd(task.parameters(), 0.1)
        records = train(
            task, batches, optimiser, Constant(2), StepOptions(seed=1, accumulate=parts), steps=2, progress=Progress()
        )
        losses.append([record.losses["loss"] for record in records])
        weights.append(task.output.weight.detach())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)


def test_a_numeric_label_may_be_given_as_a_number():
    assert ClassificationConfig(positive=1).positive == "1"
