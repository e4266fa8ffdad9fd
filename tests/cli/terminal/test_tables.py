import io
import sys

import pytest

from clew.cli.terminal.tables import (
    duration,
    latex_table,
    markdown_table,
    number,
    show_table,
    size,
    text_entries,
    text_table,
)

HEADER = ["name", "nothing", "loss"]
ROWS = [["a_b & 50%", "", "1.5 ± 0.1"], ["x|y <z>", "", "12"]]


def test_columns_are_aligned_and_empty_columns_omitted() -> None:
    assert text_table(HEADER, ROWS, right=[2]) == ("name            loss\na_b & 50%  1.5 ± 0.1\nx|y <z>           12")
    assert text_table(HEADER, []) == "name  nothing  loss"


def test_markdown_escapes_characters_that_would_end_a_cell() -> None:
    assert markdown_table(HEADER, ROWS, right=[2]).splitlines() == [
        "| name | loss |",
        "| --- | ---: |",
        "| a_b & 50% | 1.5 ± 0.1 |",
        r"| x\|y \<z\> | 12 |",
    ]


def test_latex_escapes_every_special_character() -> None:
    table = latex_table(HEADER, ROWS, right=[2])
    assert table.splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"name & loss \\",
        r"\midrule",
        r"a\_b \& 50\% & 1.5 $\pm$ 0.1 \\",
        r"x|y $<$z$>$ & 12 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert r"\textbackslash{}input\{\textasciitilde{}\}\^" not in latex_table(["a"], [["\\input{~}^"]])
    assert latex_table(["a"], [["\\input{~}^"]]).splitlines()[4] == (
        r"\textbackslash{}input\{\textasciitilde{}\}\textasciicircum{} \\"
    )


def test_long_rows_are_folded_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    rows = [["runs/" + "x" * 100, "1.5"], ["[bold]runs[/bold]", "2"]]
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", "60")
        patch.setenv("NO_COLOR", "1")
        patch.setenv("TERM", "dumb")
        patch.setattr(sys, "stdout", terminal)
        show_table(["run", "loss"], rows, right=[1])
    assert max(map(len, terminal.getvalue().splitlines())) <= 60
    assert terminal.getvalue().count("x") == 100 and "[bold]runs[/bold]" in terminal.getvalue()
    show_table(["run", "loss"], rows, right=[1])
    assert capsys.readouterr().out.splitlines()[1].split() == rows[0]


def test_numbers_times_and_sizes_are_readable() -> None:
    assert [number(value, 2) for value in (None, 1.234, 1e9, -3e8)] == ["", "1.23", "1.00e+09", "-3.00e+08"]
    assert [duration(value) for value in (None, 0.4, 61, 3723)] == ["", "0:00", "1:01", "1:02:03"]
    assert [size(count) for count in (0, 999, 1000, 12_345, 99_950, 999_499, 999_500, 5 * 10**9, 10**16)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "12.3 kB",
        "100 kB",
        "999 kB",
        "1.0 MB",
        "5.0 GB",
        "10000 TB",
    ]


RUN_HEADER = ["run", "recipe", "valid loss", "perplexity", "state", "changed"]
RUNS = [
    [
        "runs/shakespeare-lstm-cell=gru-seed=1",
        "shakespeare-lstm",
        "1.5000",
        "4.48",
        "finished",
        "model.cell=gru seed=1 training.steps=800",
    ],
    ["runs/tagger", "ewt-tagger", "", "", "interrupted", ""],
]


@pytest.mark.parametrize("columns", [40, 80])
def test_entries_show_every_cell_and_fit(columns: int) -> None:
    text = text_entries(RUN_HEADER, RUNS, columns)
    assert max(map(len, text.splitlines())) <= columns
    assert [line for line in text.splitlines() if not line.startswith(" ")] == [row[0] for row in RUNS]
    for row in RUNS:
        for cell in row[1:]:
            assert all(word in text.split() for word in cell.split())


def test_an_entry_names_its_values_and_omits_empty_ones() -> None:
    assert text_entries(RUN_HEADER, RUNS[1:], 80) == "runs/tagger\n  recipe ewt-tagger  state interrupted"
    assert text_entries(RUN_HEADER, RUNS[1:], 30) == "runs/tagger\n  recipe ewt-tagger\n  state interrupted"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_entries_become_a_table_where_it_fits(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "stdout", terminal)
        show_table(RUN_HEADER, RUNS, right=[2, 3], entries=True)
    assert max(map(len, terminal.getvalue().splitlines())) <= columns
    assert (terminal.getvalue().splitlines()[0].split() == " ".join(RUN_HEADER).split()) == (columns == 200)
