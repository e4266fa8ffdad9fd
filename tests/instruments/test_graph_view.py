import re
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.inspection.computation_graph import trace
from clew.instruments.graph_view import view_of
from clew.instruments.looking import look
from tests.instruments.small_runs import small_run


def test_the_worked_example_shows_every_path_and_their_sum() -> None:
    view = view_of(
        trace(lambda a, b, c: (a + b) * torch.maximum(b, c), *map(torch.tensor, (1.0, 2.0, 0.0)), names="abc")
    )
    network, forward, backward, sums = view.parts
    assert [node.name for node in network.nodes] == ["a", "b", "+", "c", "maximum", "*"]
    assert ("b", "b 2 > + 3 > * 6", "2", "5") in sums.rows
    assert ("b", "b 2 > maximum 5 > * 6", "3", "5") in sums.rows
    assert [row[:3] for row in backward.rows][0] == (6, "*", "1")
    assert next(row for row in backward.rows if row[1] == "b")[2:] in [
        ("5", "2 by + 3 + 3 by maximum 5"),
        ("5", "3 by maximum 5 + 2 by + 3"),
    ]
    assert forward.rows[1] == (2, "b", "input", "", "2", "5")


@pytest.mark.parametrize(
    "name",
    ["lstm", "elman", "gpt", "llama", "bert", "elmo", "attentive", "transformer", "classifier", "heads", "tagger"],
)
def test_a_part_of_every_kind_of_run_is_traced(name: str) -> None:
    """A node's gradient is the sum over its edges."""
    target = "she" if name in ("attentive", "transformer") else None
    facts = look(small_run(name), "graph", {"text": "she went", "target": target}).facts
    assert {"input", "parameter", "operation", "output"} == {node["kind"] for node in facts["nodes"]}
    for number, node in enumerate(facts["nodes"]):
        incoming = [
            edge["gradient"] for edge in facts["edges"] if edge["from"] == number and edge["gradient"] is not None
        ]
        if incoming:
            assert node["gradient"] == pytest.approx(sum(incoming), abs=1e-4)


def test_a_cell_is_shown_as_the_equation_of_one_step() -> None:
    facts = look(small_run("lstm"), "graph", {"text": "she"}).facts
    names = [node["name"] for node in facts["nodes"]]
    assert {
        "sigmoid: input",
        "sigmoid: forget",
        "tanh: candidate",
        "sigmoid: output",
        "+: cell_state",
        "*: hidden",
        "tanh",
    } <= set(names)
    assert {"state.hidden", "state.cell", "hidden_weight"} <= set(names)
    assert all(node["gradient"] for node in facts["nodes"])  # at the end of the text the state is not zero


def test_a_fully_pruned_layer_is_traced() -> None:
    nodes = look(small_run("pruned"), "graph", {"text": "she"}).facts["nodes"]
    assert any(0 in node["shape"] for node in nodes) and nodes[-1]["kind"] == "output"


def test_missing_and_uncalled_parts_are_rejected() -> None:
    with pytest.raises(UserError, match="the model has no part 'body.layer'; did you mean 'body.layers'"):
        look(small_run("lstm"), "graph", {"text": "she", "layer": "body.layer"})
    with pytest.raises(UserError, match="not called as a module when a text is read; name the module that contains it"):
        look(small_run("lstm"), "graph", {"text": "she", "layer": "body.embedding.tokens"})


def test_the_guides_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "inspecting.md").read_text(encoding="utf-8")
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "trace(" in block)
    exec(block, {})
    assert capsys.readouterr().out.strip() == block.rpartition("# ")[2].splitlines()[0]
