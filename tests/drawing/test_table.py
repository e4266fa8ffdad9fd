import math

import numpy as np

from clew.drawing.parts import Table
from clew.drawing.shapes import Label
from clew.drawing.table import cell, table, table_element, table_html


def test_cells_are_short_and_plain() -> None:
    values = [None, True, 3, 0.123456, np.float32(0.5), np.int64(12345), math.nan, "<b>"]
    assert [cell(value) for value in values] == ["–", "yes", "3", "0.123", "0.5", "12,345", "none", "<b>"]


def test_columns_of_figures_stand_at_the_right() -> None:
    part = Table(["name", "count"], [["a", 1], ["bb", None], ["<i>", 12]])
    page = table_html(part, "v")
    assert page.count('class="figure"') == 4 and "<td>&lt;i&gt;</td>" in page and '<td class="figure">–</td>' in page
    labels = {shape.text: shape for shape in table(part).shapes if isinstance(shape, Label)}
    assert labels["1"].x == labels["12"].x == labels["count"].x and labels["12"].kind == "cell-end"
    assert labels["a"].x == labels["name"].x == 0


def test_rows_of_other_lengths_and_none_at_all() -> None:
    for part in (Table(["a"], [["x", "y"], []]), Table([], []), Table(["a", "b"], [])):
        assert table(part).svg("v").startswith("<svg") and "<table>" in table_html(part, "v")


def test_rows_may_be_named_and_lead_somewhere() -> None:
    rows = [["<a>", "1", "2"], ["b", "3"]]
    plain = table_element(["", "x"], rows, heads=1)
    assert plain.count("<th>") == 2 and "<th>&lt;a&gt;</th><td>1</td><td>2</td>" in plain
    linked = table_element(["what"], rows, ("", "measured"), ['#a"b'])
    assert '<td><a href="#a&quot;b">&lt;a&gt;</a></td><td class="measured">1</td><td>2</td>' in linked
    assert linked.count("<a ") == 1
