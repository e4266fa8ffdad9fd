import math

import numpy as np
import pytest
import torch

import clew
from clew.core.errors import UserError
from clew.drawing.views import Points
from clew.instruments.gates import half_lives, named_cells, retention, saturation
from clew.instruments.looking import look
from clew.layers.cells import GRU
from tests.instruments.small_runs import small_run

GATE = np.array([[0.05, 0.95, 0.5], [0.2, 0.99, 0.5], [0.01, 0.9, 0.5], [0.5, 1.0, 0.5]])
TEXT = "the ball of thread"


def test_fractions_of_closed_and_open_steps_are_counted() -> None:
    closed, opened = saturation(GATE)
    assert closed.tolist() == [0.5, 0, 0]
    assert opened.tolist() == [0, 0.75, 0]  # 0.9 does not count as open


def test_a_cell_that_keeps_half_per_step_has_a_half_life_of_one() -> None:
    assert half_lives(np.full((7, 1), 0.5)).tolist() == pytest.approx([1.0])
    assert half_lives(np.full((7, 1), 0.5**0.1)).tolist() == pytest.approx([10.0])
    assert half_lives(np.ones((3, 1))).tolist() == [math.inf]
    assert half_lives(np.zeros((3, 1)))[0] < 0.02


def test_retention_is_the_mean_product_of_the_gates() -> None:
    """For the first cell over two steps, the products of neighbouring gates."""
    f = GATE[:, 0]
    kept = retention(GATE, 10)
    assert len(kept) == 5  # zero to four gates
    assert kept[0].tolist() == [1, 1, 1]
    assert kept[1, 0] == pytest.approx(f.mean())
    assert kept[2, 0] == pytest.approx((f[0] * f[1] + f[1] * f[2] + f[2] * f[3]) / 3)
    assert kept[4, 0] == pytest.approx(f.prod())
    assert kept[3, 2] == pytest.approx(0.125)


def test_the_curve_of_products_is_the_derivative_by_the_cells_past() -> None:
    """d c_t / d c_{t-k} through the cell only: autograd of c' = f c + i c~ with constant gates."""
    torch.manual_seed(0)
    f, candidate = torch.rand(5, 3, dtype=torch.double), torch.randn(5, 3, dtype=torch.double)
    start = torch.zeros(3, dtype=torch.double, requires_grad=True)
    c = start
    for t in range(5):
        c = f[t] * c + candidate[t]
    (gradient,) = torch.autograd.grad(c.sum(), start)
    np.testing.assert_allclose(retention(f.numpy(), 5)[5], gradient.numpy())


@pytest.mark.parametrize(
    ("name", "keeps"), [("lstm", "forget"), ("elmo", "forget"), ("attentive", "forget"), ("tagger", "forget")]
)
def test_gates_of_every_kind_of_run_equal_its_taps(name: str, keeps: str) -> None:
    run = small_run(name)
    target = "was tall" if name == "attentive" else None
    view = look(run, "gates", {"text": TEXT, "target": target})
    reading = clew.instruments.reading.read(run, TEXT, target)
    with clew.record(run, "*.gates.*") as recorded:
        reading.hidden()
    for layer, layer_facts in view.facts["layers"].items():
        assert layer_facts["keeps_by"] == keeps
        for gate, numbers in layer_facts["gates"].items():
            assert any(
                numbers["mean"] == pytest.approx(recorded[path].mean().item(), abs=1e-5)
                for path in recorded
                if path.endswith(f"gates.{gate}")
            ), layer


@pytest.mark.parametrize("name", ["gru", "published gru"])
def test_the_gates_of_both_forms_of_a_gru_follow_their_equation(name: str) -> None:
    """Every gate and the candidate, computed from the recorded states of the run."""
    run = small_run(name)
    cell = next(part for part in run.task.modules() if isinstance(part, GRU))
    view, reading = look(run, "gates", {"text": TEXT}), clew.instruments.reading.read(run, TEXT, None)
    with clew.record(run, "*.gates.*", "*.cell.hidden") as recorded:
        reading.hidden()
    taps = {path.rsplit(".", 1)[1]: recorded[path][0].double() for path in recorded}
    before = torch.cat([torch.zeros(1, cell.dim), taps["hidden"][:-1]]).double()
    weights = {key: each.detach().double() for key, each in cell.state_dict().items()}
    x = (
        run.task.body.embedding.weight.detach().double()[list(reading.ids)] @ weights["input_weight"].T
        + weights["bias"]
    )
    x_r, x_z, x_n = x.chunk(3, -1)
    u_r, u_z, u_n = weights["hidden_weight"].chunk(3)
    reset, update = torch.sigmoid(x_r + before @ u_r.T), torch.sigmoid(x_z + before @ u_z.T)
    product = (
        (reset * before) @ u_n.T if name == "published gru" else reset * (before @ u_n.T + weights["candidate_bias"])
    )
    candidate = torch.tanh(x_n + product)
    for gate, expected in {"reset": reset, "update": update, "candidate": candidate}.items():
        torch.testing.assert_close(taps[gate], expected, atol=1e-5, rtol=0)
    layer_facts = view.facts["layers"]["1"]
    assert layer_facts["keeps_by"] == "update"
    for gate, each in {"reset": reset, "update": update}.items():
        assert layer_facts["gates"][gate]["mean"] == pytest.approx(each.mean().item(), abs=1e-5)


def test_networks_without_gates_are_refused() -> None:
    with pytest.raises(UserError, match="the cells of runs/elman have no gates"):
        look(small_run("elman"), "gates", {"text": TEXT})
    with pytest.raises(UserError, match="runs/gpt has no recurrent layer"):
        look(small_run("gpt"), "gates", {"text": TEXT})


def test_cells_with_equal_coordinates_are_one_point() -> None:
    view = look(small_run("lstm"), "gates", {"text": TEXT})
    plots = [part for part in view.parts if isinstance(part, Points)]
    assert [plot.title.split()[3] for plot in plots] == list(view.facts["layers"]["1"]["gates"])
    for series, texts in [each for plot in plots for each in zip(plot.series, plot.texts, strict=True)]:
        assert len(series.x) == len(series.y) == len(texts) == len(set(zip(series.x, series.y, strict=True)))
    assert named_cells(np.array([3])) == "cell 3"
    assert named_cells(np.arange(1, 11)) == "10 cells, 1, 2, 3, 4, 5, 6, 7, 8, ..."


def test_fractions_of_time_are_drawn_from_0_to_1():
    maps = [part for part in look(small_run("lstm"), "gates", {"text": "the walls"}).parts if isinstance(part, Points)]
    assert maps and all(part.x_range == part.y_range == (0.0, 1.0) for part in maps)
