from dataclasses import replace

import pytest

from clew.core.errors import UserError
from clew.data.kinds.labelled import LABELLED, LabelledData
from clew.laws.check import KINDS, NAMES, check_additions, check_table_entry
from clew.layers.cells import CELLS
from clew.layers.scores import SCORES
from clew.models import MODELS, Family
from clew.models.mixed import MIXERS
from clew.models.window import WindowConfig, build_window
from clew.tasks.texts import text_task, text_use
from tests.crossing import quickly
from tests.laws import wrong

WRONG = {
    "cell": wrong.CELLS,
    "mixer": wrong.MIXERS,
    "score": wrong.SCORES,
    "position": wrong.POSITIONS,
    "norm": wrong.NORMS,
    "pooling": wrong.POOLINGS,
    "reader of characters": wrong.CHARACTERS,
    "wiring": wrong.WIRINGS,
    "model": wrong.MODELS,
    "tree layer": wrong.TREE_LAYERS,
    "grid layer": wrong.GRID_LAYERS,
    "graph layer": wrong.GRAPH_LAYERS,
    "task": wrong.TASKS,
}
CASES = [(kind, law, member) for kind, laws in WRONG.items() for law, members in laws.items() for member in members]


@pytest.fixture
def tables():
    """The tables, restored after a test that adds to them."""
    before = {kind: dict(family.table) for kind, family in KINDS.items()}
    yield
    for kind, family in KINDS.items():
        family.table.clear()
        family.table.update(before[kind])


def broken_laws(kind, member):
    return {result.law: result for result in check_table_entry(kind, "mine", member) if not result.holds}


@pytest.mark.parametrize(
    ("kind", "law", "member"), CASES, ids=lambda value: getattr(getattr(value, "build", value), "__name__", str(value))
)
def test_each_law_catches_the_member_that_breaks_it(kind, law, member):
    (result,) = check_table_entry(kind, "mine", member, only=law)
    assert not result.holds


@pytest.mark.parametrize(
    ("kind", "member"), [("cell", wrong.Minimal), ("mixer", wrong.Average), ("task", wrong.own_task(wrong.Own))]
)
def test_a_correct_user_defined_member_breaks_no_law(kind, member):
    assert not broken_laws(kind, member)


EXAMPLES = {
    "model": ("recurrent", "tree_lstm", "graph_lstm", "grid_lstm", "seq2seq"),
    "cell": ("lstm", "projected_lstm"),
    "score": ("additive", "location"),
    "position": ("learned", "relative"),
    "wiring": ("highway", "dense"),
    "task": ("language_model", "tagging", "classification"),
}
"""One member of every form from each large table; test_drawn_sizes.py and tests/models check all members."""


@pytest.mark.parametrize(
    "kind", quickly(KINDS, *(KINDS.keys() - {"model", "score", "position", "mixer", "grid layer", "cell", "wiring"}))
)
def test_members_of_every_table_satisfy_its_laws_at_the_smallest_sizes(kind):
    assert_laws_hold(kind, EXAMPLES.get(kind, KINDS[kind].table))


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXAMPLES)
def test_all_members_of_large_tables_satisfy_their_laws_at_the_smallest_sizes(kind):
    remaining = [name for name in KINDS[kind].table if name not in EXAMPLES[kind]]
    assert_laws_hold(kind, [name for name in remaining if getattr(KINDS[kind].table[name], "learning", True)])


def assert_laws_hold(kind, names):
    results = [result for name in names for result in check_table_entry(kind, name, KINDS[kind].table[name])]
    assert not [str(result) for result in results if not result.holds]
    assert {result.name for result in results} == set(names)


def test_every_law_has_a_member_that_breaks_it():
    assert set(NAMES.values()) == {law.split(",")[0] for laws in WRONG.values() for law in laws}


def test_a_broken_law_explains_itself_and_shows_the_smallest_case():
    result = broken_laws("cell", wrong.LooksAhead)["causality"]
    first, meaning, numbers, smallest = str(result).split("\n    ")
    assert first == "cell 'mine': causality is broken"
    assert meaning == "The output at a position does not depend on later positions."
    assert numbers.startswith("y up to position 0 when x after position 0 changes: differs by ")
    assert "at row 0, position 0, feature " in numbers
    assert smallest == "smallest case: batch 1, length 2, input_dim 2, dim 3, seed 0"


def test_mixed_rows_are_detected_with_a_batch_of_two():
    assert broken_laws("cell", wrong.SumsOverRows)["batch"].broken.sizes[:2] == (2, 1)


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        (
            wrong.NeedsMore,
            "it could not be built: TypeError: NeedsMore.__init__() missing 1 required positional argument: 'depth'",
        ),
        (wrong.NotACell, "a cell must be a clew.layers.cells.Cell; NotACell is not"),
        (wrong.WrongWidth, "y must have the shape (1, 3), not (1, 6)"),
        (wrong.OnlyOutput, "a step must return (y, state), not a Tensor"),
        (
            wrong.StateChangesForm,
            "a step changed the structure of the state from (1, 3) to tuple((1, 3), (1, 3)); it must stay the same",
        ),
        (
            wrong.StateOfNumbers,
            ("initial_state returned an invalid state: a state holds tensors in tuples, lists and dicts, not int"),
        ),
        (
            wrong.SinglePrecision,
            (
                "initial_state returned a state of type torch.float32, not the input's torch.float64; create it with"
                " like.new_zeros(...)"
            ),
        ),
        (
            wrong.NoBatchInState,
            "initial_state returned a state with a tensor of shape (4, 1); its first axis must be the batch (1)",
        ),
        (wrong.DividesByZero, "y is not finite, although all inputs are"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_invalid_cell_is_reported_in_one_sentence(member, sentence):
    (result,) = [result for result in check_table_entry("cell", "mine", member) if not result.holds]
    assert result.broken.sentence.startswith(sentence)


def test_an_exception_is_reported_with_its_place_in_the_users_file():
    sentence = broken_laws("cell", wrong.Raises)["contract"].broken.sentence
    assert sentence.startswith("RuntimeError: no luck today (wrong.py:")


def test_an_unannounced_method_of_a_position_is_named():
    sentence = broken_laws("position", wrong.Unannounced)["contract"].broken.sentence
    assert sentence == "it implements scores, but biases is False, so scores is never called; set biases = True"


def test_a_width_that_a_member_rejects_breaks_no_law():
    class Even(wrong.Minimal):
        def __init__(self, input_dim, dim):
            if input_dim % 8:
                raise ValueError("input_dim must be divisible by 8")
            super().__init__(input_dim, dim)

    assert not broken_laws("cell", Even)


@pytest.mark.slow
def test_only_added_or_replaced_members_are_checked(tables):
    def user_code():
        CELLS["mine"] = wrong.LooksAhead
        CELLS["gru"] = wrong.Minimal
        MIXERS["average"] = wrong.ForgetsTheMask
        SCORES["half"] = wrong.AnotherDot
        MODELS["big"] = Family(WindowConfig, lambda config, source: build_window(config, source))

    results = check_additions(user_code)
    assert {(r.kind, r.name) for r in results} == {
        ("cell", "mine"),
        ("cell", "gru"),
        ("mixer", "average"),
        ("score", "half"),
        ("model", "big"),
    }
    assert {r.name for r in results if not r.holds} == {"mine", "average", "half"}


def test_a_task_whose_best_measure_is_not_measured_is_told_the_measures_there_are():
    sentence = broken_laws("task", wrong.own_task(wrong.SelectsByAnother))["best"].broken.sentence
    assert sentence == (
        "SelectsByAnother selects the best evaluation by 'accuracy', which is not among its measures; set best to one"
        " of: loss, mean"
    )


def test_a_task_on_data_without_samples_is_rejected():
    class Reviews(LabelledData):
        pass

    task = text_task(
        wrong.Own, wrong.OwnConfig, text_use("a number", "number"), kind=replace(LABELLED, section=Reviews)
    )
    (result,) = check_table_entry("task", "mine", task)
    assert (
        "there are no samples for its kind of data; add some as SAMPLES[Reviews] in clew.laws.samples"
        in result.broken.sentence
    )


def test_no_additions_give_no_results():
    assert check_additions(lambda: None) == []


def test_an_unknown_kind_is_rejected():
    with pytest.raises(
        UserError, match="unknown kind 'cel'; did you mean 'cell'[?] known: cell, graph layer, grid layer, mixer, model"
    ):
        check_table_entry("cel", "mine", wrong.Minimal)
