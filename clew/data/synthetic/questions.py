"""Generated passages of facts, and questions on them with known answers, which only the passage gives."""

import random

from clew.core.errors import UserError
from clew.core.memory import check_memory
from clew.data.examples import Answer, Question

FACTS = "facts"
"""The name of the corpus."""
NAMES = ["Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal"]
FACT = {
    "lives in": (
        "Where does {} live?",
        ["Rome", "Oslo", "Lima", "Cairo", "Delhi", "Quito", "Paris", "Kyoto", "New_York", "Cape_Town"],
    ),
    "likes": (
        "What does {} like?",
        ["tea", "jazz", "chess", "rain", "bread", "cats", "maps", "snow", "green_apples", "old_films"],
    ),
    "works as": (
        "What is the work of {}?",
        ["a_baker", "a_judge", "a_pilot", "a_nurse", "a_poet", "a_clerk", "a_diver", "a_farmer"],
    ),
}
UNANSWERABLE = 0.2
"""The share of questions that the passage does not answer."""


def synthetic_questions(size: int, seed: int, shortest: int, longest: int) -> list[Question]:
    """Generate `size` questions, each on its own passage of `shortest` to `longest` facts."""
    if not 1 <= shortest <= longest:
        raise UserError(
            f"the number of facts goes from data.shortest ({shortest}) to data.longest ({longest}); the first must be"
            " at least 1 and at most the second"
        )
    check_memory(2000 * size, f"{size:,} generated questions", "lower data.size")
    draw = random.Random(f"{FACTS} {seed}")
    return [one_question(draw, draw.randint(shortest, longest), number) for number in range(1, size + 1)]


def one_question(draw: random.Random, length: int, number: int) -> Question:
    """Generate one question: Ada lives in Rome. Bo likes tea. Where does Ada live? Rome."""
    known = [(name, relation) for name in NAMES for relation in FACT]
    spare, *facts = draw.sample(known, k=min(length + 1, len(known)))
    topic = spare if draw.random() < UNANSWERABLE else draw.choice(facts)
    passage = ""
    answers: tuple[Answer, ...] = ()
    for name, relation in facts:
        value = draw.choice(FACT[relation][1]).replace("_", " ")
        start = len(passage) + len(f"{name} {relation} ")
        passage += f"{name} {relation} {value}. "
        if (name, relation) == topic:
            answers = (Answer(value, start),)
    return Question(FACT[topic[1]][0].format(topic[0]), passage.rstrip(), answers, f"{FACTS} {number}")
