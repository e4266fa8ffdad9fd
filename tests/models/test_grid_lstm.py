import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.laws.cases import Sizes
from clew.laws.grids import GRID_LAWS, OverGrids
from clew.layers.shapes.grid_lstm import GRID_LAYERS
from clew.models.grid_lstm import GridLSTMConfig, build_grid_lstm
from clew.sources.grids import VectorGrids
from clew.sources.pictures import Patches
from clew.sources.tokens import Tokens

FEATURES = 2
EXAMPLES = [(3, 4), (2, 5), (1, 1)]


def build(source=None, **options):
    return build_grid_lstm(
        GridLSTMConfig(**{"dim": 4, "embedding_dim": 3, **options}), source or VectorGrids(FEATURES)
    ).double()


def examples(*sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*size, FEATURES, dtype=torch.float64, generator=generator) for size in sizes]


@pytest.mark.parametrize("layer", GRID_LAYERS)
@pytest.mark.parametrize("options", [{"directions": 1}, {"directions": 2}, {"directions": 1, "num_layers": 2}])
def test_a_body_over_grids_obeys_the_laws_of_grid_layers(layer, options):
    for law in GRID_LAWS.values():
        law(
            lambda sizes: OverGrids(build(layer=layer, dim=4, embedding_dim=sizes.input_dim, **options)),
            Sizes(2, 3, 2, 4, seed=1),
        )


@pytest.mark.parametrize("block", [1, 2])
def test_hidden_has_each_examples_real_cells_first_as_when_alone(block):
    body, source = build(num_layers=2, block=block).requires_grad_(False), VectorGrids(FEATURES)
    grids = examples(*EXAMPLES)
    inputs, mask = source.collate(grids)
    hidden, state = body(inputs, mask)
    real = body.hidden_mask(mask)
    assert state is None and body.initial_state(3) is None and hidden.shape[:2] == real.shape
    for row, grid in enumerate(grids):
        alone, no_mask = source.collate([grid])
        assert no_mask is None and body.hidden_mask(no_mask) is None
        expected = body(alone)[0][0]
        assert int(real[row].sum()) == len(expected) and bool(real[row, : len(expected)].all())
        torch.testing.assert_close(hidden[row, : len(expected)], expected)


def test_levels_are_the_embedding_and_the_output_of_every_layer():
    body = build(num_layers=2, block=2).requires_grad_(False)
    inputs, mask = VectorGrids(FEATURES).collate(examples(*EXAMPLES))
    x, first, second = body.levels(inputs, mask)
    torch.testing.assert_close(x[0, :4], inputs[0, 0, :4] @ body.embedding.map.weight.mT + body.embedding.map.bias)
    assert (x.shape, first.shape, second.shape) == ((3, 15, 3), (3, 15, 4), (3, 6, 4))
    torch.testing.assert_close(second, body(inputs, mask)[0])


def test_a_grid_of_tokens_is_read_like_their_vectors():
    body = build(Tokens(7)).requires_grad_(False)
    tokens = torch.tensor([[[1, 2, 3], [4, 5, 6]]])
    (expected,) = body.layers[0](body.embedding.weight[tokens])
    torch.testing.assert_close(body(tokens)[0], expected.flatten(1, 2))


def test_invalid_settings_and_inputs_are_rejected_with_a_sentence():
    with pytest.raises(UserError, match=r"so model.dim \(6\) must be divisible by model.directions \(4\)"):
        build(dim=6)
    with pytest.raises(
        UserError, match="model.directions sets the number of corners for all layers; leave model.layer.directions out"
    ):
        build(layer={"name": "grid_lstm", "directions": 2})
    with pytest.raises(UserError, match="a grid is read as a whole, so this body takes no state; call it without one"):
        build()(torch.zeros(1, 2, 2, FEATURES).double(), None, ())
    with pytest.raises(
        UserError, match=r"reads grids of vectors \(batch, height, width, 2\), not a tensor of the shape \[1, 2, 2\]"
    ):
        build()(torch.zeros(1, 2, FEATURES).double())
    with pytest.raises(
        UserError, match=r"reads grids of tokens \(batch, height, width\), not a tensor of the shape \[1, 2\]"
    ):
        build(Tokens(7))(torch.zeros(1, 2, dtype=torch.long))
    with pytest.raises(UserError, match=r"example 1 has the shape \[2, 2\]; grids are \(height, width, 2\)"):
        VectorGrids(FEATURES).collate([torch.zeros(1, 1, 2), torch.zeros(2, 2)])


def marked_grids(count, seed):
    """Grids of random sizes with a few marks, and for every cell whether both its row and its column have a mark."""
    generator = torch.Generator().manual_seed(seed)
    grids, targets = [], []
    for height, width in torch.randint(4, 7, (count, 2), generator=generator).tolist():
        marks = torch.rand(height, width, generator=generator) < 0.13
        grids.append(marks[..., None].float())
        targets.append(marks.any(1, keepdim=True) & marks.any(0, keepdim=True))
    inputs, mask = VectorGrids(1).collate(grids)
    return inputs, mask, torch.cat([target.flatten() for target in targets])


def accuracy(directions):
    torch.manual_seed(0)
    body = build_grid_lstm(GridLSTMConfig(dim=24, embedding_dim=4, directions=directions), VectorGrids(1))
    output = nn.Linear(24, 1)
    optimiser = torch.optim.Adam([*body.parameters(), *output.parameters()], lr=0.02)

    def logits(inputs, mask):
        return output(body(inputs, mask)[0])[..., 0][body.hidden_mask(mask)]

    for step in range(60):
        inputs, mask, targets = marked_grids(32, seed=step)
        loss = nn.functional.binary_cross_entropy_with_logits(logits(inputs, mask), targets.float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    inputs, mask, targets = marked_grids(100, seed=1000)
    return float(((logits(inputs, mask) > 0) == targets).float().mean()), float(targets.float().mean())


@pytest.mark.slow
def test_marks_in_row_and_column_are_learnt_from_four_corners_but_not_from_one():
    right, share = accuracy(directions=4)
    half_right, _ = accuracy(directions=1)
    assert 0.2 < share < 0.5 and right > 0.93 and half_right < 0.9


@pytest.mark.parametrize("block", [1, 2])
def test_pictures_of_several_sizes_are_read_as_grids_of_patches(block):
    source = Patches(size=2, places="none")
    body = build(source, num_layers=2, block=block).requires_grad_(False)
    generator = torch.Generator().manual_seed(1)
    pictures = [
        torch.randint(0, 256, (*size, 3), dtype=torch.uint8, generator=generator) for size in ((6, 4), (3, 7), (4, 6))
    ]
    inputs, mask = source.collate(pictures)
    hidden, real = body(inputs, mask)[0], body.hidden_mask(mask, inputs)
    for row, picture in enumerate(pictures):
        height, width = (-(-side // 2) for side in picture.shape[:2])
        patches = torch.zeros(2 * height, 2 * width, 3, dtype=torch.float64)
        patches[: picture.shape[0], : picture.shape[1]] = (picture.double() / 255 - 0.5) / 0.5
        cells = patches.unflatten(0, (-1, 2)).unflatten(2, (-1, 2)).transpose(1, 2).flatten(2)  # (height, width, 12)
        expected = body.grids(body.embedding.map(cells)[None], None)[-1].vectors.flatten(1, 2)[0]
        assert int(real[row].sum()) == len(expected) and bool(real[row, : len(expected)].all())
        torch.testing.assert_close(hidden[row, : len(expected)], expected)


def test_pictures_with_equal_numbers_of_places_keep_their_own_shapes():
    source = Patches(size=2, places="none")
    body = build(source).requires_grad_(False)
    flat, high = (
        torch.arange(6 * 2 * 4 * 3).remainder(251).to(torch.uint8).reshape(*shape, 3) for shape in ((4, 12), (12, 4))
    )
    inputs, mask = source.collate([flat, high])
    hidden = body(inputs, mask)[0]
    for row, picture in enumerate((flat, high)):
        torch.testing.assert_close(hidden[row, :12], body(*source.collate([picture]))[0][0])
