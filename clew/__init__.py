"""clew: the whole lineage of neural sequence models, one library and one command.

    clew.train("shakespeare-lstm", training__steps=200)   train a recipe and return the run
    clew.load(folder)                                     load a trained run
    clew.fit(module, loader, folder, steps=200)           train your own module
    clew.search(recipe, space)                            search hyperparameters
    clew.translate(runs, texts)                           translate with one run, or with an ensemble
    clew.look(run, "surprisal", text=...)                 look inside a run or any torch module
    clew.record(model, pattern)                           record values inside a run or any torch module
    clew.from_torch(module)                               convert a layer of torch.nn with its weights

clew.sklearn has estimators for scikit-learn. Everything else is a plain module: clew.layers, clew.models,
clew.decoding, ... A module is loaded on first use.
"""

from typing import TYPE_CHECKING, Any, overload

__version__ = "0.1.0"

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor, nn
    from torch.optim import Optimizer
    from torch.utils.data import DataLoader
    from typing_extensions import Unpack

    from clew import baselines as baselines
    from clew import core as core
    from clew import data as data
    from clew import decoding as decoding
    from clew import drawing as drawing
    from clew import inspection as inspection
    from clew import instruments as instruments
    from clew import interop as interop
    from clew import kernels as kernels
    from clew import laws as laws
    from clew import layers as layers
    from clew import metrics as metrics
    from clew import models as models
    from clew import recipes as recipes
    from clew import runs as runs
    from clew import sklearn as sklearn
    from clew import sources as sources
    from clew import tasks as tasks
    from clew import text as text
    from clew import training as training
    from clew.core.batches import Batches
    from clew.core.config import Part
    from clew.core.errors import UserError as UserError
    from clew.drawing.views import View as View
    from clew.inspection.recording import Recording as Recording
    from clew.inspection.recording import intervene as intervene
    from clew.inspection.recording import record as record
    from clew.instruments.subjects.subject import Looked
    from clew.interop.from_torch import VectorTransformer
    from clew.layers.sequence import SequenceLayer
    from clew.recipes.listed import Listed
    from clew.runs.evaluation import Evaluation as Evaluation
    from clew.runs.evaluation import Evaluations as Evaluations
    from clew.runs.loaded import Run as Run
    from clew.studies.result import Search as Search
    from clew.tasks.translation import Translation
    from clew.training.callbacks import Callback
    from clew.training.fitting import Evaluate, Settings
    from clew.training.fitting import Fit as Fit

ROOMS = (
    *(
        "baselines",
        "core",
        "data",
        "decoding",
        "drawing",
        "inspection",
        "instruments",
        "interop",
        "kernels",
        "laws",
        "layers",
        "metrics",
    ),
    *("models", "recipes", "runs", "sklearn", "sources", "studies", "tasks", "text", "training"),
)
"""Packages that are reached as attributes."""
ELSEWHERE = {
    "record": "inspection.recording",
    "intervene": "inspection.recording",
    "Recording": "inspection.recording",
    "Run": "runs.loaded",
    "Evaluation": "runs.evaluation",
    "Evaluations": "runs.evaluation",
    "Fit": "training.fitting",
    "View": "drawing.views",
    "UserError": "core.errors",
}
"""Names that are defined in other modules."""
FUNCTIONS = ("train", "fit", "search", "load", "translate", "look", "from_torch")


def train(
    recipe: "str | Path",
    *assignments: str,
    data: "Listed | None" = None,
    out: "Path | str | None" = None,
    resume: bool = False,
    overwrite: bool = False,
    code: "Path | str | None" = None,
    quiet: bool = False,
    callbacks: "Sequence[Callback]" = (),
    **settings: Any,
) -> "Run":
    """Train a recipe, or a YAML file that names one, and return the run.

    Settings are the fields of the config's sections. Pass them as keywords, as dicts, or as on the command line:
    `training__steps=60`, `training={"steps": 60}` or `"training.steps=60"`; also `seed=1` and `device="cpu"`.

    `data` is a list of examples to train on, or a dict with a list for each part (train, valid, test). An example is
    (text, label), (text, second, label), (words, tags), (source, target) or (question, passage, answer). A table whose
    columns have these names also works: a DataFrame, a Dataset, a dict of columns, or a list of dicts. A language model
    takes a text or a list of texts. Generators are read to the end. A pathlib.Path is a file of examples.

    The run's folder is `out`, by default runs/RECIPE, then runs/RECIPE-2 and so on. `overwrite` replaces the run in
    `out`, and `resume` continues it. `code` is your own Python file, which may add entries to tables; the run keeps a
    copy. `callbacks` are objects with any of the methods on_step, on_evaluation, on_save and on_end
    (`clew.training.callbacks`).
    """
    from pathlib import Path

    from clew.cli.options.code import load_code
    from clew.cli.terminal.progress import in_python
    from clew.recipes.calling import run_with
    from clew.runs.settings.keywords import python_errors
    from clew.training.callbacks import check_callbacks

    folder, path = (None if place is None else Path(place) for place in (out, code))
    with python_errors():
        check_callbacks(callbacks)
        if path is not None:
            load_code(path)
        with in_python(quiet) as report:
            return run_with(
                str(recipe),
                assignments,
                settings,
                data,
                out=folder,
                resume=resume,
                overwrite=overwrite,
                code=path,
                report=report,
                callbacks=callbacks,
            )


def fit(
    module: "nn.Module",
    loader: "DataLoader[Any] | Batches",
    folder: "Path | str",
    *,
    steps: int,
    optimiser: "Part | Optimizer" = "adamw",
    evaluate: "Evaluate | DataLoader[Any] | None" = None,
    seed: int = 1,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    callbacks: "Sequence[Callback]" = (),
    **settings: "Unpack[Settings]",
) -> "Fit":
    """Train your own module, whose `forward(batch)` returns a loss, on the batches of a DataLoader.

    Checkpoints and metrics are written to `folder`. Ctrl-C saves a checkpoint, `resume=True` continues from it exactly,
    and `overwrite=True` replaces the fit in the folder.

    `evaluate` is a loader for the mean validation loss, or a function of the module that returns a loss or a dict of
    measures. The settings are fields of the config section `training`: learning_rate, schedule, clip_norm, clip_value,
    accumulate, average, precision, compile, evaluate_every, save_every, keep, log_every, patience. `callbacks` are
    objects with any of the methods on_step, on_evaluation, on_save and on_end (`clew.training.callbacks`).
    """
    from clew.cli.terminal.progress import in_python
    from clew.runs.settings.keywords import python_errors
    from clew.training.fitting import fit as fit_module

    with python_errors(without="training"), in_python(quiet, unit="rows") as report:
        return fit_module(
            module,
            loader,
            folder,
            steps=steps,
            optimiser=optimiser,
            evaluate=evaluate,
            seed=seed,
            device=device,
            resume=resume,
            overwrite=overwrite,
            report=report,
            callbacks=callbacks,
            **settings,
        )


def search(
    recipe: str,
    space: "Mapping[str, Any]",
    *assignments: str,
    trials: int = 20,
    jobs: int = 1,
    data: "Listed | None" = None,
    out: "Path | str | None" = None,
    resume: bool = False,
    code: "Path | str | None" = None,
    quiet: bool = False,
    **settings: Any,
) -> "Search":
    """Search for the settings of a recipe with the best validation score, through Optuna. Each trial is a run.

    `space` maps each searched field, named "model.dim" or "model__dim", to a range (low, high) or (low, high, step), or
    to a list of choices. Settings, data and code are those of `clew.train`. `jobs` trials are trained in parallel, each
    in its own process. `resume=True` continues a search.
    """
    from clew.cli.search import search_from_python
    from clew.runs.settings.keywords import python_errors

    with python_errors():
        return search_from_python(recipe, space, assignments, settings, trials, jobs, data, out, resume, code, quiet)


def load(
    folder: "Path | str", *, device: str = "auto", code: "Path | str | None" = None, precision: str = "float32"
) -> "Run":
    """Load a trained run. `code` is your own Python file that it was trained with, if any. `precision` is the type of
    the weights in memory: float32, bfloat16, int8 or int4. A run in int8 or int4 can be used and inspected, but not
    trained, exported or saved."""
    from pathlib import Path

    from clew.cli.options.code import load_code
    from clew.runs.loaded import load_run
    from clew.runs.settings.keywords import python_errors

    path = None if code is None else Path(code)
    with python_errors():
        if path is not None:
            load_code(path)
        return load_run(folder, device=device, code=path, precision=precision)


@overload
def translate(runs: "Run | Sequence[Run]", texts: str, **options: Any) -> "Translation": ...
@overload
def translate(runs: "Run | Sequence[Run]", texts: "Sequence[str]", **options: Any) -> "list[Translation]": ...
def translate(
    runs: "Run | Sequence[Run]", texts: "str | Sequence[str]", **options: Any
) -> "Translation | list[Translation]":
    """Translate with one run, or with several as an ensemble. The options are those of
    `clew.runs.loaded.translate_together`."""
    from clew.runs.loaded import Run, translate_together

    return translate_together([runs] if isinstance(runs, Run) else runs, texts, **options)


def look(
    models: "Looked | str | Path | Sequence[Looked | str | Path]",
    instrument: str,
    *,
    inputs: "Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None" = None,
    tokenizer: Any = None,
    **options: Any,
) -> "View":
    """Look inside a run, a run's folder or any torch module, or several of them, with an instrument. The view displays
    itself in a notebook and can be saved as HTML, SVG, PNG, PDF or JSON. `clew look` lists the instruments, and
    `clew look NAME` the options of one.

    A torch module that is not a task of clew needs `inputs`, the tensors of one row as the module takes them, or a
    `tokenizer` that encodes `text`.
    """
    from pathlib import Path

    from clew.instruments import looking
    from clew.runs.settings.keywords import python_errors

    several: Any = models if isinstance(models, (list, tuple)) else [models]
    with python_errors():
        loaded = [load(one) if isinstance(one, (str, Path)) else one for one in several]
        return looking.look(loaded, instrument, options, inputs=inputs, tokenizer=tokenizer)


@overload
def from_torch(module: "nn.Transformer") -> "VectorTransformer": ...
@overload
def from_torch(
    module: "nn.RNNBase | nn.TransformerEncoder | nn.TransformerDecoder", *, causal: bool | None = None
) -> "SequenceLayer": ...
def from_torch(module: "nn.Module", *, causal: bool | None = None) -> "SequenceLayer | VectorTransformer":
    """Convert an `nn.LSTM`, `GRU`, `RNN`, `TransformerEncoder`, `TransformerDecoder` or `Transformer` to the layer of
    clew that computes the same, with copies of its weights. The layer reads (batch, length, dim) and a mask that is
    True at real positions.

    `causal=True` converts a TransformerEncoder that is called with a causal mask.
    """
    from clew.interop.from_torch import from_torch as layer_of

    return layer_of(module, causal=causal)


def __dir__() -> list[str]:
    return sorted([*FUNCTIONS, *ELSEWHERE, *ROOMS, "__version__", "__doc__"])


# Written as an assignment, so that a type checker still knows which names there are.
def _attribute(name: str) -> Any:
    from importlib import import_module

    if name in ELSEWHERE:
        return getattr(import_module(f"clew.{ELSEWHERE[name]}"), name)
    if name in ROOMS:
        return import_module(f"clew.{name}")
    raise AttributeError(f"module 'clew' has no attribute '{name}'")


globals()["__getattr__"] = _attribute
