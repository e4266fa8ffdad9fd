"""A body reads pictures like any sequence: patches, pixels, rows, or a residual network's grid."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clew.core.batches import cut_rows
from clew.core.errors import UserError
from clew.layers.pooling import POOLINGS
from clew.layers.shapes.pictures import PictureInputs
from clew.models import MODELS
from clew.sources.pictures import Convolved, Patches, Pictures, Pixels, Rows, moved
from clew.sources.tokens import Tokens
from tests.references import pictures as references

SOURCES: dict[str, Pictures] = {
    "patches": Patches(size=2, channels=1),
    "learnt places": Patches(size=3, channels=1, places={"name": "learned", "max_height": 4, "max_width": 4}),
    "pixels": Pixels(channels=1),
    "rows": Rows(columns=9, channels=1, places="none"),
    "convolved": Convolved(widths=(4, 8), blocks=1, groups=2, channels=1),
}
BODIES: dict[str, dict[str, Any]] = {
    "recurrent": {"cell": "lstm", "dim": 16, "bidirectional": True},
    "bert": {"dim": 16, "num_layers": 1, "num_heads": 2, "max_length": 80, "dropout": 0.0, "attention_dropout": 0.0},
    "mixed": {"dim": 16, "layers": ["gru", {"name": "attention", "num_heads": 2}, "feedforward"]},
}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
every_body = pytest.mark.parametrize("family", BODIES)


def build(family: str, source: Pictures) -> Any:
    return MODELS[family].build(MODELS[family].config(**BODIES[family]), source)


def spots(number: int, seed: int = 0) -> list[tuple[Tensor, int]]:
    """Dark pictures of 5 to 9 pixels per side with a bright spot at a corner, and the number of the corner."""
    generator = torch.Generator().manual_seed(seed)
    examples = []
    for label in torch.randint(4, (number,), generator=generator).tolist():
        height, width = torch.randint(5, 10, (2,), generator=generator).tolist()
        picture = torch.randint(60, (height, width, 1), dtype=torch.uint8, generator=generator)
        top, left = (0 if label < 2 else height - 2), (0 if label % 2 == 0 else width - 2)
        picture[top : top + 2, left : left + 2] += 180
        examples.append((picture, label))
    return examples


class PictureClassifier(nn.Module):
    """scores = W max(body(picture))."""

    def __init__(self, body: Any):
        super().__init__()
        self.body = body
        self.pooling = POOLINGS["max"](body.dim)
        self.output = nn.Linear(body.dim, 4)

    def forward(self, inputs: PictureInputs, mask: Tensor | None) -> Tensor:
        return self.output(self.pooling(self.body(inputs, mask)[0], mask))


def with_other_padding(inputs: PictureInputs) -> PictureInputs:
    """The same inputs with other pixels in the padding."""
    pixels = torch.full_like(inputs.pixels, 99)
    for row, (height, width) in enumerate(inputs.sizes.tolist()):
        pixels[row, :height, :width] = inputs.pixels[row, :height, :width]
    return inputs._replace(pixels=pixels)


@every_source
@every_body
def test_padded_pictures_give_the_same_as_alone(family: str, source: Pictures) -> None:
    model = PictureClassifier(build(family, source)).double().eval()
    pictures = [picture for picture, _ in spots(5)]
    inputs, mask = source.collate(pictures)
    assert mask is not None and not mask.all()
    together = model(with_other_padding(inputs), mask)
    for row, picture in enumerate(pictures):
        alone, whole = source.collate([picture])
        assert whole is None
        torch.testing.assert_close(model(alone, None)[0], together[row], rtol=1e-9, atol=1e-9)
    halves = [model(part, rows) for part, rows in zip(cut_rows(inputs, 2), cut_rows(mask, 2), strict=True)]
    torch.testing.assert_close(torch.cat(halves), together)


@every_source
@pytest.mark.parametrize("family", ["seq2seq", "transformer", "convolutional"])
def test_an_encoder_reads_pictures_and_a_decoder_writes_tokens(family: str, source: Pictures) -> None:
    member = MODELS[family]
    options = {"num_heads": 2} if family == "transformer" else {}
    body = member.build(member.config(dim=8, num_layers=1, **options), Tokens(7), source).double().eval()
    pictures = [picture for picture, _ in spots(3)]
    inputs, mask = source.collate(pictures)
    tokens = torch.tensor([[1, 2], [3, 4], [5, 6]])
    together, _ = body(tokens, None, body.initial_state(3, body.encode(with_other_padding(inputs), mask)))
    for row, picture in enumerate(pictures):
        alone, _ = body(tokens[row : row + 1], None, body.initial_state(1, body.encode(source.collate([picture])[0])))
        torch.testing.assert_close(alone[0], together[row], rtol=1e-9, atol=1e-9)
    assert (body.vocabulary, body.source_vocabulary, body.shares_embeddings) == (7, 0, False)


@pytest.mark.parametrize(
    ("family", "source"),
    [
        *(("recurrent", "rows"), ("bert", "patches")),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (
                ("mixed", "convolved"),
                ("recurrent", "patches"),
                ("mixed", "patches"),
                ("bert", "learnt places"),
            )
        ),
    ],
)
def test_a_body_learns_to_classify_pictures(family: str, source: str) -> None:
    torch.manual_seed(0)
    reads = SOURCES[source]
    model = PictureClassifier(build(family, reads))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    rows = spots(1120)
    for start in range(0, 1120, 16):
        batch = rows[start : start + 16]
        inputs, mask = reads.collate([picture for picture, _ in batch])
        loss = nn.functional.cross_entropy(model.train()(inputs, mask), torch.tensor([label for _, label in batch]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    unseen = spots(200, seed=1)
    inputs, mask = reads.collate([picture for picture, _ in unseen])
    with torch.no_grad():
        right = model.eval()(inputs, mask).argmax(1) == torch.tensor([label for _, label in unseen])
    assert float(right.float().mean()) > 0.9


@every_source
def test_each_pictures_own_grid_is_read_in_raster_order(source: Pictures) -> None:
    pictures = [picture for picture, _ in spots(4)]
    inputs, mask = source.collate(pictures)
    embedding = build("recurrent", source).embedding.double().eval()
    x = embedding.read(inputs)
    assert mask is not None
    for row, picture in enumerate(pictures):
        pixels = (picture.double() / 255 - 0.5) / 0.5
        grid = embedding.reader(pixels[None], torch.tensor([picture.shape[:2]]))[0]
        if not isinstance(source, Convolved):
            cell = (1, 9) if isinstance(source, Rows) else (source.size,) * 2  # type: ignore[attr-defined]
            torch.testing.assert_close(grid, torch.from_numpy(references.patches(pixels.numpy(), *cell)))
        expected = []
        for i in range(grid.shape[0]):
            for j in range(grid.shape[1]):
                place = embedding.places(torch.tensor([[i]]), torch.tensor([[j]]), x)
                expected.append(embedding.map(grid[i, j]) + place.reshape(-1))
        assert int(mask[row].sum()) == len(expected)
        torch.testing.assert_close(x[row, : len(expected)], torch.stack(expected))


def test_a_scale_applies_to_vectors_and_not_to_positions() -> None:
    source = Patches(size=2, channels=1)
    plain, scaled = source.embedding(16).eval(), source.embedding(16, scaled=True).eval()
    scaled.load_state_dict(plain.state_dict())
    inputs, _ = source.collate([spots(1)[0][0]])
    blank = Patches(size=2, channels=1, places="none").embedding(16).eval()
    blank.load_state_dict(plain.state_dict())
    places = plain.read(inputs) - blank.read(inputs)
    torch.testing.assert_close(scaled.read(inputs) * scaled.scale, 4 * blank.read(inputs) + places)


@every_source
def test_a_blank_picture_has_the_requested_number_of_positions(source: Pictures) -> None:
    body = build("bert", source).eval()
    for length in (1, 3):
        hidden, _ = body(body.embedding.blank(2, length))
        assert hidden.shape == (2, length, 16) and hidden.isfinite().all()
    assert body.embedding.width == source.width


def by_loops(picture: Tensor, down: int, across: int, mirrored: bool) -> Tensor:
    """Each pixel is taken from its position before the shift, or from the nearest edge pixel if that is outside."""
    height, width = picture.shape[:2]
    shifted = torch.zeros_like(picture)
    for i in range(height):
        for j in range(width):
            row, column = i + down, (width - 1 - j if mirrored else j) + across
            shifted[i, j] = picture[min(max(row, 0), height - 1), min(max(column, 0), width - 1)]
    return shifted


def test_pictures_are_shifted_and_mirrored_within_their_own_size() -> None:
    pictures = [picture for picture, _ in spots(12)]
    inputs, mask = Patches(channels=1, size=2).collate(pictures)
    torch.manual_seed(1)
    changed = moved(inputs, 1, True)
    assert torch.equal(changed.tokens, inputs.tokens) and torch.equal(changed.sizes, inputs.sizes)
    shifts = set()
    for row, picture in enumerate(pictures):
        actual = changed.pixels[row, : picture.shape[0], : picture.shape[1]]
        able = [
            (d, a, m)
            for d in (-1, 0, 1)
            for a in (-1, 0, 1)
            for m in (False, True)
            if torch.equal(actual, by_loops(picture, d, a, m))
        ]
        assert able
        shifts.add(able[0])
    assert len(shifts) > 4
    torch.manual_seed(1)
    assert torch.equal(moved(inputs, 1, True).pixels, changed.pixels)
    assert torch.equal(moved(inputs, 0, False).pixels[0, :5, :5], inputs.pixels[0, :5, :5])


def test_pictures_are_augmented_only_in_training() -> None:
    source = Patches(size=2, channels=1, shift=2, flip=True)
    embedding = source.embedding(8)
    inputs, _ = source.collate([picture for picture, _ in spots(6)])
    torch.manual_seed(0)
    first = embedding.train().read(inputs)
    torch.manual_seed(0)
    expected = embedding.eval().read(source.augment(inputs))
    torch.testing.assert_close(first, expected)
    assert not torch.allclose(first, embedding.read(inputs))


def test_channels_have_their_own_mean_and_deviation() -> None:
    source = Pixels(mean=(0.1, 0.2, 0.3), std=(0.5, 1.0, 2.0))
    embedding = source.embedding(4).double().eval()
    pixels = torch.randint(256, (2, 3, 3), dtype=torch.uint8)
    inputs, _ = source.collate([pixels])
    for channel, (mean, std) in enumerate(((0.1, 0.5), (0.2, 1.0), (0.3, 2.0))):
        expected = (pixels[..., channel].double() / 255 - torch.tensor(mean).double()) / std
        torch.testing.assert_close(embedding.normalized(inputs)[0, ..., channel], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("examples", "sentence"),
    [
        (
            [torch.zeros(2, 3, 1), torch.zeros(4, 4)],
            r"example 1 has the shape \[4, 4\]; pictures are \(height, width, 1\)",
        ),
        ([torch.zeros(2, 3, 3)], r"example 0 has the shape \[2, 3, 3\]; pictures are \(height, width, 1\)"),
        ([torch.zeros(0, 3, 1)], r"example 0 has the shape \[0, 3, 1\]; pictures are \(height, width, 1\)"),
    ],
)
def test_inputs_that_are_not_pictures_are_rejected(examples: Sequence[Tensor], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Patches(channels=1).collate(examples)


def test_unsuitable_settings_are_rejected() -> None:
    with pytest.raises(UserError, match="example 0 is 10 pixels wide, and rows have 9; resize it, or read wider rows"):
        SOURCES["rows"].collate([torch.zeros(4, 10, 1)])
    with pytest.raises(
        UserError, match=r"model.word_dropout \(0.1\) drops words of a table, and pictures have none; leave it out"
    ):
        MODELS["recurrent"].build(MODELS["recurrent"].config(word_dropout=0.1), Patches())
    with pytest.raises(
        UserError,
        match="shared embeddings are a table of tokens, and pictures have none; set model.shared_embeddings=false",
    ):
        MODELS["seq2seq"].build(MODELS["seq2seq"].config(shared_embeddings=True), Tokens(192), Patches())
    with pytest.raises(
        UserError, match=r"this body reads pictures \(batch, height, width, 3\), as its source's collate makes them"
    ):
        build("recurrent", Patches()).embedding.read(torch.zeros(1, 2, 192))
    with pytest.raises(
        UserError, match=r"std \(\[0, 0, 0\]\) must be one number, or one for each of 3 channels; std is above 0"
    ):
        Patches(std=0).embedding(4)
    with pytest.raises(UserError, match=r"mean \(\[0.1, 0.2\]\) must be one number, or one for each of 3 channels"):
        Patches(mean=(0.1, 0.2)).embedding(4)
    with pytest.raises(UserError, match="unknown places 'sinus'; did you mean 'sinusoidal'\\?"):
        Patches(places="sinus").embedding(4)


@pytest.mark.parametrize(("stem_stride", "stages"), [(2, 2), (1, 3), (4, 1)])
def test_a_position_of_a_residual_network_depends_on_pixels_around_its_centre(stem_stride: int, stages: int) -> None:
    """The pixels that affect its vector extend equally far on both sides of step * i, and `before` is half a step."""
    source = Convolved(widths=(8, 16, 32)[:stages], blocks=1, stem_stride=stem_stride, norm="place")
    step, network = source.cell[0], source.embedding(4).reader
    pixels = torch.randn(1, 16 * step, 16 * step, 3, requires_grad=True)
    network(pixels, None)[0, 7, 9].square().sum().backward()
    assert pixels.grad is not None
    rows, columns = (pixels.grad[0].abs().sum((2, axis)).nonzero().flatten() for axis in (1, 0))
    assert (rows[0] + rows[-1]) / 2 == 7 * step and (columns[0] + columns[-1]) / 2 == 9 * step
    assert source.before == step // 2
