"""Evaluate a trained run on its own validation and test parts, on files, or on examples from Python. `clew evaluate`
and `Run.evaluate` both read the parts with `read_parts` and score each with `score_part`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clew.baselines.baseline import Baselines
from clew.core.errors import UserError, counted, unknown
from clew.core.wording import argument_name
from clew.data.files.text_files import TextString
from clew.data.kinds.labelled import LABELLED, LabelledData
from clew.data.kinds.section import DataSection
from clew.data.notes import Notes
from clew.drawing.table import table_element
from clew.metrics.score import Score
from clew.runs.config import Config, resolve
from clew.runs.folder.run_files import IMPORTED
from clew.runs.in_memory import Kept, file_named, keep_part, keep_rows
from clew.runs.settings.decoding import decoding_config
from clew.runs.settings.explaining import read_section
from clew.runs.settings.overriding import override
from clew.runs.settings.values import parse_assignment
from clew.runs.trust import check_paths
from clew.tasks import TASKS
from clew.tasks.learning import Encoding, Learning
from clew.tasks.learning import Evaluation as EvaluationPlan
from clew.tasks.learnings.examples import score_predictions
from clew.tasks.translation import translate_through
from clew.tasks.uses.choices import Choices, Chooser

Say = Callable[[str], None]
Progress = Callable[[int, int], None]
FILE_SETTINGS = ("data.valid=", "data.test=")


@dataclass(frozen=True)
class EvaluationRequest:
    """A request to evaluate a run: `files` (or, if there are none, the run's own parts), `settings` of the sections
    data and decoding, fields of the section `decoding` to change, the number of `streams` in which a language model
    reads its own text, and for translation the language to translate `into` and a `pivot` language to go through."""

    files: Sequence[Any] = ()
    settings: Sequence[str] = ()
    decoding: Mapping[str, Any] = field(default_factory=dict)
    streams: int | None = None
    into: str | None = None
    pivot: str | None = None


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The score of one part of the data: measures by name, and for tasks with examples each example's score and
    prediction by its id."""

    part: str
    measures: Mapping[str, float]
    text: str
    """The measures in words."""
    scores: Mapping[str, float]
    """A number for each example; higher is better."""
    predictions: Mapping[str, Mapping[str, Any]]
    """Each example's source, target and prediction."""
    intervals: Mapping[str, tuple[float, float]]
    """Bootstrap 95 % intervals of some measures."""
    report: tuple[str, ...]
    """Tables as text: one line per label, and the confusions between labels."""
    size: Mapping[str, Any]
    """Number of examples or tokens scored."""
    notes: tuple[str, ...] = ()
    """Remarks on the data, one line each."""

    @classmethod
    def of(cls, part: str, score: Score, notes: Sequence[str] = (), place: str = "") -> "Evaluation":
        """Build an evaluation from a score. The prefix `place` is removed from the examples' ids."""
        scores = {name.removeprefix(place): value for name, value in score.examples.items()}
        predictions = {name.removeprefix(place): fields for name, fields in score.predictions.items()}
        return cls(
            part,
            score.measures,
            score.text,
            scores,
            predictions,
            score.intervals,
            score.report,
            score.size,
            tuple(notes),
        )

    @property
    def loss(self) -> float:
        return self.measures["loss"]

    def __getitem__(self, measure: str) -> float:
        if measure not in self.measures:
            raise unknown("measure", measure, self.measures)
        return self.measures[measure]

    @property
    def amount(self) -> str:
        """`120 examples`, `2,000 tokens`."""
        noun = next((noun for noun in ("example", "token") if f"{noun}s" in self.size), None)
        return "" if noun is None else counted(self.size[f"{noun}s"], noun)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Evaluation({self.part}: {self.text}{f'; {self.amount}' if self.amount else ''})"

    def _repr_html_(self) -> str:
        return Evaluations({self.part: self})._repr_html_()


class Evaluations(Mapping[str, Evaluation]):
    """Evaluations by the name of the part: `valid`, and `test` if there is one."""

    def __init__(self, evaluations: Mapping[str, Evaluation]):
        self._evaluations = dict(evaluations)

    def __getitem__(self, part: str) -> Evaluation:
        if part not in self._evaluations:
            raise unknown("part", part, self._evaluations)
        return self._evaluations[part]

    def __contains__(self, part: object) -> bool:
        return part in self._evaluations

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluations)

    def __len__(self) -> int:
        return len(self._evaluations)

    def __str__(self) -> str:
        return "\n".join(f"{part}: {evaluation}" for part, evaluation in self.items())

    def __repr__(self) -> str:
        return f"Evaluations({'; '.join(f'{part}: {evaluation}' for part, evaluation in self.items())})"

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(name for evaluation in self.values() for name in evaluation.measures))
        rows = [
            [part, *(f"{evaluation[name]:.4g}" if name in evaluation.measures else "" for name in names)]
            for part, evaluation in self.items()
        ]
        return table_element(["", *names], rows, heads=1)


def read_parts(run: Any, request: EvaluationRequest, say: Say) -> tuple[Config, dict[str, Any]]:
    """Return the config with the requested data and decoding settings, and the parts by name: all files as one part,
    or the run's own parts."""
    learning = TASKS[run.config.task.name].learns
    if run.config.recipe == IMPORTED and not request.files and not request.settings:
        raise UserError(f"{run.folder} was imported and has no data of its own; name a FILE to evaluate it on")
    if request.streams is not None and not learning.is_running:
        raise UserError(
            f"{argument_name('streams')} is for a language model's own text; this run learns from {learning.reads}"
        )
    if (request.into or request.pivot) and not has_languages(run):
        name = "into" if request.into else "pivot"
        raise UserError(
            f"{argument_name(name)} is for translation between several languages, which {run.folder} does not do"
        )
    if learning.has_examples:
        config = changed_config(run.config, request.settings, request.decoding, request.files)
        parts = examples_of(run.folder, config, request.settings, request.files, say)
        if request.into is not None:
            parts = {name: [example._replace(into=request.into) for example in part] for name, part in parts.items()}
        return config, parts
    if request.settings or request.decoding:
        name = request.settings[0] if request.settings else f"decoding.{next(iter(request.decoding))}"
        raise UserError(f"{name} is for tasks with a target; a language model is evaluated on plain text")
    return read_texts(run, request, say)


def read_texts(run: Any, request: EvaluationRequest, say: Say) -> tuple[Config, dict[str, Any]]:
    """Return the config and the parts of a task that learns from running text or documents."""
    config, learning = run.config, TASKS[run.config.task.name].learns
    if request.streams is not None:
        if request.files:
            raise UserError(
                f"{argument_name('streams')} is for the run's own text; a FILE is always read as one stream"
            )
        if request.streams < 1:
            raise UserError(f"{argument_name('streams')} ({request.streams}) must be at least 1")
        config = config.model_copy(
            update={"training": config.training.model_copy(update={"evaluate_batch": request.streams})}
        )
    notes = Notes(faults=config.data.faults)
    if request.files:
        parts = {" ".join(map(str, request.files)): learning.read_files(request.files, config.data, notes)}
    else:
        check_paths(run.folder, config.data)
        parts = learning.read(config.data, config.seed, notes)
        del parts["train"]
    for note in notes.report():
        say(note)
    return config, parts


def score_part(
    run: Any,
    config: Config,
    name: str,
    part: Any,
    *,
    pivot: str | None = None,
    baselines: Baselines | None = None,
    progress: Progress | None = None,
    evaluating: Progress = lambda done, total: None,
    say: Say = lambda text: None,
) -> Score:
    """Return a trained run's score on a part, decoding with the config's settings; add the scores of `baselines` if
    given. `progress` is called with the number of characters encoded, `evaluating` with the number of batches
    scored."""
    if pivot is not None:
        return score_through(run, config, part, pivot)
    learning = TASKS[config.task.name].learns
    encoded = encode(run, config, name, part, progress)
    for note in learning.judged_remarks(run.task, name, part):
        say(note)
    plan = EvaluationPlan(config.training, config.decoding, config.seed, is_final=True, progress=evaluating)
    score = learning.judge(run.task, run.task, part, encoded, plan)
    assert score is not None
    if baselines is None:
        return score
    return baselines.add_to(score, learning.known(run.task, part, lambda: encoded)) or score


def encode(run: Any, config: Config, name: str, part: Any, progress: Progress | None = None) -> Any:
    encoding = Encoding(
        name, config.training, workers=config.text.workers, progress=progress, vocabularies=run.vocabularies
    )
    return TASKS[config.task.name].learns.encode(run.task, part, encoding)


def own_baselines(run: Any, progress: Progress | None = None) -> Baselines:
    """Return baselines fitted on the run's training part, which is read again when the first baseline needs it."""
    config, entry = run.config, TASKS[run.config.task.name]
    learning = entry.learns

    def train() -> Any:
        check_paths(run.folder, config.data)
        part = learning.read(config.data, config.seed, Notes(faults=config.data.faults))["train"]
        return learning.known(run.task, part, lambda: encode(run, config, "train", part, progress))

    return Baselines(entry.baselines, config.task, train)


def has_languages(run: Any) -> bool:
    """Whether a run translates into more than one language."""
    return hasattr(run.task, "languages") and "directions" in type(run.config.data).model_fields


def check_changeable(settings: Sequence[str]) -> None:
    for setting in settings:
        if not setting.startswith(("data.", "decoding.")):
            raise UserError(
                f"{setting} cannot be changed: a trained run keeps its {setting.partition('.')[0]}; only data and"
                " decoding settings can be changed"
            )


def changed_config(config: Config, settings: Sequence[str], changed: Mapping[str, Any], files: Sequence[Any]) -> Config:
    """Return the run's config with the data and decoding settings changed; files replace a corpus and its
    languages."""
    check_changeable(settings)
    if files or any(setting.startswith(FILE_SETTINGS) for setting in settings):
        config = config.model_copy(update={"data": config.data.for_files()})
    config = resolve(override(config.model_dump(mode="json"), settings))
    return config.model_copy(update={"decoding": decoding_config(config.decoding, dict(changed))})


def examples_of(
    folder: Path, config: Config, settings: Sequence[str], files: Sequence[Any], say: Say = lambda text: None
) -> dict[str, Any]:
    """Return the parts to score by name: the given files, the files named in the settings, or the run's own validation
    and test parts."""
    learning, data, notes = TASKS[config.task.name].learns, config.data, Notes(faults=config.data.faults)
    part_files = {part: paths for part in ("valid", "test") if (paths := file_list(getattr(data, part)))}
    named = {
        part: paths
        for part, paths in part_files.items()
        if any(setting.startswith(f"data.{part}=") for setting in settings)
    }
    if files:
        parts: dict[str, Any] = {" ".join(map(str, files)): learning.read_files(files, data, notes)}
    elif named or (part_files and is_training_file_missing(data)):
        scored = named or part_files
        check_paths(
            folder,
            data.model_copy(update={part: None for part in ("train", *part_files) if part not in scored}),
            settings,
        )
        parts = {part: learning.read_files(paths, data, notes) for part, paths in scored.items()}
    else:
        check_paths(folder, data, settings)
        own = learning.read(data, config.seed, notes)
        parts = learning.apart({part: examples for part, examples in own.items() if part != "train"}, data)
    for note in notes.report():
        say(note)
    return parts


def file_list(files: Any) -> list[str]:
    return [] if files is None else [files] if isinstance(files, str) else list(files)


def is_training_file_missing(data: Any) -> bool:
    """Whether the training file no longer exists. Then the validation and test files can still be scored."""
    has_directions = getattr(data, "directions", None) is not None  # data.train is then a prefix of file names
    return not has_directions and isinstance(data.train, str) and not Path(data.train).expanduser().exists()


def score_through(run: Any, config: Config, examples: Any, pivot: str) -> Score:
    """Return the score of translations through a pivot language."""
    predictions, pivot_texts = translate_through([run.task], examples, config.decoding, pivot, seed=config.seed)
    measured = run.task.measure(examples, predictions)
    described = [
        {**run.task.described(example, prediction), "pivot": pivot_text}
        for example, prediction, pivot_text in zip(examples, predictions, pivot_texts, strict=True)
    ]

    def by_id(values: Any) -> dict[str, Any]:
        return {example.id: value for example, value in zip(examples, values, strict=True)}

    return Score(
        measured.values,
        0.0,
        f"through {pivot}: {measured.text}",
        by_id(run.task.sentence_scores(examples, predictions)),
        by_id(described),
        statistics=by_id(run.task.statistics(examples, predictions)),
        size={"examples": len(examples)},
    )


def check_chooses(run: Any) -> None:
    if not (TASKS[run.config.task.name].is_running and callable(getattr(run.task, "stepper", None))):
        raise UserError(
            f"{argument_name('choices')} is for language models; {run.folder} is a run of the task"
            f" {run.config.task.name}"
        )


def score_choices(run: Any, examples: Any, choices: Choices) -> Score:
    """Return the score of a language model that chooses a label for each text."""
    chooser = Chooser(run.task, choices)
    return score_predictions(chooser, examples, *chooser.predict(examples), is_final=True)


def labelled_data(data: Any, settings: Sequence[str], choices: Choices) -> LabelledData:
    """Return the data section for a file of labelled texts: the settings over the run's own data section."""
    check_changeable(settings)
    own = {
        name: value
        for name, value in data.for_files().model_dump(mode="json").items()
        if name in LabelledData.model_fields
    }
    section = read_section(LabelledData, override({"data": own}, settings)["data"], "data")
    return (
        section.model_copy(update={"second": "second"}) if choices.reads_pairs and section.second is None else section
    )


def labelled_examples(file: Any, data: LabelledData, notes: Notes) -> list[Any]:
    examples = list(LABELLED.read_files([data.with_encoding(file)], data, notes))
    if not examples:
        raise UserError(f"{file}: data.label_map leaves no labelled text; let it keep at least one label")
    return examples


def build_request(
    learning: Learning[Any, Any], section: DataSection, data: Any, settings: Sequence[str], say: Say
) -> EvaluationRequest:
    """Convert the data passed to `Run.evaluate` to files and settings; examples and texts in memory are written to a
    file. `say` is called with a note on the examples that were left out."""
    if data is None:
        return EvaluationRequest(settings=settings)
    is_text = getattr(section, "field", None) is not None
    if (files := file_named(data, is_text)) is not None:
        missing = next((file for file in files if not file.expanduser().exists()), None)
        if missing is not None:
            raise UserError(f"no such file: {missing}; data= takes a pathlib.Path of a file, or examples")
        return EvaluationRequest([str(file) for file in files], settings)
    if is_text:
        return EvaluationRequest(
            [TextString(data) if isinstance(data, str) else str(keep_part(learning, section, data, "data").path)],
            settings,
        )
    kept = keep_part(learning, with_faults(section, settings), data, "data")
    for sentence in kept.notes.report():
        say(sentence)
    return EvaluationRequest([str(kept.path)], [*columns_of(kept, section, settings), *settings])


def with_faults(section: DataSection, settings: Sequence[str]) -> DataSection:
    """Return the section with its field `faults` from the settings; faulty examples are detected before the other
    settings are applied."""
    faults = [value for path, value in map(parse_assignment, settings) if path == ["data", "faults"]]
    return section.model_copy(update={"faults": Notes(faults=faults[-1]).faults}) if faults else section


def columns_of(kept: Kept, section: DataSection, settings: Sequence[str]) -> list[str]:
    """Return the settings that read a file of examples: the run's column names where the file has them, else the names
    of the roles."""
    chosen = {setting.partition("=")[0] for setting in settings}
    columns = [
        name for name in kept.columns if getattr(section, name, None) not in kept.names and f"data.{name}" not in chosen
    ]
    return ["data.format=jsonl", *(f"data.{name}={name}" for name in columns)]


def labelled_by_choice(run: Any, data: Any, choices: Choices, settings: Sequence[str]) -> tuple[list[Any], Notes]:
    """Return labelled texts, from files or from memory, for a language model that chooses labels."""
    files, skipped = file_named(data, is_text=False), Notes()
    if files is None:
        kept = keep_rows(LABELLED, with_faults(LabelledData(), settings), data, "data", LABELLED.name)
        files, skipped, settings = [kept.path], kept.notes, [*columns_of(kept, LabelledData(), settings), *settings]
    section = labelled_data(run.config.data, settings, choices)
    notes = Notes(faults=section.faults)
    notes.add(skipped.to_json())
    return [example for file in files for example in labelled_examples(str(file), section, notes)], notes
