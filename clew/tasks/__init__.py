"""Tasks, one a file: what turns a body's vectors into scores, a loss and predictions."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from clew.core.config import Section
from clew.tasks.bidirectional import BidirectionalLanguageModel, BidirectionalLanguageModelConfig
from clew.tasks.classification import CLASSES, ClassificationConfig, build_classifier, train_class_vocabularies
from clew.tasks.language_model import LanguageModel, LanguageModelConfig
from clew.tasks.masked_language_model import MaskedLanguageModel, MaskedLanguageModelConfig
from clew.tasks.parsing import ConstituencyParser, ParsingConfig, train_parsing_vocabularies
from clew.tasks.question_answering import (
    QUESTIONS,
    QuestionAnsweringConfig,
    build_question_answering,
    train_question_vocabularies,
)
from clew.tasks.representation import Representation, RepresentationConfig, build_representation
from clew.tasks.sequence import SequenceConfig, SequenceToSequence, TranslationConfig, train_sequence_vocabularies
from clew.tasks.tagging import TAGS, TaggingConfig, build_tagger, train_tagging_vocabularies
from clew.tasks.tree_classification import (
    LABELS,
    TreeClassificationConfig,
    TreeClassifier,
    build_tree_classifier,
    train_tree_vocabularies,
)
from clew.text.tokenizer import Tokenizer


class TaskKind(NamedTuple):
    """`build(body, vocabularies, config)`; `vocabularies` has the type of each by role; `data` names the kind of data it learns from.

    `verb` is what is done with a trained run, on the command line and from Python. A task that learns from examples has
    `train_vocabularies(train, joint, examples, config)`, `train(texts, specials)` being what makes a tokenizer.
    """

    config: type[Section]
    build: Callable[..., nn.Module]
    needs: tuple[str, ...]
    vocabularies: dict[str, Any]
    data: str = "text"
    train_vocabularies: Callable[..., dict[str, Any]] | None = None
    verb: str = "generate"


def build_language_model(body: Any, vocabularies: dict[str, Any], config: LanguageModelConfig) -> LanguageModel:
    return LanguageModel(body, vocabularies["tokenizer"], config)


def build_bidirectional(body: Any, vocabularies: dict[str, Any], config: BidirectionalLanguageModelConfig) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(body, vocabularies["tokenizer"], config)


def build_masked(body: Any, vocabularies: dict[str, Any], config: MaskedLanguageModelConfig) -> MaskedLanguageModel:
    return MaskedLanguageModel(body, vocabularies["tokenizer"], config)


def build_sequence(body: Any, vocabularies: dict[str, Any], config: SequenceConfig) -> SequenceToSequence:
    return SequenceToSequence(body, vocabularies["source"], vocabularies["target"], config)


def build_parser(body: Any, vocabularies: dict[str, Any], config: ParsingConfig) -> ConstituencyParser:
    return ConstituencyParser(body, vocabularies["source"], vocabularies["target"], config)


SIDES = {"source": Tokenizer, "target": Tokenizer}
ENCODES = SequenceToSequence.needs

TASKS: dict[str, TaskKind] = {
    "language_model": TaskKind(LanguageModelConfig, build_language_model, LanguageModel.needs, {"tokenizer": Tokenizer}),
    "bidirectional_language_model": TaskKind(
        BidirectionalLanguageModelConfig,
        build_bidirectional,
        BidirectionalLanguageModel.needs,
        {"tokenizer": Tokenizer},
        verb="evaluate",
    ),
    "masked_language_model": TaskKind(
        MaskedLanguageModelConfig, build_masked, MaskedLanguageModel.needs, {"tokenizer": Tokenizer}, "documents", verb="fill"
    ),
    "translation": TaskKind(TranslationConfig, build_sequence, ENCODES, SIDES, "pairs", train_sequence_vocabularies, "translate"),
    "sequence": TaskKind(SequenceConfig, build_sequence, ENCODES, SIDES, "pairs", train_sequence_vocabularies, "translate"),
    "parsing": TaskKind(ParsingConfig, build_parser, ENCODES, SIDES, "trees", train_parsing_vocabularies, "parse"),
    "classification": TaskKind(ClassificationConfig, build_classifier, (), CLASSES, "labelled", train_class_vocabularies, "classify"),
    "tagging": TaskKind(TaggingConfig, build_tagger, (), TAGS, "tagged", train_tagging_vocabularies, "tag"),
    "question_answering": TaskKind(
        QuestionAnsweringConfig, build_question_answering, (), QUESTIONS, "questions", train_question_vocabularies, "answer"
    ),
    "representation": TaskKind(
        RepresentationConfig, build_representation, Representation.needs, {"tokenizer": Tokenizer}, "nothing", verb="embed"
    ),
    "tree_classification": TaskKind(
        TreeClassificationConfig,
        build_tree_classifier,
        TreeClassifier.needs,
        LABELS,
        "labelled_trees",
        train_tree_vocabularies,
        "classify",
    ),
}
