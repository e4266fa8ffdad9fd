import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.data.caching import encoded
from clew.data.caching.encoded import encode_corpus, load_tokens
from clew.data.files import measures, text_files
from clew.data.files.measures import cached_extent
from clew.data.files.text_files import Piece, TextFiles, find_text, measure_text
from clew.data.plans import window_evaluation_plan
from clew.data.splits import split_text
from clew.text.train import train_bpe, train_character

DOCUMENTS = [f"document {number} has {'word ' * (number % 7)}and an end" for number in range(40)]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A folder with documents in four kinds of files, cut into small shards."""
    monkeypatch.setattr(encoded, "SHARD", 100)
    monkeypatch.setattr(text_files, "PIECE", 32)
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = [json.dumps({"text": text, "id": number}) for number, text in enumerate(DOCUMENTS)]
    (folder / "a.jsonl").write_text("\n".join(lines[:10]) + "\n\n", encoding="utf-8")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[10:38]).encode()))
    (folder / "c.txt").write_text(DOCUMENTS[38], encoding="utf-8")
    (folder / "d.txt.gz").write_bytes(gzip.compress(DOCUMENTS[39].encode()))
    return find_text(folder)


def encode(source, cache, progress=None, **options):
    return encode_corpus(
        source,
        train_bpe("".join(DOCUMENTS)),
        cache,
        None if progress is None else lambda *done: progress.append(done),
        **options,
    )


def all_ids(tokenizer):
    ids = [tokenizer.encode(text + "\n") + [tokenizer.end] for text in DOCUMENTS[:-1]]
    return [*ids, tokenizer.encode(DOCUMENTS[-1])]


def test_every_line_of_json_and_every_file_is_a_document(corpus, tmp_path):
    expected = all_ids(train_bpe("".join(DOCUMENTS)))
    text = encode(corpus, tmp_path / "cache")
    assert len(text.tokens.shards) > 5
    assert np.asarray(text.tokens).tolist() == sum(expected, [])
    numbers = text.tokens.documents(np.arange(len(text)))
    owners = [number for number, ids in enumerate(expected, start=1) for _ in ids]
    assert numbers.tolist() == [*owners[1:], owners[-1]], "the end of a document opens the next"
    assert len(text.tokens.boundaries) == 39 and (text.tokens[text.tokens.boundaries] == train_bpe("a").end).all()


def test_shards_are_indexed_like_one_array(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("clew.data.caching.shards.OPEN", 2)
    tokens = encode(corpus, tmp_path / "cache").tokens
    whole = np.asarray(tokens)
    places = np.random.default_rng(0).integers(len(tokens), size=(7, 11))
    assert (
        np.array_equal(tokens[places], whole[places])
        and tokens[5] == whole[5]
        and np.array_equal(tokens[3:90:2], whole[3:90:2])
    )
    plan = window_evaluation_plan(len(tokens), 13, 4)
    for number in range(plan.num_batches):
        sharded, plain = plan.batch(tokens, number), plan.batch(whole, number)
        assert sharded.tokens.equal(plain.tokens) and sharded.targets.equal(plain.targets)
    with pytest.raises(IndexError):
        tokens[np.array([len(tokens)])]


def test_characters_of_first_tokens_are_not_counted_when_documents_are_apart(tmp_path, corpus):
    text = encode_corpus(corpus, train_character("".join(DOCUMENTS) + "\n"), tmp_path / "cache")
    assert text.num_characters == sum(map(len, DOCUMENTS)) + 39
    assert (text.num_characters - text.num_target_characters, text.num_characters - text.num_characters_apart) == (
        1,
        40,
    )
    starts = np.cumsum([len(document) + 1 for document in DOCUMENTS[:-1]])
    assert text.tokens.boundaries.tolist() == replace(text, apart=True).unpredicted.tolist() == starts.tolist()
    assert not len(text.unpredicted) and not text.tokens.opened


def files_of(cache):
    return {path.name: path.read_bytes() for path in cache.rglob("*.tokens")}


def test_any_number_of_processes_writes_the_same_bytes(corpus, tmp_path):
    progress: list = []
    alone, together = encode(corpus, tmp_path / "one"), encode(corpus, tmp_path / "two", progress, workers=2)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two") and len(files_of(tmp_path / "one")) > 5
    assert (together.num_characters, together.num_unknown) == (alone.num_characters, alone.num_unknown)
    assert progress[-1] == (alone.num_characters, alone.num_characters)


class Stop(Exception):
    pass


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_encoding_continues_from_its_complete_shards(corpus, tmp_path, workers):
    def stop(done, total):
        if done > total / 2:
            raise Stop

    with pytest.raises(Stop):
        encode_corpus(corpus, train_bpe("".join(DOCUMENTS)), tmp_path / "cache", stop, workers)
    (listed,) = (tmp_path / "cache").rglob("shards.jsonl")
    assert not list((tmp_path / "cache").rglob("*.partial-*"))
    kept = [json.loads(line)[0] for line in listed.read_text().splitlines() if line]
    assert len(kept) > 2
    folder = listed.parent
    times = {entry["file"]: (folder / entry["file"]).stat().st_ino for entry in kept}
    content = bytearray((folder / kept[1]["file"]).read_bytes())
    content[0] ^= 1
    (folder / kept[1]["file"]).write_bytes(content)
    with listed.open("a") as file:
        file.write('[{"half a line')
    text = encode(corpus, tmp_path / "cache", workers=workers)
    assert np.asarray(text.tokens).tolist() == sum(all_ids(train_bpe("".join(DOCUMENTS))), [])
    rewritten = [entry["file"] for entry in kept if (folder / entry["file"]).stat().st_ino != times[entry["file"]]]
    assert rewritten == [kept[1]["file"]], "a complete shard was written again, or a damaged one was not"
    assert not listed.exists()


def test_shards_of_another_format_are_encoded_again(corpus, tmp_path, monkeypatch):
    def stop(done, total):
        if done > total / 2:
            raise Stop

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(encoded, "FORMAT", encoded.FORMAT - 1)
        encode_corpus(corpus, train_bpe("".join(DOCUMENTS)), tmp_path / "cache", stop)
    (listed,) = (tmp_path / "cache").rglob("shards.jsonl")
    before = {path.name: path.stat().st_ino for path in listed.parent.glob("*.tokens")}
    encode(corpus, tmp_path / "cache")
    assert before and all((listed.parent / name).stat().st_ino != inode for name, inode in before.items())


def flip(path, *, keep_time):
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns if keep_time else status.st_mtime_ns + 1))


def test_large_shards_are_hashed_when_their_modification_time_changed(corpus, tmp_path, monkeypatch):
    encode(corpus, tmp_path / "cache")
    (index,) = (tmp_path / "cache").rglob("index.json")
    shard = index.parent / "000003.tokens"
    monkeypatch.setattr(encoded, "HASHED", 0)
    os.utime(shard)
    assert load_tokens(index.parent) is not None, "a touched but equal shard is accepted"
    flip(shard, keep_time=False)
    assert load_tokens(index.parent) is None
    encode(corpus, tmp_path / "cache")
    flip(shard, keep_time=True)
    assert load_tokens(index.parent) is not None, "a large shard with the same time is not hashed"
    monkeypatch.setattr(encoded, "HASHED", 2**28)
    assert load_tokens(index.parent) is None
    shard.write_bytes(b"")
    assert load_tokens(index.parent) is None


def test_a_modified_index_is_rejected(corpus, tmp_path):
    encode(corpus, tmp_path / "cache")
    (index,) = (tmp_path / "cache").rglob("index.json")
    index.write_text(index.read_text().replace('"num_unknown": 0', '"num_unknown": 1', 1))
    assert load_tokens(index.parent) is None


def test_large_files_are_read_again_only_when_they_change(tmp_path, monkeypatch):
    monkeypatch.setattr(measures, "LARGE", 1)
    path = tmp_path / "a.txt"
    path.write_text("one two")
    os.utime(path, (1, 1))
    source = find_text(path)
    part = split_text(source, cache=tmp_path / "cache")["train"]
    first = cached_extent(source, tmp_path / "cache"), cached_extent(part, tmp_path / "cache")
    assert first == (measure_text(source), measure_text(part))
    monkeypatch.setattr(measures, "measure_text", lambda source: pytest.fail("read again"))
    assert (cached_extent(source, tmp_path / "cache"), cached_extent(part, tmp_path / "cache")) == first
    monkeypatch.undo()
    monkeypatch.setattr(measures, "LARGE", 1)
    path.write_text("one too")
    assert cached_extent(source, tmp_path / "cache") == measure_text(source) != first[0]
    os.utime(path, (1, 1))
    message = "a.txt: it changed while it was read"
    with pytest.raises(UserError, match=message):
        encode_corpus(source, train_character("one two"), tmp_path / "cache")
    text = encode_corpus(source, train_character("one two"), tmp_path / "cache")
    assert len(text) == 7, "the stale measurement is dropped"


def test_the_text_can_be_read_from_another_field(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"body": "one", "text": "no"}\n{"body": "two"}\n', encoding="utf-8")
    assert list(find_text(path, "body").pieces()) == [Piece("one\n", closes=True), Piece("two")]
    assert find_text(path, "body").stamp() != TextFiles((path,)).stamp()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            '{"body": "x"}',
            (
                r'a.jsonl:1: the document is read from the field "text", which is missing; the fields are: body; write'
                r' \{"text": "..."\}, or'
            ),
        ),
        ('{"text": 3}', r'a.jsonl:1: the document is read from the field "text", which is not a string'),
        ("{", r"a.jsonl: JSON lines have one object per line, but this value spans several lines"),
        (
            '{"text": "a\\ud800"}',
            r"character 2 of the text in .*a.jsonl:1 \(U\+D800\) is half a character; give it as UTF-8",
        ),
    ],
)
def test_a_line_without_a_document_is_reported_with_its_place(line, sentence, tmp_path):
    (tmp_path / "a.jsonl").write_text(f"{line}\n")
    with pytest.raises(UserError, match=sentence):
        list(find_text(tmp_path))


def test_a_dead_encoding_process_is_reported(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("clew.data.encoding_processes.sys.executable", "/bin/false")
    with pytest.raises(
        UserError,
        match=r"a process that encodes the text died \(killed, or out of memory\); try again, with text.workers=1",
    ):
        encode(corpus, tmp_path / "cache", workers=2)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_ctrl_c_ends_every_process_and_keeps_complete_shards(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 1_600_000)
    command = [sys.executable, "-m", "clew", "train", "text-lstm", f"data.train={tmp_path / 'a.txt'}", "text.workers=2"]
    environment = {**os.environ, "CLEW_CACHE": str(tmp_path / "cache"), "RAYON_NUM_THREADS": "1"}
    child = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, env=environment, cwd=tmp_path)
    deadline = time.monotonic() + 60
    listed = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while len(listed.read_text().split()) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    encoding = [Path(f"/proc/{number}") for number in listed.read_text().split()]
    assert len(encoding) == 2
    os.killpg(child.pid, signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130 and b"stopped before the first step" in errors and b"Traceback" not in errors, (
        errors.decode()
    )
    assert not any(process.exists() for process in encoding)
