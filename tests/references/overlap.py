"""Intersection over union and the label of most pixels, cell by cell in plain Python."""


def iou(gold, predicted, labels):
    """For each gold or predicted label, the number of cells in both divided by that in either; numbers below 0 are no
    label."""
    ratios = {}
    for label in range(labels):
        intersection = union = 0
        for one, other in zip(gold, predicted, strict=True):
            intersection += one == label and other == label
            union += one == label or other == label
        if union:
            ratios[label] = intersection / union
    return ratios


def most_frequent(levels, size, ignored=None):
    """The most frequent number among the pixels of each square, the lower one on a tie; -1 if no pixel counts."""
    height, width = len(levels), len(levels[0])
    rows = []
    for top in range(0, height, size):
        row = []
        for left in range(0, width, size):
            counts = {}
            for y in range(top, min(top + size, height)):
                for x in range(left, min(left + size, width)):
                    if levels[y][x] != ignored:
                        counts[levels[y][x]] = counts.get(levels[y][x], 0) + 1
            best = -1
            for level in sorted(counts):
                if best < 0 or counts[level] > counts[best]:
                    best = level
            row.append(best)
        rows.append(row)
    return rows
