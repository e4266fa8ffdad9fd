"""Detect the kind of a file by its first bytes, regardless of its name; for kinds that clew cannot read, give a command
that converts the file. Opens no member of an archive, and unpickles nothing."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clew.core.errors import UserError, command

HEAD = 512
"""Number of bytes from which a kind is detected."""
CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\x1b")
"""Bytes that do not occur in text."""


@dataclass(frozen=True)
class Foreign:
    """A kind of file that is not text: what messages call it, and a command that converts it. `script` is Python code,
    `words` the command line of another program. FILE stands for the file and OUT for the output, whose name ends in
    `out`."""

    about: str
    script: str = ""
    words: tuple[str, ...] = ()
    out: str = ".csv"
    advice: str = ""
    """Shown before the command, or instead of one."""

    def remedy(self, path: Path) -> str:
        target = path.with_name(f"{path.stem}{self.out}")
        target = target if target != path else path.with_name(f"{path.stem}-converted{self.out}")
        names = {"FILE": str(path), "OUT": str(target), "FOLDER": str(target.parent)}
        if self.script:
            line = command("python", "-c", self.script, path, target)
        else:
            line = " ".join(word if word == ">" else shlex.quote(names.get(word, word)) for word in self.words)
        return "; ".join([*([self.advice] if self.advice else []), *([f"convert it: {line}"] if line else [])])


def pandas_script(reader: str) -> str:
    return f"import sys, pandas; pandas.DataFrame(pandas.{reader}(sys.argv[1])).to_csv(sys.argv[2], index=False)"


SQLITE = (
    "import csv, sqlite3, sys; data = sqlite3.connect(sys.argv[1]); "
    'table = data.execute("select name from sqlite_master where type = ?", ["table"]).fetchone()[0]; '
    'rows = data.execute("select * from [" + table + "]"); '
    'out = csv.writer(open(sys.argv[2], "w", newline="", encoding="utf-8")); '
    "out.writerow([column[0] for column in rows.description]); out.writerows(rows)"
)
WORD = (
    'import html, re, sys, zipfile; text = zipfile.ZipFile(sys.argv[1]).read("word/document.xml").decode(); '
    'lines = [html.unescape(re.sub("<[^>]*>", "", part)) for part in text.split("</w:p>")]; '
    'open(sys.argv[2], "w", encoding="utf-8").write(chr(10).join(lines))'
)
NUMPY = (
    "import sys, numpy; data = numpy.load(sys.argv[1]); data = data if isinstance(data, numpy.ndarray) else"
    ' data[data.files[0]]; numpy.savetxt(sys.argv[2], data, fmt="%s", delimiter=",", encoding="utf-8")'
)
ORC = "import sys, pyarrow.csv, pyarrow.orc; pyarrow.csv.write_csv(pyarrow.orc.read_table(sys.argv[1]), sys.argv[2])"
PARQUET = (
    "import sys, pyarrow.csv, pyarrow.parquet; pyarrow.csv.write_csv(pyarrow.parquet.read_table(sys.argv[1]),"
    " sys.argv[2])"
)
ARROW = (
    "import sys, pyarrow.csv, pyarrow.feather; pyarrow.csv.write_csv(pyarrow.feather.read_table(sys.argv[1]),"
    " sys.argv[2])"
)
STREAM = (
    "import sys, pyarrow as pa, pyarrow.csv; pyarrow.csv.write_csv(pa.ipc.open_stream(sys.argv[1]).read_all(),"
    " sys.argv[2])"
)
EXCEL = (
    "import csv, sys, openpyxl; rows = openpyxl.load_workbook(sys.argv[1], read_only=True).active.values; "
    'csv.writer(open(sys.argv[2], "w", newline="", encoding="utf-8")).writerows(rows)'
)
OFFICE = ("libreoffice", "--headless", "--convert-to")
NAMED = "list its name with its label or caption in a table, or put it into a folder named after its class"

FOREIGN = {
    "pickle": Foreign(
        "a pickle",
        pandas_script("read_pickle"),
        advice="a pickle can run any program, so convert it only if you trust its author",
    ),
    "parquet": Foreign("Parquet", PARQUET),
    "arrow": Foreign("an Arrow or Feather file", ARROW),
    "arrow stream": Foreign("an Arrow stream", STREAM),
    "xlsx": Foreign("an Excel workbook", EXCEL),
    "orc": Foreign("an ORC file", ORC),
    "sqlite": Foreign("an SQLite database", SQLITE, advice="its first table becomes a CSV"),
    "hdf5": Foreign("an HDF5 file", pandas_script("read_hdf")),
    "stata": Foreign("a Stata file", pandas_script("read_stata")),
    "spss": Foreign("an SPSS file", pandas_script("read_spss")),
    "npy": Foreign("a NumPy array", NUMPY),
    "npz": Foreign("an archive of NumPy arrays", NUMPY, advice="its first array becomes a CSV"),
    "torch": Foreign("a file of torch.save", advice="write what is in it as JSON lines"),
    "safetensors": Foreign(
        "a file of weights (safetensors)", advice="give data to train on, or import the model with clew import"
    ),
    "docx": Foreign("a Word document", WORD, out=".txt"),
    "opendocument": Foreign(
        "an OpenDocument file",
        words=(*OFFICE, "csv", "--outdir", "FOLDER", "FILE"),
        advice="a sheet becomes a CSV (for a text write txt instead of csv)",
    ),
    "ole": Foreign(
        "an old Excel or Word file",
        words=(*OFFICE, "csv", "--outdir", "FOLDER", "FILE"),
        advice="a sheet becomes a CSV (for a text write txt instead of csv)",
    ),
    "epub": Foreign("an e-book (EPUB)", words=("pandoc", "FILE", "-t", "plain", "-o", "OUT"), out=".txt"),
    "pdf": Foreign("a PDF", words=("pdftotext", "FILE", "OUT"), out=".txt"),
    "rtf": Foreign("rich text (RTF)", words=("pandoc", "FILE", "-t", "plain", "-o", "OUT"), out=".txt"),
    "tar": Foreign(
        "a tar archive",
        words=("python", "-m", "tarfile", "-e", "FILE", "OUT"),
        out="",
        advice="unpack it and give a file from it",
    ),
    "zip": Foreign(
        "a zip archive",
        words=("python", "-m", "zipfile", "-e", "FILE", "OUT"),
        out="-files",
        advice="unpack it and give a file from it",
    ),
    "7z": Foreign("a 7z archive", words=("7z", "x", "FILE"), advice="unpack it and give a file from it"),
    "rar": Foreign("a RAR archive", words=("unrar", "x", "FILE"), advice="unpack it and give a file from it"),
    "lz4": Foreign("packed with lz4", words=("lz4", "-d", "FILE", "OUT"), out=""),
    "compress": Foreign("packed with compress", words=("gzip", "-dc", "FILE", ">", "OUT"), out=""),
    "gzip": Foreign("packed twice, with gzip inside", advice="unpack the outer file first"),
    "bzip2": Foreign("packed twice, with bzip2 inside", advice="unpack the outer file first"),
    "xz": Foreign("packed twice, with xz inside", advice="unpack the outer file first"),
    "zstd": Foreign("packed twice, with zstd inside", advice="unpack the outer file first"),
    "r": Foreign(
        "data of R",
        words=(
            "Rscript",
            "-e",
            "a <- commandArgs(TRUE); write.csv(get(load(a[1])), a[2], row.names=FALSE)",
            "FILE",
            "OUT",
        ),
    ),
    "picture": Foreign("a picture", advice=NAMED),
    "sound": Foreign("a sound", advice=NAMED),
    "video": Foreign("a video", advice="extract its sound or its pictures first"),
    "program": Foreign("a program", advice="check that this is the right file"),
}
"""Files that are not text, by the kind that `kind_of` returns."""

PACKED = ("gzip", "bzip2", "xz", "zstd", "zip")
"""Kinds that contain another file, which is unpacked while it is read."""

BEGINNINGS = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"FEA1", "feather 1"),
    (b"\xff\xff\xff\xff", "arrow stream"),
    (b"ORC", "orc"),
    (b"SQLite format 3\0", "sqlite"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"<stata_dta>", "stata"),
    (b"$FL2", "spss"),
    (b"\x93NUMPY", "npy"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"%PDF-", "pdf"),
    (b"{\\rtf", "rtf"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x1f\x9d", "compress"),
    (b"RDX2\n", "r"),
    (b"RDX3\n", "r"),
    (b"\x89PNG\r\n\x1a\n", "picture"),
    (b"\xff\xd8\xff", "picture"),
    (b"GIF8", "picture"),
    (b"II*\0", "picture"),
    (b"MM\0*", "picture"),
    (b"fLaC", "sound"),
    (b"OggS", "sound"),
    (b"ID3", "sound"),
    (b"\x1aE\xdf\xa3", "video"),
    (b"\x7fELF", "program"),
    (b"\xcf\xfa\xed\xfe", "program"),
    (b"\xca\xfe\xba\xbe", "program"),
    (b"MZ", "program"),
)
FOREIGN["feather 1"] = Foreign("a Feather file of version 1", pandas_script("read_feather"))
PLAIN = frozenset({"pdf", "rtf", "stata", "bzip2"})
"""Kinds whose first bytes could also begin a text."""


def detect_kind(head: bytes) -> str | None:
    """Return the kind of a file by its first bytes; None for text and unknown kinds. If a text could begin with the
    same bytes, some byte that is not text is required as well."""
    for beginning, kind in BEGINNINGS:
        if head.startswith(beginning) and (kind in PLAIN or not CONTROLS.isdisjoint(head) or not beginning.isascii()):
            if kind == "bzip2" and head[4:10] not in (b"1AY&SY", b"\x17rE8P\x90"):
                continue
            return kind
    return next((kind for kind, matches in RULES.items() if matches(head)), None)


def is_pickle(head: bytes) -> bool:
    """Protocol 2 and later begin with their number; in 4 and later a frame follows."""
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and head[2:3] not in b"\x80"


def is_riff(head: bytes, *forms: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:12] in forms


RULES: dict[str, Callable[[bytes], bool]] = {
    "pickle": is_pickle,
    "tar": lambda head: head[257:262] == b"ustar",
    "safetensors": lambda head: head[3:8] == bytes(5) and head[8:10] == b'{"',
    "sound": lambda head: is_riff(head, b"WAVE"),
    "picture": lambda head: is_riff(head, b"WEBP"),
    "video": lambda head: head[4:8] == b"ftyp",
}


def kind_of_archive(names: list[str]) -> str | None:
    """Return the kind of a zip file by the names of its members; None for an ordinary archive of files."""
    if "xl/workbook.xml" in names:
        return "xlsx"
    if "word/document.xml" in names:
        return "docx"
    if "META-INF/container.xml" in names:
        return "epub"
    if "content.xml" in names and "mimetype" in names:
        return "opendocument"
    if any(name.endswith("/data.pkl") for name in names):
        return "torch"
    return "npz" if names and all(name.endswith(".npy") for name in names) else None


def foreign_file_error(path: Path, kind: str) -> UserError:
    """The error for a file that cannot be read as text, with the command that converts it."""
    foreign = FOREIGN[kind]
    return UserError(f"{path}: this is {foreign.about}, not text; {foreign.remedy(path)}")
