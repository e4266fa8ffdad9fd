"""Fuzzed data files: files and folders of arbitrary bytes, some of which change while they are read. Every tokenizer is
trained on them, and one training step is run."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.faults.trials import Fault, Result, Runner, run_in_child, run_trials
from clew.core.errors import UserError, printable
from clew.data.caching.encoded import encode_corpus
from clew.data.files.text_files import Piece, TextSource
from clew.data.kinds.text import TextData, find_texts
from clew.data.plans import stream_plan, window_plan
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.runs.build import train_tokenizer
from clew.runs.config import TextConfig, TrainingConfig
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.tasks.learning import Encoding
from clew.tasks.learnings.streams import Streams
from clew.text.tokenizer import Tokenizer
from clew.text.train import TOKENIZERS

SETTING = re.compile(r"\b(data|text|training)\.\w+")
BATCH, LENGTH = 2, 4
EXACT = ("character", "bpe", "unigram")

Chunk = tuple[bytes, int]
"""Bytes, and how often they are repeated."""


@dataclass(frozen=True)
class Case:
    """Files by name, each a sequence of chunks or a kind of odd file; the text settings; and the event that changes the
    training file, with the step after which it happens."""

    files: tuple[tuple[bytes, tuple[Chunk, ...] | str], ...]
    whole_folder: bool
    text: dict[str, Any] = field(default_factory=dict)
    batching: str = "windows"
    event: str = ""
    after: str = ""


def run(count: int, seed: int, runner: Runner = run_in_child) -> Result:
    return run_trials(Fault("fuzzed data files", draw, attempt, describe, smaller, seconds=30.0), count, seed, runner)


def attempt(case: Case) -> str:
    folder = Path(tempfile.mkdtemp(prefix="clew-texts-"))
    try:
        write(case, folder / "texts")
        return learn(case, folder)
    except UserError as error:
        names = [folder / "texts", *(Path(os.fsdecode(name)) for name, _ in case.files)]
        names_cause = SETTING.search(str(error)) or any(printable(str(name)) in str(error) for name in names)
        assert names_cause, "a message that names neither the file nor a setting"
        raise
    finally:
        shutil.rmtree(folder)


def learn(case: Case, folder: Path) -> str:
    """Find the texts, train a tokenizer, encode, plan batches, and take one training step."""
    path = train_path(case, folder / "texts")

    def after_step(step: str) -> None:
        if case.after == step:
            change(case.event, path)

    texts: dict[str, Any] = find_texts(TextData(train=str(path), valid_fraction=0.2))
    after_step("finding")
    source = CountedText(texts["train"], after_step)
    tokenizer = train_tokenizer(TextConfig(**case.text), source)
    after_step("training")
    task = LanguageModel(build_recurrent(RecurrentConfig(cell="elman", dim=2), Tokens(tokenizer.vocabulary)), tokenizer)
    try:
        parts = {**texts, "train": source}
        encoded = {
            name: Streams().encode(task, part, Encoding(name, TrainingConfig(), cache=folder / "cache"))
            for name, part in parts.items()
        }
    finally:
        if case.event:
            check_cache(case, folder, tokenizer)
    tokens = np.asarray(encoded["train"].tokens)
    if not case.event:
        check_exact(case, tokenizer, texts["train"], tokens)
    if case.batching == "streams":
        batch = stream_plan(len(tokens), BATCH, LENGTH).batch(tokens, 0)
    else:
        batch = window_plan(len(tokens), LENGTH, BATCH, 1, 0).batch(tokens, 0)
    terms, _ = task(batch)
    terms["loss"].sum.backward()
    return "trained on"


def check_exact(case: Case, tokenizer: Tokenizer, source: TextSource, tokens: Any) -> None:
    """Check that decoding returns the text, for the kinds of tokenizer that guarantee it."""
    if len(case.files) > 1 or case.text["lowercase"] or tokenizer.kind not in EXACT:
        return
    if tokenizer.unknown is None or tokenizer.unknown not in tokens:
        assert tokenizer.decode(tokens.tolist()) == "".join(source), "decoding does not return the text"


def check_cache(case: Case, folder: Path, tokenizer: Tokenizer) -> None:
    """Check that after the event the cache does not return the tokens of another text for the original one."""
    shutil.rmtree(folder / "texts")
    write(case, folder / "texts")
    source = find_texts(TextData(train=str(train_path(case, folder / "texts")), valid_fraction=0.2))["train"]
    cached, fresh = (encode_corpus(source, tokenizer, folder / name) for name in ("cache", "fresh"))
    assert np.array_equal(cached.tokens, fresh.tokens), "the cache has the tokens of another text"


class CountedText:
    """A text that counts how often it is read, and calls `after_step` after the first piece of each reading."""

    def __init__(self, text: TextSource, after_step: Callable[[str], None]):
        self.text, self.after_step, self.readings = text, after_step, 0

    def pieces(self) -> Iterator[Piece]:
        self.readings += 1
        for number, piece in enumerate(self.text.pieces()):
            yield piece
            if not number:
                self.after_step(f"the start of reading {self.readings}")

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def __str__(self) -> str:
        return str(self.text)


def write(case: Case, folder: Path) -> None:
    folder.mkdir()
    for name, content in case.files:
        path = folder / os.fsdecode(name)
        if isinstance(content, str):
            make_odd(content, path)
        else:
            path.write_bytes(b"".join(unit * times for unit, times in content))


def train_path(case: Case, folder: Path) -> Path:
    return folder if case.whole_folder else folder / os.fsdecode(case.files[0][0])


def make_odd(kind: str, path: Path) -> None:
    if kind == "loop":
        path.symlink_to(path)
    elif kind == "parent":
        path.symlink_to(path.parent)
    elif kind == "dangling":
        path.symlink_to(path.with_name("nowhere"))
    elif kind == "unreadable":
        path.symlink_to("/proc/self/mem")  # unreadable even for root
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        assert kind == "missing"


def change(event: str, path: Path) -> None:
    """Apply an event to the training file, in place if possible, so that a process that has it open is affected too."""
    path = next(iter(sorted(path.iterdir())), path) if path.is_dir() else path
    if not path.is_file() or path.is_symlink():
        return
    content = path.read_bytes()
    middle = len(content) // 2
    changed = {
        "grows": content + b"another line, with $ and \xc3\xa9 in it\n" * 50,
        "shrinks": content[:middle],
        "is emptied": b"",
        "is corrupted": content[:middle] + b"\xff\n" + content[middle:],
        "is rewritten": bytes(reversed(content.decode("ascii", "ignore").encode())) or b"new",
    }
    if event in changed:
        path.write_bytes(changed[event])
        return
    path.unlink()
    if event != "vanishes":
        make_odd(event, path)


def describe(case: Case) -> str:
    files = {
        os.fsdecode(name): content if isinstance(content, str) else " + ".join(show(chunk) for chunk in content)
        for name, content in case.files
    }
    kind = "the folder of" if case.whole_folder else "a file"
    event = f", which {case.event} after {case.after}" if case.event else ""
    settings = ", ".join(f"{name}={value}" for name, value in case.text.items())
    text = f"{kind} {files}{event}; {settings}; {case.batching}"
    return printable(text if len(text) < 1000 else f"{text[:700]} ... ({len(text):,} characters)")


def show(chunk: Chunk) -> str:
    unit, times = chunk
    return repr(unit) + (f" * {times}" if times > 1 else "")


def smaller(case: Case) -> Iterator[Case]:
    if len(case.files) > 1:
        for number in range(len(case.files)):
            yield replace(case, files=case.files[:number] + case.files[number + 1 :])
    if case.event:
        yield replace(case, event="", after="")
    for number, (name, content) in enumerate(case.files):
        for chunks in fewer_chunks(content) if isinstance(content, tuple) else ():
            yield replace(case, files=(*case.files[:number], (name, chunks), *case.files[number + 1 :]))
        if name != b"a.txt":
            yield replace(case, files=(*case.files[:number], (b"a.txt", content), *case.files[number + 1 :]))
    for name, default in (("size", None), ("min_count", 1), ("lowercase", False)):
        if case.text[name] != default:
            yield replace(case, text={**case.text, name: default})


def fewer_chunks(content: tuple[Chunk, ...]) -> Iterator[tuple[Chunk, ...]]:
    for number, (unit, times) in enumerate(content):
        before, after = content[:number], content[number + 1 :]
        yield (*before, *after)
        if times > 1:
            yield (*before, (unit, times // 2), *after)
        elif len(unit) > 1:
            yield (*before, (unit[: len(unit) // 2], 1), *after)
            yield (*before, (unit[len(unit) // 2 :], 1), *after)


def draw(random: Random) -> Case:
    whole_folder = random.random() < 0.25
    number = random.randint(1, 4) if whole_folder else 1
    files = tuple((file_name(random), content(random)) for _ in range(number))
    kind = random.choice(list(TOKENIZERS))
    size = random.choice([1, 2, 3, 10]) if random.random() < 0.1 else random.choice([None, 300, 600, 1000])
    text = {
        "tokenizer": kind,
        "size": size,
        "min_count": random.choice([1, 1, 1, 2, 5]) if kind != "unigram" or random.random() < 0.1 else 1,
        "lowercase": random.random() < 0.3,
    }
    event = random.choice(EVENTS) if random.random() < 0.25 else ""
    after = random.choice(["finding", "training", f"the start of reading {random.randint(1, 6)}"]) if event else ""
    return Case(tuple(dict(files).items()), whole_folder, text, random.choice(["streams", "windows"]), event, after)


EVENTS = [
    "vanishes",
    "shrinks",
    "is rewritten",
    "grows",
    "shrinks",
    "is emptied",
    "is corrupted",
    "is rewritten",
    "folder",
    "unreadable",
    "loop",
    "fifo",
]
NAMES = [
    b"a.txt",
    b"b.txt",
    b"c.md",
    b".hidden.txt",
    b"caf\xe9.txt",
    "é日本🧵.txt".encode(),
    b"a\nb.txt",
    b"\x1b[31m.txt",
    b" .txt",
    b"-rf.txt",
]
NAMES += [
    "e\u0301.txt".encode(),
    b"x" * 120 + b".txt",
    b"a b.txt",
    b"'\".txt",
    b"%s{}.txt",
    b"text",
    b"~.txt",
    b"*.txt",
    b"\xff\xfe.txt",
    b"z.TXT",
]
ODD = ["loop", "parent", "dangling", "unreadable", "fifo", "device", "folder", "missing"]
WORDS = b"the cat sat on the mat and the dog sat on the log\n"
TEXTS = [
    *[
        WORDS,
        b"a",
        b"ab ",
        b"\n",
        b" ",
        b"\t",
        b"\r\n",
        b"\r",
        b"\x0b\x0c\x1c\x1d\x1e",
        "\u2028\u2029\u0085".encode(),
        b"\xef\xbb\xbf",
    ],
    *[
        "e\u0301".encode(),
        "a\u0300\u0301\u0302\u0303".encode(),
        "👩\u200d👩\u200d👧\u200d👦🧵".encode(),
        "🇩🇪".encode(),
        "שלום עולם ".encode(),
    ],
    *[
        "한글 ".encode(),
        "日本語".encode(),
        "\u3000\u00a0\u2003".encode(),
        "\u200b\u200d\ufeff".encode(),
        "\ufffd\ufffe\uffff".encode(),
    ],
    *[
        "\U0010ffff\ue000".encode(),
        "ﬁ Ⅷ ½ ß İ ı ſ ".encode(),
        b"<unk> <eos> [UNK] [SEP] [PAD] <0x41> ",
        "## ##a ▁a Ġb Ċ ".encode(),
    ],
    *[b"<|endoftext|>", b"1234567890 ", b"%PDF-1.7\n", b"a" * 100 + b" ", b"x,y\n1,2\n", b"\x01\x02\x7f", b"\x1b[31m"],
]
INVALID_TEXTS = [
    *[
        b"\xff",
        b"\x85",
        b"\x00",
        b"\xed\xa0\x80",
        b"\xed\xb2\xa9",
        b"\xc0\xaf",
        b"\xf8\x88\x80\x80\x80",
        b"\xe2\x82",
        b"\xf0\x9f\xa7",
        b"\xef\xbb",
    ],
    *[
        "naïve café\n".encode("latin1"),
        "the cat\n".encode("utf-16"),
        "the cat\n".encode("utf-16-le"),
        "the cat\n".encode("utf-16-be"),
    ],
    *["the cat\n".encode("utf-32"), b"\x89PNG\r\n\x1a\n", b"PK\x03\x04\xff", b"\x1f\x8b\x08"],
]


def file_name(random: Random) -> bytes:
    return random.choice(NAMES) if random.random() < 0.6 else b"a.txt"


def content(random: Random) -> tuple[Chunk, ...] | str:
    kind = random.random()
    if kind < 0.04:
        return random.choice(ODD)
    if kind < 0.06:
        return ()
    if kind < 0.09:  # one gigantic line, or a gigantic word
        unit = random.choice([b"a", b"ab", b"a ", "é".encode(), WORDS.strip(), "日本語".encode()])
        return ((unit, random.choice([20_000, 500_000]) // len(unit)),)
    base = [(WORDS, random.choice([1, 3, 20]))] if random.random() < 0.7 else []
    odd = [text_chunk(random) for _ in range(random.choice([0, 1, 1, 2, 4]))]
    if random.random() < 0.25:
        odd.append(
            (random.choice([*INVALID_TEXTS, random.randbytes(random.randint(1, 60))]), random.choice([1, 1, 2, 50]))
        )
    chunks = [*base, *odd]
    random.shuffle(chunks)
    return tuple(chunks)


def text_chunk(random: Random) -> Chunk:
    kind = random.random()
    if kind < 0.6:
        return random.choice(TEXTS), random.choice([1, 1, 2, 50])
    if kind < 0.75:
        return bytes(random.choices(range(32, 127), k=random.randint(1, 200))), random.choice([1, 5])
    points = random.choice(
        [range(0x80, 0x250), range(0x300, 0x370), range(0x590, 0x700), range(0x1F300, 0x1FAFF), range(1, 0x110000)]
    )
    letters = (chr(random.choice(points)) for _ in range(random.randint(1, 60)))
    return "".join(letter for letter in letters if not "\ud800" <= letter <= "\udfff").encode(), 1
