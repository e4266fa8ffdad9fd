from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.interop.signatures import Port, check_same
from clew.interop.task_programs import programs_of
from clew.layers.cells import LSTM
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.recipes.resolving import config_of
from clew.runs.build import build_task, train_side
from clew.runs.loaded import Run
from clew.text.labels import Labels
from tests.instruments.small_runs import small_run
from tests.interop.untrained import RUNS, assert_same, eagerly, untrained


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_programs_of_a_run_match_its_task(name: str, tmp_path: Path) -> None:
    run = untrained(name, tmp_path / "run")
    programs = programs_of(run)
    assert_same(run, programs, eagerly(programs))


def test_a_parser_is_rejected_with_the_reason() -> None:
    with pytest.raises(
        UserError,
        match="^runs/parser: a parser cannot be exported, because its output is constrained to trees; parse with"
        r" `run\.parse\(\.\.\.\)`, or serve",
    ):
        programs_of(small_run("parser"))


def test_a_tree_classifier_is_rejected_with_the_reason() -> None:
    config = config_of("gum-tree-lstm", ["text.min_count=1"])
    vocabularies = {"tokenizer": train_side(config.text, ["the thread was small"], []), "labels": Labels(["a", "b"])}
    run = Run(Path("runs/trees"), config, vocabularies, build_task(config, vocabularies, to_train=False))
    with pytest.raises(
        UserError,
        match="^runs/trees: a tree classifier cannot be exported, because every tree has a different structure"
        r"; classify with `run\.classify_trees\(\.\.\.\)`",
    ):
        programs_of(run)


def test_a_state_has_one_count_and_named_tensors_per_layer(tmp_path: Path) -> None:
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


def test_layers_share_one_tensor_of_the_source(tmp_path: Path) -> None:
    encoder, step = programs_of(untrained("convolutional", tmp_path / "run"))
    encoder_outputs, step_inputs = [port.name for port in encoder.ports[1]], [port.name for port in step.ports[0]]
    assert [name for name in encoder_outputs if name.startswith("memory.")] == ["memory.1"]
    assert set(step_inputs) == {"tokens", "mask", "source_mask", *encoder_outputs}


def test_a_state_that_does_not_start_with_zeros_is_rejected(tmp_path: Path) -> None:
    run = untrained("lstm", tmp_path / "run")
    cell = next(part for part in run.task.modules() if isinstance(part, LSTM))
    cell.initial_state = lambda batch_size, memory=None, *, like: LSTMState(*like.new_ones(2, batch_size, 8))
    with pytest.raises(
        UserError,
        match="a program starts with a state of zeros, but a layer of this model does not; export another model",
    ):
        programs_of(run)


def test_a_program_with_different_results_is_rejected(tmp_path: Path) -> None:
    (program,) = programs_of(untrained("window", tmp_path / "run"))
    check_same(program, lambda tensors: program.module(*tensors))
    with pytest.raises(
        UserError,
        match="the output next.0.window of the exported program step differs from the run's; nothing was written",
    ):
        check_same(
            program,
            lambda tensors: [
                tensor.clone().fill_(7) if tensor.dim() == 3 and tensor.shape[1] == 3 else tensor
                for tensor in program.module(*tensors)
            ],
        )
