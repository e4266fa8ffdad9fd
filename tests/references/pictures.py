"""Convolutions, group norms and a residual network for one picture, pixel by pixel; patches and positions of a grid."""

import math

import numpy as np


def convolved(weight: np.ndarray, x: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """y[o, i, j] = sum over c, a, b of W[o, c, a, b] x[c, stride i + a - padding, stride j + b - padding], with zeros
    outside the picture."""
    channels, height, width = x.shape
    size = weight.shape[2]
    y = np.zeros((len(weight), -(-height // stride), -(-width // stride)))
    for o in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                for a in range(size):
                    for b in range(size):
                        row, column = stride * i + a - padding, stride * j + b - padding
                        if 0 <= row < height and 0 <= column < width:
                            for c in range(channels):
                                y[o, i, j] += weight[o, c, a, b] * x[c, row, column]
    return y


def group_norm(gain: np.ndarray, bias: np.ndarray, x: np.ndarray, groups: int, eps: float = 1e-5) -> np.ndarray:
    y = np.zeros_like(x)
    size = len(x) // groups
    for group in range(groups):
        members = x[group * size : (group + 1) * size]
        mean = sum(members.ravel()) / members.size
        variance = sum((value - mean) ** 2 for value in members.ravel()) / members.size
        for c in range(group * size, (group + 1) * size):
            y[c] = gain[c] * (x[c] - mean) / math.sqrt(variance + eps) + bias[c]
    return y


def block(p: dict, name: str, x: np.ndarray, stride: int, groups: int) -> np.ndarray:
    inner = convolved(p[f"{name}.first.weight"], x, stride, 1)
    inner = np.maximum(group_norm(p[f"{name}.first_norm.weight"], p[f"{name}.first_norm.bias"], inner, groups), 0)
    inner = convolved(p[f"{name}.second.weight"], inner, 1, 1)
    inner = group_norm(p[f"{name}.second_norm.weight"], p[f"{name}.second_norm.bias"], inner, groups)
    if f"{name}.shortcut.weight" in p:
        x = convolved(p[f"{name}.shortcut.weight"], x, stride, 0)
        x = group_norm(p[f"{name}.shortcut_norm.weight"], p[f"{name}.shortcut_norm.bias"], x, groups)
    return np.maximum(x + inner, 0)


def resnet(p: dict, picture: np.ndarray, stages: int, blocks: int, stem_stride: int, groups: int) -> np.ndarray:
    """The grid (height', width', width) of one picture (height, width, channels)."""
    x = convolved(p["stem.weight"], picture.transpose(2, 0, 1), stem_stride, 1)
    x = np.maximum(group_norm(p["stem_norm.weight"], p["stem_norm.bias"], x, groups), 0)
    for stage in range(stages):
        for number in range(blocks):
            x = block(p, f"blocks.{stage * blocks + number}", x, 2 if stage and not number else 1, groups)
    return x.transpose(1, 2, 0)


def patches(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """(height', width', height * width * channels), with zeros outside the picture."""
    rows, columns, channels = picture.shape
    output = np.zeros((-(-rows // height), -(-columns // width), height * width * channels))
    for i in range(rows):
        for j in range(columns):
            for c in range(channels):
                output[i // height, j // width, ((i % height) * width + j % width) * channels + c] = picture[i, j, c]
    return output


def waves(row: int, column: int, dim: int) -> np.ndarray:
    """sin and cos of row / 10000^(2k / half) in the first half, and of the column in the second."""
    half = dim // 2
    values = []
    for place, width in ((row, dim - half), (column, half)):
        part = []
        for k in range(0, width, 2):
            angle = place / 10000 ** (k / width)
            part += [math.sin(angle), math.cos(angle)]
        values += part[:width]
    return np.array(values)
