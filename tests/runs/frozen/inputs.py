"""Small inputs that the frozen runs learn: tones for letters, pictures of coloured squares, trees and graphs."""

import io
import json
import math
import random
import wave
from typing import Any

import numpy as np

from clew.drawing.png import palette_png, png

RATE = 4000
PITCHES = {"a": 300.0, "b": 700.0, "c": 1500.0}
SAID = ("a", "ab", "ba", "cab", "bc", "abc", "cc", "bab")
COLOURS = {"red": (214, 39, 40), "green": (44, 160, 44), "blue": (31, 90, 214)}
CORNERS = {"above": (2, 5), "below": (9, 6)}
SIDE, SQUARE = 16, 5


def sounds() -> dict[str, bytes]:
    """Files in which each letter is a tone of 50 ms after 50 ms of silence, in 8-bit samples."""
    return {f"{number}.wav": spoken(text) for number, text in enumerate(SAID)}


def spoken(text: str) -> bytes:
    length = RATE // 20
    samples: list[int] = []
    for letter in text:
        samples += [128] * length
        samples += [128 + round(90 * math.sin(2 * math.pi * PITCHES[letter] * place / RATE)) for place in range(length)]
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(1)
        written.setframerate(RATE)
        written.writeframes(bytes(samples))
    return file.getvalue()


def things() -> list[tuple[str, str]]:
    """The colour and the place of the square in each of twelve pictures."""
    return [(colour, place) for _ in range(2) for place in CORNERS for colour in COLOURS]


def pictures() -> dict[str, bytes]:
    files = {}
    for number, (colour, place) in enumerate(things()):
        pixels = np.full((SIDE, SIDE, 3), 225 + number, dtype=np.uint8)
        row, column = CORNERS[place]
        pixels[row : row + SQUARE, column + number % 3 : column + number % 3 + SQUARE] = COLOURS[colour]
        files[f"{number}.png"] = png(pixels)
    return files


def paired() -> list[tuple[str, str]]:
    """The colours of the upper and the lower square in each of nine pictures."""
    return [(above, below) for above in COLOURS for below in COLOURS]


def boxes_of(number: int) -> list[list[int]]:
    """The boxes of the upper and the lower square."""
    places = [(row, column + number % 3) for row, column in CORNERS.values()]
    return [[left, top, left + SQUARE, top + SQUARE] for top, left in places]


def paired_pictures() -> dict[str, bytes]:
    files = {}
    for number, colours in enumerate(paired()):
        pixels = np.full((SIDE, SIDE, 3), 240, dtype=np.uint8)
        for colour, (left, top, right, bottom) in zip(colours, boxes_of(number), strict=True):
            pixels[top:bottom, left:right] = COLOURS[colour]
        files[f"{number}.png"] = png(pixels)
    return files


def described(number: int) -> dict[str, Any]:
    """A row with a picture, its boxes, and a phrase for each box."""
    return {
        "image": f"{number}.png",
        "boxes": boxes_of(number),
        "phrases": [f"a {colour} square" for colour in paired()[number]],
    }


def paragraph_lines() -> str:
    paragraphs = [[f"a {above} square is above .", f"below it is a {below} one ."] for above, below in paired()]
    return "".join(
        json.dumps({**described(number), "sentences": each}) + "\n" for number, each in enumerate(paragraphs)
    )


def label_pictures() -> dict[str, bytes]:
    """Pictures that give the number of each pixel's colour; 0 is the background."""
    files = {}
    for number, colours in enumerate(paired()):
        levels = np.zeros((SIDE, SIDE), dtype=np.uint8)
        for colour, (left, top, right, bottom) in zip(colours, boxes_of(number), strict=True):
            levels[top:bottom, left:right] = 1 + list(COLOURS).index(colour)
        files[f"{number}.png"] = palette_png(levels, ["#ffffff", "#ff0000", "#00ff00", "#0000ff"])
    return files


def shaped_graphs(count: int) -> str:
    """JSON lines of graphs: rings and chains of three to six random nodes."""
    draw, lines = random.Random(1), []
    for number in range(count):
        size, label = draw.randint(3, 6), ("ring", "chain")[number % 2]
        edges = [[node, (node + 1) % size, "next"] for node in range(size if label == "ring" else size - 1)]
        lines.append({"nodes": [draw.choice(["C", "O"]) for _ in range(size)], "edges": edges, "label": label})
    return "".join(json.dumps(line) + "\n" for line in lines)


def caption_lines() -> str:
    lines = [
        {"image": f"{number}.png", "captions": [f"a {colour} square {place}"]}
        for number, (colour, place) in enumerate(things())
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def picture_labels() -> str:
    return "image,label\n" + "".join(f"{number}.png,{colour}\n" for number, (colour, _) in enumerate(things()))


def dependencies(count: int) -> str:
    """Sentences in CoNLL-U such as `Ada sees the old door`."""
    draw, blocks = random.Random(1), []
    for _ in range(count):
        first, verb, last = (
            draw.choice(["Ada", "Bo", "Eva"]),
            draw.choice(["sees", "opens", "likes"]),
            draw.choice(["door", "maze", "lamp"]),
        )
        rows = [(first, 2, "nsubj"), (verb, 0, "root"), ("the", 5, "det"), ("old", 5, "amod"), (last, 2, "obj")]
        rows = rows if draw.random() < 0.5 else [*rows[:2], ("the", 4, "det"), (last, 2, "obj")]
        blocks.append(
            "".join(
                f"{at}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_\n"
                for at, (word, head, name) in enumerate(rows, start=1)
            )
        )
    return "\n".join(blocks)
