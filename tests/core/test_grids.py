import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.grids import diagonals_of, flip_grids, join_blocks, real_cells_first, sequence_mask
from clew.laws.grids import rectangles

sides = st.integers(1, 6)
quick = settings(max_examples=30, derandomize=True, deadline=None, database=None)


def numbered(*shape: int) -> torch.Tensor:
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(*shape, 1)


@given(height=sides, width=sides)
@quick
def test_cells_are_on_the_diagonal_row_plus_column_after_their_neighbours(height, width):
    diagonals = diagonals_of(height, width, torch.device("cpu"))
    cells = numbered(2, height, width)
    rows = diagonals.from_raster(cells)
    torch.testing.assert_close(diagonals.to_raster(rows), cells)
    before = rows[:0, 0]
    for number, (step, border) in enumerate(zip(rows[:, 0].split(diagonals.sizes), diagonals.borders, strict=True)):
        around = torch.nn.functional.pad(before, (0, 0, *border))[:, 0].tolist()
        places = [divmod(int(cell) - 1, width) for cell in step[:, 0].tolist()]
        assert len(around) == len(places) + 1
        for place, (i, j) in enumerate(places):
            assert i + j == number
            assert around[place] == (float(cells[0, i - 1, j]) if i else 0.0)
            assert around[place + 1] == (float(cells[0, i, j - 1]) if j else 0.0)
        before = step


def test_a_ragged_flip_turns_each_example_within_its_own_rectangle():
    x, mask = numbered(2, 2, 3), rectangles([(2, 2), (1, 3)], 2, 3)
    assert flip_grids(x, mask, rows=True)[..., 0].tolist() == [[[4, 5, 6], [1, 2, 3]], [[7, 8, 9], [10, 11, 12]]]
    assert flip_grids(x, mask, columns=True)[..., 0].tolist() == [[[2, 1, 3], [5, 4, 6]], [[9, 8, 7], [12, 11, 10]]]
    flipped = flip_grids(x, mask, rows=True, columns=True)
    assert flipped[mask][:, 0].tolist() == [5, 4, 2, 1, 9, 8, 7]
    torch.testing.assert_close(flip_grids(flipped, mask, rows=True, columns=True), x)


@given(sizes=st.lists(st.tuples(sides, sides), min_size=1, max_size=3))
@quick
def test_a_grid_as_a_sequence_has_its_real_cells_first_in_raster_order(sizes):
    height, width = (max(side) for side in zip(*sizes, strict=True))
    x, mask = numbered(len(sizes), height, width), rectangles(sizes, height, width)
    sequence, real = real_cells_first(x, mask), sequence_mask(mask)
    for row, (h, w) in enumerate(sizes):
        assert real[row].tolist() == [True] * (h * w) + [False] * (height * width - h * w)
        torch.testing.assert_close(sequence[row][real[row]], x[row, :h, :w].reshape(-1, 1))
    assert sequence_mask(None) is None
    torch.testing.assert_close(real_cells_first(x, None), x.flatten(1, 2))


def test_blocks_of_a_ragged_grid_equal_those_of_each_example_alone():
    x, mask = numbered(2, 4, 5), rectangles([(3, 5), (2, 2)], 4, 5)
    joined, real = join_blocks(x, mask, 2)
    for row, (height, width) in enumerate([(3, 5), (2, 2)]):
        alone, no_mask = join_blocks(x[row : row + 1, :height, :width], None, 2)
        assert no_mask is None and int(real[row].sum()) == alone.shape[1] * alone.shape[2]
        torch.testing.assert_close(joined[row : row + 1, : alone.shape[1], : alone.shape[2]], alone)
