"""Guess what a described file can be used for: a recipe and the settings that train on it.

Columns are recognised by their names, else by their contents: few values that repeat are labels, and the column with
the longest texts is the text.
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
"""Names of columns that hold what is made of a text, with the recipe."""
PAIRS = (("source", "target"), ("src", "tgt"), ("input", "output"), ("question", "answer"), ("prompt", "response"))
TOGETHER = (
    ("premise", "hypothesis"),
    ("text", "second"),
    ("question", "passage"),
    ("question", "sentence"),
    ("query", "document"),
)
"""Columns whose texts are judged together, besides sentence1 and sentence2, or text_a and text_b."""
NUMBER = re.compile("1|a$|A$")
NUMBERS = re.compile(r"\[-?\d+(, -?\d+)*\]")
SEPARATORS = ("|", ";", ",")
RUNNING = ("text-lstm", "text-gpt")
"""Recipes that train on running text."""
LARGE = 10**9
"""A text of this many characters takes long to encode."""
SHORT = 50
"""In a file of fewer records, each label may be rare."""


def guess_use(description: Description) -> Use | None:
    """Return what the file seems to be for; None if nothing fits."""
    use = FORMATS[description.format].use
    if description.num_files is not None and FORMATS[description.format].has_lists:
        guess = documents(description, texts_of(description))
    elif use is not None:
        guess = use(description.columns, description.examples)
    else:
        columns, texts = description.columns, texts_of(description)
        guess = (
            listed_tags(columns)
            or questions(columns)
            or named_pair(columns, texts)
            or labelled(description, texts)
            or two_texts(columns, texts)
            or documents(description, texts)
        )
    if guess is not None and has_faults(description, required_columns(guess.settings)):
        guess.settings["data.faults"] = "skip"
    return guess


def required_columns(settings: Mapping[str, str]) -> list[str]:
    """The columns that may not be empty: all except a column of several labels, of which a record may have none."""
    several = settings.get("task.labels") == "several"
    return [column for name, column in settings.items() if not (several and name == "data.label")]


def has_faults(description: Description, used: Collection[str]) -> bool:
    """Whether training would refuse a record: a faulty one, or one with an empty required field."""
    return bool(
        description.num_faults or any(column.num_empty and column.name in used for column in description.columns)
    )


def other_uses(description: Description, use: Use | None) -> dict[str, list[Use]]:
    """Return other uses of a file by their purpose: labels in the comments on sentences, documents in a folder, a large
    text as a stream."""
    masked = [] if use is None or description.num_files is None else [Use("text-bert", use.settings)]
    uses_by_purpose = {
        "to label whole sentences as a comment does": comment_uses(description),
        "to learn to fill in words, as BERT does": masked,
        "without encoding so large a text before training begins": streamed(description, use),
    }
    return {purpose: uses for purpose, uses in uses_by_purpose.items() if uses and description.stopped is None}


def streamed(description: Description, use: Use | None) -> list[Use]:
    """Train on a large text as a stream."""
    lengths = [column.characters.mean * description.num_records for column in description.columns]
    is_large = use is not None and use.recipe in RUNNING and max(lengths, default=0.0) >= LARGE
    return [Use(use.recipe, {**use.settings, "data.stream": "true"})] if use is not None and is_large else []


def comment_uses(description: Description) -> list[Use]:
    """Train on trees with a label from a comment, if the words have heads."""
    columns = description.columns
    if any(column.name == "head" and column.is_blank for column in columns):
        return []
    faults = {"data.faults": "skip"} if description.num_faults else {}
    return [Use("classify-trees", {"data.label": column.name, **faults}) for column in columns if column.is_comment]


def listed_tags(columns: Columns) -> Use | None:
    """Two lists of equal length in every record: words and their tags."""
    lists = [column for column in columns if column.is_list]
    unlabelled = (column for column in lists if column.labels is None)
    words = column_named(lists, ("words", "tokens")) or next(unlabelled, None)
    tags = [column for column in lists if words is not None and column is not words and column.words == words.words]
    if words is None or not tags:
        return None
    tag_column = column_named(tags, ("tags", "ner_tags", "pos_tags")) or tags[-1]
    return Use("tag", {"data.words": words.name, "data.tags": tag_column.name})


def numbers_for_tags(description: Description) -> str | None:
    """Return a column of JSON lines with a list of numbers for each list of words."""
    if not any(column.is_list for column in description.columns):
        return None
    names = (column.name for column in description.columns)
    return next(
        (name for name in names if all(NUMBERS.fullmatch(fields.get(name, "")) for _, fields in description.examples)),
        None,
    )


def questions(columns: Columns) -> Use | None:
    """A question, its passage and its answer, in columns with these names."""
    names = {role: (role, *OTHER_NAMES.get(role, ())) for role in ("question", "passage", "answer")}
    roles = {role: column_named(columns, names[role]) for role in names}
    if any(column is None for column in roles.values()):
        return None
    named = {
        f"data.{role}": column.name for role, column in roles.items() if column is not None and column.name != role
    }
    return Use(
        "answer", {**{name: column for name, column in named.items() if name != "data.answer"}, "transfer.from": "RUN"}
    )


def named_pair(columns: Columns, texts: Columns) -> Use | None:
    """Two columns with the names of a text and of what is made of it."""
    for name, recipe in TARGETS.items():
        target = column_named(columns, [name])
        sources = [column for column in texts if column is not target]
        if target is not None and sources:
            return Use(recipe, {"data.source": sources[0].name, "data.target": target.name})
    for names in PAIRS:
        source, target = (column_named(columns, [name]) for name in names)
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
    if both is None and label.is_score and len(texts) == 2:  # similarity, or entailment
        first, second_text = sorted(texts, key=description.columns.index)
        both = first, second_text
    text = both[0] if both else column_named(texts, TEXTS) or texts[0]
    second = {"data.second": both[1].name} if both else {}
    settings = {"data.text": text.name, **second, "data.label": label.name}
    other_labels = tuple(column.name for column in labels if column.name not in settings.values())
    if holds_trees(description, text.name):
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
    """JSON lines with a text and no label: each is a document."""
    if (
        not FORMATS[description.format].has_lists
        or not texts
        or lone_label(description) is not None
        or numbers_for_tags(description) is not None
    ):
        return None
    text = column_named(texts, TEXTS) or texts[0]
    return Use("text-gpt", {} if text.name == "text" else {"data.text": text.name})


def two_texts(columns: Columns, texts: Columns) -> Use | None:
    """Exactly two columns of texts; the first is the source."""
    if len(texts) != 2:
        return None
    source, target = sorted(texts, key=columns.index)
    return Use("translate", {"data.source": source.name, "data.target": target.name})


def texts_of(description: Description) -> list[ColumnDescription]:
    """The columns that hold texts, the longest first. If none has several words, those of single words."""
    able = [column for column in description.columns if not column.is_list and column.num_different > 1]
    able = [column for column in able if not is_of_numbers(description.examples, column.name)]
    texts = [column for column in able if column.words.max > 1] or [column for column in able if column.labels is None]
    return sorted(texts, key=lambda column: (-column.words.mean, -column.characters.mean))


def find_labels(description: Description, text: Columns) -> list[ColumnDescription]:
    """The columns that could be the label, the likeliest first: the one with the name of a label, then those of few
    values, or in a short file of values that repeat. Among these, words come before numbers, columns that are never
    empty before others, and the last before the first."""
    other_columns = [column for column in description.columns if column not in text]
    several = [column for column in other_columns if column.num_different > 1]
    few = [column for column in several if column.labels is not None or column.is_score]
    if not few and description.num_records < SHORT:
        few = [column for column in several if column.num_different < description.num_records and column.words.max <= 3]
    few.reverse()
    few.sort(key=lambda column: (is_of_numbers(description.examples, column.name), column.num_empty > 0))
    named = column_named(other_columns, LABELS)
    return few if named is None else [named, *(column for column in few if column is not named)]


def lone_label(description: Description) -> tuple[str, str] | None:
    """Return a column that would be the label of a text if it had more than one value, and that value."""
    if not texts_of(description):
        return None
    alone = [
        column
        for column in description.columns
        if column.num_different == 1 and column.name in description.examples[0][1]
    ]
    column = column_named(alone, LABELS) or next(iter(alone), None)
    return None if column is None else (column.name, description.examples[0][1][column.name])


def judged_together(texts: Columns) -> tuple[ColumnDescription, ColumnDescription] | None:
    """Return two columns that are judged together: premise and hypothesis, sentence1 and sentence2."""
    for names in TOGETHER:
        first, second = (column_named(texts, [name]) for name in names)
        if first is not None and second is not None:
            return first, second
    for one in texts:
        next_name = NUMBER.sub(lambda match: chr(ord(match[0]) + 1), one.name)
        other = column_named([column for column in texts if column is not one], [next_name.lower()])
        if other is not None and not one.name.isdigit():
            return one, other
    return None


def find_separator(labels: Iterable[str]) -> str | None:
    """Return what separates several labels in one field: splitting by it must leave fewer labels."""
    whole = {label for label in labels if label}
    for separator in SEPARATORS:
        parts = {part.strip() for label in whole for part in label.split(separator) if part.strip()}
        if any(separator in label for label in whole) and len(parts) < len(whole):
            return separator
    return None


def column_named(columns: Columns, names: Sequence[str]) -> ColumnDescription | None:
    """Return the column with the first of these names that exists."""
    return next((column for name in names for column in columns if column.name.lower() == name), None)


def holds_trees(description: Description, name: str) -> bool:
    """Whether every example has a bracketed tree in a column."""
    return all(TREE.match(fields.get(name, "")) for _, fields in description.examples)
