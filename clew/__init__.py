"""clew: the whole lineage of neural sequence models, one library and one command.

clew.train("shakespeare-lstm", "training.steps=200") trains a recipe and gives back the run, clew.load(folder) a run trained before,
clew.fit(module, loader, folder, steps=200) trains a module of your own,
clew.translate(runs, texts) translates with several runs together, clew.look(run, "surprisal", text=...) and clew.record(model, pattern)
look inside: of a run, or of any torch module. clew.from_torch(module) makes of a layer of torch.nn one of clew's, with its weights.
Everything else is a plain module to import: clew.layers, clew.models, clew.decoding.
Nothing is loaded until it is asked for.
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

    from clew.core.batches import Batches
    from clew.core.config import Part
    from clew.drawing.views import View
    from clew.instruments.subject import Looked
    from clew.interop.from_torch import VectorTransformer
    from clew.layers.sequence import SequenceLayer
    from clew.recipes.listed import Listed
    from clew.runs.loaded import Run
    from clew.tasks.translation import Translation
    from clew.training.fitting import Evaluate, Fit, Settings


def train(
    recipe: str,
    *assignments: str,
    data: "Listed | None" = None,
    out: "Path | str | None" = None,
    resume: bool = False,
    code: "Path | str | None" = None,
    quiet: bool = False,
) -> "Run":
    """Trains a recipe (or a YAML file that names one) and gives back the run; assignments are as on the command line, and so is `code`,
    the user's file that the run keeps a copy of.

    `data` are examples to train on, or those of parts: (text, label), (text, second, label), (words, tags), (source, target) or
    (question, passage, answer); a table whose columns are called so (a DataFrame, a Dataset, a dict of columns, dicts); for a language
    model a text, or a list of them. Generators are read to their end.
    """
    from pathlib import Path

    from clew.cli.code import load_code
    from clew.cli.progress import Lines
    from clew.core.errors import UserError
    from clew.recipes.running import run_recipe
    from clew.training.report import Silence

    folder, path = (None if place is None else Path(place) for place in (out, code))
    if path is not None:
        load_code(path)
    if data is not None:
        from clew.recipes.listed import listed_settings

        assignments = (*assignments, *listed_settings(recipe, assignments, data))
    try:
        return run_recipe(recipe, assignments, out=folder, resume=resume, code=path, report=Silence() if quiet else Lines()).run
    except UserError as error:
        raise UserError(in_python(str(error))) from None


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
    quiet: bool = False,
    **settings: "Unpack[Settings]",
) -> "Fit":
    """Trains a module of your own, whose `forward(batch)` gives a loss, on the batches of a DataLoader: checkpoints and metrics are in
    `folder`, Ctrl-C saves, and `resume=True` goes on to the bit.

    `evaluate` is a loader whose mean loss is measured, or a function of the module that gives a loss or measures by name. The settings are
    fields of a config's section `training`: learning_rate, schedule, clip_norm, clip_value, accumulate, average, precision, compile,
    evaluate_every, save_every, keep, log_every, patience.
    """
    from clew.cli.progress import Lines
    from clew.core.errors import UserError
    from clew.training.fitting import fit as fit_module
    from clew.training.report import Silence

    report = Silence() if quiet else Lines(unit="rows")
    try:
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
            report=report,
            **settings,
        )
    except UserError as error:
        raise UserError(in_python(str(error)).replace("training.", "")) from None


def in_python(advice: str) -> str:
    """A sentence of the command line's, to be followed where a function is called."""
    return advice.replace("--resume", "resume=True").replace("--out DIR", "out=DIR").replace("--out", "out=DIR")


def load(folder: "Path | str", *, device: str = "auto", code: "Path | str | None" = None, precision: str = "float32") -> "Run":
    """A trained run; `code` is the user's file that it was trained with, where it was. Its weights are kept in float32, bfloat16, int8 or
    int4, whatever the folder has; in int8 and int4 a run can be used and looked at, and not trained, exported or written."""
    from pathlib import Path

    from clew.cli.code import load_code
    from clew.runs.loaded import load_run

    path = None if code is None else Path(code)
    if path is not None:
        load_code(path)
    return load_run(folder, device=device, code=path, precision=precision)


@overload
def translate(runs: "Run | Sequence[Run]", texts: str, **options: Any) -> "Translation": ...
@overload
def translate(runs: "Run | Sequence[Run]", texts: "Sequence[str]", **options: Any) -> "list[Translation]": ...
def translate(runs: "Run | Sequence[Run]", texts: "str | Sequence[str]", **options: Any) -> "Translation | list[Translation]":
    """Translations by one run or by several as an ensemble; options are those of `clew.runs.loaded.translate_together`."""
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
    """What an instrument shows of a run, its folder or any torch module, or of several: a view that shows itself in a notebook and is saved
    as HTML, SVG, PNG, PDF or JSON. `clew look` lists the instruments, and `clew look NAME` the options of one.

    A module that is no task of ours is given `inputs`, one row of tensors as it takes them, or a `tokenizer` that encodes `text`.
    """
    from pathlib import Path

    from clew.instruments import looking

    given: Any = models if isinstance(models, (list, tuple)) else [models]
    loaded = [load(one) if isinstance(one, (str, Path)) else one for one in given]
    return looking.look(loaded, instrument, options, inputs=inputs, tokenizer=tokenizer)


@overload
def from_torch(module: "nn.Transformer") -> "VectorTransformer": ...
@overload
def from_torch(module: "nn.RNNBase | nn.TransformerEncoder | nn.TransformerDecoder", *, causal: bool | None = None) -> "SequenceLayer": ...
def from_torch(module: "nn.Module", *, causal: bool | None = None) -> "SequenceLayer | VectorTransformer":
    """The layer of clew's that computes what an `nn.LSTM`, `GRU`, `RNN`, `TransformerEncoder`, `TransformerDecoder` or `Transformer` does,
    with copies of its weights; it reads (batch, length, dim) and a mask that is True where real.

    `causal=True` makes of a TransformerEncoder one that is called with the mask of a language model.
    """
    from clew.interop.from_torch import from_torch as layer_of

    return layer_of(module, causal=causal)


INSPECTION = ("record", "intervene", "Recording")


def __dir__() -> list[str]:
    return sorted([*globals(), *INSPECTION])


def __getattr__(name: str) -> Any:
    if name in INSPECTION:
        from clew.inspection import recording

        return getattr(recording, name)
    raise AttributeError(f"module 'clew' has no attribute '{name}'")
