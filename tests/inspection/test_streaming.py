import pytest
import torch

import clew
from clew.inspection.streaming import stream_values
from tests.instruments.small_runs import small_run

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9]


@pytest.mark.parametrize("rows", [1, 4, 64])
@pytest.mark.parametrize(("name", "path"), [("lstm", "*.cell_state"), ("elman", "*.hidden"), ("gpt", "body.norm")])
def test_rows_side_by_side_show_what_one_reading_shows(name: str, path: str, rows: int) -> None:
    task = small_run(name).task
    with torch.no_grad(), clew.record(task, path) as whole:
        task.body(torch.tensor([TOKENS]))
    expected = whole[path][0]
    found = torch.full_like(expected, torch.nan)
    for places, seen in stream_values(task, TOKENS, [path], rows=rows):
        (values,) = seen.values()
        found[places] = values
    torch.testing.assert_close(found, expected)
