"""Check members of the tables against the laws, from the smallest sizes upward, so that the smallest failing case is
reported."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from clew.core.config import Section, options_of
from clew.core.errors import innermost_place, unknown
from clew.core.reprs import first_paragraph
from clew.core.types import Source
from clew.data.formats import FORMATS
from clew.instruments import INSTRUMENTS
from clew.laws.attention import HEADS, POSITION_LAWS, SCORE_LAWS
from clew.laws.cases import Broken, Build, Law, Sizes
from clew.laws.cells import CELL_LAWS
from clew.laws.encoder_decoders import CONDITIONED_LAWS, SOURCE_LAWS, Conditioned
from clew.laws.graphs import GRAPH_LAWS, OverNodes
from clew.laws.grids import GRID_LAWS, OverGrids
from clew.laws.sequences import BODY_LAWS, SEQUENCE_LAWS
from clew.laws.tasks import BATCH_LAWS, EXAMPLE_LAWS, build_task_case
from clew.laws.trees import TREE_LAWS, OverVectors
from clew.laws.vectors import CHARACTER_LAWS, NORM_LAWS, POOLING_LAWS
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS, GRU
from clew.layers.characters import CHARACTERS
from clew.layers.embeddings import TokenEmbedding
from clew.layers.norms import NORMS
from clew.layers.pooling import POOLINGS
from clew.layers.positions import POSITIONS
from clew.layers.recurrent import Recurrent
from clew.layers.scores import SCORES
from clew.layers.sequence import Stack
from clew.layers.shapes.graph_lstm import GRAPH_LAYERS
from clew.layers.shapes.grid_lstm import GRID_LAYERS
from clew.layers.shapes.grids import DIRECTIONS
from clew.layers.shapes.tree_lstm import TREE_LAYERS
from clew.layers.wiring import WIRINGS, Residual
from clew.models import MODELS
from clew.models.body import Body
from clew.models.mixed import MIXERS
from clew.sources.tokens import Tokens
from clew.sources.vectors import Vectors
from clew.tasks import TASKS
from clew.training.optimisers import OPTIMISERS
from clew.training.schedules import SCHEDULES

BATCHES_AND_LENGTHS = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (3, 6))
VOCABULARY = 7
TOKENS = Tokens(VOCABULARY)
WIDTH = 3


class Result(NamedTuple):
    """The result of one law for one member of a table: `broken` is the smallest failing case, or None if the law
    holds."""

    kind: str
    name: str
    law: str
    meaning: str
    broken: Broken | None

    @property
    def holds(self) -> bool:
        return self.broken is None

    def __str__(self) -> str:
        if self.broken is None:
            return f"{self.kind} '{self.name}': {self.law} holds"
        title = f"{self.kind} '{self.name}': {self.law} is broken"
        return "\n    ".join([title, self.meaning, self.broken.sentence, f"smallest case: {self.broken.sizes}"])


class Trial(NamedTuple):
    """A law, and the builder of the modules to check."""

    where: str
    law: Law
    build: Build


class Kind(NamedTuple):
    """A table whose members have laws: how to build a member, for which widths (input_dim, dim), and its laws.
    `variants` are other ways to build it, which must obey the same laws."""

    table: Mapping[str, Any]
    signature: str
    widths: tuple[tuple[int, int], ...]
    build: Callable[[Any, Sizes], Any]
    trials: Callable[[Build, Any], Iterator[Trial]]
    variants: Callable[[Any], dict[str, Callable[[Any, Sizes], Any]]] = lambda member: {}

    def all_trials(self, member: Any, example: Any) -> Iterator[Trial]:
        yield from self.trials(lambda sizes: self.build(member, sizes), example)
        for variant, build in self.variants(member).items():
            for where, law, build_sized in self.trials(partial(build, member), example):
                yield Trial(where + variant, law, build_sized)


def check_table_entry(kind: str, name: str, member: Any, only: str | None = None) -> list[Result]:
    """Check a member against every law of its kind, or the one named `only`. After a broken contract, the other laws
    are skipped."""
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    family = KINDS[kind]
    built, refusal = _first_built(family, member)
    if refusal is not None:
        return [Result(kind, name, "contract", f"A {kind} is built as {family.signature}.", refusal)]
    smallest, example = built
    results = []
    for where, law, build in family.all_trials(member, example):
        if only is not None and only != NAMES[law] + where:
            continue
        broken = _smallest_failure(law, build, smallest)
        results.append(Result(kind, name, NAMES[law] + where, first_paragraph(law), broken))
        if broken is not None and NAMES[law] == "contract":
            break
    return results


class Addition(NamedTuple):
    """An entry of a table that the user's code adds, or with which it replaces another entry."""

    kind: str
    name: str
    member: Any
    replaces: bool

    @property
    def has_laws(self) -> bool:
        return self.kind in KINDS

    def check(self) -> list[Result]:
        return check_table_entry(self.kind, self.name, self.member) if self.has_laws else []


def find_additions(run_user_code: Callable[[], object]) -> list[Addition]:
    """Return every entry that `run_user_code` adds to a table or replaces; the tables keep the entries."""
    tables = {**{kind: family.table for kind, family in KINDS.items()}, **WITHOUT_LAWS}
    before = {kind: dict(table) for kind, table in tables.items()}
    run_user_code()
    return [
        Addition(kind, name, member, name in before[kind])
        for kind, table in tables.items()
        for name, member in dict(table).items()
        if before[kind].get(name) is not member
    ]


def check_additions(run_user_code: Callable[[], object]) -> list[Result]:
    """Check every entry that `run_user_code` adds to a table with laws, or replaces."""
    return [result for addition in find_additions(run_user_code) for result in addition.check()]


def _first_built(family: Kind, member: Any) -> tuple[Any, Broken | None]:
    """Return a module built with the smallest sizes that the member accepts. A ValueError or AssertionError only
    rejects a width; any other exception is a failure."""
    refusal: Broken | None = None
    for input_dim, dim in family.widths:
        sizes = Sizes(1, 1, input_dim, dim)
        try:
            return (sizes, family.build(member, sizes)), None
        except Exception as error:
            refusal = Broken("contract", f"it could not be built: {_raised(error)}", sizes)
            if not isinstance(error, (ValueError, AssertionError)):
                break
    return None, refusal


def _smallest_failure(law: Law, build: Build, smallest: Sizes) -> Broken | None:
    for batch, length in BATCHES_AND_LENGTHS:
        sizes = smallest._replace(batch=batch, length=length)
        try:
            law(build, sizes)
        except Broken as broken:
            return broken
        except Exception as error:
            return Broken(NAMES[law], _raised(error), sizes)
    return None


def _raised(error: Exception) -> str:
    """Format an exception in one line, with its line in the user's code."""
    library_folders = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
    place = innermost_place(error, lambda file: not file.startswith(library_folders))
    message = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {message}{f' ({place})' if place else ''}"


def _cell_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in CELL_LAWS.values())
    yield from _sequence_trials("", lambda sizes: Recurrent(build(sizes)))


def _score_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in SCORE_LAWS.values())
    for where, options in ATTENTIONS.items():
        yield from _sequence_trials(
            where, _attention(lambda sizes: {"score": build(sizes._replace(input_dim=sizes.dim))}, **options)
        )


def _position_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in POSITION_LAWS.values())
    if not getattr(example, "in_layers", False):
        yield from (
            Trial(", in a small body", law, lambda sizes: _small_body(build(sizes), sizes))
            for law in BODY_LAWS.values()
        )
        return
    for where, options in ATTENTIONS.items():
        yield from _sequence_trials(where, _attention(lambda sizes: {"position": build(sizes)}, **options))


def _wiring_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from _sequence_trials("", build)


def _body_trials(build: Build, example: Any) -> Iterator[Trial]:
    if getattr(example, "trees", False):
        yield from (Trial("", law, lambda sizes: OverVectors(build(sizes))) for law in TREE_LAWS.values())
        return
    if getattr(example, "grid", False):
        yield from (Trial("", law, lambda sizes: OverGrids(build(sizes))) for law in GRID_LAWS.values())
        return
    if getattr(example, "graph", False):
        yield from (Trial("", law, lambda sizes: OverNodes(build(sizes))) for law in GRAPH_LAWS.values())
        return
    if not getattr(example, "encodes", False):
        yield from (Trial("", law, build) for law in BODY_LAWS.values())
        return
    yield from (Trial("", law, build) for law in SOURCE_LAWS.values())
    yield from (
        Trial(", after a source", law, lambda sizes: Conditioned(build(sizes))) for law in CONDITIONED_LAWS.values()
    )


def _norm_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in NORM_LAWS.values())


def _pooling_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in POOLING_LAWS.values())


def _character_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in CHARACTER_LAWS.values())


def _tree_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in TREE_LAWS.values())


def _grid_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in GRID_LAWS.values())


def _graph_trials(build: Build, example: Any) -> Iterator[Trial]:
    yield from (Trial("", law, build) for law in GRAPH_LAWS.values())


def _task_trials(build: Build, example: Any) -> Iterator[Trial]:
    laws = {**BATCH_LAWS, **EXAMPLE_LAWS} if example.examples else BATCH_LAWS
    yield from (Trial("", law, build) for law in laws.values())


def _sequence_trials(where: str, build: Build) -> Iterator[Trial]:
    yield from (Trial(where, law, build) for law in SEQUENCE_LAWS.values())


def _attention(parts: Callable[[Sizes], dict[str, Any]], **options: Any) -> Build:
    return lambda sizes: SelfAttention(sizes.input_dim, HEADS, head_dim=sizes.dim, **options, **parts(sizes))


def _small_body(position: Any, sizes: Sizes) -> Body:
    attention = SelfAttention(sizes.input_dim, HEADS, head_dim=sizes.dim)
    return Body(
        TokenEmbedding(VOCABULARY, sizes.input_dim, position=position), Stack([Residual(sizes.input_dim, attention)])
    )


def _from_every_corner(member: Any) -> dict[str, Callable[[Any, Sizes], Any]]:
    """Return the variant of a grid layer that reads from every corner, if the layer has the option."""
    if "directions" not in options_of(member):
        return {}
    return {", from every corner": lambda layer, sizes: layer(sizes.input_dim, sizes.dim, directions=DIRECTIONS[-1])}


def _over_vectors(family: Any) -> dict[str, Callable[[Any, Sizes], Any]]:
    """Return the variant of a family over vectors, if the family reads one sequence."""
    return (
        {}
        if family.encodes or not family.reads_sequence
        else {", over vectors": partial(_build_model, source=Vectors(WIDTH))}
    )


def _build_model(family: Any, sizes: Sizes, source: Source = TOKENS) -> Any:
    """Build a small body of a family, with those of the usual size fields that its config has."""
    small = {
        "dim": sizes.dim,
        "embedding_dim": sizes.dim,
        "num_layers": 2,
        "num_heads": 2,
        "max_length": 64,
        "width": 3,
        "widths": [2, 3],
    }
    config: type[Section] = family.config
    sources = (TOKENS, Tokens(VOCABULARY - 2)) if family.encodes else (source,)
    return family.build(
        config(**{name: value for name, value in small.items() if name in config.model_fields}), *sources
    )


def _build_graph_layer(member: Any, sizes: Sizes, **options: Any) -> Any:
    """Build the layer, with several types of edges if it distinguishes them."""
    option_names = options_of(member)
    return member(
        sizes.input_dim,
        sizes.dim,
        **{name: value for name, value in {"num_types": 3, **options}.items() if name in option_names},
    )


def _in_rounds(member: Any) -> dict[str, Callable[[Any, Sizes], Any]]:
    return {", in rounds": partial(_build_graph_layer, order="rounds")} if "order" in options_of(member) else {}


ATTENTIONS: dict[str, dict[str, Any]] = {
    ", in self-attention": {},
    ", in self-attention with a window": {"window": 1},
    ", in self-attention that is not causal": {"causal": False},
}

SQUARE = ((2, 2), (4, 4), (8, 8), (16, 16))

KINDS: dict[str, Kind] = {
    "cell": Kind(CELLS, "C(input_dim, dim)", ((2, 3), *SQUARE[1:]), lambda m, s: m(s.input_dim, s.dim), _cell_trials),
    "score": Kind(
        SCORES, "S(query_dim, key_dim)", ((3, 2), *SQUARE), lambda m, s: m(s.input_dim, s.dim), _score_trials
    ),
    "position": Kind(
        POSITIONS,
        "P(dim, num_heads, head_dim)",
        ((4, 2), (8, 4), (16, 8)),
        lambda m, s: m(s.input_dim, HEADS, s.dim),
        _position_trials,
    ),
    "wiring": Kind(
        WIRINGS,
        "W(dim, layer)",
        SQUARE,
        lambda m, s: m(s.input_dim, Recurrent(GRU(s.input_dim, s.input_dim))),
        _wiring_trials,
    ),
    "mixer": Kind(MIXERS, "M(dim)", SQUARE, lambda m, s: m(s.dim), _wiring_trials),
    "norm": Kind(NORMS, "N(dim)", ((3, 3), *SQUARE[1:]), lambda m, s: m(s.dim), _norm_trials),
    "pooling": Kind(POOLINGS, "P(dim)", ((2, 2), *SQUARE[1:]), lambda m, s: m(s.dim), _pooling_trials),
    "reader of characters": Kind(CHARACTERS, "C(dim)", SQUARE, lambda m, s: m(s.dim), _character_trials),
    "tree layer": Kind(
        TREE_LAYERS, "T(input_dim, dim)", ((2, 3), *SQUARE[1:]), lambda m, s: m(s.input_dim, s.dim), _tree_trials
    ),
    "grid layer": Kind(
        GRID_LAYERS,
        "G(input_dim, dim)",
        ((2, 3), *SQUARE[1:]),
        lambda m, s: m(s.input_dim, s.dim),
        _grid_trials,
        _from_every_corner,
    ),
    "graph layer": Kind(
        GRAPH_LAYERS, "G(input_dim, dim)", ((2, 3), *SQUARE[1:]), _build_graph_layer, _graph_trials, _in_rounds
    ),
    "task": Kind(
        TASKS, "TaskEntry(config=..., build=..., learning=...)", ((2, 2), (4, 4)), build_task_case, _task_trials
    ),
    "model": Kind(
        MODELS, "Family(config, build)", ((4, 4), (8, 8), (16, 16)), _build_model, _body_trials, _over_vectors
    ),
}

WITHOUT_LAWS: dict[str, Mapping[str, Any]] = {
    "instrument": INSTRUMENTS,
    "corpus format": FORMATS,
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
}
"""Other tables that the user's code may add to."""

TABLES_OF_LAWS = (
    *(
        BODY_LAWS,
        SOURCE_LAWS,
        CELL_LAWS,
        SCORE_LAWS,
        POSITION_LAWS,
        NORM_LAWS,
        POOLING_LAWS,
        CHARACTER_LAWS,
        TREE_LAWS,
        GRID_LAWS,
    ),
    *(GRAPH_LAWS, BATCH_LAWS, EXAMPLE_LAWS),
)
NAMES: dict[Law, str] = {law: name for table in TABLES_OF_LAWS for name, law in table.items()}
