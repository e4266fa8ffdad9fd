from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.interop.signatures import Port, check_same
from clew.interop.task_programs import programs_of
from clew.layers.cells import LSTM, LSTMState
from clew.recipes.running import config_of
from clew.runs.loaded import Run
from tests.interop.untrained import RUNS, assert_same, eagerly, untrained


@pytest.mark.parametrize("name", RUNS)
def test_programs_of_a_run_do_what_its_task_does(name: str, tmp_path: Path) -> None:
    run = untrained(name, tmp_path / "run")
    programs = programs_of(run)
    assert_same(run, programs, eagerly(programs))


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("gum-tree-lstm", "tree_classification, which reads trees, and each has a shape of its own"),
        ("craft-parser", "parsing, which holds what it writes to trees, which no program does"),
    ],
)
def test_tasks_on_trees_are_refused_by_name(recipe: str, why: str) -> None:
    with pytest.raises(UserError) as refused:
        programs_of(Run(Path("runs/trees"), config_of(recipe), {}, None))
    assert str(refused.value).startswith(f"runs/trees is a run of the task {why}; programs are written of language_model, ")


def test_a_state_has_one_count_for_all_layers_and_names_of_what_they_keep(tmp_path: Path) -> None:
    program, *_ = programs_of(untrained("mixed", tmp_path / "run"))
    inputs, outputs = program.ports
    assert inputs[2:] == [
        Port("state.count", "int64", ("batch",)),
        Port("state.0", "float32", ("batch", 8)),
        Port("state.1.keys", "float32", ("batch", 4, "past", 2)),
        Port("state.1.values", "float32", ("batch", 4, "past", 2)),
        Port("state.index", "int64", ("batch", "past")),
        Port("state.2.window", "float32", ("batch", 2, 8)),
    ]
    assert outputs[0] == Port("log_probs", "float32", ("batch", "length", 23))
    assert outputs[3] == Port("next.1.keys", "float32", ("batch", 4, "past + length", 2))


def test_what_several_layers_read_of_a_source_is_one_tensor(tmp_path: Path) -> None:
    encoder, step = programs_of(untrained("convolutional", tmp_path / "run"))
    made, asked = [port.name for port in encoder.ports[1]], [port.name for port in step.ports[0]]
    assert [name for name in made if name.startswith("memory.")] == ["memory.1"]
    assert set(asked) == {"tokens", "mask", "source_mask", *made}


def test_a_state_that_does_not_begin_with_zeros_is_refused(tmp_path: Path) -> None:
    run = untrained("lstm", tmp_path / "run")
    cell = next(part for part in run.task.modules() if isinstance(part, LSTM))
    cell.initial_state = lambda batch_size, memory=None, *, like: LSTMState(*like.new_ones(2, batch_size, 8))
    with pytest.raises(UserError, match="a layer's state does not begin with zeros, as that of a program does"):
        programs_of(run)


def test_a_program_that_gives_something_else_is_refused(tmp_path: Path) -> None:
    (program,) = programs_of(untrained("window", tmp_path / "run"))
    check_same(program, lambda tensors: program.module(*tensors))
    with pytest.raises(UserError, match="the program step was written, but its output next.0.window is not the run's"):
        check_same(
            program,
            lambda tensors: [
                tensor.clone().fill_(7) if tensor.dim() == 3 and tensor.shape[1] == 3 else tensor for tensor in program.module(*tensors)
            ],
        )
