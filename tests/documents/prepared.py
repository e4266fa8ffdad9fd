"""Further files of single documents, and the commands that are not run, each with its reason."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.data.formats.test_navec_files import members
from tests.data.formats.test_navec_files import write as write_tar
from tests.documents.files import SENTENCES, WORDS, json_lines, lines, picture, table, vectors, write
from tests.runs.pretrained import save_pretrained

A_PLACEHOLDER = "RECIPE and ... stand for a recipe's name"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "README.md": {
        "python3 -m venv": ".ci/run types these lines in a fresh environment",
        "hf download": "a download",
        "clew train shakespeare-lstm --search": "tests/studies/test_search.py searches in short form",
    },
    "docs/guides/checkpoints.md": {"hf download": "a download"},
    "docs/guides/containers.md": {
        "docker ": "there is no docker here",
        "conda ": "there is no conda here",
    },
    "docs/guides/search.md": {
        "clew train shakespeare-lstm --search": "tests/studies/test_search.py searches in short form",
        "clew runs runs/shakespeare-lstm-search": "of that search",
    },
    "docs/guides/many-machines.md": {
        "torchrun --nproc-per-node 8 -m clew train ...": A_PLACEHOLDER,
        "torchrun --nnodes 2": A_PLACEHOLDER,
        "srun ": A_PLACEHOLDER,
        "torchrun --nproc-per-node 4 -m clew train RECIPE": A_PLACEHOLDER,
        "clew train RECIPE": A_PLACEHOLDER,
    },
    "docs/guides/pictures-and-sound.md": {
        "python -m benchmarks.fashion_mnist": "tests/benchmarks/test_fashion_mnist.py runs it"
    },
}
REJECTED: dict[str, dict[str, str]] = {
    "docs/guides/strangers.md": {"clew evaluate theirs   ": "if you trust the run, add --trust"},
}
"""Commands that fail on purpose in a document, and their error messages."""
SERVED: dict[str, dict[str, str]] = {
    "docs/guides/serving.md": {
        "three.wav": "clew serve runs/digits-speech",
        "from openai": "clew serve runs/shakespeare-gpt",
    },
}
"""The server that a snippet needs, where the document mentions it only in the text."""


def pretrained(*names: str) -> Callable[[Path], None]:
    """Write folders like those of `clew import`."""

    def prepare(folder: Path) -> None:
        for name in names:
            if name == "marian":
                marian(folder)
            else:
                save_pretrained(folder / name, name)

    return prepare


def own_cell(folder: Path) -> None:
    write(
        folder / "mine.py",
        "import torch\n\nfrom clew.layers.cells import CELLS, Elman\n\n\nclass Mine(Elman):\n   "
        " pass\n\n\nCELLS['mine'] = Mine\n",
    )


def readme(folder: Path) -> None:
    pretrained("bert")(folder)
    own_cell(folder)
    checkpoint("BertModel", folder / "all-MiniLM-L6-v2")


def marian(folder: Path) -> None:
    from clew.interop.checkpoints import import_checkpoint
    from tests.interop.test_marian import make_marian

    make_marian(folder / "opus")
    import_checkpoint(folder / "opus", folder / "marian")


def course(folder: Path) -> None:
    pretrained("bert")(folder)
    two_languages(folder)


def checkpoint(kind: str, folder: Path) -> None:
    from tests.interop.checkpoints import make

    make(kind, folder)


def checkpoints(folder: Path) -> None:
    from tests.interop.test_marian import make_marian

    hub = folder / "hub"
    hub.mkdir()
    checkpoint("BertModel", hub / "all-MiniLM-L6-v2")
    checkpoint("BertForMaskedLM", hub / "bert-base-cased")
    checkpoint("GPT2LMHeadModel", hub / "gpt2")
    make_marian(hub / "opus-mt-de-en")


def two_languages(folder: Path) -> None:
    russian = [word[::-1] for word in WORDS]
    indexes = np.random.default_rng(1).integers(0, 3, (len(russian) + 2, 2), dtype=np.uint8)
    words = [*russian, "<unk>", "<pad>"]
    write_tar(
        folder / "navec.tar", members(words, list(range(len(words), 0, -1)), (len(words), 4, 2, 3), indexes=indexes)
    )
    write(folder / "english.vec", vectors(WORDS, 10))
    write(folder / "german.vec", vectors(russian, 10, seed=2))
    for name in ("train.en-ru.tsv", "test.en-ru.tsv", "pairs.tsv", "more.tsv"):
        write(folder / name, lines(f"{word}\t{word[::-1]}" for word in WORDS))


def pictures_and_sound(folder: Path) -> None:
    write(
        folder / "mine.csv",
        table(["file", "said"], [(f"recordings/bell/{n}.wav", "one two"[: 3 + n % 2 * 4]) for n in range(6)] * 2),
    )
    write(folder / "texts.txt", lines(["one two", "three four", "zero"] * 5))
    for n in range(10):
        write(folder / "lines" / f"{n}.png", picture(n, 32, 120, grey=True))
    write(folder / "lines.csv", table(["image", "text"], [(f"lines/{n}.png", SENTENCES[n % 3][:8]) for n in range(10)]))
    boxes = {"boxes": [[4, 2, 20, 18], [24, 8, 44, 28]]}
    rows = [{"image": f"photographs/cat/{n}.png", "sentences": ["a cat .", "it runs ."], **boxes} for n in range(8)]
    write(folder / "mine.jsonl", json_lines(rows))


def graphs(folder: Path) -> None:
    """Write graphs with labels of nodes and of graphs."""
    elements = [("C", f"N{n}", "O", "H")[: 2 + n % 3] for n in range(24)]
    rows = [
        {
            "nodes": nodes,
            "edges": [[0, 1, "single"]],
            "labels": [node[0] for node in nodes],
            "label": ("acid", "base")[n % 2],
        }
        for n, nodes in enumerate(elements)
    ]
    write(folder / "graphs.jsonl", json_lines(rows))
    write(folder / "others.jsonl", json_lines({"nodes": row["nodes"], "edges": row["edges"]} for row in rows[:3]))


def untrusted_run(folder: Path) -> None:
    """Write a run whose config names a file of another person."""
    from clew.recipes.running import run_recipe
    from tests.documents.small import short_settings

    maker = folder.parent / f"{folder.name}-maker"
    write(maker / "mail.csv", table(["text", "label"], [(s, ("good", "bad")[n % 2]) for n, s in enumerate(SENTENCES)]))
    settings = short_settings("classify", [f"data.train={maker / 'mail.csv'}"])
    with pytest.MonkeyPatch.context() as patch:  # recorded in the list of runs of another person
        patch.setenv("CLEW_STATE", str(maker))
        run_recipe("classify", [*settings, "device=cpu"], out=folder / "theirs")


PREPARED: dict[str, Callable[[Path], None]] = {
    "README.md": readme,
    "docs/course.md": course,
    "docs/guides/checkpoints.md": checkpoints,
    "docs/guides/finetuning.md": pretrained("bert", "gpt", "marian"),
    "docs/guides/graphs.md": graphs,
    "docs/guides/lexicons.md": two_languages,
    "docs/guides/pictures-and-sound.md": pictures_and_sound,
    "docs/guides/pretraining.md": pretrained("bert"),
    "docs/guides/reading.md": pretrained("bert"),
    "docs/guides/strangers.md": untrusted_run,
}
