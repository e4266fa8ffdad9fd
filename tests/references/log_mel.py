"""Log-mel frames in NumPy float64 by their definition: a discrete Fourier transform as a sum, and triangles point by
point."""

import numpy as np


def mel(frequency: float) -> float:
    return 2595 * np.log10(1 + frequency / 700)


def log_mel(
    samples: np.ndarray,
    rate: int,
    num_mels: int,
    window: int,
    hop: int,
    fft_size: int,
    low: float,
    high: float,
    range_db: float = 0,
) -> np.ndarray:
    """(frames, num_mels); `window` and `hop` are samples."""
    if len(samples) < window:
        samples = np.concatenate([samples, np.zeros(window - len(samples))])
    num_frames = 1 + (len(samples) - window) // hop
    distance = (mel(high) - mel(low)) / (num_mels + 1)
    frames = np.zeros((num_frames, num_mels))
    for t in range(num_frames):
        power = np.zeros(fft_size // 2 + 1)
        for k in range(fft_size // 2 + 1):
            total = 0j
            for n in range(window):
                hann = np.sin(np.pi * n / window) ** 2
                total += hann * samples[t * hop + n] * np.exp(-2j * np.pi * k * n / fft_size)
            power[k] = abs(total) ** 2
        for j in range(num_mels):
            middle = mel(low) + (j + 1) * distance
            energy = 0.0
            for k in range(fft_size // 2 + 1):
                place = mel(k * rate / fft_size)
                energy += max(0.0, 1 - abs(place - middle) / distance) * power[k]
            frames[t, j] = energy
    floor = frames.max() / 10 ** (range_db / 10) if range_db else 0
    return np.log(np.maximum(frames, max(floor, 1e-7)))


def cepstra(bands: np.ndarray, count: int) -> np.ndarray:
    """The first coefficients of the orthonormal cosine transform of every row."""
    length, num_mels = bands.shape
    coefficients = np.zeros((length, count))
    for t in range(length):
        for i in range(count):
            total = sum(bands[t, j] * np.cos(np.pi * i * (j + 0.5) / num_mels) for j in range(num_mels))
            coefficients[t, i] = total * np.sqrt((1 if i == 0 else 2) / num_mels)
    return coefficients


def deltas(frames: np.ndarray) -> np.ndarray:
    result = np.zeros_like(frames)
    last = len(frames) - 1
    for t in range(len(frames)):
        for n in (1, 2):
            result[t] += n * (frames[min(t + n, last)] - frames[max(t - n, 0)])
    return result / (2 * (1 + 4))
