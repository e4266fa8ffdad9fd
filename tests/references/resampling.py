"""Band-limited interpolation in NumPy float64, sample by sample."""

import numpy as np


def resample(samples: np.ndarray, from_rate: int, to_rate: int, zeros: int, attenuation: float) -> np.ndarray:
    low = min(1.0, to_rate / from_rate)
    width = (attenuation - 7.95) / (2.285 * 2 * zeros * np.pi)
    cutoff, beta, reach = low * (1 - width / 2), 0.1102 * (attenuation - 8.7), zeros / low
    count = -(-len(samples) * to_rate // from_rate)
    output, whole = np.zeros(count), np.i0(beta)
    for n in range(count):
        for k in range(len(samples)):
            t = n * from_rate / to_rate - k
            if abs(t) < reach:
                window = np.i0(beta * np.sqrt(1 - (t / reach) ** 2)) / whole
                sinc = 1.0 if t == 0 else np.sin(np.pi * cutoff * t) / (np.pi * cutoff * t)
                output[n] += samples[k] * cutoff * sinc * window
    return output
