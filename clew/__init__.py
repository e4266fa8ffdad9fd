"""clew: the whole lineage of neural sequence models, one library and one command.

clew.train("shakespeare-lstm", training__steps=200) trains a recipe and gives back the run, clew.load(folder) a run
trained before, clew.fit(module, loader, folder, steps=200) trains a module of your own, clew.translate(runs, texts)
translates with several runs together, clew.look(run, "surprisal", text=...) and clew.record(model, pattern) look
inside: of a run, or of any torch module. clew.from_torch(module) makes of a layer of torch.nn one of clew's, with its
weights. clew.sklearn has estimators for scikit-learn. Everything else is a plain module: clew.layers, clew.models,
clew.decoding, ... Nothing is loaded until it is asked for.
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
    """Trains a recipe (or a YAML file that names one) and gives back the run.

    Settings are fields of the config's sections, as keywords, as dicts or as on the command line: `training__steps=60`,
    `training={"steps": 60}`, `"training.steps=60"`; `seed=1` and `device="cpu"` too.

    `data` are examples to train on, or those of parts: (text, label), (text, second, label), (words, tags), (source,
    target) or (question, passage, answer); a table whose columns are called so (a DataFrame, a Dataset, a dict of
    columns, dicts); for a language model a text, or a list of them. Generators are read to their end. A pathlib.Path is
    a file of them.

    The run's folder is `out`, or runs/RECIPE, runs/RECIPE-2 and so on; `overwrite` replaces the run at `out`, `resume`
    goes on with it. `code` is a file of yours that adds entries to tables, which the run keeps a copy of. `callbacks`
    are objects with any of the methods on_step, on_evaluation, on_save and on_end (`clew.training.callbacks`).
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
    """Trains a module of your own, whose `forward(batch)` gives a loss, on the batches of a DataLoader: checkpoints and
    metrics are in `folder`, Ctrl-C saves, `resume=True` goes on to the bit, and `overwrite=True` replaces the fit that
    is there.

    `evaluate` is a loader whose mean loss is measured, or a function of the module that gives a loss or measures by
    name. The settings are fields of a config's section `training`: learning_rate, schedule, clip_norm, clip_value,
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
    """Searches settings of a recipe through Optuna: each trial is a run, and the best has the best validation score.

    `space` has a range (low, high) or (low, high, step), or a list of choices, for each field that is searched, named
    "model.dim" or "model__dim". Settings, data and code are those of `clew.train`. `jobs` trials are trained at once,
    in processes of their own. `resume=True` goes on with a search.
    """
    from clew.cli.search import search_from_python
    from clew.runs.settings.keywords import python_errors

    with python_errors():
        return search_from_python(recipe, space, assignments, settings, trials, jobs, data, out, resume, code, quiet)


def load(
    folder: "Path | str", *, device: str = "auto", code: "Path | str | None" = None, precision: str = "float32"
) -> "Run":
    """A trained run; `code` is the user's file that it was trained with, where it was. Its weights are kept in float32,
    bfloat16, int8 or int4, whatever the folder has; in int8 and int4 a run can be used and looked at, and not trained,
    exported or written."""
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
    """Translations by one run or by several as an ensemble; options are those of
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
    """What an instrument shows of a run, its folder or any torch module, or of several: a view that shows itself in a
    notebook and is saved as HTML, SVG, PNG, PDF or JSON. `clew look` lists the instruments, and `clew look NAME` the
    options of one.

    A module that is no task of ours is given `inputs`, one row of tensors as it takes them, or a `tokenizer` that
    encodes `text`.
    """
    from pathlib import Path

    from clew.instruments import looking
    from clew.runs.settings.keywords import python_errors

    given: Any = models if isinstance(models, (list, tuple)) else [models]
    with python_errors():
        loaded = [load(one) if isinstance(one, (str, Path)) else one for one in given]
        return looking.look(loaded, instrument, options, inputs=inputs, tokenizer=tokenizer)


@overload
def from_torch(module: "nn.Transformer") -> "VectorTransformer": ...
@overload
def from_torch(
    module: "nn.RNNBase | nn.TransformerEncoder | nn.TransformerDecoder", *, causal: bool | None = None
) -> "SequenceLayer": ...
def from_torch(module: "nn.Module", *, causal: bool | None = None) -> "SequenceLayer | VectorTransformer":
    """The layer of clew's that computes what an `nn.LSTM`, `GRU`, `RNN`, `TransformerEncoder`, `TransformerDecoder` or
    `Transformer` does, with copies of its weights; it reads (batch, length, dim) and a mask that is True where real.

    `causal=True` makes of a TransformerEncoder one that is called with the mask of a language model.
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
