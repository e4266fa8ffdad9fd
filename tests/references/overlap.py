"""Intersection over union and the label of most pixels, cell by cell in plain Python."""


def iou(gold, predicted, labels):
    """Of each label that is gold or predicted somewhere, cells in both over cells in either; numbers below 0 are no
    label."""
    found = {}
    for label in range(labels):
        both = either = 0
        for one, other in zip(gold, predicted, strict=True):
            both += one == label and other == label
            either += one == label or other == label
        if either:
            found[label] = both / either
    return found


def most_frequent(levels, size, ignored=None):
    """The number that most pixels of each square have, the lower of two; -1 where none counts."""
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
