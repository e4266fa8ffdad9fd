import pytest

from clew.drawing.network import GAP, lay_out, layers_of, network
from clew.drawing.parts import Network, Node
from clew.drawing.shapes import Box, Stroke


def graph(count: int, edges: list[tuple[int, int]]) -> Network:
    return Network(
        [Node(f"n{number}", ["(3, 4)"]) for number in range(count)], [(start, end, "") for start, end in edges]
    )


def test_a_layer_is_the_longest_path_and_what_is_given_stands_above_its_use() -> None:
    edges = [(0, 1, ""), (1, 2, ""), (0, 2, ""), (3, 2, ""), (2, 4, "")]
    assert layers_of(5, edges) == [0, 1, 2, 1, 3]
    assert layers_of(2, []) == [0, 0]


def test_a_cycle_and_an_edge_to_nowhere_are_errors() -> None:
    with pytest.raises(ValueError, match="the graph has a cycle"):
        network(graph(3, [(0, 1), (1, 2), (2, 1)]))
    with pytest.raises(ValueError, match="an edge leads from 0 to 7, but there are 2 nodes"):
        network(graph(2, [(0, 7)]))


def test_boxes_of_a_layer_do_not_overlap_and_layers_go_down() -> None:
    part = graph(12, [(i, j) for i in range(6) for j in range(6, 10)] + [(6, 10), (9, 11), (0, 11)])
    slots, layers, _ = lay_out(part)
    for layer in layers:
        for left, right in zip(layer, layer[1:], strict=False):
            assert slots[right].x - slots[left].x >= (slots[left].width + slots[right].width) / 2 + GAP - 1e-6
    boxes = [shape for shape in network(part).shapes if isinstance(shape, Box)]
    assert all(boxes[start].y + boxes[start].height < boxes[end].y for start, end, _ in part.edges)
    picture = network(part)
    assert all(
        box.x >= 0 and box.x + box.width <= picture.width and box.y + box.height <= picture.height for box in boxes
    )


def test_crossings_that_need_not_be_are_undone() -> None:
    """Pairs given in opposite orders above and below: a - D, b - C, c - B, d - A."""
    part = graph(8, [(0, 7), (1, 6), (2, 5), (3, 4)])
    slots, _, _ = lay_out(part)
    order = sorted(range(4), key=lambda number: slots[number].x)
    assert [7 - number for number in order] == sorted(range(4, 8), key=lambda number: slots[number].x)


def test_a_line_over_layers_goes_around_the_boxes_between() -> None:
    part = graph(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    picture = network(part)
    boxes = [shape for shape in picture.shapes if isinstance(shape, Box)]
    long = [shape for shape in picture.shapes if isinstance(shape, Stroke) and shape.curved][-1]
    for box in boxes[1:3]:
        inside = [x for x, y in long.points if box.y <= y <= box.y + box.height]
        assert all(x < box.x or x > box.x + box.width for x in inside)


def test_a_node_says_its_name_and_lines() -> None:
    picture = network(
        Network([Node("x", ["(3,)", "gradient 0.5"], "input"), Node("f", (), "output")], [(0, 1, "2")], "graph")
    )
    boxes = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert [(box.kind, box.title) for box in boxes] == [("input", "x; (3,); gradient 0.5"), ("output", "f")]
    assert network(Network([], [])).svg("v").startswith("<svg")


def test_five_hundred_nodes_are_laid_out() -> None:
    part = graph(500, [(i, i + 1) for i in range(499)] + [(i, i + 40) for i in range(0, 460, 20)])
    assert len([shape for shape in network(part).shapes if isinstance(shape, Box)]) == 500
