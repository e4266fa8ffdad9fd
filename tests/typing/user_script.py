"""A user's script that `mypy --strict` checks and nothing runs: the return type of each public function."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import clew
from clew.core.trees import Tree
from clew.interop.from_torch import VectorTransformer
from clew.layers.sequence import SequenceLayer
from clew.tasks.classification import Classified
from clew.tasks.parsing import Parse
from clew.tasks.question_answering import AnsweredQuestion
from clew.tasks.shared.alignment import Alignment
from clew.tasks.tagging import TaggedText
from clew.tasks.translation import ScoredPair, Translation
from clew.tasks.tree_classification import ClassifiedTree
from clew.tasks.uses.choices import Chosen
from clew.tasks.uses.filling import Filled
from clew.tasks.uses.generation import Generated
from clew.tasks.uses.scoring import Scored
from clew.tasks.uses.text_vectors import TextVectors
from clew.text.tokenizer import Tokenizer
from clew.training.callbacks import Ended, Evaluated, Saved
from clew.training.records import Record

ROWS = [("my parcel is late", "delivery"), ("I paid twice", "billing")]


class Everything:
    def on_step(self, step: Record) -> bool:
        return step.loss < 0.1

    def on_evaluation(self, evaluation: Evaluated) -> None:
        print(evaluation.step, evaluation.loss)

    def on_save(self, save: Saved) -> None:
        print(save.folder)

    def on_end(self, end: Ended) -> None:
        print(end.measures)


class OnlySteps:
    def on_step(self, step: Record) -> None:
        print(step.loss)


def train() -> clew.Run:
    run = clew.train(
        "classify",
        data=ROWS,
        training={"steps": 60},
        model__dim=128,
        seed=1,
        device="cpu",
        callbacks=[Everything(), OnlySteps()],
    )
    assert_type(run, clew.Run)
    clew.train("text-lstm", "training.steps=5", data=Path("book.txt"), out="runs/book", overwrite=True, quiet=True)
    clew.train("translate", data={"train": [("a cat", "eine Katze")], "valid": [("a dog", "ein Hund")]})
    clew.train("text-lstm", data=(line for line in ["one", "two"]))
    assert_type(clew.load("runs/book", device="cpu", precision="int8"), clew.Run)
    return run


def use(run: clew.Run) -> None:
    assert_type(run.folder, Path)
    assert_type(run.tokenizer, Tokenizer)
    assert_type(run.generate("To be"), Generated)
    assert_type(run.generate(["To be", "or not"], max_new=5), list[Generated])
    assert_type(run.stream("To be"), Iterator[str])
    assert_type(run.score("To be"), Scored)
    assert_type(run.classify("a text"), Classified)
    assert_type(run.classify(["a text", "another"]), list[Classified | None])
    assert_type(run.choose("a text", ["good", "bad"]), Chosen)
    assert_type(run.choose(["a text"], {"1": "good", "0": "bad"}), list[Chosen | None])
    assert_type(run.tag("Ada left"), TaggedText)
    assert_type(run.tag(["Ada left", "Bo runs"]), list[TaggedText])
    assert_type(run.tag([["Ada", "left"]]), list[TaggedText])
    assert_type(run.translate("a cat"), Translation)
    assert_type(run.translate(["a cat"]), list[Translation])
    assert_type(run.score_translation("a cat", "eine Katze"), ScoredPair)
    assert_type(run.align("a cat", "eine Katze"), Alignment)
    assert_type(run.parse("the dog runs"), Parse)
    assert_type(run.parse(["the dog runs"]), list[Parse | None])
    assert_type(run.fill("to [MASK]"), Filled)
    assert_type(run.fill(["to [MASK]"]), list[Filled | None])
    assert_type(run.answer("who?", "Ada left."), AnsweredQuestion)
    assert_type(run.answer(["who?"], "Ada left."), list[AnsweredQuestion])
    assert_type(run.classify_trees(Tree("S", word="late")), ClassifiedTree)
    assert_type(run.embed("a text"), np.ndarray)
    assert_type(run.embed(["a text", "another"]), np.ndarray)
    assert_type(run.embed(["a text"], tokens=True), list[np.ndarray])
    assert_type(run.text_vectors(), TextVectors)
    assert_type(clew.translate(run, "a cat"), Translation)
    assert_type(clew.translate([run, run], ["a cat"]), list[Translation])


def evaluate(run: clew.Run) -> None:
    evaluations = run.evaluate()
    assert_type(evaluations, clew.Evaluations)
    assert_type(evaluations["valid"], clew.Evaluation)
    assert_type(run.evaluate(part="valid"), clew.Evaluation)
    evaluation = run.evaluate(ROWS, data__label="label")
    assert_type(evaluation, clew.Evaluation)
    assert_type(run.evaluate(Path("test.csv")), clew.Evaluation)
    assert_type(evaluation.loss, float)
    assert_type(evaluation["accuracy"], float)
    assert_type(evaluation.measures, Mapping[str, float])
    assert_type(evaluation.scores, Mapping[str, float])


def inside(run: clew.Run) -> None:
    assert_type(clew.look(run, "surprisal", text="to be"), clew.View)
    assert_type(clew.look([run, "runs/other"], "surprisal", text="to be").save("view.html"), Path)
    with clew.record(run, "*.gates.forget") as recorded:
        run.score("to be")
    assert_type(recorded, clew.Recording)
    assert_type(recorded["*.gates.forget"], torch.Tensor)


class Mine(nn.Module):
    def forward(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return (batch[0] - batch[1]).square().mean()


def fit(loader: DataLoader[Any]) -> None:
    fitted = clew.fit(
        Mine(),
        loader,
        "runs/mine",
        steps=10,
        learning_rate=0.1,
        evaluate=loader,
        callbacks=[OnlySteps()],
        overwrite=True,
    )
    assert_type(fitted, clew.Fit)
    assert_type(fitted.measures, dict[str, float])


def estimators() -> None:
    classifier = clew.sklearn.Classifier(training__steps=60, model__dim=128).fit(
        ["late", "paid twice"], ["delivery", "billing"]
    )
    assert_type(classifier.predict(["late"]), np.ndarray)
    assert_type(classifier.run_, clew.Run)
    assert_type(clew.sklearn.Tagger().fit([["Ada", "left"]], [["B-PER", "O"]]).predict([["Bo"]]), list[list[Any]])


def layers() -> None:
    assert_type(clew.from_torch(nn.LSTM(3, 4, batch_first=True)), SequenceLayer)
    assert_type(clew.from_torch(nn.Transformer(8, 2, 1, 1, 16, batch_first=True)), VectorTransformer)


def catch() -> None:
    try:
        clew.load("none")
    except clew.UserError as error:
        print(error)
