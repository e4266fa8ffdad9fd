import pytest
import torch

import clew
from clew.inspection.streaming import stream_values
from tests.instruments.small_runs import small_run

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9]


@pytest.mark.parametrize("rows", [1, 4, 64])
@pytest.mark.parametrize(("name", "path"), [("lstm", "*.cell_state"), ("elman", "*.hidden"), ("gpt", "body.norm")])
def test_reading_in_parallel_rows_gives_the_values_of_one_pass(name: str, path: str, rows: int) -> None:
    task = small_run(name).task
    with torch.no_grad(), clew.record(task, path) as whole:
        task.body(torch.tensor([TOKENS]))
    expected = whole[path][0]
    actual = torch.full_like(expected, torch.nan)
    for places, recorded in stream_values(task, TOKENS, [path], rows=rows):
        (values,) = recorded.values()
        actual[places] = values
    torch.testing.assert_close(actual, expected)
