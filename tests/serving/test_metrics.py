"""The text format of Prometheus, line by line."""

import pytest

from clew.serving.metrics import FAMILIES, Family, Metrics, escaped


def test_counters_add_gauges_are_replaced_and_histograms_are_cumulative() -> None:
    metrics = Metrics(
        {"a_total": Family("counter", "as"), "b": Family("gauge", "bs"), "c": Family("histogram", "cs", (1, 2.5))}
    )
    for by in (1, 2):
        metrics.count("a_total", {"run": "x"}, by)
        metrics.put("b", {}, by)
    for value in (0.5, 1, 2, 9):
        metrics.observe("c", {"run": "x"}, value)
    assert metrics.text() == (
        '# HELP a_total as\n# TYPE a_total counter\na_total{run="x"} 3\n'
        "# HELP b bs\n# TYPE b gauge\nb 2\n"
        "# HELP c cs\n# TYPE c histogram\n"
        'c_bucket{run="x",le="1"} 2\nc_bucket{run="x",le="2.5"} 3\nc_bucket{run="x",le="+Inf"} 4\n'
        'c_sum{run="x"} 12.5\nc_count{run="x"} 4\n'
    )


def test_metrics_without_values_are_omitted() -> None:
    assert Metrics(FAMILIES).text() == "\n"


@pytest.mark.parametrize(
    ("label", "written"), [('a"b', 'a\\"b'), ("a\\b", "a\\\\b"), ("a\nb", "a\\nb"), ("\ud800", "\\\\ud800"), ("ж", "ж")]
)
def test_labels_are_escaped(label: str, written: str) -> None:
    assert escaped(label) == written
