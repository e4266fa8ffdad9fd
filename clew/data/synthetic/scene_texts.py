"""What is said of a scene: captions, a paragraph, and the thing that each word speaks of; and whether what is said is
true.

    sentence = ["there is"] thing | thing "is" relation thing | thing "is" place
    thing    = "a" [size] [colour] shape
    relation = "left of" | "right of" | "above" | "below"

Two things have one relation each way: they are beside each other where their centres are further apart across than
down. A text is of words with spaces between; sentences of a paragraph end with " ."
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


class Told(NamedTuple):
    """A text, and for each of its words, which are parted by spaces, the thing it describes, by its number from 0; None
    of others."""

    text: str
    things: tuple[int | None, ...]

    @property
    def words(self) -> list[str]:
        return self.text.split()


class Noun(NamedTuple):
    """What is said of a thing; None where nothing is."""

    shape: str
    colour: str | None = None
    size: str | None = None

    def fits(self, thing: Thing) -> bool:
        return self.shape == thing.shape and self.colour in (None, thing.colour) and self.size in (None, thing.size)


class Claim(NamedTuple):
    """What a sentence says: that a thing is there, where it is, or how it stands to another."""

    first: Noun
    relation: str | None = None
    second: Noun | None = None
    place: str | None = None


class Mentions(NamedTuple):
    """How often each thing of a scene is spoken of; and how many things are spoken of that the scene does not have."""

    counts: tuple[int, ...]
    others: int

    @property
    def num_covered(self) -> int:
        return sum(count > 0 for count in self.counts)


def captions(scene: Scene) -> list[Told]:
    """One to five different sentences, all true; the first says everything of the things it speaks of."""
    draw = Draw(f"captions {scene.name or scene.key}")
    numbers = range(len(scene.things))
    told: dict[str, Told] = {}
    for attempt in range(4 * MOST_CAPTIONS):
        full = attempt == 0 or draw.below(2) == 0
        if len(numbers) > 1:
            first, second = draw.shuffled(numbers)[:2]
            found = related(scene, first, second, full)
        else:
            found = alone(scene, 0, full, placed=draw.below(3) == 0, there_is=draw.below(2) == 0)
        told.setdefault(found.text, found)
        if len(told) == MOST_CAPTIONS:
            break
    return list(told.values())


def fixed_caption(scene: Scene) -> Told:
    """The sentence that what is shown decides alone: how the first thing stands to the second, by the order of their
    colours and then of their shapes; or that the only one is there. It says everything of the things it speaks of."""
    first, *others = sorted(range(len(scene.things)), key=lambda number: rank_of(scene.things[number]))
    return related(scene, first, others[0], True) if others else alone(scene, first, True, placed=False, there_is=True)


def rank_of(thing: Thing) -> tuple[int, int]:
    return list(COLOURS).index(thing.colour), SHAPES.index(thing.shape)


def paragraph(scene: Scene, order: Sequence[int] | None = None) -> Told:
    """Sentences that speak of every thing once, with all that can be said of it."""
    sentences = paragraph_sentences(scene, order)
    return Told(
        " ".join(f"{sentence.text} ." for sentence in sentences),
        tuple(word for each in sentences for word in (*each.things, None)),
    )


def paragraph_sentences(scene: Scene, order: Sequence[int] | None = None) -> list[Told]:
    """The same one by one, in an order of things, or in one that is drawn."""
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
    """What may be said of a thing without looking beyond its box."""
    return f"a {thing.size} {thing.colour} {thing.shape}"


def related(scene: Scene, first: int, second: int, full: bool) -> Told:
    one, other = scene.things[first], scene.things[second]
    return joined((one, first, full), f"is {relation_of(one, other)}", (other, second, full))


def alone(scene: Scene, number: int, full: bool, *, placed: bool, there_is: bool) -> Told:
    thing = scene.things[number]
    if placed:
        return joined((thing, number, full), f"is {place_of(thing, scene.side)}")
    return joined("there is", (thing, number, full)) if there_is else joined((thing, number, full))


def joined(*parts: str | tuple[Thing, int, bool]) -> Told:
    """Words that speak of no thing, and descriptions of things with their numbers."""
    words: list[str] = []
    things: list[int | None] = []
    for part in parts:
        if isinstance(part, str):
            words += part.split()
            things += [None] * len(part.split())
        else:
            thing, number, full = part
            said = ([thing.size] if full else []) + [thing.colour, thing.shape]
            words += ["a", *said]
            things += [None, *[number] * len(said)]
    return Told(" ".join(words), tuple(things))


def relation_of(one: Thing, other: Thing) -> str:
    """How one thing stands to another."""
    across, down = one.x - other.x, one.y - other.y
    if abs(across) >= abs(down):
        return "left of" if across < 0 else "right of"
    return "above" if down < 0 else "below"


def place_of(thing: Thing, side: int) -> str:
    """In which ninth of the picture a thing's centre is."""
    return PLACES[min(2, 3 * thing.y // side)][min(2, 3 * thing.x // side)]


def is_true(text: str, scene: Scene) -> bool:
    """Whether a text is of sentences of the grammar, one at least, and each is true of some things of the scene."""
    found = claims(text)
    return found is not None and all(holds(claim, scene) for claim in found)


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
    """What the sentences of a text say; None where one is not of the grammar, or there is none."""
    found = []
    for sentence in re.split(r"[.!?]", text.lower()):
        if words := sentence.split():
            claim = claim_of(words)
            if claim is None:
                return None
            found.append(claim)
    return found or None


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
    """The thing that the first words describe, and the words behind it."""
    left = list(words)
    if left and left[0] in ARTICLES:
        left.pop(0)
    size = left.pop(0) if left and left[0] in SIZES else None
    colour = left.pop(0) if left and left[0] in COLOURS else None
    if not left or left[0] not in SHAPES:
        return None, left
    return Noun(left.pop(0), colour, size), left


def nouns(text: str) -> Iterator[Noun]:
    """Every thing that a text speaks of, whatever its grammar: a shape, and the colour and size right before it in
    either order."""
    return (noun for noun, _ in placed_nouns(re.findall(r"[a-z]+", text.lower())))


def placed_nouns(words: Sequence[str]) -> Iterator[tuple[Noun, range]]:
    """The same of words, and which of the words each is made of."""
    for place, word in enumerate(words):
        if word in SHAPES:
            before = words[max(0, place - 2) : place]
            near = before if before and before[-1] in {*COLOURS, *SIZES} else []
            colour, size = (next((each for each in near if each in names), None) for names in (COLOURS, SIZES))
            yield Noun(word, colour, size), range(place - (colour is not None) - (size is not None), place + 1)


def told_of(text: str, scene: Scene) -> Told:
    """A text with the thing of the scene that each word describes. Words that fit no thing have the number behind the
    last; where several fit, it is the first."""
    words = text.lower().split()
    things: list[int | None] = [None] * len(words)
    for noun, places in placed_nouns(words):
        fitting = [number for number, thing in enumerate(scene.things) if noun.fits(thing)]
        for place in places:
            things[place] = fitting[0] if fitting else len(scene.things)
    return Told(text, tuple(things))


def objects_mentioned(text: str, scene: Scene) -> Mentions:
    """How often a text speaks of each thing of a scene. Where several things fit a description, it is of the one that
    was spoken of least, the first of those."""
    counts = [0] * len(scene.things)
    others = 0
    for noun in nouns(text):
        fitting = [number for number, thing in enumerate(scene.things) if noun.fits(thing)]
        if fitting:
            counts[min(fitting, key=lambda number: counts[number])] += 1
        else:
            others += 1
    return Mentions(tuple(counts), others)
