"""The gradient of an Elman language model's loss at t by its hidden state at t - k: a row vector times k Jacobians, in
float64."""

import numpy as np


def elman_gradients(p: dict[str, np.ndarray], tokens: list[int], t: int, steps: int) -> list[float]:
    """|d loss_t / d h_{t-k}| for k from 0 to `steps`; p has embedding, W, U, b, V and a."""
    h, states = np.zeros(len(p["b"])), []
    for token in tokens[: t + 1]:
        h = np.tanh(p["W"] @ p["embedding"][token] + p["U"] @ h + p["b"])
        states.append(h)
    scores = p["V"] @ h + p["a"]
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    probabilities[tokens[t + 1]] -= 1
    gradient = probabilities @ p["V"]
    gradients = [gradient]
    for k in range(steps):
        gradient = gradient @ (np.diag(1 - states[t - k] ** 2) @ p["U"])
        gradients.append(gradient)
    return [float(np.sqrt((each**2).sum())) for each in gradients]
