"""A trained run, ready to use from Python: what `clew.load` and `clew.train` give back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.config import part_name
from clew.core.errors import UserError, shown
from clew.core.trees import Tree
from clew.data.contents import LabelTable
from clew.data.corpora import CORPORA
from clew.data.examples import Pair, Question, Sentence
from clew.data.labelled_trees import unlabelled
from clew.data.trees import words_of
from clew.layers.pooling import Pooler
from clew.models import MODELS
from clew.runs.build import build_task, choose_device
from clew.runs.config import Config
from clew.runs.directory import check_code, check_files, check_run, read_config
from clew.runs.embedding import check_reads_one_sequence
from clew.runs.given import answered, check_sides, check_tree_kinds, decoding_config, is_blank, listed_texts, searching
from clew.runs.vocabularies import TOKENIZER, load_vocabularies
from clew.runs.weights import load_weights
from clew.sources.words import SourceReader, WordReader
from clew.tasks import TASKS
from clew.tasks.alignment import Alignment
from clew.tasks.choices import Choices, Chooser, choices_of
from clew.tasks.filling import fill
from clew.tasks.generation import generate, stream
from clew.tasks.scoring import Scored, score_text
from clew.tasks.tagging import TaggedText
from clew.tasks.text_vectors import TextVectors
from clew.tasks.translation import BATCH_TOKENS, ScoredPair, align, score_pairs, translate
from clew.text.tokenizer import Tokenizer
from clew.text.words import listed_words, spaced_words, split_words


class Run:
    """A run directory with its model loaded. `task` is the torch module; the methods are what people do with it."""

    def __init__(self, folder: Path, config: Config, vocabularies: dict[str, Any], task: Any):
        self.folder = folder
        self.config = config
        self.vocabularies = vocabularies
        self.task = task

    @property
    def tokenizer(self) -> Tokenizer:
        """The only one, where there is one."""
        if TOKENIZER not in self.vocabularies:
            raise UserError(f"{self.folder} has several tokenizers: vocabularies[role], the roles being {', '.join(self.vocabularies)}")
        return self.vocabularies[TOKENIZER]

    @property
    def verb(self) -> str:
        """What this run does: generate, translate, parse, tag, classify, fill, answer."""
        return TASKS[self.config.task.name].verb

    def generate(self, prompts: str | Sequence[str] = "", *, seed: int | None = None, **options: Any) -> Any:
        """Continuations of one prompt or of several; options are the fields of the config's `decoding` section.

        One prompt gives one `Generated` (a list where beam search is asked for more), several give a list.
        """
        check_verb(self, "generate")
        config = decoding_config(self.config.decoding, options)
        one = isinstance(prompts, str)
        found = generate(self.task, [prompts] if isinstance(prompts, str) else prompts, config, self.config.seed if seed is None else seed)
        return found[0] if one and len(found) == 1 else found

    def stream(self, prompt: str = "", *, seed: int | None = None, **options: Any) -> Iterator[str]:
        """One continuation, piece by piece."""
        check_verb(self, "generate")
        return stream(self.task, prompt, decoding_config(self.config.decoding, options), self.config.seed if seed is None else seed)

    def score(self, text: str) -> Scored:
        """The log-probability of every token of a text."""
        check_verb(self, "generate", "score a text by itself")
        training = self.config.training
        return score_text(self.task, text, training.length, carry=training.batching == "streams")

    def choose(
        self,
        texts: str | Sequence[str | tuple[str, str]],
        choices: Choices | Sequence[str] | Mapping[str, str],
        *,
        first: int = 1,
        **options: Any,
    ) -> Any:
        """The likeliest of several choices after a text (a `Chosen`), or after each of several; an empty text has none (None).

        Choices are words, or words by label. Options are the `template`, such as 'Review: {text} It was {choice}.', how to `normalise`
        (none, tokens, characters), and whether to `calibrate`; see `clew.tasks.choices.Choices`.
        """
        check_verb(self, "generate", "score choices by likelihood")
        chooser = Chooser(self.task, choices if isinstance(choices, Choices) else choices_of(choices, **options))
        given = listed_texts(texts, first)
        for number, text in enumerate(given, start=first):
            if not is_blank(text) and (isinstance(text, str) or len(text) != 2) == chooser.choices.reads_pairs:
                need = "two texts, in a tuple" if chooser.choices.reads_pairs else "one text; it has two where {second} is in it"
                raise UserError(f"text {number}: the template takes {need}")
        found = answered(given, first, chooser.choose, is_blank)
        return found[0] if isinstance(texts, str) else found

    def parse(self, sentences: str | Sequence[str | Sequence[str]], *, seed: int | None = None, first: int = 1, **options: Any) -> Any:
        """The tree of a sentence (a `Parse`), or of each of several; lists of them, best first, where `n_best` is above 1. A sentence
        without words has none (None).

        A sentence is a text with spaces between the words, or a list of words, which may be any. Options are the fields of the config's
        `decoding` section; `beams` or `n_best` asks for beam search.
        """
        check_verb(self, "parse")
        config = searching(self.config.decoding, options)
        given = [sentences] if isinstance(sentences, str) else sentences
        words = [words_of(sentence) if isinstance(sentence, str) else sentence for sentence in given]
        found: Sequence[Any] = self.task.parse(words, config, self.config.seed if seed is None else seed, first)
        if config.n_best == 1:
            found = [parses[0] if parses else None for parses in found]
        return found[0] if isinstance(sentences, str) else found

    def tag(self, texts: str | Sequence[str | Sequence[str]], *, tokenised: bool = False, first: int = 1) -> Any:
        """A text's words with their tags (a `TaggedText`), or those of each of several.

        A text is cut into words, at spaces alone where it is `tokenised`; or it is a list of words, which may be any.
        """
        check_verb(self, "tag")
        given = listed_texts(texts, first)
        whole = [text if isinstance(text, str) else " ".join(text) for text in given]
        cut = [
            listed_words(text) if not isinstance(text, str) else spaced_words(text) if tokenised else split_words(text) for text in given
        ]
        tags = self.task.tag([[word.text for word in words] for words in cut], first)
        are_phrases = self.task.scheme is not None
        found = [TaggedText.of(*each, are_phrases) for each in zip(whole, cut, tags, strict=True)]
        return found[0] if isinstance(texts, str) else found

    def fill(self, texts: str | Sequence[str | tuple[str, str]], *, top: int = 5, first: int = 1) -> Any:
        """The `top` guesses at every [MASK] of a text (a `Filled`), or of each of several; an empty one has none (None). Of two texts in a
        tuple the answer also has how likely the second comes after the first; they need no mask."""
        check_verb(self, "fill")
        given = listed_texts(texts, first)
        for number, text in enumerate(given, start=first):
            if not isinstance(text, str) and len(text) != 2:
                raise UserError(f"text {number}: expected a string, or two in a tuple, found {shown(text)}")
        found = answered(given, first, lambda filled, numbers: fill(self.task, filled, top, numbers), is_blank)
        return found[0] if isinstance(texts, str) else found

    def classify(self, texts: str | Sequence[str | tuple[str, str]], *, first: int = 1) -> Any:
        """What a text is (a `Classified`), or each of several; an empty one is nothing (None). Two texts that are judged together are a
        tuple, so that `classify([("It rains.", "It is wet.")])` is one answer. Of a run that reads trees it is `classify_trees`."""
        check_verb(self, "classify")
        if self.reads_trees:
            return self.classify_trees(texts, first=first)
        given = listed_texts(texts, first)
        check_sides(given, first, self.reads_pairs, self.folder)
        found = answered(given, first, self.task.classify, is_blank)
        return found[0] if isinstance(texts, str) else found

    def classify_trees(self, trees: Any, *, first: int = 1) -> Any:
        """The class of a tree (a `ClassifiedTree`), or of each of several; an empty text is nothing (None).

        A tree is a text with brackets, a `Tree`, or a `Sentence` with heads; labels that it has are not looked at. One that is refused is
        named by its number, the first one's being `first`.
        """
        check_verb(self, "classify")
        if not self.reads_trees:
            raise UserError(f"{self.folder} classifies texts, not trees; give texts to `classify`")
        one = isinstance(trees, (str, Tree, Sentence))
        if not one and not isinstance(trees, Iterable):
            raise UserError(f"expected a tree, or a list of trees, found {shown(trees)}")
        given = [trees] if one else list(trees)
        for number, tree in enumerate(given, start=first):
            if not isinstance(tree, (str, Tree, Sentence)):
                raise UserError(f"tree {number}: expected brackets, a Tree or a Sentence with heads, found {shown(tree)}")

        def classify(judged: list[Any], numbers: list[int]) -> Any:
            check_tree_kinds(judged, numbers, self.config.data, self.folder)
            return self.task.classify([unlabelled(tree, f"tree {number}") for tree, number in zip(judged, numbers, strict=True)])

        found = answered(given, first, classify, lambda tree: isinstance(tree, str) and is_blank(tree))
        return found[0] if one else found

    def answer(self, questions: str | Sequence[str], passage: str, *, n_best: int = 1, threshold: float | None = None) -> Any:
        """The answer to a question on a passage (an `AnsweredQuestion`), or to each of several; with the `n_best` pieces of the passage.

        There is none where none scores by more than a `threshold` above the best piece: the run's own, unless one is given.
        """
        check_verb(self, "answer")
        given = listed_texts(questions, 1)
        for text in [passage, *given]:
            if not isinstance(text, str) or not text.strip():
                raise UserError(f"questions and the passage that answers them are texts that are not empty, and one is {shown(text)}")
        if n_best < 1:
            raise UserError(f"n_best ({n_best}) must be at least 1")
        asked = [Question(text, passage, (), f"question {number}") for number, text in enumerate(given, start=1)]
        found = self.task.answer(asked, n_best, threshold)
        return found[0] if isinstance(questions, str) else found

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layer: int | str = "last",
        pooling: str | None = None,
        normalise: bool | None = None,
        tokens: bool = False,
    ) -> Any:
        """A vector for each text (texts, dim), for one text (dim), or with `tokens` one for each of its tokens, (tokens, dim), in a list;
        NumPy, float32. `layer` is a level's number (0: the embedding) or a mix of levels; `pooling` and `normalise` are the run's own
        where they are not given."""
        given = listed_texts(texts, 1)
        for text in given:
            if not isinstance(text, str):
                raise UserError(f"a text is a string, and one is {shown(text)}")
        vectors = self.text_vectors(layer=layer, pooling=pooling, normalise=normalise)
        found: Any = [each.vectors for each in vectors.of_tokens(given)] if tokens else vectors.of(given)
        return found[0] if isinstance(texts, str) else found

    def text_vectors(self, *, layer: int | str = "last", pooling: str | None = None, normalise: bool | None = None) -> TextVectors:
        """What makes vectors of texts, some at a time."""
        task: Any = self.config.task
        kind = TASKS[task.name]
        if MODELS[self.config.model.family].encodes:
            if self.task.languages:
                raise UserError(f"{self.folder} reads a text with the language that it goes into; it has no vectors of a text alone")
            body = self.task.body.encoder
            reader: WordReader = SourceReader(self.vocabularies["source"], self.task.source_end)
        else:
            check_reads_one_sequence(self.config, str(self.folder))
            body = self.task.body
            reader = WordReader.of(body, self.vocabularies, running=kind.is_running)
        own = getattr(task, "pooling", None)
        chosen: Any = "mean" if own is None else self.task.pooling
        if pooling is not None and (own is None or pooling != part_name(own)):
            learnt = getattr(self.task, "pooling", None)  # a masked model tells by it whether a text follows
            chosen = learnt if pooling == "pooler" and isinstance(learnt, Pooler) else pooling
        return TextVectors(
            body,
            reader,
            layer=layer,
            pooling=chosen,
            normalise=getattr(task, "normalise", False) if normalise is None else normalise,
            longest=self.task.longest if kind.verb == "embed" else None,
        )

    @property
    def reads_trees(self) -> bool:
        """Whether a classifier judges trees."""
        return "trees" in TASKS[self.config.task.name].needs

    @property
    def reads_pairs(self) -> bool:
        """Whether a classifier judges two texts together."""
        data = self.config.data
        content = CORPORA[data.corpus].content if data.corpus in CORPORA else None
        return getattr(data, "second", None) is not None or (isinstance(content, LabelTable) and content.second is not None)

    def translate(self, texts: str | Sequence[str], **options: Any) -> Any:
        """The target of one source or of several, as `translate_together` has it with this run alone."""
        return translate_together([self], texts, **options)

    def score_translation(self, source: str, target: str, *, into: str = "") -> ScoredPair:
        """The log-probability of every token of a given target, and of all of it."""
        check_verb(self, "translate")
        return score_pairs([self.task], [Pair(source, target, into=into)])[0]

    def align(self, source: str, target: str, *, into: str = "", layer: int | None = None) -> Alignment:
        """How much each token of a given target looks at each of the source."""
        check_verb(self, "translate")
        return align([self.task], [Pair(source, target, into=into)], layer=layer)[0]

    def __repr__(self) -> str:
        family = self.config.model.family
        count = sum(p.numel() for p in self.task.parameters())
        sizes = dict.fromkeys(f"{vocabulary.vocabulary} {vocabulary.unit}s" for vocabulary in self.vocabularies.values())
        return f"Run({str(self.folder)!r}: {family}, {count:,} parameters, {', '.join(sizes)})"


def translate_together(
    runs: Sequence[Run],
    texts: str | Sequence[str],
    *,
    into: str = "",
    with_attention: bool = False,
    layer: int | None = None,
    replace_unknown: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    seed: int | None = None,
    first: int = 1,
    **options: Any,
) -> Any:
    """A `Translation` of one text, a list of them for several; lists of these where beam search is asked for `n_best` above 1.

    Several runs write together, as an ensemble. `into` names the language, where they write several; `layer` and what else is not said
    here is as in `clew.tasks.translation.translate`. Options are the fields of the first run's `decoding` section; `beams` or `n_best` asks
    for beam search.
    """
    check_together(runs)
    config = searching(runs[0].config.decoding, options)
    examples = [Pair(text, "", into=into) for text in ([texts] if isinstance(texts, str) else texts)]
    found: Sequence[Any] = translate(
        [run.task for run in runs],
        examples,
        config,
        with_attention=with_attention,
        layer=layer,
        replace_unknown=replace_unknown,
        batch_tokens=batch_tokens,
        seed=runs[0].config.seed if seed is None else seed,
        first=first,
    )
    if config.n_best == 1:
        found = [translations[0] for translations in found]
    return found[0] if isinstance(texts, str) else found


def check_verb(run: Run, verb: str, asked: str | None = None) -> None:
    """Refuses what another task's runs do, with what this run does."""
    if run.verb != verb:
        task = run.config.task.name
        raise UserError(f"{run.folder} is a run of the task {task}, which does not {asked or verb}; `clew {run.verb}` is what it does")


def check_together(runs: Sequence[Run]) -> None:
    """Runs that write together read and write the same tokens."""
    if not runs:
        raise UserError("there is no run to translate with; give at least one")
    for run in runs:
        check_verb(run, "translate")
        for role in ("source", "target"):
            if run.vocabularies[role].hash != runs[0].vocabularies[role].hash:
                raise UserError(
                    f"runs that translate together need the same tokens, but the {role} vocabularies of {runs[0].folder} and {run.folder} "
                    "differ; train them on the same data with the same text settings, other seeds or models being free"
                )


def load_run(folder: Path | str, *, device: str = "auto", code: Path | None = None) -> Run:
    """The run in a folder, with the weights of its best evaluation."""
    folder = Path(folder)
    check_run(folder)
    check_files(folder)
    check_code(folder, code)
    config = read_config(folder)
    vocabularies = load_vocabularies(folder, config)
    task = build_task(config, vocabularies, to_train=False)
    load_weights(task, folder, config)
    task.to(choose_device(device)[0]).eval()
    return Run(folder, config, vocabularies, task)
