"""A trained run, ready to use from Python: what `clew.load` and `clew.train` give back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from clew.core.devices import choose_device
from clew.core.errors import UserError, shown, unknown
from clew.core.trees import Tree
from clew.data.examples import Pair, Sentence
from clew.data.syntax.trees import format_tree
from clew.layers.precision import check_precision, quantise
from clew.runs.asking import ask, find_use, read_options, read_rows, uses_of
from clew.runs.build import build_task
from clew.runs.config import Config
from clew.runs.directory import WEIGHTS, check_code, check_files, check_run, num_values, read_config
from clew.runs.evaluation import (
    Evaluation,
    Evaluations,
    asked_of,
    check_chooses,
    labelled_by_choice,
    own_baselines,
    read_parts,
    score_choices,
    score_part,
)
from clew.runs.folder.vocabularies import TOKENIZER, load_vocabularies
from clew.runs.folder.weights import load_weights
from clew.runs.in_memory import Rows, is_file_name
from clew.runs.settings.keywords import settings_of, told_in_python
from clew.tasks import TASKS
from clew.tasks.classification import Classified
from clew.tasks.parsing import Parse
from clew.tasks.question_answering import AnsweredQuestion
from clew.tasks.shared.alignment import Alignment
from clew.tasks.tagging import TaggedText
from clew.tasks.translation import ScoredPair, Translation, align, score_pairs
from clew.tasks.tree_classification import ClassifiedTree, TreeRow
from clew.tasks.use import Use
from clew.tasks.uses.choices import Choices, Chosen, choices_of
from clew.tasks.uses.filling import Filled
from clew.tasks.uses.generation import Generated
from clew.tasks.uses.scoring import Scored, score_text
from clew.tasks.uses.text_vectors import TextVectors, text_vectors
from clew.text.tokenizer import Tokenizer

Words = str | Sequence[str]
"""A text, or a list of its words."""
Texts = str | tuple[str, str]
"""A text, or two that are read together."""
Choose = Choices | Sequence[str] | Mapping[str, str]
"""Words, or words by label."""


class Run:
    """A run directory with its model loaded. `task` is the torch module, `uses` what may be asked of it, `ask` asks;
    the other methods are names for what people ask most."""

    def __init__(self, folder: Path, config: Config, vocabularies: dict[str, Any], task: Any):
        self.folder = folder
        self.config = config
        self.vocabularies = vocabularies
        self.task = task

    @property
    def tokenizer(self) -> Tokenizer:
        """The only one, where there is one."""
        if TOKENIZER not in self.vocabularies:
            raise UserError(
                f"{self.folder} has several tokenizers: vocabularies[role], the roles being"
                f" {', '.join(self.vocabularies)}"
            )
        found: Tokenizer = self.vocabularies[TOKENIZER]
        return found

    @property
    def uses(self) -> dict[str, Use[Any, Any]]:
        """What may be asked of it, by verb, its own use first."""
        return uses_of(self)

    def ask(self, verb: str, rows: Sequence[Any], *, first: int = 1, **options: Any) -> list[Any]:
        """The answer to each row, None to a blank one. A row is a text, several fields in a tuple, or a dict with its
        fields; a row that is refused is named by its number, that of the first being `first`. `uses` has the types of
        rows, options and answers."""
        with told_in_python():
            given, beside = self._beside(verb, options)
            return ask([self], verb, rows, given, first=first, beside=beside)

    def _beside(self, verb: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], "list[Run]"]:
        """The options with folders in the place of runs and paths, and the runs that help with the answer."""
        loaded = [value for value in options.values() if isinstance(value, Run)]
        given = {
            name: str(getattr(value, "folder", value)) if isinstance(value, (Run, Path)) else value
            for name, value in options.items()
        }
        use = find_use(self, verb)
        folder = use.beside(read_options(use, self.config, given))
        if folder is None:
            return given, []
        helper = loaded[0] if loaded else load_run(folder, device=next(self.task.parameters()).device.type)
        find_use(helper, verb)
        return given, [helper]

    @overload
    def generate(self, prompts: str = "", **options: Any) -> Generated: ...
    @overload
    def generate(self, prompts: Sequence[str], **options: Any) -> list[Generated]: ...
    def generate(self, prompts: str | Sequence[str] = "", **options: Any) -> Generated | list[Generated]:
        """Continuations of one prompt or of several; options are the fields of the config's `decoding` section, `seed`
        and `draft`: a smaller `Run` with the same vocabulary, or its folder, or "prompt", which changes how long it
        takes.

        One prompt gives one `Generated` (a list where beam search is asked for more), several give a list.
        """
        one = isinstance(prompts, str)
        rows: list[list[Generated]] = self.ask("generate", listed(prompts), **options)
        found = [sample for row in rows for sample in row]
        if not found:
            raise UserError("there is no prompt; give at least one, empty if need be")
        return found[0] if one and len(found) == 1 else found

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:
        """One continuation, piece by piece."""
        use = find_use(self, "generate")
        given, beside = self._beside("generate", options)
        asked = read_options(use, self.config, given)
        [row] = read_rows(use.row, [prompt], str(self.folder))
        pieces = None if use.stream is None else use.stream([run.task for run in (self, *beside)], row, asked, 1)
        if pieces is None:
            raise UserError(
                "beam search chooses only at the end, so it cannot be streamed; use method=sample or greedy, and one"
                " sample"
            )
        return pieces

    def score(self, text: str) -> Scored:
        """The log-probability of every token of a text."""
        find_use(self, "generate")
        training = self.config.training
        return score_text(self.task, text, training.length, carry=training.batching == "streams")

    @overload
    def choose(self, texts: str, choices: Choices | Sequence[str] | Mapping[str, str], **options: Any) -> Chosen: ...
    @overload
    def choose(
        self, texts: Sequence[Texts], choices: Choices | Sequence[str] | Mapping[str, str], **options: Any
    ) -> list[Chosen | None]: ...
    def choose(
        self, texts: str | Sequence[Texts], choices: Choices | Sequence[str] | Mapping[str, str], **options: Any
    ) -> Chosen | list[Chosen | None]:
        """The likeliest of several choices after a text (a `Chosen`), or after each of several; an empty text has none
        (None).

        Choices are words, or words by label. Options are the `template`, such as 'Review: {text} It was {choice}.', how
        to `normalise` (none, tokens, characters), and whether to `calibrate`; see `clew.tasks.uses.choices.Choices`.
        """
        if isinstance(choices, Choices):
            own = {"template": choices.template, "normalise": choices.normalise, "calibrate": choices.calibrate}
            options, choices = {**own, **options}, choices.words
        if not isinstance(choices, (Mapping, Sequence)):
            raise UserError(
                f"choices are a list of texts, or a dict with the words of each label, not {shown(choices)}"
            )
        given = (
            dict(choices) if isinstance(choices, Mapping) else choices if isinstance(choices, str) else list(choices)
        )
        found: list[Any] = self.ask("classify", listed(texts), choices=given, **options)
        return found[0] if isinstance(texts, str) else found

    @overload
    def parse(self, sentences: str, **options: Any) -> Parse: ...
    @overload
    def parse(self, sentences: Sequence[Words], **options: Any) -> list[Parse | None]: ...
    def parse(self, sentences: str | Sequence[Words], **options: Any) -> Parse | list[Parse | None]:
        """The tree of a sentence (a `Parse`), or of each of several; lists of them, best first, where `n_best` is above
        1. A sentence without words has none (None).

        A sentence is a text with spaces between the words, or a list of words, which may be any. Options are the fields
        of the config's `decoding` section, and `seed`; `beams` or `n_best` asks for beam search.
        """
        found: Parse | list[Parse | None] = self._best("parse", sentences, options)
        return found

    @overload
    def translate(self, texts: str, **options: Any) -> Translation: ...
    @overload
    def translate(self, texts: Sequence[str], **options: Any) -> list[Translation]: ...
    def translate(self, texts: str | Sequence[str], **options: Any) -> Translation | list[Translation]:
        """A `Translation` of one text, a list of them for several; lists of these where beam search is asked for
        `n_best` above 1.

        `into` names the language, where the model writes several; `with_attention` adds how each word looked at the
        source's, of a `layer`. Options are besides the fields of the config's `decoding` section, `seed` and
        `replace_unknown`; `beams` or `n_best` asks for beam search.
        """
        found: Translation | list[Translation] = self._best("translate", texts, options)
        return found

    def _best(self, verb: str, texts: Any, options: Mapping[str, Any], runs: "Sequence[Run]" = ()) -> Any:
        """Of lists of answers the best one each, where no more are asked for."""
        runs = runs or [self]
        found = ask(runs, verb, listed(texts), options)
        if read_options(find_use(self, verb), self.config, options).n_best == 1:
            found = [answers[0] if answers else None for answers in found]
        return found[0] if isinstance(texts, str) else found

    @overload
    def tag(self, texts: str, *, tokenised: bool = False) -> TaggedText: ...  # type: ignore[overload-overlap]  # a text is a sequence of texts too
    @overload
    def tag(self, texts: Sequence[Words], *, tokenised: bool = False) -> list[TaggedText]: ...
    def tag(self, texts: str | Sequence[Words], *, tokenised: bool = False) -> TaggedText | list[TaggedText]:
        """A text's words with their tags (a `TaggedText`), or those of each of several.

        A text is cut into words, at spaces alone where it is `tokenised`; or it is a list of words, which may be any.
        """
        found: list[TaggedText] = self.ask("tag", [as_list(text) for text in listed(texts)], tokenised=tokenised)
        return found[0] if isinstance(texts, str) else found

    @overload
    def fill(self, texts: str, *, top: int = 5) -> Filled: ...  # type: ignore[overload-overlap]  # a text is a sequence of texts too
    @overload
    def fill(self, texts: Sequence[Texts], *, top: int = 5) -> list[Filled | None]: ...
    def fill(self, texts: str | Sequence[Texts], *, top: int = 5) -> Filled | list[Filled | None]:
        """The `top` guesses at every [MASK] of a text (a `Filled`), or of each of several; an empty one has none
        (None). Of two texts in a tuple the answer also has how likely the second comes after the first; they need no
        mask."""
        found: list[Any] = self.ask("fill", listed(texts), top=top)
        return found[0] if isinstance(texts, str) else found

    @overload
    def classify(self, texts: str | Tree | Sentence) -> Classified: ...
    @overload
    def classify(self, texts: Sequence[Any]) -> list[Classified | None]: ...
    def classify(self, texts: str | Tree | Sentence | Sequence[Any]) -> Classified | list[Classified | None]:
        """What a text is (a `Classified`), or each of several; an empty one is nothing (None). Two texts that are
        judged together are a tuple, so that `classify([("It rains.", "It is wet.")])` is one answer. Where a run reads
        trees, so does this: `classify_trees`."""
        one = isinstance(texts, (str, Tree, Sentence))
        found: list[Any] = self.ask("classify", [tree_row(each) for each in ([texts] if one else listed(texts))])
        return found[0] if one else found

    @overload
    def classify_trees(self, trees: str | Tree | Sentence) -> ClassifiedTree: ...  # type: ignore[overload-overlap]
    @overload
    def classify_trees(self, trees: Sequence[str | Tree | Sentence]) -> list[ClassifiedTree | None]: ...
    def classify_trees(self, trees: Any) -> ClassifiedTree | list[ClassifiedTree | None]:
        """The class of a tree (a `ClassifiedTree`), or of each of several; an empty text is nothing (None).

        A tree is a text with brackets, a `Tree`, or a `Sentence` with heads; labels that it has are not looked at.
        """
        if not issubclass(find_use(self, "classify").row, TreeRow):
            raise UserError(f"{self.folder} classifies texts, not trees; give texts to `classify`")
        one = isinstance(trees, (str, Tree, Sentence))
        found: list[Any] = self.ask("classify", [tree_row(tree) for tree in ([trees] if one else listed(trees))])
        return found[0] if one else found

    @overload
    def answer(  # type: ignore[overload-overlap]
        self, questions: str, passage: str, *, n_best: int = 1, threshold: float | None = None
    ) -> AnsweredQuestion: ...
    @overload
    def answer(
        self, questions: Sequence[str], passage: str, *, n_best: int = 1, threshold: float | None = None
    ) -> list[AnsweredQuestion]: ...
    def answer(
        self, questions: str | Sequence[str], passage: str, *, n_best: int = 1, threshold: float | None = None
    ) -> AnsweredQuestion | list[AnsweredQuestion]:
        """The answer to a question on a passage (an `AnsweredQuestion`), or to each of several; with the `n_best`
        pieces of the passage.

        There is none where none scores by more than a `threshold` above the best piece: the run's own, unless one is
        given.
        """
        rows = [{"question": question, "passage": passage} for question in listed(questions)]
        found: list[AnsweredQuestion] = self.ask("answer", rows, n_best=n_best, threshold=threshold)
        return found[0] if isinstance(questions, str) else found

    @overload
    def embed(  # type: ignore[overload-overlap]  # a text is a sequence of texts too
        self,
        texts: str,
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        tokens: bool = False,
        carry: int | None = None,
    ) -> np.ndarray: ...
    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        tokens: Literal[False] = False,
        carry: int | None = None,
    ) -> np.ndarray: ...
    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        tokens: Literal[True],
        carry: int | None = None,
    ) -> list[np.ndarray]: ...
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        tokens: bool = False,
        carry: int | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """A vector for each text (texts, dim), for one text (dim), or with `tokens` one for each of its tokens,
        (tokens, dim), in a list; NumPy, float32. `layer` is a level's number (0: the embedding) or a mix of levels;
        `pooling` and `normalise` are the run's own where they are not given. `carry` = n reads an ELMo's texts n at a
        time, each going on from the one in its place before, as AllenNLP does."""
        given = listed(texts)
        for text in given:
            if not isinstance(text, str):
                raise UserError(f"a text is a string, and one is {shown(text)}")
        vectors = self.text_vectors(layer=layer, pooling=pooling, normalise=normalise, carry=carry)
        found: np.ndarray | list[np.ndarray] = (
            [each.vectors for each in vectors.of_tokens(given)] if tokens else vectors.of(given)
        )
        return found[0] if isinstance(texts, str) else found

    def text_vectors(
        self,
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        carry: int | None = None,
    ) -> TextVectors:
        """What makes vectors of texts, some at a time."""
        return text_vectors(self.task, layer=layer, pooling=pooling, normalise=normalise, carry=carry)

    def score_translation(self, source: str, target: str, *, into: str = "") -> ScoredPair:
        """The log-probability of every token of a given target, and of all of it."""
        find_use(self, "translate")
        return score_pairs([self.task], [Pair(source, target, into=into)])[0]

    def align(self, source: str, target: str, *, into: str = "", layer: int | None = None) -> Alignment:
        """How much each token of a given target looks at each of the source."""
        find_use(self, "translate")
        return align([self.task], [Pair(source, target, into=into)], layer=layer)[0]

    @overload
    def evaluate(
        self,
        data: None = None,
        *,
        part: None = None,
        choices: Choose | None = None,
        baselines: bool = False,
        **settings: Any,
    ) -> Evaluations: ...
    @overload
    def evaluate(
        self, data: None = None, *, part: str, choices: Choose | None = None, baselines: bool = False, **settings: Any
    ) -> Evaluation: ...
    @overload
    def evaluate(
        self, data: Rows | Path, *, choices: Choose | None = None, baselines: bool = False, **settings: Any
    ) -> Evaluation: ...
    def evaluate(
        self,
        data: Rows | Path | None = None,
        *,
        part: str | None = None,
        choices: Choose | None = None,
        baselines: bool = False,
        **settings: Any,
    ) -> Evaluation | Evaluations:
        """The run's scores, as `clew evaluate` has them: on its own validation and test parts (`Evaluations`), on one
        `part`, or on `data`.

        `data` are examples as `clew.train` takes them, a file or several (pathlib.Path; of examples a string is a file
        too), or to a language model a text. Settings of the sections data and decoding are keywords:
        `data__label="stars"`, `decoding__beams=5`; `into`, `pivot` and `streams` are as on the command line.
        `baselines` adds what the training data alone reach. With `choices` a language model chooses among labels, as
        `choose` does.
        """
        with told_in_python():
            more = {name: settings.pop(name, None) for name in ("into", "pivot", "streams")}
            words = settings_of((), settings, ("data", "part", "choices", "baselines", "into", "pivot", "streams"))
            if choices is not None:
                return self._evaluate_choices(data, choices, words)
            notes: list[str] = []
            asked = replace(
                asked_of(TASKS[self.config.task.name].learns, self.config.data, data, words, notes.append), **more
            )
            config, parts = read_parts(self, asked, notes.append)
            if part is not None and part not in parts:
                raise unknown("part", part, parts)
            beside = own_baselines(self) if baselines else None
            scores = {
                name: score_part(self, config, name, each, pivot=asked.pivot, baselines=beside, say=notes.append)
                for name, each in parts.items()
                if part in (None, name)
            }
            if data is not None:
                score, place = next(iter(scores.values())), f"{asked.files[0]}:" if name_of(data) == IN_MEMORY else ""
                return Evaluation.of(name_of(data), score, notes, place)
            found = Evaluations({name: Evaluation.of(name, score, notes) for name, score in scores.items()})
            return found if part is None else found[part]

    def _evaluate_choices(self, data: Any, choices: Choose, settings: Sequence[str]) -> Evaluation:
        if data is None:
            raise UserError("choices= needs texts with labels; give them as data=")
        check_chooses(self)
        asked_for = choices if isinstance(choices, Choices) else choices_of(choices)
        examples, notes = labelled_by_choice(self, data, asked_for, settings)
        return Evaluation.of(name_of(data), score_choices(self, examples, asked_for), notes.report())

    def __repr__(self) -> str:
        family = self.config.model.family
        count = sum(p.numel() for p in self.task.parameters())
        sizes = dict.fromkeys(
            f"{vocabulary.vocabulary} {vocabulary.unit}s" for vocabulary in self.vocabularies.values()
        )
        return f"Run({str(self.folder)!r}: {family}, {count:,} parameters, {', '.join(sizes)})"


IN_MEMORY = "data"


def name_of(data: Any) -> str:
    """What an evaluation is called: its file, or else `data`."""
    return str(data) if isinstance(data, Path) or (isinstance(data, str) and is_file_name(data)) else IN_MEMORY


def listed(texts: Any) -> Any:
    """One text as a list of it; several as they are."""
    if not isinstance(texts, Iterable) or isinstance(texts, (Mapping, bytes)):
        raise UserError(f"expected a text, or a list of texts, found {shown(texts)}")
    return [texts] if isinstance(texts, str) else texts


def as_list(text: Any) -> Any:
    """Words as JSON has them."""
    return list(text) if isinstance(text, tuple) else text


def tree_row(tree: Any) -> Any:
    """A tree as a row has it; what is none as it is."""
    if isinstance(tree, Sentence):
        return TreeRow(words=list(tree.words), heads=list(tree.heads or ()))
    return TreeRow(text=format_tree(tree)) if isinstance(tree, Tree) else tree


@overload
def translate_together(runs: Sequence[Run], texts: str, **options: Any) -> Translation: ...
@overload
def translate_together(runs: Sequence[Run], texts: Sequence[str], **options: Any) -> list[Translation]: ...
def translate_together(
    runs: Sequence[Run], texts: str | Sequence[str], **options: Any
) -> Translation | list[Translation]:
    """Translations by several runs as an ensemble, as `Run.translate` has them by one; options that are not given are
    the first run's."""
    if not runs:
        raise UserError("there is no run to translate with; give at least one")
    found: Translation | list[Translation] = runs[0]._best("translate", texts, options, runs)
    return found


def load_run(folder: Path | str, *, device: str = "auto", code: Path | None = None, precision: str = "float32") -> Run:
    """The run in a folder, with the weights of its best evaluation, kept in a precision (`clew.layers.precision`)."""
    check_precision(precision)
    folder = Path(folder)
    check_run(folder)
    check_files(folder)
    check_code(folder, code)
    config = read_config(folder)
    vocabularies = load_vocabularies(folder, config)
    task = build_task(
        config, vocabularies, to_train=False, stored=None if config.transfer.adapter else num_values(folder / WEIGHTS)
    )
    load_weights(task, folder, config)
    task.to(choose_device(device)[0]).eval()
    quantise(task, precision)
    return Run(folder, config, vocabularies, task)
