"""A residual network (He et al. 2016) from pictures to grids of vectors. A batch holds pictures of several sizes, each
padded on the right and below; a picture's vectors depend neither on its padding nor on other pictures."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError, unknown


def real_pixels(sizes: Tensor, height: int, width: int) -> Tensor:
    """True (batch, height, width) on each picture's own pixels, False on padding, for pictures of these `sizes` (batch,
    2)."""
    rows, columns = (torch.arange(side, device=sizes.device) for side in (height, width))
    return (rows[None, :, None] < sizes[:, :1, None]) & (columns[None, None] < sizes[:, 1:, None])


class PictureNorm(nn.Module):
    """Group normalisation (Wu and He 2018): y = g * (x - mean) / sqrt(variance + eps) + b, over a group of channels at
    all real pixels of one picture.

    He et al. use batch normalisation. It would make a picture's vectors depend on its neighbours in the batch, and so
    on how batches are split for memory and processes; and training and evaluation would normalise differently.
    """

    def __init__(self, channels: int, groups: int, *, eps: float = 1e-5):
        super().__init__()
        if channels % groups:
            raise UserError(f"the width of a stage ({channels}) must be divisible by groups ({groups})")
        self.groups, self.eps = groups, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """x (batch, channels, height, width); `real` (batch, 1, height, width)."""
        if real is None:
            # F.group_norm refuses a single value.
            return torch.group_norm(x, self.groups, self.weight, self.bias, self.eps)
        grouped = x.unflatten(1, (self.groups, -1))  # (batch, groups, channels / groups, height, width)
        inside = real[:, None].to(x.dtype)
        count = inside.sum((2, 3, 4), keepdim=True) * grouped.shape[2]
        mean = (grouped * inside).sum((2, 3, 4), keepdim=True) / count
        centred = (grouped - mean) * inside
        variance = centred.square().sum((2, 3, 4), keepdim=True) / count
        scaled: Tensor = (centred / torch.sqrt(variance + self.eps)).flatten(1, 2)
        return scaled * self.weight[:, None, None] + self.bias[:, None, None]


class PlaceNorm(nn.Module):
    """Layer normalisation of each pixel's channels (Ba et al. 2016; in convolutional networks Liu et al. 2022): y = g *
    (x - mean) / sqrt(variance + eps) + b. A place then depends only on the pixels that its convolutions see, so that
    attention weights show where something is."""

    def __init__(self, channels: int, groups: int = 1, *, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """x (batch, channels, height, width)."""
        last = x.movedim(1, -1)
        return nn.functional.layer_norm(last, last.shape[-1:], self.weight, self.bias, self.eps).movedim(-1, 1)


def within(x: Tensor, real: Tensor | None) -> Tensor:
    """Zeros on padding, where a convolution at a picture's edge would read zeros."""
    return x if real is None else torch.where(real, x, 0.0)


def strided(sizes: Tensor, stride: int) -> Tensor:
    """The heights and widths of a convolution's outputs: sizes / stride, rounded up."""
    return (sizes + stride - 1) // stride


class BasicBlock(nn.Module):
    """y = relu(s(x) + N2(C2 relu(N1(C1 x)))): two 3 x 3 convolutions with a residual connection; C1 has the stride. s
    is the identity, or, if size or width change, a 1 x 1 convolution and a norm (the paper's option B)."""

    def __init__(self, input_channels: int, channels: int, *, stride: int = 1, groups: int = 8, norm: str = "picture"):
        super().__init__()
        self.stride = stride
        kind = PICTURE_NORMS[norm]
        self.first = nn.Conv2d(input_channels, channels, 3, stride, padding=1, bias=False)
        self.first_norm = kind(channels, groups)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = kind(channels, groups)
        changes = stride > 1 or input_channels != channels
        self.shortcut = nn.Conv2d(input_channels, channels, 1, bias=False) if changes else None
        self.shortcut_norm = kind(channels, groups) if changes else None

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """x is zero on padding; `real` is the mask of the output."""
        inner = within(torch.relu(self.first_norm(self.first(x), real)), real)
        inner = self.second_norm(self.second(inner), real)
        if self.shortcut is not None and self.shortcut_norm is not None:
            # Slices, not a stride: with 8 channels, torch 2.13's oneDNN writes past its buffers in the backward pass
            # (AVX-512).
            x = self.shortcut_norm(self.shortcut(x[..., :: self.stride, :: self.stride]), real)
        return within(torch.relu(x + inner), real)


class ResNet(nn.Module):
    """A 3 x 3 convolution with a norm and a relu, then a stage of `blocks` for each of `widths`; each stage but the
    first halves height and width.

    `stem_stride` is the stride of the first convolution: 1 for small pictures, as in the paper for CIFAR-10; 2 for
    larger ones, in place of its 7 x 7 convolution and pooling for ImageNet. `norm` is one of PICTURE_NORMS. Each vector
    of the grid covers `cell` pixels.
    """

    def __init__(
        self,
        channels: int = 3,
        *,
        widths: Sequence[int] = (32, 64, 128),
        blocks: int = 2,
        stem_stride: int = 1,
        groups: int = 8,
        norm: str = "picture",
    ):
        super().__init__()
        if norm not in PICTURE_NORMS:
            raise unknown("norm of a picture", norm, PICTURE_NORMS)
        if not widths or blocks < 1 or stem_stride < 1:
            raise UserError(
                f"widths ({list(widths)}), blocks ({blocks}) and stem_stride ({stem_stride}) must be at least 1"
            )
        self.channels, self.width = channels, widths[-1]
        self.stem = nn.Conv2d(channels, widths[0], 3, stem_stride, padding=1, bias=False)
        self.stem_norm = PICTURE_NORMS[norm](widths[0], groups)
        stages = []
        previous_width = widths[0]
        for number, width in enumerate(widths):
            for block in range(blocks):
                stages.append(
                    BasicBlock(previous_width, width, stride=2 if number and not block else 1, groups=groups, norm=norm)
                )
                previous_width = width
        self.blocks: Any = nn.ModuleList(stages)
        self.stem_stride = stem_stride
        self.cell = (stem_stride * 2 ** (len(widths) - 1),) * 2
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def grid_sizes(self, sizes: Tensor) -> Tensor:
        """The heights and widths (batch, 2) of the pictures' grids."""
        return strided(sizes, self.cell[0])

    def forward(self, pixels: Tensor, sizes: Tensor | None = None) -> Tensor:
        """Grids (batch, height', width', width) of pictures (batch, height, width, channels). `sizes` (batch, 2); None:
        none is padded."""
        x = pixels.movedim(-1, 1)  # (batch, channels, height, width)
        x = within(x, real_in(x, sizes))
        sizes = None if sizes is None else strided(sizes, self.stem_stride)
        x = self.stem(x)
        real = real_in(x, sizes)
        x = within(torch.relu(self.stem_norm(x, real)), real)
        for block in self.blocks:
            if block.stride > 1:
                sizes = None if sizes is None else strided(sizes, block.stride)
                real = (
                    None
                    if sizes is None
                    else real_pixels(sizes, *(-(-side // block.stride) for side in x.shape[2:]))[:, None]
                )
            x = block(x, real)
        return x.movedim(1, -1)


def real_in(x: Tensor, sizes: Tensor | None) -> Tensor | None:
    return None if sizes is None else real_pixels(sizes, *x.shape[2:])[:, None]


PICTURE_NORMS: dict[str, type[PictureNorm] | type[PlaceNorm]] = {"picture": PictureNorm, "place": PlaceNorm}
