"""What a described file can be used for: a recipe and the settings that train on it.

Columns are told by their names, else by what is in them: few values that come again are labels, the longest texts are
the text.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from clew.data.described import ColumnDescription, Columns, Use, is_of_numbers
from clew.data.descriptions import MOST_LABELS, Description
from clew.data.formats import FORMATS
from clew.data.formats.tree_files import TREE
from clew.data.readers import OTHER_NAMES

LABELS = (
    *("label", "labels", "category", "class", "sentiment", "intent", "target", "queue", "topic", "tag", "tags", "gold"),
    *("rating", "stars", "score", "similarity"),
)
TEXTS = ("text", "sentence", "review", "document", "body", "content", "message", "tweet", "input", "question")
TARGETS = {"summary": "summarise", "highlights": "summarise", "code": "text-to-code", "program": "text-to-code"}
"""What is made of a text, where a column is called so."""
PAIRS = (("source", "target"), ("src", "tgt"), ("input", "output"), ("question", "answer"), ("prompt", "response"))
TOGETHER = (
    ("premise", "hypothesis"),
    ("text", "second"),
    ("question", "passage"),
    ("question", "sentence"),
    ("query", "document"),
)
"""Columns whose texts are judged together; sentence1 and sentence2, text_a and text_b are too."""
NUMBER = re.compile("1|a$|A$")
NUMBERS = re.compile(r"\[-?\d+(, -?\d+)*\]")
SEPARATORS = ("|", ";", ",")
RUNNING = ("text-lstm", "text-gpt")
"""Recipes that learn from running text."""
LARGE = 10**9
"""Characters of a text that takes long to encode."""
SHORT = 50
"""Records of a file that is too short to have labels many times."""


def find_use(description: Description) -> Use | None:
    """What the file seems to be for; None where nothing fits."""
    use = FORMATS[description.format].use
    if description.num_files is not None and FORMATS[description.format].has_lists:
        found = documents(description, texts_of(description))
    elif use is not None:
        found = use(description.columns, description.examples)
    else:
        columns, texts = description.columns, texts_of(description)
        found = (
            listed_tags(columns)
            or questions(columns)
            or named_pair(columns, texts)
            or labelled(description, texts)
            or two_texts(columns, texts)
            or documents(description, texts)
        )
    if found is not None and has_faults(description, full_columns(found.settings)):
        found.settings["data.faults"] = "skip"
    return found


def full_columns(settings: Mapping[str, str]) -> list[str]:
    """The columns that may not be empty: all but one of several labels, of which a record may have none."""
    several = settings.get("task.labels") == "several"
    return [column for name, column in settings.items() if not (several and name == "data.label")]


def has_faults(description: Description, used: Collection[str]) -> bool:
    """Whether training would refuse a record: a faulty one, or one that lacks what is asked for."""
    return bool(
        description.num_faults or any(column.num_empty and column.name in used for column in description.columns)
    )


def other_uses(description: Description, use: Use | None) -> dict[str, list[Use]]:
    """What else a file can be used for, by what that is: sentences have a label in a comment, a folder has
    documents."""
    masked = [] if use is None or description.num_files is None else [Use("text-bert", use.settings)]
    found = {
        "to label whole sentences as a comment does": comment_uses(description),
        "to learn to fill in words, as BERT does": masked,
        "without encoding so large a text before training begins": streamed(description, use),
    }
    return {why: uses for why, uses in found.items() if uses and description.stopped is None}


def streamed(description: Description, use: Use | None) -> list[Use]:
    """A large text as a stream."""
    lengths = [column.characters.mean * description.num_records for column in description.columns]
    is_large = use is not None and use.recipe in RUNNING and max(lengths, default=0.0) >= LARGE
    return [Use(use.recipe, {**use.settings, "data.stream": "true"})] if use is not None and is_large else []


def comment_uses(description: Description) -> list[Use]:
    """Trees with a label that a comment tells, where the words have heads."""
    columns = description.columns
    if any(column.name == "head" and column.is_blank for column in columns):
        return []
    faults = {"data.faults": "skip"} if description.num_faults else {}
    return [Use("classify-trees", {"data.label": column.name, **faults}) for column in columns if column.is_comment]


def listed_tags(columns: Columns) -> Use | None:
    """Two lists that are as long in every record."""
    lists = [column for column in columns if column.is_list]
    words = called(lists, ("words", "tokens")) or next((column for column in lists if column.labels is None), None)
    tags = [column for column in lists if words is not None and column is not words and column.words == words.words]
    if words is None or not tags:
        return None
    return Use(
        "tag",
        {"data.words": words.name, "data.tags": (called(tags, ("tags", "ner_tags", "pos_tags")) or tags[-1]).name},
    )


def numbers_for_tags(description: Description) -> str | None:
    """A column of JSON lines with a list of numbers for each list of words."""
    if not any(column.is_list for column in description.columns):
        return None
    names = (column.name for column in description.columns)
    return next(
        (name for name in names if all(NUMBERS.fullmatch(fields.get(name, "")) for _, fields in description.examples)),
        None,
    )


def questions(columns: Columns) -> Use | None:
    """A question, its passage and its answer, in columns that are called so."""
    roles = {role: called(columns, (role, *OTHER_NAMES.get(role, ()))) for role in ("question", "passage", "answer")}
    if any(column is None for column in roles.values()):
        return None
    named = {
        f"data.{role}": column.name for role, column in roles.items() if column is not None and column.name != role
    }
    return Use(
        "answer", {**{name: column for name, column in named.items() if name != "data.answer"}, "transfer.from": "RUN"}
    )


def named_pair(columns: Columns, texts: Columns) -> Use | None:
    """Two columns that are called like a text and what is made of it."""
    for name, recipe in TARGETS.items():
        target = called(columns, [name])
        sources = [column for column in texts if column is not target]
        if target is not None and sources:
            return Use(recipe, {"data.source": sources[0].name, "data.target": target.name})
    for names in PAIRS:
        source, target = (called(columns, [name]) for name in names)
        if source is not None and target is not None and target.labels is None:
            return Use("translate", {"data.source": source.name, "data.target": target.name})
    return None


def labelled(description: Description, texts: Columns) -> Use | None:
    """A text, or two together, and a label."""
    labels = find_labels(description, texts[:1])
    label = labels[0] if labels else None
    texts = [column for column in texts if column is not label]
    if label is None or not texts or label.num_different < 2:
        return None
    both = judged_together(texts)
    if both is None and label.is_score and len(texts) == 2:  # how alike they are, or how well the one follows
        first, second_text = sorted(texts, key=description.columns.index)
        both = first, second_text
    text = both[0] if both else called(texts, TEXTS) or texts[0]
    second = {"data.second": both[1].name} if both else {}
    settings = {"data.text": text.name, **second, "data.label": label.name}
    other_labels = tuple(column.name for column in labels if column.name not in settings.values())
    if is_of_trees(description, text.name):
        return Use("classify-trees", {**settings, "task.phrases": "true"}, other_labels)
    if (separator := find_separator(label.labels or ())) is not None:
        settings["data.label_separator"] = separator
    if separator is not None or label.is_list:
        settings["task.labels"] = "several"
    elif label.is_score or (
        is_of_numbers(description.examples, label.name) and label.labels is None and label.num_different > MOST_LABELS
    ):
        settings["task.labels"] = "number"
    return Use("classify", settings, other_labels)


def documents(description: Description, texts: Columns) -> Use | None:
    """JSON lines with a text and nothing to tell of it: a document each."""
    if (
        not FORMATS[description.format].has_lists
        or not texts
        or lone_label(description) is not None
        or numbers_for_tags(description) is not None
    ):
        return None
    text = called(texts, TEXTS) or texts[0]
    return Use("text-gpt", {} if text.name == "text" else {"data.text": text.name})


def two_texts(columns: Columns, texts: Columns) -> Use | None:
    """Just two columns of texts, the first being the source."""
    if len(texts) != 2:
        return None
    source, target = sorted(texts, key=columns.index)
    return Use("translate", {"data.source": source.name, "data.target": target.name})


def texts_of(description: Description) -> list[ColumnDescription]:
    """Columns that hold texts, the longest first; where none has several words, those of single ones."""
    able = [column for column in description.columns if not column.is_list and column.num_different > 1]
    able = [column for column in able if not is_of_numbers(description.examples, column.name)]
    texts = [column for column in able if column.words.max > 1] or [column for column in able if column.labels is None]
    return sorted(texts, key=lambda column: (-column.words.mean, -column.characters.mean))


def find_labels(description: Description, text: Columns) -> list[ColumnDescription]:
    """Columns that may be the label, the likeliest first: the one that is called like one, then those of few values, or
    in a short file of values that come again; of these words before numbers, columns that are never empty before
    others, and the last before the first."""
    others = [column for column in description.columns if column not in text]
    several = [column for column in others if column.num_different > 1]
    few = [column for column in several if column.labels is not None or column.is_score]
    if not few and description.num_records < SHORT:
        few = [column for column in several if column.num_different < description.num_records and column.words.max <= 3]
    few.reverse()
    few.sort(key=lambda column: (is_of_numbers(description.examples, column.name), column.num_empty > 0))
    named = called(others, LABELS)
    return few if named is None else [named, *(column for column in few if column is not named)]


def lone_label(description: Description) -> tuple[str, str] | None:
    """A column that would be the label of a text, had it more than one value; and that value."""
    if not texts_of(description):
        return None
    alone = [
        column
        for column in description.columns
        if column.num_different == 1 and column.name in description.examples[0][1]
    ]
    column = called(alone, LABELS) or next(iter(alone), None)
    return None if column is None else (column.name, description.examples[0][1][column.name])


def judged_together(texts: Columns) -> tuple[ColumnDescription, ColumnDescription] | None:
    """Premise and hypothesis, sentence1 and sentence2."""
    for names in TOGETHER:
        first, second = (called(texts, [name]) for name in names)
        if first is not None and second is not None:
            return first, second
    for one in texts:
        next_name = NUMBER.sub(lambda found: chr(ord(found[0]) + 1), one.name)
        other = called([column for column in texts if column is not one], [next_name.lower()])
        if other is not None and not one.name.isdigit():
            return one, other
    return None


def find_separator(labels: Iterable[str]) -> str | None:
    """What parts several labels in one field: fewer are left when they are parted."""
    whole = {label for label in labels if label}
    for separator in SEPARATORS:
        parts = {part.strip() for label in whole for part in label.split(separator) if part.strip()}
        if any(separator in label for label in whole) and len(parts) < len(whole):
            return separator
    return None


def called(columns: Columns, names: Sequence[str]) -> ColumnDescription | None:
    """The column with the first of these names that there is."""
    return next((column for name in names for column in columns if column.name.lower() == name), None)


def is_of_trees(description: Description, name: str) -> bool:
    """Whether every example has a bracketed tree there."""
    return all(TREE.match(fields.get(name, "")) for _, fields in description.examples)
