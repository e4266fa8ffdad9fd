"""The sentence level of a paragraph from the papers, for one row, sentence and region at a time."""

import math

import numpy as np

from tests.references.attention import additive, softmax
from tests.references.cells import affine


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def lstm_step(p: dict, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gers et al. 2000, for one feature at a time."""
    dim = len(h)
    a = affine(p["input_weight"], x) + affine(p["hidden_weight"], h) + p["bias"]
    new_h, new_c = np.zeros(dim), np.zeros(dim)
    for k in range(dim):
        i, f, o = (sigmoid(a[place * dim + k]) for place in (0, 1, 3))
        new_c[k] = f * c[k] + i * math.tanh(a[2 * dim + k])
        new_h[k] = o * math.tanh(new_c[k])
    return new_h, new_c


def below(p: dict, prefix: str) -> dict:
    return {name.removeprefix(prefix): value for name, value in p.items() if name.startswith(prefix)}


def pooled(p: dict, regions: np.ndarray) -> np.ndarray:
    """Krause et al. 2017, equation 1: the maximum of each feature over the mapped regions."""
    mapped = [affine(p["pool.weight"], region) + p["pool.bias"] for region in regions]
    return np.array([max(row[k] for row in mapped) for k in range(len(mapped[0]))])


def planned(p: dict, read: np.ndarray, regions: list[np.ndarray]) -> np.ndarray:
    """[topic_j; logit of stopping] of every sentence j, with one list of regions per row."""
    rows = []
    for row, places in zip(read, regions, strict=True):
        dim = p["topic.weight"].shape[0]
        h, c, outputs = np.zeros(dim), np.zeros(dim), []
        for before in row:
            h, c = lstm_step(below(p, "recurrent.cell."), np.concatenate([before, pooled(p, places)]), h, c)
            weights = softmax([additive(below(p, "looking.attention.score."), h, place, 0) for place in places])
            context = sum(weight * place for weight, place in zip(weights, places, strict=True))
            topic = np.tanh(affine(p["topic.weight"], np.concatenate([h, context])) + p["topic.bias"])
            outputs.append(np.concatenate([topic, affine(p["stop.weight"], topic) + p["stop.bias"]]))
        rows.append(outputs)
    return np.array(rows)


def written(
    p: dict, words: np.ndarray, topics: np.ndarray, regions: list[np.ndarray], phrases: list[np.ndarray] | None
) -> np.ndarray:
    """A vector for every word of a sentence, with one topic, one list of regions and one of phrase words per row."""
    rows = []
    for number, row in enumerate(words):
        start = np.tanh(affine(p["start.weight"], topics[number]) + p["start.bias"])
        h, c = np.split(start, 2)
        outputs = []
        for word in row:
            score = below(p, "words.cell.attention.score.")
            weights = softmax([additive(score, h, place, 0) for place in regions[number]])
            context = sum(weight * place for weight, place in zip(weights, regions[number], strict=True))
            h, c = lstm_step(below(p, "words.cell.cell."), np.concatenate([word, context]), h, c)
            seen = np.concatenate([h, context])
            if phrases is not None:
                score = below(p, "phrases.attention.score.")
                weights = softmax([additive(score, seen, place, 0) for place in phrases[number]])
                seen = np.concatenate(
                    [seen, sum(weight * place for weight, place in zip(weights, phrases[number], strict=True))]
                )
            outputs.append(np.tanh(affine(p["output.weight"], np.concatenate([seen, word])) + p["output.bias"]))
        rows.append(outputs)
    return np.array(rows)


def word_weights(p: dict, words: np.ndarray, topic: np.ndarray, regions: np.ndarray) -> np.ndarray:
    """The attention of each word of one sentence, (words, regions)."""
    h, c = np.split(np.tanh(affine(p["start.weight"], topic) + p["start.bias"]), 2)
    rows = []
    for word in words:
        weights = softmax([additive(below(p, "words.cell.attention.score."), h, place, 0) for place in regions])
        context = sum(weight * place for weight, place in zip(weights, regions, strict=True))
        h, c = lstm_step(below(p, "words.cell.cell."), np.concatenate([word, context]), h, c)
        rows.append(weights)
    return np.array(rows)


def topic_weights(p: dict, read: np.ndarray, regions: np.ndarray) -> np.ndarray:
    """The attention of the plan of each sentence, (sentences, regions)."""
    dim = p["topic.weight"].shape[0]
    h, c, rows = np.zeros(dim), np.zeros(dim), []
    for before in read:
        h, c = lstm_step(below(p, "recurrent.cell."), np.concatenate([before, pooled(p, regions)]), h, c)
        rows.append(softmax([additive(below(p, "looking.attention.score."), h, place, 0) for place in regions]))
    return np.array(rows)


def all_once(counts: list[int], num_others: int) -> bool:
    """Whether every thing is mentioned once, and nothing else."""
    for count in counts:
        if count != 1:
            return False
    return num_others == 0


def repeated_trigrams(texts: list[str]) -> float:
    """The fraction of trigrams, over all texts, that occurred earlier in their text."""
    repeated = total = 0
    for text in texts:
        words, before = text.split(), []
        for i in range(len(words) - 2):
            total += 1
            repeated += words[i : i + 3] in before
            before.append(words[i : i + 3])
    return 100 * repeated / total


def coverage(counts: list[list[int]]) -> float:
    mentioned = total = 0
    for each in counts:
        for count in each:
            total += 1
            mentioned += count > 0
    return 100 * mentioned / total


def bleu_4(texts: list[str], references: list[str]) -> float:
    """Papineni et al. 2002 over all texts, with one reference each and without smoothing."""
    matched, total, length, reference_length = [0] * 4, [0] * 4, 0, 0
    for text, reference in zip(texts, references, strict=True):
        words, reference_words = text.split(), reference.split()
        length, reference_length = length + len(words), reference_length + len(reference_words)
        for n in range(1, 5):
            unmatched = [reference_words[i : i + n] for i in range(len(reference_words) - n + 1)]
            for i in range(len(words) - n + 1):
                total[n - 1] += 1
                if words[i : i + n] in unmatched:
                    unmatched.remove(words[i : i + n])
                    matched[n - 1] += 1
    penalty = min(0.0, 1 - reference_length / length)
    return 100 * math.exp(penalty + sum(math.log(m / t) for m, t in zip(matched, total, strict=True)) / 4)
