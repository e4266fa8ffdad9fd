"""Describe a scene with captions or a paragraph, with the thing that each word refers to; and check whether a text is
true of a scene.

    sentence = ["there is"] thing | thing "is" relation thing | thing "is" place
    thing    = "a" [size] [colour] shape
    relation = "left of" | "right of" | "above" | "below"

Two things have one relation in each direction: they are beside each other if their centres are further apart across
than down. Words are separated by spaces; sentences of a paragraph end with " ."
"""

import re
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from clew.data.synthetic.scenes import COLOURS, SHAPES, SIZES, Draw, Scene, Thing

RELATIONS = ("left of", "right of", "above", "below")
PLACES = (
    ("at the top left", "at the top", "at the top right"),
    ("at the left", "in the middle", "at the right"),
    ("at the bottom left", "at the bottom", "at the bottom right"),
)
MOST_CAPTIONS = 5
ARTICLES = ("a", "an", "the")


class GroundedText(NamedTuple):
    """A text, and for each of its words, separated by spaces, the number from 0 of the thing it describes, or None."""

    text: str
    things: tuple[int | None, ...]

    @property
    def words(self) -> list[str]:
        return self.text.split()


class Noun(NamedTuple):
    """The description of a thing; None where it says nothing."""

    shape: str
    colour: str | None = None
    size: str | None = None

    def fits(self, thing: Thing) -> bool:
        return self.shape == thing.shape and self.colour in (None, thing.colour) and self.size in (None, thing.size)


class Claim(NamedTuple):
    """What a sentence claims: that a thing exists, where it is, or its relation to another."""

    first: Noun
    relation: str | None = None
    second: Noun | None = None
    place: str | None = None


class Mentions(NamedTuple):
    """How often each thing of a scene is mentioned, and how many mentioned things the scene does not have."""

    counts: tuple[int, ...]
    num_invented: int


def captions(scene: Scene) -> list[GroundedText]:
    """Return one to five different true sentences; the first describes its things completely."""
    draw = Draw(f"captions {scene.name or scene.key}")
    numbers = range(len(scene.things))
    sentences: dict[str, GroundedText] = {}
    for attempt in range(4 * MOST_CAPTIONS):
        full = attempt == 0 or draw.below(2) == 0
        if len(numbers) > 1:
            first, second = draw.shuffled(numbers)[:2]
            sentence = related(scene, first, second, full)
        else:
            sentence = alone(scene, 0, full, placed=draw.below(3) == 0, there_is=draw.below(2) == 0)
        sentences.setdefault(sentence.text, sentence)
        if len(sentences) == MOST_CAPTIONS:
            break
    return list(sentences.values())


def fixed_caption(scene: Scene) -> GroundedText:
    """Return the sentence that the scene alone determines: the relation of the first thing to the second, in the order
    of their colours and then their shapes; or that the only thing exists. It describes its things completely."""
    first, *rest = sorted(range(len(scene.things)), key=lambda number: rank_of(scene.things[number]))
    return related(scene, first, rest[0], True) if rest else alone(scene, first, True, placed=False, there_is=True)


def rank_of(thing: Thing) -> tuple[int, int]:
    return list(COLOURS).index(thing.colour), SHAPES.index(thing.shape)


def paragraph(scene: Scene, order: Sequence[int] | None = None) -> GroundedText:
    """Return sentences that mention every thing once, with its complete description."""
    sentences = paragraph_sentences(scene, order)
    return GroundedText(
        " ".join(f"{sentence.text} ." for sentence in sentences),
        tuple(word for each in sentences for word in (*each.things, None)),
    )


def paragraph_sentences(scene: Scene, order: Sequence[int] | None = None) -> list[GroundedText]:
    """Return the sentences of a paragraph, in the given order of things, or in a random one."""
    draw = Draw(f"paragraph {scene.name or scene.key}")
    drawn = draw.shuffled(range(len(scene.things)))
    left = drawn if order is None else list(reversed(order))
    sentences = []
    while left:
        if len(left) > 1 and draw.below(2) == 0:
            sentences.append(related(scene, left.pop(), left.pop(), True))
        else:
            sentences.append(alone(scene, left.pop(), True, placed=draw.below(2) == 0, there_is=True))
    return sentences


def phrase_of(thing: Thing) -> str:
    """Describe a thing by what its box shows."""
    return f"a {thing.size} {thing.colour} {thing.shape}"


def related(scene: Scene, first: int, second: int, full: bool) -> GroundedText:
    one, other = scene.things[first], scene.things[second]
    return joined((one, first, full), f"is {relation_of(one, other)}", (other, second, full))


def alone(scene: Scene, number: int, full: bool, *, placed: bool, there_is: bool) -> GroundedText:
    thing = scene.things[number]
    if placed:
        return joined((thing, number, full), f"is {place_of(thing, scene.side)}")
    return joined("there is", (thing, number, full)) if there_is else joined((thing, number, full))


def joined(*parts: str | tuple[Thing, int, bool]) -> GroundedText:
    """Join words that refer to no thing, and descriptions of things with their numbers."""
    words: list[str] = []
    things: list[int | None] = []
    for part in parts:
        if isinstance(part, str):
            words += part.split()
            things += [None] * len(part.split())
        else:
            thing, number, full = part
            description = ([thing.size] if full else []) + [thing.colour, thing.shape]
            words += ["a", *description]
            things += [None, *[number] * len(description)]
    return GroundedText(" ".join(words), tuple(things))


def relation_of(one: Thing, other: Thing) -> str:
    """Return the relation of one thing to another."""
    across, down = one.x - other.x, one.y - other.y
    if abs(across) >= abs(down):
        return "left of" if across < 0 else "right of"
    return "above" if down < 0 else "below"


def place_of(thing: Thing, side: int) -> str:
    """Return the ninth of the picture that contains a thing's centre."""
    return PLACES[min(2, 3 * thing.y // side)][min(2, 3 * thing.x // side)]


def is_true(text: str, scene: Scene) -> bool:
    """Whether a text consists of sentences of the grammar, at least one, and each is true of some things of the
    scene."""
    all_claims = claims(text)
    return all_claims is not None and all(holds(claim, scene) for claim in all_claims)


def holds(claim: Claim, scene: Scene) -> bool:
    if claim.second is None:
        return any(
            claim.first.fits(thing) and claim.place in (None, place_of(thing, scene.side)) for thing in scene.things
        )
    return any(
        claim.first.fits(one) and claim.second.fits(other) and relation_of(one, other) == claim.relation
        for one, other in permutations(scene.things, 2)
    )


def claims(text: str) -> list[Claim] | None:
    """Return what the sentences of a text claim; None if one is not in the grammar, or there is none."""
    parsed = []
    for sentence in re.split(r"[.!?]", text.lower()):
        if words := sentence.split():
            claim = claim_of(words)
            if claim is None:
                return None
            parsed.append(claim)
    return parsed or None


def claim_of(words: list[str]) -> Claim | None:
    there_is = words[:2] == ["there", "is"]
    first, left = noun_at(words[2:] if there_is else words)
    if first is None or (there_is and left):
        return None
    if not left:
        return Claim(first)
    rest = " ".join(left).removeprefix("is ")
    if any(rest == place for row in PLACES for place in row):
        return Claim(first, place=rest)
    for relation in RELATIONS:
        if rest.startswith(f"{relation} "):
            second, left = noun_at(rest.removeprefix(relation).split())
            return Claim(first, relation, second) if second is not None and not left else None
    return None


def noun_at(words: Sequence[str]) -> tuple[Noun | None, list[str]]:
    """Return the thing that the first words describe, and the remaining words."""
    left = list(words)
    if left and left[0] in ARTICLES:
        left.pop(0)
    size = left.pop(0) if left and left[0] in SIZES else None
    colour = left.pop(0) if left and left[0] in COLOURS else None
    if not left or left[0] not in SHAPES:
        return None, left
    return Noun(left.pop(0), colour, size), left


def nouns(text: str) -> Iterator[Noun]:
    """Yield every thing that a text mentions, regardless of its grammar: a shape, and the colour and size right before
    it in either order."""
    return (noun for noun, _ in placed_nouns(re.findall(r"[a-z]+", text.lower())))


def placed_nouns(words: Sequence[str]) -> Iterator[tuple[Noun, range]]:
    """Yield the things that words mention, each with the positions of its words."""
    for place, word in enumerate(words):
        if word in SHAPES:
            before = words[max(0, place - 2) : place]
            near = before if before and before[-1] in {*COLOURS, *SIZES} else []
            colour, size = (next((each for each in near if each in names), None) for names in (COLOURS, SIZES))
            yield Noun(word, colour, size), range(place - (colour is not None) - (size is not None), place + 1)


def ground_text(text: str, scene: Scene) -> GroundedText:
    """Link each word of a text to the thing of the scene that it describes. Words that fit no thing get the number
    after the last; if several things fit, the first is taken."""
    words = text.lower().split()
    things: list[int | None] = [None] * len(words)
    for noun, places in placed_nouns(words):
        fitting = [number for number, thing in enumerate(scene.things) if noun.fits(thing)]
        for place in places:
            things[place] = fitting[0] if fitting else len(scene.things)
    return GroundedText(text, tuple(things))


def objects_mentioned(text: str, scene: Scene) -> Mentions:
    """Count how often a text mentions each thing of a scene. If several things fit a description, it counts for the one
    mentioned least so far, the first of those."""
    counts = [0] * len(scene.things)
    num_invented = 0
    for noun in nouns(text):
        fitting = [number for number, thing in enumerate(scene.things) if noun.fits(thing)]
        if fitting:
            counts[min(fitting, key=lambda number: counts[number])] += 1
        else:
            num_invented += 1
    return Mentions(tuple(counts), num_invented)
