"""A trained run, ready to use from Python: the object that `clew.load` and `clew.train` return."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, overload

import numpy as np

from clew.core.config import Section
from clew.core.devices import choose_device
from clew.core.errors import UserError, shown, unknown
from clew.core.trees import Tree
from clew.data.examples import Pair, Sentence
from clew.data.syntax.trees import format_tree
from clew.layers.precision import check_precision, quantise
from clew.runs.asking import ask_runs, find_use, read_options, read_rows, uses_of
from clew.runs.build import build_task
from clew.runs.columns import plain_rows, row_of_dict
from clew.runs.config import Config
from clew.runs.directory import check_code, check_files, num_values, read_config
from clew.runs.evaluation import (
    Evaluation,
    Evaluations,
    build_request,
    check_chooses,
    labelled_by_choice,
    own_baselines,
    read_parts,
    score_choices,
    score_part,
)
from clew.runs.folder.run_files import WEIGHTS, check_run
from clew.runs.folder.vocabularies import TOKENIZER, load_vocabularies
from clew.runs.folder.weights import load_weights
from clew.runs.in_memory import Rows, is_file_name
from clew.runs.settings.keywords import python_errors, settings_of
from clew.tasks import TASKS
from clew.tasks.classification import Classified
from clew.tasks.parsing import Parse
from clew.tasks.question_answering import AnsweredQuestion
from clew.tasks.shared.alignment import Alignment
from clew.tasks.tagging import TaggedText
from clew.tasks.translation import ScoredPair, Translation, align, score_pairs
from clew.tasks.tree_classification import ClassifiedTree, TreeRow
from clew.tasks.use import TextRow, Use
from clew.tasks.uses.choices import Choices, Chosen, choices_of
from clew.tasks.uses.filling import Filled
from clew.tasks.uses.generation import Generated
from clew.tasks.uses.scoring import Scored, score_text
from clew.tasks.uses.text_vectors import TextVectors, text_vectors
from clew.text.tokenizer import Tokenizer

Words = str | Sequence[str]
"""A text, or a list of its words."""
Texts = str | tuple[str, str]
"""A text, or a pair of texts that are read together."""
Choose = Choices | Sequence[str] | Mapping[str, str]
"""Words, or words by label."""


class Frame(Protocol):
    """A table of a dataframe library, such as pandas, polars or pyarrow."""

    @property
    def columns(self) -> Any: ...


Table = Frame | Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]]
"""Several rows by column: a dataframe, a dict of columns, or a list of dicts."""


class QuestionText(Section):
    """A question whose passage is given apart."""

    question: str


class Run:
    """A run directory with its model loaded. `task` is the torch module, `uses` lists what the run can do, and `ask`
    does any of it; the other methods are shortcuts for the most common uses."""

    def __init__(self, folder: Path, config: Config, vocabularies: dict[str, Any], task: Any):
        self.folder = folder
        self.config = config
        self.vocabularies = vocabularies
        self.task = task

    @property
    def tokenizer(self) -> Tokenizer:
        """The run's tokenizer; raises UserError if it has several."""
        if TOKENIZER not in self.vocabularies:
            raise UserError(
                f"{self.folder} has several tokenizers; use vocabularies[role] with one of the roles"
                f" {', '.join(self.vocabularies)}"
            )
        tokenizer: Tokenizer = self.vocabularies[TOKENIZER]
        return tokenizer

    @property
    def uses(self) -> dict[str, Use[Any, Any]]:
        """The run's uses by verb, that of its own task first."""
        return uses_of(self)

    def ask(self, verb: str, rows: Sequence[Any], *, first: int = 1, **options: Any) -> list[Any]:
        """Return the answer to each row, None for a blank row. A row is a text, a tuple of its fields, or a dict of
        them. Errors name a row by its number, counted from `first`. `uses` has the types of rows, options and
        answers."""
        with python_errors():
            options, helpers = self._with_helpers(verb, options)
            return ask_runs([self], verb, rows, options, first=first, helpers=helpers)

    def _with_helpers(self, verb: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], "list[Run]"]:
        """Return the options, with runs and paths replaced by folder names, and the runs that help with the answer,
        such as a draft model."""
        runs = [value for value in options.values() if isinstance(value, Run)]
        plain = {
            name: str(getattr(value, "folder", value)) if isinstance(value, (Run, Path)) else value
            for name, value in options.items()
        }
        use = find_use(self, verb)
        folder = use.helper(read_options(use, self.config, plain))
        if folder is None:
            return plain, []
        helper = runs[0] if runs else load_run(folder, device=next(self.task.parameters()).device.type)
        find_use(helper, verb)
        return plain, [helper]

    @overload
    def generate(self, prompts: str = "", **options: Any) -> Generated: ...
    @overload
    def generate(self, prompts: Sequence[str] | Table, **options: Any) -> list[Generated]: ...
    def generate(self, prompts: str | Sequence[str] | Table = "", **options: Any) -> Generated | list[Generated]:
        """Generate continuations of one prompt or of several. Options are the fields of the config's `decoding`
        section, `seed`, and `draft`: a smaller `Run` with the same vocabulary, its folder, or "prompt". A draft changes
        only the speed.

        One prompt gives one `Generated` (a list if several samples are requested); several prompts give a list.
        """
        is_single = isinstance(prompts, str)
        answers: list[list[Generated]] = self.ask("generate", self._rows("generate", prompts), **options)
        samples = [sample for answer in answers for sample in answer]
        if not samples:
            raise UserError("there is no prompt; give at least one (it may be empty)")
        return samples[0] if is_single and len(samples) == 1 else samples

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:
        """Generate one continuation and yield it piece by piece."""
        use = find_use(self, "generate")
        options, helpers = self._with_helpers("generate", options)
        use_options = read_options(use, self.config, options)
        [row] = read_rows(use.row, [prompt], str(self.folder), data=self.config.data)
        pieces = None if use.stream is None else use.stream([run.task for run in (self, *helpers)], row, use_options, 1)
        if pieces is None:
            raise UserError(
                "beam search chooses only at the end, so it cannot be streamed; use method=sample or greedy, and one"
                " sample"
            )
        return pieces

    def score(self, text: str) -> Scored:
        """Return the log-probability of every token of a text."""
        find_use(self, "generate")
        training = self.config.training
        return score_text(self.task, text, training.length, carry=training.batching == "streams")

    @overload
    def choose(self, texts: str, choices: Choices | Sequence[str] | Mapping[str, str], **options: Any) -> Chosen: ...
    @overload
    def choose(
        self, texts: Sequence[Texts] | Table, choices: Choices | Sequence[str] | Mapping[str, str], **options: Any
    ) -> list[Chosen | None]: ...
    def choose(
        self, texts: str | Sequence[Texts] | Table, choices: Choices | Sequence[str] | Mapping[str, str], **options: Any
    ) -> Chosen | list[Chosen | None]:
        """Choose the most likely of several choices after a text (a `Chosen`), or after each of several texts; None for
        an empty text.

        Choices are words, or words by label. Options are the `template`, such as 'Review: {text} It was {choice}.', how
        to `normalise` (none, tokens, characters), and whether to `calibrate`; see `clew.tasks.uses.choices.Choices`.
        """
        if isinstance(choices, Choices):
            own = {"template": choices.template, "normalise": choices.normalise, "calibrate": choices.calibrate}
            options, choices = {**own, **options}, choices.words
        if not isinstance(choices, (Mapping, Sequence)):
            raise UserError(f"choices must be a list of texts, or a dict of label to words; found {shown(choices)}")
        plain = (
            dict(choices) if isinstance(choices, Mapping) else choices if isinstance(choices, str) else list(choices)
        )
        answers: list[Any] = self.ask(
            "classify", self._rows("classify", texts, choices=plain), choices=plain, **options
        )
        return answers[0] if isinstance(texts, str) else answers

    @overload
    def parse(self, sentences: str, **options: Any) -> Parse: ...
    @overload
    def parse(self, sentences: Sequence[Words] | Table, **options: Any) -> list[Parse | None]: ...
    def parse(self, sentences: str | Sequence[Words] | Table, **options: Any) -> Parse | list[Parse | None]:
        """Parse a sentence into a tree (a `Parse`), or each of several sentences. With `n_best` above 1 each answer is
        a list of parses, best first. The answer to a sentence without words is None.

        A sentence is a text with spaces between the words, or a list of words, which may contain any characters.
        Options are the fields of the config's `decoding` section, and `seed`; `beams` or `n_best` selects beam search.
        """
        answers: Parse | list[Parse | None] = self._best("parse", sentences, options)
        return answers

    @overload
    def translate(self, texts: str, **options: Any) -> Translation: ...
    @overload
    def translate(self, texts: Sequence[str] | Table, **options: Any) -> list[Translation]: ...
    def translate(self, texts: str | Sequence[str] | Table, **options: Any) -> Translation | list[Translation]:
        """Translate one text (a `Translation`) or several (a list). With `n_best` above 1 each answer is a list of
        translations.

        `into` names the target language of a model with several; `with_attention` adds each target word's attention to
        the source words, from a `layer`. The other options are the fields of the config's `decoding` section, `seed`
        and `replace_unknown`; `beams` or `n_best` selects beam search.
        """
        answers: Translation | list[Translation] = self._best("translate", texts, options)
        return answers

    def _rows(self, verb: str, texts: Any, **options: Any) -> Any:
        """Return the rows of a verb: those of a table as dicts of their fields, a single text in a list, and anything
        else unchanged."""
        use = find_use(self, verb)
        kind = use.row_type(self.config.data, read_options(use, self.config, options))
        with python_errors():
            return as_texts(plain_rows(kind, self.config.data, texts))

    def _texts(self, texts: Any, kind: type[Section]) -> list[Any]:
        """Return the texts of rows with one field: of a table or of dicts, their column."""
        rows, [field] = plain_rows(kind, self.config.data, texts), kind.model_fields
        return [
            row_of_dict(kind, self.config.data, row, f"text {number}")[field] if isinstance(row, Mapping) else row
            for number, row in enumerate(as_texts(rows), start=1)
        ]

    def _best(self, verb: str, texts: Any, options: Mapping[str, Any], runs: "Sequence[Run]" = ()) -> Any:
        """Return the best answer to each text, or its list of answers if `n_best` is above 1."""
        runs = runs or [self]
        answers = ask_runs(runs, verb, runs[0]._rows(verb, texts), options)
        if read_options(find_use(self, verb), self.config, options).n_best == 1:
            answers = [n_best[0] if n_best else None for n_best in answers]
        return answers[0] if isinstance(texts, str) else answers

    @overload
    def tag(self, texts: str, *, tokenised: bool = False) -> TaggedText: ...  # type: ignore[overload-overlap]  # a text is a sequence of texts too
    @overload
    def tag(self, texts: Sequence[Words] | Table, *, tokenised: bool = False) -> list[TaggedText]: ...
    def tag(self, texts: str | Sequence[Words] | Table, *, tokenised: bool = False) -> TaggedText | list[TaggedText]:
        """Tag the words of a text (a `TaggedText`), or of each of several texts.

        A text is a string, which is split into words (only at spaces if it is `tokenised`), or a list of words, which
        may contain any characters.
        """
        answers: list[TaggedText] = self.ask(
            "tag", [as_list(text) for text in self._rows("tag", texts)], tokenised=tokenised
        )
        return answers[0] if isinstance(texts, str) else answers

    @overload
    def fill(self, texts: str, *, top: int = 5) -> Filled: ...  # type: ignore[overload-overlap]  # a text is a sequence of texts too
    @overload
    def fill(self, texts: Sequence[Texts] | Table, *, top: int = 5) -> list[Filled | None]: ...
    def fill(self, texts: str | Sequence[Texts] | Table, *, top: int = 5) -> Filled | list[Filled | None]:
        """Return the `top` predictions for every [MASK] of a text (a `Filled`), or of each of several; None for an
        empty text. For a pair of texts in a tuple, the answer also has the probability that the second follows the
        first; a pair needs no mask."""
        answers: list[Any] = self.ask("fill", self._rows("fill", texts), top=top)
        return answers[0] if isinstance(texts, str) else answers

    @overload
    def classify(self, texts: str | Tree | Sentence) -> Classified: ...
    @overload
    def classify(self, texts: Sequence[Any] | Table) -> list[Classified | None]: ...
    def classify(self, texts: str | Tree | Sentence | Sequence[Any] | Table) -> Classified | list[Classified | None]:
        """Classify a text (a `Classified`), or each of several; None for an empty text. A pair of texts that are
        classified together is a tuple: `classify([("It rains.", "It is wet.")])` gives one answer. For a run that reads
        trees this is the same as `classify_trees`."""
        is_single = isinstance(texts, (str, Tree, Sentence))
        rows = [texts] if is_single else self._rows("classify", texts)
        answers: list[Any] = self.ask("classify", [tree_row(row) for row in rows])
        return answers[0] if is_single else answers

    @overload
    def classify_trees(self, trees: str | Tree | Sentence) -> ClassifiedTree: ...  # type: ignore[overload-overlap]
    @overload
    def classify_trees(self, trees: Sequence[str | Tree | Sentence]) -> list[ClassifiedTree | None]: ...
    def classify_trees(self, trees: Any) -> ClassifiedTree | list[ClassifiedTree | None]:
        """Classify a tree (a `ClassifiedTree`), or each of several; None for an empty text.

        A tree is a text with brackets, a `Tree`, or a `Sentence` with heads; its own labels are ignored.
        """
        if not issubclass(find_use(self, "classify").row, TreeRow):
            raise UserError(f"{self.folder} classifies texts, not trees; call `classify` with texts")
        is_single = isinstance(trees, (str, Tree, Sentence))
        rows = [trees] if is_single else self._rows("classify", trees)
        answers: list[Any] = self.ask("classify", [tree_row(row) for row in rows])
        return answers[0] if is_single else answers

    @overload
    def answer(  # type: ignore[overload-overlap]
        self, questions: str, passage: str, *, n_best: int = 1, threshold: float | None = None
    ) -> AnsweredQuestion: ...
    @overload
    def answer(
        self, questions: Sequence[str] | Table, passage: str, *, n_best: int = 1, threshold: float | None = None
    ) -> list[AnsweredQuestion]: ...
    def answer(
        self, questions: str | Sequence[str] | Table, passage: str, *, n_best: int = 1, threshold: float | None = None
    ) -> AnsweredQuestion | list[AnsweredQuestion]:
        """Answer a question about a passage (an `AnsweredQuestion`), or each of several, with the `n_best` spans of the
        passage.

        The question has no answer if "no answer" scores more than `threshold` above the best span (default: the run's
        own threshold).
        """
        rows = [{"question": question, "passage": passage} for question in self._texts(questions, QuestionText)]
        answers: list[AnsweredQuestion] = self.ask("answer", rows, n_best=n_best, threshold=threshold)
        return answers[0] if isinstance(questions, str) else answers

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
        texts: Sequence[str] | Table,
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
        texts: Sequence[str] | Table,
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        tokens: Literal[True],
        carry: int | None = None,
    ) -> list[np.ndarray]: ...
    def embed(
        self,
        texts: str | Sequence[str] | Table,
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        tokens: bool = False,
        carry: int | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """Return text vectors as NumPy float32 arrays: (texts, dim) for several texts, (dim) for one text; with
        `tokens` a (tokens, dim) array per text, in a list.

        `layer` is a layer's number (0: the embedding) or a mix of layers. `pooling` and `normalise` default to the
        run's own. With `carry` = n an ELMo reads the texts n at a time, and each continues from the state of the text
        n places before it, as AllenNLP does.
        """
        text_list = self._texts(texts, TextRow)
        for text in text_list:
            if not isinstance(text, str):
                raise UserError(f"a text must be a string, not {shown(text)}")
        embedder = self.text_vectors(layer=layer, pooling=pooling, normalise=normalise, carry=carry)
        vectors: np.ndarray | list[np.ndarray] = (
            [row.vectors for row in embedder.of_tokens(text_list)] if tokens else embedder.of(text_list)
        )
        return vectors[0] if isinstance(texts, str) else vectors

    def text_vectors(
        self,
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        carry: int | None = None,
    ) -> TextVectors:
        """Return the object that computes text vectors, batch by batch."""
        return text_vectors(self.task, layer=layer, pooling=pooling, normalise=normalise, carry=carry)

    def score_translation(self, source: str, target: str, *, into: str = "") -> ScoredPair:
        """Return the log-probability of every token of a given target, and of the whole target."""
        find_use(self, "translate")
        return score_pairs([self.task], [Pair(source, target, into=into)])[0]

    def align(self, source: str, target: str, *, into: str = "", layer: int | None = None) -> Alignment:
        """Return the attention of each token of a given target to each token of the source."""
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
        """Evaluate the run, as `clew evaluate` does: on its own validation and test parts (`Evaluations`), on one
        `part`, or on `data`.

        `data` are examples in any form that `clew.train` takes, one or more files (pathlib.Path; for tasks with
        examples also a string), or a text for a language model. Settings of the sections data and decoding are
        keywords: `data__label="stars"`, `decoding__beams=5`; `into`, `pivot` and `streams` are the command line's
        options. `baselines` adds the scores of baselines fitted on the training part. With `choices` a language model
        chooses among labels, as in `choose`.
        """
        with python_errors():
            options = {name: settings.pop(name, None) for name in ("into", "pivot", "streams")}
            assignments = settings_of(
                (), settings, ("data", "part", "choices", "baselines", "into", "pivot", "streams")
            )
            if choices is not None:
                return self._evaluate_choices(data, choices, assignments)
            notes: list[str] = []
            learning = TASKS[self.config.task.name].learns
            request = replace(build_request(learning, self.config.data, data, assignments, notes.append), **options)
            config, parts = read_parts(self, request, notes.append)
            if part is not None and part not in parts:
                raise unknown("part", part, parts)
            fitted = own_baselines(self) if baselines else None
            scores = {
                name: score_part(self, config, name, rows, pivot=request.pivot, baselines=fitted, say=notes.append)
                for name, rows in parts.items()
                if part in (None, name)
            }
            if data is not None:
                score, place = next(iter(scores.values())), f"{request.files[0]}:" if name_of(data) == IN_MEMORY else ""
                return Evaluation.of(name_of(data), score, notes, place)
            evaluations = Evaluations({name: Evaluation.of(name, score, notes) for name, score in scores.items()})
            return evaluations if part is None else evaluations[part]

    def _evaluate_choices(self, data: Any, choices: Choose, settings: Sequence[str]) -> Evaluation:
        if data is None:
            raise UserError("choices= needs labelled texts; pass them as data=")
        check_chooses(self)
        choices = choices if isinstance(choices, Choices) else choices_of(choices)
        examples, notes = labelled_by_choice(self, data, choices, settings)
        return Evaluation.of(name_of(data), score_choices(self, examples, choices), notes.report())

    def __repr__(self) -> str:
        family = self.config.model.family
        count = sum(p.numel() for p in self.task.parameters())
        sizes = dict.fromkeys(
            f"{vocabulary.vocabulary} {vocabulary.unit}s" for vocabulary in self.vocabularies.values()
        )
        return f"Run({str(self.folder)!r}: {family}, {count:,} parameters, {', '.join(sizes)})"


IN_MEMORY = "data"


def name_of(data: Any) -> str:
    """Return the name of an evaluation: its file, or `data` for examples in memory."""
    return str(data) if isinstance(data, Path) or (isinstance(data, str) and is_file_name(data)) else IN_MEMORY


def as_texts(texts: Any) -> Any:
    """Wrap a single text in a list; return several texts unchanged."""
    if not isinstance(texts, Iterable) or isinstance(texts, (Mapping, bytes)):
        raise UserError(f"expected a text, or a list of texts, found {shown(texts)}")
    return [texts] if isinstance(texts, str) else texts


def as_list(text: Any) -> Any:
    """Convert a tuple of words to a list, the form that rows take."""
    return list(text) if isinstance(text, tuple) else text


def tree_row(tree: Any) -> Any:
    """Convert a tree to a row; return anything else unchanged."""
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
    """Translate with several runs as an ensemble; arguments and result are those of `Run.translate`. Options that are
    not given come from the first run."""
    if not runs:
        raise UserError("there is no run to translate with; give at least one")
    answers: Translation | list[Translation] = runs[0]._best("translate", texts, options, runs)
    return answers


def load_run(folder: Path | str, *, device: str = "auto", code: Path | None = None, precision: str = "float32") -> Run:
    """Load the run in a folder with the weights of its best evaluation, converted to a precision
    (`clew.layers.precision`)."""
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
