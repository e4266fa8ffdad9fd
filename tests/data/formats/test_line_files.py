import gzip

from hypothesis import given
from hypothesis import strategies as st

from clew.data.formats.line_files import find_parallel, read_line_texts, read_parallel
from clew.data.notes import Notes
from tests.data.written import refusal, write, written

LINE = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda line: line.strip() and not line.startswith("\ufeff")
)


def parallel_files(tmp_path, source, target):
    return write(tmp_path / "train.en", source), write(tmp_path / "train.de", target)


@given(st.lists(LINE, min_size=1, max_size=6))
def test_a_line_is_a_text(lines):
    with written("a.txt", "\n".join(lines)) as path:
        assert [record.values["text"] for record in read_line_texts(path)] == lines


def test_empty_lines_are_skipped_and_counted(tmp_path):
    notes = Notes()
    path = write(tmp_path / "a.txt", "a\n\n \nb\n")
    assert [(record.line, record.values["text"]) for record in read_line_texts(path, notes=notes)] == [
        (1, "a"),
        (4, "b"),
    ]
    assert notes.report() == [f"skipped 2 x empty line (first: {path}:2)"]
    path = write(tmp_path / "b.txt", "\n\n")
    assert refusal(lambda: read_line_texts(path)) == f"{path}: there is no record in it; give a file with records in it"


@given(st.lists(st.tuples(LINE, LINE), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_parallel_lines_are_pairs(pairs, ended, zipped):
    source, target = ("\n".join(side) + "\n" * ended for side in zip(*pairs, strict=True))
    with written("a.en", source) as left, written("a.de.gz" if zipped else "a.de", target) as right:
        if zipped:
            right.write_bytes(gzip.compress(target.encode(), mtime=0))
        records = list(read_parallel(left, right))
        assert [(record.values["source"], record.values["target"]) for record in records] == pairs
        assert [record.place for record in records] == [f"{left}:{number}" for number in range(1, len(pairs) + 1)]


def test_lines_that_are_empty_on_both_sides_are_skipped_and_counted(tmp_path):
    notes = Notes()
    paths = parallel_files(tmp_path, "a\n\nb\n\n\n", "x\n \ny\n")
    assert [record.line for record in read_parallel(*paths, notes=notes)] == [1, 3]
    assert notes.report() == [f"skipped 3 x line empty on both sides (first: {paths[0]}:2)"]


def test_a_line_that_is_empty_on_one_side_is_a_fault(tmp_path):
    source, target = parallel_files(tmp_path, "a\n\nb\nc\n", "x\ny\n \nz\n")
    assert (
        refusal(lambda: read_parallel(source, target))
        == f"{source}:2: this line is empty, and line 2 of {target} is not; fix it, or skip such records with"
        " data.faults=skip"
    )
    notes = Notes(faults="skip")
    assert [record.line for record in read_parallel(source, target, notes=notes)] == [1, 4]
    assert notes.skipped == {"line empty on one side": 2}
    assert notes.sentences[1] == f"{target}:3: this line is empty, and line 3 of {source} is not"


def test_files_of_unequal_length_are_refused_with_both_counts(tmp_path):
    rule = "line n of one must translate line n of the other, so look for a missing or broken line"
    source, target = parallel_files(tmp_path, "a\nb\nc\nd\n", "x\ny\n")
    for faults in ("refuse", "skip"):
        assert (
            refusal(lambda faults=faults: read_parallel(source, target, notes=Notes(faults=faults)))
            == f"{source} has 4 lines and {target} 2: line 3 of {source} has no partner; {rule}"
        )
    source, target = parallel_files(tmp_path, "a\nb\n", "x\ny\n\nz\n")
    assert (
        refusal(lambda: read_parallel(source, target))
        == f"{target} has 4 lines and {source} 2: line 3 of {target} has no partner; {rule}"
    )


def test_the_two_files_are_found_by_their_languages(tmp_path):
    source, target = parallel_files(tmp_path, "a", "b")
    assert find_parallel(tmp_path / "train", "en", "de") == (source, target)
    zipped = write(tmp_path / "train.fr.gz", gzip.compress(b"c", mtime=0))
    assert find_parallel(str(tmp_path / "train"), "fr", "en") == (zipped, source)
    assert (
        refusal(lambda: find_parallel(tmp_path / "train", "en", "cs"))
        == f"no such file: {tmp_path}/train.cs, but {source} exists; parallel text is two files"
    )
    assert (
        refusal(lambda: find_parallel(tmp_path / "tran", "en", "de"))
        == f"no such file: {tmp_path}/tran, nor {tmp_path}/tran.en and {tmp_path}/tran.de; near it there is"
        f" {tmp_path}/train.en"
    )
