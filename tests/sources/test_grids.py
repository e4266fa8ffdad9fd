import torch

from clew.sources.grids import VectorGrids


def test_grids_are_padded_at_the_bottom_and_right():
    tall, wide = torch.ones(3, 1, 2), torch.full((1, 2, 2), 2.0)
    grids, mask = VectorGrids(2).collate([tall, wide])
    assert grids[..., 0].tolist() == [[[1, 0], [1, 0], [1, 0]], [[2, 2], [0, 0], [0, 0]]]
    assert mask is not None and torch.equal(mask, grids[..., 0] > 0)


def test_grids_of_one_size_have_no_mask():
    grid = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    grids, mask = VectorGrids(4).collate([grid, -grid])
    assert mask is None and torch.equal(grids, torch.stack([grid, -grid]))


def test_cells_are_mapped_equally_with_dropout_only_in_training():
    source = VectorGrids(4, noise=0.1)
    embedding = source.embedding(3)
    cells = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(embedding.eval().read(cells), cells @ embedding.map.weight.mT + embedding.map.bias)
    assert not torch.allclose(embedding.train().read(cells), embedding.eval().read(cells))
