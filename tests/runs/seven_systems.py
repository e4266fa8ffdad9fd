"""Seven made-up translation systems of known difference: each repeats the references, with some of the words wrong.

A system's rate is the share of words that it gets wrong. Which words are hard is the same for all, so that systems
differ on the same sentences, as real ones do. `even` systems are wrong all over; `long` ones are wrong in long
sentences, which weigh more in a corpus than in a mean over sentences, and `short` ones in short sentences.
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
"""The share of wrong words, and how it grows with every word that a sentence is longer than the middle."""


def made_up(num_sentences: int = 300, seed: int = 7) -> tuple[list[str], dict[str, list[str]]]:
    """References, and what each system wrote."""
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
            # own is the mean of two even numbers, so that P(own < t) = 2 t^2 below one half.
            wrong = own < (share / 2) ** 0.5
            lines.append(" ".join("x" if miss else word for word, miss in zip(reference, wrong, strict=True)))
        written[name] = lines
    return [" ".join(reference) for reference in references], written
