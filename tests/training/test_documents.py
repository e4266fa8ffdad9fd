"""Separate documents: the loss and gradients of a packed text equal those of its documents read alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from clew.baselines.kneser_ney import fit_kneser_ney
from clew.baselines.text_baselines import KnownText, text_baselines
from clew.core.batches import cut_rows
from clew.core.errors import UserError
from clew.data.caching import encoded
from clew.data.caching.encoded import encode_corpus
from clew.data.files.text_files import find_text
from clew.data.plans import stream_evaluation_plan, window_evaluation_plan
from clew.models import MODELS
from clew.recipes.resolving import config_of
from clew.runs.config import TrainingConfig
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.tasks.learnings.streams import evaluate
from clew.text.train import TOKENIZERS
from clew.training.problems import prepare_problem

DOCUMENTS = ["the cat sat on the mat", "no", "a dog\nand a log, a hog", "what?", "it is the last of the cats that sat"]
BODIES = {
    "gpt": {"dim": 8, "num_layers": 2, "num_heads": 2, "max_length": 96},
    "llama": {"dim": 8, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2},
    "recurrent": {"dim": 6, "num_layers": 2},
    "mixed": {"dim": 8, "layers": ["lstm", {"name": "attention", "window": 5}, "convolution", "feedforward"]},
}


KINDS = ["bpe", "word", "character"]
"""Character tokenizers have no token for the end of a document."""


def tokenizer_of(kind):
    return TOKENIZERS[kind]("\n".join(DOCUMENTS) + "\n")


@pytest.fixture(params=KINDS)
def text(request, tmp_path, monkeypatch):
    monkeypatch.setattr(encoded, "SHARD", 30)
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": document}) for document in DOCUMENTS))
    corpus = encode_corpus(find_text(path), tokenizer_of(request.param), tmp_path / "cache")
    return replace(corpus, apart=True, key=request.param)


def build(family, text):
    tokenizer = tokenizer_of(text.key)
    torch.manual_seed(0)
    member = MODELS[family]
    task = LanguageModel(
        member.build(member.config(**BODIES[family]), Tokens(tokenizer.vocabulary)), tokenizer
    ).double()
    for parameter in task.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return task


def sequences(task):
    """The tokens of every document with its own end and the end of the previous document, if the tokenizer has such a
    token."""
    last, end = len(DOCUMENTS) - 1, [] if task.tokenizer.end is None else [task.tokenizer.end]
    rows = []
    for number, document in enumerate(DOCUMENTS):
        ids = task.encode(document if number == last else document + "\n")
        closes = end if number < last and task.tokenizer.unit != "word" else []
        rows.append((end if number else []) + ids + closes)
    return rows


def documents_alone(task):
    """The loss of every token but the first of each document."""
    costs = []
    for ids in map(torch.tensor, sequences(task)):
        hidden, _ = task.body(ids[None, :-1])
        costs.append(-task.logits(hidden)[0].log_softmax(-1).gather(1, ids[1:, None])[:, 0])
    return torch.cat(costs)


def gradients(task, loss):
    task.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in task.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("family", BODIES)
def test_a_packed_batch_has_the_loss_of_its_documents_alone(family, text):
    task = build(family, text)
    batch = window_evaluation_plan(len(text), len(text) - 1, 1).batch(text.tokens, 0, apart=True)
    terms, _ = task(batch)
    alone = documents_alone(task)
    torch.testing.assert_close(terms["loss"].sum, alone.sum())
    assert int(terms["loss"].count) == len(alone) == int(task.counts(batch)["loss"])
    log_probs, _ = task.predict(batch)
    torch.testing.assert_close(-log_probs[batch.counted], alone.float())
    expected = gradients(task, documents_alone(task).sum())
    for name, gradient in gradients(task, task(batch)[0]["loss"].sum).items():
        torch.testing.assert_close(gradient, expected[name])
    joined = task(window_evaluation_plan(len(text), len(text) - 1, 1).batch(text.tokens, 0))[0]["loss"]
    unpredicted = len(DOCUMENTS) - 1 if task.tokenizer.end is None else 0
    assert int(joined.count) == len(alone) + unpredicted and (joined.sum - terms["loss"].sum).abs() > 0.01


@torch.no_grad()
def test_a_carried_state_restarts_with_each_document(text):
    task = build("recurrent", text)
    plan, state, total = stream_evaluation_plan(len(text), 1, 4), None, 0.0
    for number in range(plan.num_batches):
        terms, state = task(plan.batch(text.tokens, number, apart=True), state)
        total += float(terms["loss"].sum)
    assert total == pytest.approx(float(documents_alone(task).sum()), rel=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("batching", ["windows", "streams"])
def test_evaluation_counts_the_tokens_of_documents_alone(batching, text):
    task = build("recurrent", text)
    settings = TrainingConfig(batching=batching, length=len(text), batch_size=1)
    evaluated, alone = evaluate(task, text, settings), documents_alone(task)
    assert evaluated.nats == pytest.approx(float(alone.sum()), rel=1e-12)
    characters = text.num_target_characters if text.tokens.opened else text.num_characters_apart
    assert (evaluated.tokens, evaluated.characters) == (len(alone), characters)


def test_n_grams_predict_the_same_tokens(text):
    vocabulary = 400

    def known(tokens):
        return KnownText((), lambda: tokens, vocabulary)

    (baseline,) = text_baselines(lambda: known(text))
    whole = np.asarray(text.tokens)
    parts = [whole] if text.tokens.opened else np.split(whole, text.tokens.boundaries)
    model = fit_kneser_ney(parts, vocabulary, 5)
    log_probs = np.concatenate([model.log_probs(part)[1:] for part in parts])
    assert len(log_probs) == len(documents_alone(build("recurrent", text)))
    assert baseline.measure(known(text)).values["baseline_kneser_ney_loss"] == pytest.approx(-log_probs.mean())


@torch.no_grad()
def test_counts_of_micro_batches_sum_to_those_of_the_batch(text):
    batch = window_evaluation_plan(len(text), 8, 16).batch(text.tokens, 0, apart=True)
    halves = cut_rows(batch, 2)
    task = build("llama", text)
    assert sum(int(task.counts(half)["loss"]) for half in halves) == int(task.counts(batch)["loss"])
    assert sum(float(task(half)[0]["loss"].sum) for half in halves) == pytest.approx(
        float(task(batch)[0]["loss"].sum), rel=1e-12
    )


def test_a_model_that_reads_backwards_keeps_documents_joined(tmp_path, monkeypatch):
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 50)
    settings = [
        f"data.train={tmp_path / 'a.txt'}",
        "training.documents=apart",
        "task.name=bidirectional_language_model",
    ]
    config = config_of("text-lstm", [*settings, "model.family=elmo", "training.batching=windows"])
    with pytest.raises(UserError, match="but this model also reads backwards; set training.documents=joined"):
        prepare_problem(config)
