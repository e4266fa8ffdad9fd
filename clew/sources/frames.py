"""Frames as inputs of a body: of sound, or of anything else that is a row of numbers at every step, such as the columns
of a line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.errors import UserError, unknown
from clew.layers.embeddings import VectorEmbedding, tokens_of
from clew.layers.shapes.spectrograms import SpectrogramConvolution
from clew.sources.log_mel import LogMel
from clew.sources.spec_augment import SpecAugment
from clew.sources.vectors import Vectors, refuse_table
from clew.sources.vocal_tract import VocalTract

SMALLEST = 1e-5
"""Added to a standard deviation, which is 0 for constant features."""
REACH = 2
"""The number of frames on either side that a delta covers."""
NORMALISATIONS = ("utterance", "mean", "none")


class Framed(NamedTuple):
    """Frames (batch, length, width) with the length of each row, within which training draws its masks."""

    tokens: Tensor  # named as every embedding's inputs are
    lengths: Tensor  # (batch,)


class Normalisation(NamedTuple):
    """x' = (x - mean) / (deviation + 1e-5), for each feature."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, frames: Tensor) -> Tensor:
        return (frames - frames.new_tensor(self.mean)) / (frames.new_tensor(self.deviation) + SMALLEST)


def fit_normalisation(examples: Iterable[Tensor]) -> Normalisation:
    """The normalisation by all frames (length, features) of all examples."""
    count, total, squares = 0, torch.zeros(()), torch.zeros(())
    for frames in examples:
        values = frames.double()
        count, total, squares = count + len(values), total + values.sum(0), squares + values.square().sum(0)
    if not count:
        raise UserError("there are no frames to take a mean of; give at least one example")
    mean = total / count
    deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
    return Normalisation(tuple(mean.tolist()), tuple(deviation.tolist()))


def normalised(frames: Tensor) -> Tensor:
    """The frames, normalised to mean 0 and variance 1 in every feature."""
    return (frames - frames.mean(0)) / (frames.std(0, correction=0) + SMALLEST)


def deltas(frames: Tensor) -> Tensor:
    """How fast each feature changes (Furui 1986): d_t = sum_{n=1..2} n (x_{t+n} - x_{t-n}) / (2 sum n^2), with the end
    frames repeated."""
    padded = F.pad(frames.mT[None], (REACH, REACH), mode="replicate")[0].mT
    length = len(frames)
    change = sum(
        n * (padded[REACH + n : REACH + n + length] - padded[REACH - n : REACH - n + length])
        for n in range(1, REACH + 1)
    )
    assert isinstance(change, Tensor)
    return change / (2 * sum(n * n for n in range(1, REACH + 1)))


def stacked(frames: Tensor, stack: int, skip: int) -> Tensor:
    """`stack` frames concatenated, at every `skip`-th frame (Sak et al. 2015); the last frame is repeated after the
    end."""
    length = -(-len(frames) // skip)
    places = torch.arange(length, device=frames.device)[:, None] * skip + torch.arange(stack, device=frames.device)
    return frames[places.clamp(max=len(frames) - 1)].flatten(1)  # (length, stack * features)


@dataclass(frozen=True)
class Frames:
    """Frames, mapped to the body's width. An example is a tensor of frames (length, features), or of a sound's samples
    (length,).

    `features` is a `LogMel`, whose bands are the features, or their number. `normalisation` is over each example, by
    mean and variance (`utterance`) or by the mean alone (`mean`); by a stored `Normalisation`; or `none`. `deltas` is
    how many times the change of the previous features is appended. `stack` frames make one position, every `skip`
    frames (default: `stack`). `convolve` is the number of channels of two convolutions over frames and bands below the
    body. In training, `vocal_tract` simulates other speakers, and `augmentation` masks stretches.
    """

    features: LogMel | int
    normalisation: Normalisation | Literal["utterance", "mean", "none"] = "utterance"
    deltas: int = 0
    stack: int = 1
    skip: int | None = None
    augmentation: SpecAugment | None = None
    vocal_tract: VocalTract | None = None
    convolve: int = 0

    def __post_init__(self) -> None:
        if self.convolve and self.step != self.stack:
            raise UserError(
                f"convolutions read every frame once, but stack ({self.stack}) is not skip ({self.step}); make them"
                " equal"
            )
        if self.stack < 1 or self.step < 1 or self.deltas < 0:
            raise UserError(
                f"stack ({self.stack}) and skip ({self.step}) must be at least 1, and deltas ({self.deltas}) at least 0"
            )
        if isinstance(self.normalisation, str) and self.normalisation not in NORMALISATIONS:
            raise unknown("normalisation", self.normalisation, NORMALISATIONS)
        if isinstance(self.normalisation, Normalisation) and len(self.normalisation.mean) != self.num_features:
            raise UserError(
                f"the normalisation has {len(self.normalisation.mean)} features, but frames have {self.num_features}"
            )

    @property
    def num_features(self) -> int:
        return self.features.num_features if isinstance(self.features, LogMel) else self.features

    @property
    def step(self) -> int:
        """The number of frames from one position to the next."""
        return self.stack if self.skip is None else self.skip

    @property
    def width(self) -> int:
        return self.num_features * (1 + self.deltas) * self.stack

    def num_positions(self, size: int) -> int:
        """The number of positions of an example with this many samples, or frames if `features` is a number."""
        frames = self.features.num_frames(size) if isinstance(self.features, LogMel) else size
        return -(-frames // self.step)

    def embedding(self, dim: int, *, word_dropout: float = 0.0, table: Any = None, **around: Any) -> "FrameEmbedding":
        refuse_table(word_dropout, table)
        return FrameEmbedding(self, dim, **around)

    def convolution(self) -> SpectrogramConvolution | None:
        """The convolutions below the linear map; None without `convolve`."""
        options = {"stack": self.stack, "parts": 1 + self.deltas}
        return SpectrogramConvolution(self.num_features, self.convolve, **options) if self.convolve else None

    def complete(self, embedding: VectorEmbedding) -> None:
        """Do nothing: a linear map is already complete."""

    def read(self, example: Tensor) -> Tensor:
        """The vectors (positions, width) of one example."""
        frames = self.features(example) if isinstance(self.features, LogMel) and example.dim() == 1 else example
        if frames.dim() != 2 or frames.shape[1] != self.num_features or not len(frames):
            sound = ", or samples (length,)" if isinstance(self.features, LogMel) else ""
            raise UserError(
                f"an example has the shape {list(frames.shape)}; frames are (length, {self.num_features}){sound}, at"
                " least one"
            )
        if isinstance(self.normalisation, Normalisation):
            frames = self.normalisation(frames)
        elif self.normalisation == "utterance":
            frames = normalised(frames)
        elif self.normalisation == "mean":
            frames = frames - frames.mean(0)
        parts = [frames]
        for _ in range(self.deltas):
            parts.append(deltas(parts[-1]))
        return stacked(torch.cat(parts, 1), self.stack, self.step)

    def collate(self, examples: Sequence[Tensor]) -> tuple[Framed, Tensor | None]:
        return self.collate_read([self.read(example) for example in examples])

    def collate_read(self, examples: Sequence[Tensor]) -> tuple[Framed, Tensor | None]:
        """Collate examples that `read` has processed."""
        vectors, mask = Vectors(self.width).collate(examples)
        lengths = torch.full((len(vectors),), vectors.shape[1]) if mask is None else mask.sum(1)
        return Framed(vectors, lengths), mask

    def augment(self, inputs: Any) -> Any:
        """Augment inputs for training. Without lengths, all frames are real."""
        frames = tokens_of(inputs)
        if self.vocal_tract is not None:
            frames = self.vocal_tract(frames, self.num_features)
            inputs = inputs._replace(tokens=frames) if isinstance(inputs, Framed) else frames
        if self.augmentation is None:
            return inputs
        if isinstance(inputs, Framed):
            return inputs._replace(tokens=self.augmentation(frames, inputs.lengths, self.num_features))
        lengths = torch.full((len(frames),), frames.shape[1], device=frames.device)
        return self.augmentation(frames, lengths, self.num_features)


class FrameEmbedding(VectorEmbedding):
    """read(v)_i = W v_i + b, of vectors or `Framed`, or of the outputs of the source's convolutions. In training it
    reads `source.augment(v)`."""

    def __init__(self, source: Frames, dim: int, **around: Any):
        super().__init__(source.width, dim, reader=source.convolution(), **around)
        self.source = source

    def read(self, inputs: Any) -> Tensor:
        return super().read(self.source.augment(inputs) if self.training else inputs)
