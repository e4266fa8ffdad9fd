"""Seven simulated translation systems with known error rates: each copies the references with some words wrong.

The rate of a system is its share of wrong words. All systems find the same words hard, so they differ on the same
sentences, as real systems do. `even` systems make errors everywhere; `long` systems mostly in long sentences, which
weigh more in a corpus score than in a mean over sentences, and `short` systems mostly in short sentences.
"""

import numpy as np

SYSTEMS = {
    "even 20": (0.20, 0.0),
    "even 20 again": (0.20, 0.0),
    "even 24": (0.24, 0.0),
    "even 30": (0.30, 0.0),
    "long 24": (0.24, 0.010),
    "short 24": (0.24, -0.010),
    "short 30": (0.30, -0.010),
}
"""The share of wrong words, and its increase per word by which a sentence exceeds 17 words."""


def simulate(num_sentences: int = 300, seed: int = 7) -> tuple[list[str], dict[str, list[str]]]:
    """The references, and the output of each system."""
    generator = np.random.default_rng(seed)
    words = [f"w{number}" for number in range(500)]
    lengths = generator.integers(4, 30, num_sentences)
    references = [list(generator.choice(words, length)) for length in lengths]
    hardness = [generator.random(length) for length in lengths]
    written = {}
    for name, (rate, slope) in SYSTEMS.items():
        lines = []
        for reference, hard in zip(references, hardness, strict=True):
            share = min(max(rate + slope * (len(reference) - 17), 0.02), 0.9)
            own = 0.5 * hard + 0.5 * generator.random(len(hard))
            # own is the mean of two uniform numbers, so P(own < t) = 2 t^2 for t below one half.
            wrong = own < (share / 2) ** 0.5
            lines.append(" ".join("x" if miss else word for word, miss in zip(reference, wrong, strict=True)))
        written[name] = lines
    return [" ".join(reference) for reference in references], written
