"""Short versions of the files that documents assume the reader has, and of the corpora below CLEW_DATA."""

import gzip
import json
import struct
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from clew.drawing.png import png
from tests.runs.small import TEXT

SUBJECTS, VERBS, PLACES = (
    ("the dog", "a cat", "my friend", "she"),
    ("runs", "sleeps", "sings"),
    ("at home", "in the garden"),
)


def sentences(subjects: Sequence[str], verbs: Sequence[str], places: Sequence[str]) -> list[str]:
    return [" ".join(words) for words in product(subjects, verbs, places)]


SENTENCES = sentences(SUBJECTS, VERBS, PLACES)
GERMAN = [
    f"{a} {b} {c}"
    for a, b, c in product(
        ("der Hund", "eine Katze", "mein Freund", "sie"), ("läuft", "schläft", "singt"), ("zu Hause", "im Garten")
    )
]
FRENCH = [
    f"{a} {b} {c}"
    for a, b, c in product(
        ("le chien", "un chat", "mon ami", "elle"), ("court", "dort", "chante"), ("ici", "au jardin")
    )
]
WORDS = [
    "the",
    "a",
    "dog",
    "cat",
    "runs",
    "sleeps",
    "sings",
    "king",
    "queen",
    "man",
    "woman",
    "brother",
    "frog",
    "house",
    "garden",
    "water",
    "friend",
    "she",
    "my",
    "at",
    "in",
    "home",
]
TREE = "(S (NP (DT the) (NN {noun})) (VP (VBZ {verb})) (. .))"


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, encoding="utf-8")


def lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], mark: str = ",") -> str:
    return lines(mark.join(map(str, row)) for row in [header, *rows])


def json_lines(rows: Iterable[Any]) -> str:
    return lines(json.dumps(row, ensure_ascii=False) for row in rows)


def conll(words_and_tags: Iterable[Sequence[tuple[str, ...]]]) -> str:
    return "\n".join(lines(" ".join(fields) for fields in sentence) for sentence in words_and_tags) + "\n"


def conllu(sentences: Iterable[str], comment: str = "") -> str:
    """CoNLL-U in which every word depends on the last one, the root."""
    blocks = []
    for number, sentence in enumerate(sentences):
        words = sentence.split()
        rows = [
            f"{place}\t{word}\t{word}\t{'VERB' if place == len(words) else 'NOUN'}"
            f"\t{'VBZ' if place == len(words) else 'NN'}"
            f"\tNumber={'Plur' if (place + number) % 2 else 'Sing'}\t{0 if place == len(words) else len(words)}"
            f"\t{'root' if place == len(words) else 'nsubj'}\t_\t_"
            for place, word in enumerate(words, start=1)
        ]
        blocks.append(lines([f"# s_type = {'decl' if number % 2 else 'wh'}", f"# text = {sentence}", *rows]))
    return "\n".join(blocks) + "\n"


def wav(seed: int = 1, seconds: float = 0.6) -> bytes:
    samples = (8000 * np.sin(np.arange(int(8000 * seconds)) / (3 + seed))).astype("<i2").tobytes()
    size = len(samples)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + size)
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
        + b"data"
        + struct.pack("<I", size)
        + samples
    )


def picture(seed: int = 1, height: int = 48, width: int = 48, grey: bool = False) -> bytes:
    shape = (height, width) if grey else (height, width, 3)
    return png(np.random.default_rng(seed).integers(0, 255, shape, dtype=np.uint8))


def vectors(words: Sequence[str], width: int = 100, seed: int = 1) -> str:
    draw = np.random.default_rng(seed).normal(size=(len(words), width)).round(3)
    return lines(f"{word} {' '.join(map(str, row))}" for word, row in zip(words, draw.tolist(), strict=True))


def squad(answerable: bool) -> str:
    questions = [
        {"id": str(n), "question": f"Where is {name}?", "answers": [{"text": place, "answer_start": len(name) + 8}]}
        for n, (name, place) in enumerate([("Ada", "Rome"), ("Bo", "Oslo"), ("Cleo", "Cairo"), ("Dan", "Lima")])
    ]
    passages = [f"{q['question'][9:-1]} is in {q['answers'][0]['text']}." for q in questions]
    for question, passage in zip(questions, passages, strict=True):
        question["answers"][0]["answer_start"] = passage.index(question["answers"][0]["text"])
        question |= {} if answerable else {"is_impossible": False}
    impossible = [] if answerable else [{"id": "x", "question": "Who wrote it?", "answers": [], "is_impossible": True}]
    paragraphs = [
        {"context": p, "qas": [q, *(impossible if n == 0 else [])]}
        for n, (p, q) in enumerate(zip(passages, questions, strict=True))
    ]
    return json.dumps({"version": "1.1" if answerable else "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]})


def write_own_files(folder: Path) -> None:
    """Write the files that documents assume the reader has."""
    labels = ("good", "bad")
    trees = [
        TREE.format(noun=noun, verb=verb)
        for noun, verb in product(("dog", "cat", "king", "queen", "frog"), ("runs", "sleeps", "sings"))
    ]
    names = [
        [(w, "N" if n else "D", "B-X", "B-PER" if w.istitle() else "O") for n, w in enumerate(f"{name} {s}".split())]
        for name, s in product(("Ada", "Bo"), SENTENCES[:12])
    ]
    stars = [(s, labels[n % 2], n % 3, n % 2) for n, s in enumerate(SENTENCES)]
    for name, content in {
        "book.txt": TEXT * 3 + "the king and his brother saw a man and a woman .\n" * 10,
        "poem.txt": TEXT[:300],
        "plays.txt": TEXT[:600],
        "news.txt": TEXT,
        "code.py": "def f(x):  # a comment\n    return [x, (x, x)]\n" * 20,
        "story.txt": TEXT,
        "report.txt": "The tower was built in 1889. It is in Paris.\n",
        "lines.txt": lines(SENTENCES[:8]),
        "sentences.txt": lines(SENTENCES[:4]),
        "reviews.txt": lines(SENTENCES[:4]),
        "articles.jsonl": json_lines({"text": f"{TEXT[:200]}\n\n{s}", "summary": s} for s in SENTENCES),
        "medicine.jsonl": json_lines({"text": f"{TEXT[:200]}\n\n{s}"} for s in SENTENCES),
        "tickets.csv": table(["body", "queue"], [(s, labels[n % 2]) for n, s in enumerate(SENTENCES)]),
        "more.csv": table(["body", "queue"], [(s, labels[n % 2]) for n, s in enumerate(SENTENCES[:6])]),
        "mine.csv": table(["text", "label"], [(s, labels[n % 2]) for n, s in enumerate(SENTENCES[:6])]),
        "new.csv": table(["body"], [(s,) for s in SENTENCES[:4]]),
        "new.jsonl": json_lines({"message": s} for s in SENTENCES[:4]),
        "letters.csv": table(["body"], [(s,) for s in SENTENCES[:4]]),
        "reviews.csv": table(["body", "text", "review", "label", "stars"], [(s, s, s, b, b) for s, _, _, b in stars]),
        "nli.tsv": table(
            ["premise", "hypothesis", "label"], [(s, s, labels[n % 2]) for n, s in enumerate(SENTENCES)], "\t"
        ),
        "scores.tsv": table(["essay", "score"], [(s, n / 4) for n, s in enumerate(SENTENCES)], "\t"),
        "pairs.tsv": lines(f"{a}\t{b}" for a, b in zip(GERMAN, SENTENCES, strict=True)),
        "pairs.csv": table(["german", "english"], zip(GERMAN, SENTENCES, strict=True)),
        "tasks.jsonl": json_lines({"text": s, "code": f"print({s!r})"} for s in SENTENCES),
        "talk.txt": "\n".join(lines(SENTENCES[n : n + 3]) for n in range(0, 24, 3)),
        **{
            f"{part}.{language}": lines(side[: 24 if part == "train" else 6])
            for part in ("train", "dev", "test")
            for language, side in (("de", GERMAN), ("en", SENTENCES))
        },
        **{f"sentences.{language}": lines(side[:3]) for language, side in (("de", GERMAN), ("en", SENTENCES))},
        **{
            f"corpus/train.{language}": lines(side)
            for language, side in (("de", GERMAN), ("en", SENTENCES), ("fr", FRENCH))
        },
        "corpus/one.txt": TEXT,
        "corpus/two.txt": TEXT * 2,
        **{f"{name}.conll": conll(names) for name in ("names", "train", "dev", "test", "words")},
        "names.txt": conll(names),
        "names.jsonl": json_lines({"tokens": [w for w, *_ in s], "ner_tags": [t for *_, t in s]} for s in names),
        **{f"{name}.conllu": conllu(SENTENCES) for name in ("train", "dev", "test", "corpus", "sentences", "more")},
        "sentence.conllu": conllu(SENTENCES[:1]),
        **{f"{name}.mrg": lines(trees) for name in ("trees", "train", "dev", "test")},
        "trees.txt": lines(trees[:4]),
        "shards/text.jsonl": json_lines({"text": sentence} for sentence in SENTENCES * 20),
        "dump.jsonl": json_lines({"text": sentence} for sentence in SENTENCES * 20),
        "held-out.txt": lines(SENTENCES * 4),
        "sentiment.txt": lines(f"({n % 3} ({n % 2} the) (2 {word}))" for n, word in enumerate(WORDS)),
        "types.csv": table(["tree", "kind"], [(tree, labels[n % 2]) for n, tree in enumerate(trees)]),
        "vectors.txt": vectors(WORDS),
        "glove.6B.100d.txt": vectors(WORDS),
        "glove.6B.100d.txt.gz": gzip.compress(vectors(WORDS).encode()),
        "english.vec": vectors(WORDS, 10),
        "german.vec": vectors([word[::-1] for word in WORDS], 10),
        **{
            f"{name}.json": squad(answerable)
            for name, answerable in (("train-v1.1", True), ("dev-v1.1", True), ("dev-v2.0", False))
        },
        "speech.wav": wav(1),
        "sound.wav": wav(2),
        "three.wav": wav(3),
        **{
            f"recordings/{kind}/{n}.wav": wav(n + 3 * place)
            for place, kind in enumerate(("bell", "horn"))
            for n in range(6)
        },
        "picture.png": picture(1),
        "scene.png": picture(2),
        "line.png": picture(3, 32, 120, grey=True),
        **{
            f"photographs/{kind}/{n}.png": picture(n + place)
            for place, kind in enumerate(("cat", "dog"))
            for n in range(8)
        },
        **{f"pictures/{n}.png": picture(n, 16, 16) for n in range(12)},
        **{f"labels/{n}.png": png((np.arange(256).reshape(16, 16) // 8 % 2).astype(np.uint8)) for n in range(12)},
        "captions.jsonl": json_lines(
            {"image": f"photographs/cat/{n}.png", "captions": ["a cat", "one cat"]} for n in range(8)
        ),
        "pictures.jsonl": json_lines(
            {"image": "picture.png", "boxes": [[4, 2, 20, 18], [24, 8, 44, 28]]} for _ in range(2)
        ),
    }.items():
        write(folder / name, content)


def write_corpora(folder: Path, embedded: Path) -> Path:
    """Write short versions of the corpora below CLEW_DATA, from the starts of the embedded corpora."""
    text = (embedded / "lm" / "tinyshakespeare.txt").read_text(encoding="utf-8").split("\n")
    for number, part in enumerate(("train", "valid", "test")):
        write(
            folder / "ptb" / f"ptb.{part}.txt",
            lines(f" {line.lower()} on monday " for line in text[number * 200 : number * 200 + 200] if line),
        )
    for part in ("train", "val", "test_2016_flickr"):
        for language, side in (("en", SENTENCES), ("de", GERMAN), ("fr", FRENCH), ("cs", FRENCH)):
            write(folder / "multi30k" / f"{part}.{language}", lines(side))
    for part in ("train", "dev", "test"):
        write(folder / "ewt" / f"en_ewt-ud-{part}.conllu", conllu(SENTENCES))
        write(
            folder / "sst-trees" / f"{part}.txt",
            lines(f"({n % 5} ({n % 3} the) (2 {word}))" for n, word in enumerate(WORDS)),
        )
    draw = np.random.default_rng(1)
    for part, count in (("train", 48), ("t10k", 12)):
        for name, array in (
            ("images-idx3", draw.integers(0, 250, (count, 28, 28), dtype=np.uint8)),
            ("labels-idx1", np.arange(count, dtype=np.uint8) % 10),
        ):
            write(
                folder / "fashion-mnist" / f"{part}-{name}-ubyte",
                bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes(),
            )
    for part, count in (("train", 24), ("dev", 6)):
        write(
            folder / "glue" / "RTE" / f"{part}.tsv",
            table(
                ["index", "sentence1", "sentence2", "label"],
                [(n, SENTENCES[n], part + SENTENCES[n], ("entailment", "not_entailment")[n % 2]) for n in range(count)],
                "\t",
            ),
        )
        write(
            folder / "glue" / "MRPC" / f"{part}.tsv",
            table(
                ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
                [(n % 2, n, n, SENTENCES[n], part + SENTENCES[n]) for n in range(count)],
                "\t",
            ),
        )
    return folder
