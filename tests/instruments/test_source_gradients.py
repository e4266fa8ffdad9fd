"""Gradients of each target word with respect to every position of the source."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from clew.drawing.views import Heatmap, Table
from clew.inspection.gradient_flow import source_gradients, watched_embedding, with_gradients
from clew.inspection.recording import intervene
from clew.instruments.looking import look
from clew.tasks.offers import ModelInput
from tests.instruments.small_runs import small_run

SOURCE, TARGET = "the walls were tall", "tall were walls"


def double(name: str) -> Any:
    torch.manual_seed(0)
    task = deepcopy(small_run(name).task).double()
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.normal_(std=0.5)
    return task


def log_probs_of(task: Any, batch: Any) -> torch.Tensor:
    return task.log_probs(task.decode(batch)[0])[0].gather(-1, batch.targets[0, :, None])[:, 0]


@pytest.mark.parametrize("name", ["attentive", "transformer"])
def test_gradients_by_the_source_equal_finite_differences(name: str) -> None:
    """Central differences of log p(y_t) along the gradient at each position."""
    task = double(name)
    reading = task.reads(ModelInput(SOURCE, TARGET))
    path = task.source_entrance(reading)
    with with_gradients(task):
        with watched_embedding(task, path) as embeddings:
            every = log_probs_of(task, reading.batch)
        actual = source_gradients(list(every), embeddings[-1])
        gradients = [torch.autograd.grad(each, embeddings[-1], retain_graph=True)[0] for each in every]
    assert actual.shape == (len(reading.written), len(reading.tokens))

    def moved(along: torch.Tensor) -> torch.Tensor:
        with torch.no_grad(), intervene(task, {path: lambda x: x + along}):
            return log_probs_of(task.eval(), reading.batch)

    for t, s in [(0, 0), (1, 2), (len(every) - 1, actual.shape[1] - 1)]:
        along = torch.zeros_like(gradients[t])
        along[0, s] = gradients[t][0, s] / gradients[t][0, s].norm()
        slope = (moved(1e-5 * along)[t] - moved(-1e-5 * along)[t]) / 2e-5
        assert actual[t, s].item() == pytest.approx(slope.item(), rel=1e-5)


def test_the_map_has_the_gradient_that_reaches_each_words_own_vector() -> None:
    """If all words of a source differ, the gradient by a position is that of its word's row of the embedding."""
    run = small_run("attentive")
    facts = look(run, "gradients", {"text": SOURCE, "target": TARGET, "steps": 2, "places": 1}).facts
    task: Any = run.task
    reading = task.reads(ModelInput(SOURCE, TARGET))
    assert len(set(reading.ids)) == len(reading.ids) and not task.body.shares_embeddings
    actual = torch.tensor(facts["source"]["trained"])
    assert actual.shape == (len(reading.written), len(reading.tokens)) and facts["source"].keys() == {
        "trained",
        "untrained",
    }
    for t in range(len(reading.written)):
        with with_gradients(task):
            (gradient,) = torch.autograd.grad(
                log_probs_of(task, reading.batch)[t], task.body.source_embedding.tokens.weight
            )
        torch.testing.assert_close(gradient[list(reading.ids)].norm(dim=1), actual[t], rtol=1e-4, atol=1e-8)


def test_the_view_has_a_map_per_state_on_one_scale_and_a_table_of_words() -> None:
    view = look(small_run("attentive"), "gradients", {"text": SOURCE, "target": TARGET, "steps": 2, "places": 1})
    maps = [part for part in view.parts if isinstance(part, Heatmap)]
    assert [part.title for part in maps] == [f"|d log p(y_t) / d x_s|, {state}" for state in ("trained", "untrained")]
    assert maps[0].high == maps[1].high == pytest.approx(max(float(part.values.max()) for part in maps))
    reading = small_run("attentive").task.reads(ModelInput(SOURCE, TARGET))
    assert tuple(maps[0].rows) == reading.written and tuple(maps[0].columns) == reading.tokens
    (table,) = [part for part in view.parts if isinstance(part, Table) and part.header[0] == "written"]
    norms = maps[0].values
    for row, (word, most, share, size) in zip(norms, table.rows, strict=True):
        assert word in reading.written and most == reading.tokens[int(row.argmax())]
        assert share == pytest.approx(100 * row.max() / row.sum(), abs=0.06) and size == pytest.approx(
            np.linalg.norm(row), rel=1e-3
        )
    assert "each source place" in view.about
    assert "<svg" in view.svg() and "written" in view.svg()


def test_a_language_model_has_no_source() -> None:
    view = look(small_run("lstm"), "gradients", {"text": SOURCE, "steps": 2, "places": 1})
    assert "source" not in view.facts and not [part for part in view.parts if isinstance(part, Heatmap)]
