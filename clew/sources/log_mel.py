"""Log-mel features: the logarithm of a sound's energy in bands of the mel scale, for each frame. Knows no file."""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.errors import UserError

FLOOR = 1e-7
"""The energy of silence, below the noise of 16-bit samples; it avoids the logarithm of 0."""
LARGEST_FFT = 2**16


@dataclass(frozen=True)
class LogMel:
    """The map from samples to frames; `log_mel` has the equations."""

    rate: int  # samples per second
    num_mels: int = 80
    window_ms: float = 25.0
    hop_ms: float = 10.0
    low: float = 20.0  # Hz
    high: float | None = None  # default: half the rate
    dither: float = 0.0
    range_db: float = 0.0  # dynamic range below the loudest energy; 0: unlimited
    cepstra: int = 0  # number of cepstral coefficients; 0: the bands themselves

    def __post_init__(self) -> None:
        if self.rate < 1 or self.num_mels < 1:
            raise UserError(f"rate ({self.rate}) and num_mels ({self.num_mels}) must be at least 1")
        if not 0 <= self.cepstra <= self.num_mels:
            raise UserError(f"cepstra ({self.cepstra}) must be from 0 to num_mels ({self.num_mels})")
        if not 0 <= self.low < self.highest <= self.rate / 2:
            raise UserError(
                f"bands go from low ({self.low:g} Hz) to high ({self.highest:g} Hz), which must be above it and at most"
                f" half the rate ({self.rate / 2:g} Hz)"
            )
        if self.window < 2 or self.hop < 1:
            raise UserError(
                f"window_ms ({self.window_ms:g}) and hop_ms ({self.hop_ms:g}) are {self.window} and {self.hop} samples"
                f" at a rate of {self.rate:,}; a window needs 2 and a hop 1"
            )
        if self.fft_size > LARGEST_FFT:
            raise UserError(
                f"{self.num_mels:,} bands are narrower than a spectrum of {LARGEST_FFT:,} points; lower num_mels or"
                " raise low"
            )

    @property
    def highest(self) -> float:
        return self.rate / 2 if self.high is None else self.high

    @property
    def num_features(self) -> int:
        """The number of features of a frame: its cepstral coefficients, or its bands."""
        return self.cepstra or self.num_mels

    @property
    def window(self) -> int:
        """The number of samples of a frame."""
        return round(self.rate * self.window_ms / 1000)

    @property
    def hop(self) -> int:
        """The number of samples from one frame to the next."""
        return round(self.rate * self.hop_ms / 1000)

    @property
    def fft_size(self) -> int:
        """The smallest power of two that holds the window and gives every band at least one point."""
        step = (mel(self.highest) - mel(self.low)) / (self.num_mels + 1)
        narrowest = frequency(mel(self.low) + 2 * step) - self.low
        return int(2 ** math.ceil(math.log2(max(self.window, math.floor(self.rate / narrowest) + 1))))

    def num_frames(self, num_samples: int) -> int:
        return 1 + max(num_samples - self.window, 0) // self.hop

    def __call__(self, samples: Tensor) -> Tensor:
        """Frames (length, num_features) of samples (length,)."""
        if samples.dim() != 1 or not len(samples) or not samples.is_floating_point():
            raise UserError(
                f"samples are floats (length,), not {samples.dtype} of the shape {list(samples.shape)}; give one"
                " channel"
            )
        if self.dither:
            samples = samples + self.dither * torch.randn_like(samples)
        needed = self.window + (self.num_frames(len(samples)) - 1) * self.hop
        around = self.fft_size - self.window
        samples = F.pad(samples[:needed], (around // 2, around - around // 2 + max(needed - len(samples), 0)))
        window = torch.hann_window(self.window, dtype=samples.dtype, device=samples.device)
        spectrum = torch.stft(samples, self.fft_size, self.hop, self.window, window, center=False, return_complex=True)
        energies = mel_filters(self).to(samples) @ spectrum.abs().square()  # (num_mels, length)
        if self.range_db:
            energies = torch.maximum(energies, energies.max() * 10 ** (-self.range_db / 10))
        bands: Tensor = energies.clamp(min=FLOOR).log().mT
        return bands @ cosines(self.num_mels, self.cepstra).to(bands) if self.cepstra else bands


def log_mel(
    samples: Tensor,
    rate: int,
    *,
    num_mels: int = 80,
    window_ms: float = 25.0,
    hop_ms: float = 10.0,
    low: float = 20.0,
    high: float | None = None,
    dither: float = 0.0,
    range_db: float = 0.0,
    cepstra: int = 0,
) -> Tensor:
    """Log-mel frames (length, num_mels) of samples (length,), or their mel-frequency cepstral coefficients (length,
    cepstra) (Davis and Mermelstein 1980).

        X_t[k] = sum_n hann_n x[t hop + n] exp(-2 pi i k n / N)                       one frame per hop, of
                                                                                      `window` samples
        E_t[j] = sum_k W[j, k] |X_t[k]|^2
        y_t[j] = log max(E_t[j], 1e-7, 10^(-range_db / 10) max E)                     no last term if range_db is 0
        W[j, k] = max(0, min((mel(f_k) - m_{j-1}) / d, (m_{j+1} - mel(f_k)) / d)),    f_k = k rate / N
        m_j    = mel(low) + j d,   d = (mel(high) - mel(low)) / (num_mels + 1),   mel(f) = 2595 log10(1 + f / 700)
        c_t[i] = sqrt(2 / num_mels) sum_j y_t[j] cos(pi i (j - 1/2) / num_mels),   i < cepstra;
                 c_t[0] is divided by sqrt(2)

    The mel scale and its triangular filters, linear in mel with maximum 1, are those of HTK (Young et al. 2006), not
    Slaney's. First, N(0, dither^2) is added to the samples. `range_db` hides the noise level of a room or a microphone:
    energies that far below the loudest one count as silence. The first few `cepstra` describe the envelope of the
    spectrum without the harmonics of a voice's pitch. A frame whose window would extend beyond the end is dropped; a
    sound shorter than a window is one frame, padded with silence.
    """
    return LogMel(rate, num_mels, window_ms, hop_ms, low, high, dither, range_db, cepstra)(samples)


def mel(frequency: float) -> float:
    return 2595 * math.log10(1 + frequency / 700)


def frequency(mel: float) -> float:
    return 700 * (10 ** (mel / 2595) - 1)


def centres(bands: LogMel) -> list[float]:
    """The centre frequency of each band, in Hz."""
    low, high = mel(bands.low), mel(bands.highest)
    return [frequency(low + (high - low) * band / (bands.num_mels + 1)) for band in range(1, bands.num_mels + 1)]


@lru_cache(maxsize=8)
def mel_filters(bands: LogMel) -> Tensor:
    """W (num_mels, fft_size // 2 + 1), in float64."""
    points = torch.arange(bands.fft_size // 2 + 1, dtype=torch.float64) * bands.rate / bands.fft_size
    mels = 2595 * torch.log10(1 + points / 700)
    edges = torch.linspace(mel(bands.low), mel(bands.highest), bands.num_mels + 2, dtype=torch.float64)[:, None]
    rising = (mels - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mels) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


@lru_cache(maxsize=8)
def cosines(num_mels: int, cepstra: int) -> Tensor:
    """The first columns (num_mels, cepstra) of the orthonormal discrete cosine transform, in float64."""
    bands, orders = (
        torch.arange(num_mels, dtype=torch.float64)[:, None] + 0.5,
        torch.arange(cepstra, dtype=torch.float64),
    )
    columns = (torch.pi * orders * bands / num_mels).cos() * math.sqrt(2 / num_mels)
    columns[:, :1] /= math.sqrt(2)
    return columns
