"""Attributions of a small network, computed independently: NumPy, float64, handwritten gradients, position by position.

f(x) = v . tanh(sum_i W_i x_i + b)      W_i the weights of place i
"""

import numpy as np


def score(x, weights, bias, output):
    return float(output @ np.tanh(sum(weights[i] @ x[i] for i in range(len(x))) + bias))


def gradient(x, weights, bias, output):
    hidden = np.tanh(sum(weights[i] @ x[i] for i in range(len(x))) + bias)
    return np.stack([weights[i].T @ (output * (1 - hidden**2)) for i in range(len(x))])


def input_x_gradient(x, *network):
    return np.array([x[i] @ gradient(x, *network)[i] for i in range(len(x))])


def integrated_gradients(x, baseline, steps, *network):
    total = np.zeros(len(x))
    for k in range(1, steps + 1):
        slope = gradient(baseline + (k - 0.5) / steps * (x - baseline), *network)
        for i in range(len(x)):
            total[i] += (x[i] - baseline[i]) @ slope[i] / steps
    return total


def occlusion(x, baseline, *network):
    changes = []
    for i in range(len(x)):
        without = x.copy()
        without[i] = baseline[i]
        changes.append(score(x, *network) - score(without, *network))
    return np.array(changes)
