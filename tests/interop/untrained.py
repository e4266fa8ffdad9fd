"""Untrained runs of every task and family, and checks that their programs match the task on ragged batches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clew.core.batches import padded
from clew.core.tag_schemes import plain_tags
from clew.data.examples import Labelled, Pair, Question, Sentence
from clew.interop.signatures import Program
from clew.layers.embeddings import Segmented, Words
from clew.recipes.resolving import config_of
from clew.runs.build import build_task, train_side
from clew.runs.directory import write_config, write_weights
from clew.runs.embedding import BorrowedBody
from clew.runs.folder.run_files import WEIGHTS
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.loaded import Run, load_run
from clew.runs.tokenizers import RunTokenizers
from clew.tasks import TASKS
from clew.tasks.learnings.examples import Examples
from tests.runs.small import PAIRS, REVERSER, TEXT

Call = Callable[[str, dict[str, Tensor]], dict[str, Tensor]]
"""A function that runs a program by name."""

OWN = ["data.corpus=null", "data.train=mine"]
CHARACTERS = [*OWN, "text.tokenizer=character", "text.size=null"]
TRANSLATOR = [
    *OWN,
    *(setting for setting in REVERSER if setting.startswith(("model.", "text."))),
    "data.source=null",
    "data.target=null",
]
AFTER = ["model.attention=after", "model.cell=gru"]
TINY = ["model.dim=8", "model.num_layers=1"]
LETTERS = ["embedding.characters.widths=[1,2]", "embedding.characters.filters=[3,4]"]

RUNS: dict[str, tuple[str, list[str]]] = {
    "lstm": ("text-lstm", [*CHARACTERS, "model.dim=8"]),
    "cells": (
        "text-lstm",
        [*CHARACTERS, "model.family=mixed", "model.dim=8", "model.layers=[elman,peephole_lstm,coupled_lstm]"],
    ),
    "gru that resets before": (
        "text-lstm",
        [*CHARACTERS, "model.dim=8", "model.cell.name=gru", "model.cell.reset=before"],
    ),
    "more cells": (
        "text-lstm",
        [*CHARACTERS, "model.family=mixed", "model.dim=8", "model.layers=[projected_lstm,layernorm_lstm]"],
    ),
    "gpt": ("text-gpt", [*CHARACTERS, *TINY, "model.num_heads=2", "model.max_length=40"]),
    "window": ("text-lstm", [*CHARACTERS, "model.family=window", "model.dim=8"]),
    "relative": (
        "text-gpt",
        [*CHARACTERS, *TINY, "model.num_heads=2", "model.window=3", "model.position=relative", "model.score=additive"],
    ),
    "llama": ("text-gpt", [*CHARACTERS, "model.family=llama", *TINY, "model.num_heads=2", "model.num_kv_heads=1"]),
    "mixed": (
        "text-gpt",
        [
            *CHARACTERS,
            "model.family=mixed",
            "model.dim=8",
            "model.position=sinusoidal",
            f"model.layers={['gru', 'attention', 'convolution']}".replace("'", '"'),
        ],
    ),
    "attention before": ("tatoeba-lstm", TRANSLATOR),
    "attention after": ("tatoeba-lstm", [*TRANSLATOR, *AFTER, "model.feeding=true", "model.num_layers=2"]),
    "attention beside": ("tatoeba-lstm", [*TRANSLATOR, *AFTER, "model.feeding=false", "model.score=dot"]),
    "hard attention": ("tatoeba-lstm", [*TRANSLATOR, "model.hard=true", "model.score=location"]),
    "bottleneck": (
        "tatoeba-lstm",
        [*TRANSLATOR, "model.attention=none", "model.direction=backward", "model.bridge=copy"],
    ),
    "transformer": ("tatoeba-transformer", [*TRANSLATOR, "model.num_heads=2", "model.num_layers=1"]),
    "convolutional": (
        "tatoeba-transformer",
        [*TRANSLATOR, "model.family=convolutional", *TINY, "model.embedding_dim=8"],
    ),
    "tagger": ("tag", [*OWN, "text.min_count=1", "model.dim=8", *LETTERS]),
    "tagger on elmo": (
        "tag",
        [*OWN, "text.min_count=1", "model.dim=8", "embedding.characters=null", "embedding.from=elmo"],
    ),
    "tagger of pieces": (
        "tag",
        [
            *OWN,
            "model.dim=8",
            "text.tokenizer=bpe",
            "text.size=270",
            "embedding.characters=null",
            "task.output=softmax",
        ],
    ),
    "bag": ("sentiment-bag", OWN),
    "cnn": ("sentiment-cnn", [*OWN, "model.dim=9", "model.embedding_dim=8", "task.labels=several"]),
    "two texts": (
        "sentiment-lstm",
        [*OWN, "model.dim=8", "task.pair=apart", "data.second=other", "task.labels=number"],
    ),
    "bert": ("text-bert", [*OWN, *TINY, "model.num_heads=2", "text.size=80"]),
    "bert that tags": (
        "tag",
        [
            *OWN,
            "text.tokenizer=wordpiece",
            "text.size=60",
            "embedding.characters=null",
            "model.family=bert",
            *TINY,
            "model.num_heads=2",
        ],
    ),
    "bert that answers": (
        "answer",
        [*OWN, "text.tokenizer=wordpiece", "text.size=80", "model.family=bert", *TINY, "model.num_heads=2"],
    ),
    "answerer on elmo": (
        "answer",
        [
            *OWN,
            "text.tokenizer=word",
            "text.min_count=1",
            "model.family=recurrent",
            "model.dim=8",
            "embedding.from=elmo",
        ],
    ),
    "vectors": (
        "text-bert",
        [*OWN, *TINY, "model.num_heads=2", "text.size=80", "task.name=representation", "task.normalise=true"],
    ),
    "elmo": ("text-elmo", [*OWN, "model.dim=8", *LETTERS]),
}


def untrained(name: str, folder: Path) -> Run:
    """Save the untrained run of this name in a folder, and load it."""
    recipe, settings = RUNS[name]
    borrowed = {}
    if "embedding.from=elmo" in settings:
        other = untrained("elmo", folder.with_name("elmo")).folder
        borrowed, settings = {"context": BorrowedBody.of_run(other)}, [*settings, f"embedding.from={other}"]
    config: Any = config_of(recipe, settings)
    learning = TASKS[config.task.name].learning
    examples: dict[str, list[Any]] = {
        "pairs": [Pair(*pair.split("\t")) for pair in PAIRS],
        "tagged words": [Sentence(("Ada", "runs", "to", "Paris"), ("B-PER", "O", "O", "B-LOC"), id="1")],
        "questions": [Question("what was red", TEXT, (), "1")],
        "labelled texts": [Labelled(f"a {label} film", (label,), id=label) for label in ("good", "bad", "odd")],
    }
    if isinstance(learning, Examples):
        vocabularies = learning.vocabularies(examples[learning.reads], RunTokenizers(config), config.task)
    else:
        vocabularies = {"tokenizer": train_side(config.text, [TEXT], [])}
    vocabularies |= borrowed
    task = build_task(config, vocabularies, to_train=False)
    torch.manual_seed(0)
    for parameter in task.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    folder.mkdir(parents=True)
    save_vocabularies(folder, vocabularies)
    write_weights(folder / WEIGHTS, task.state_dict())
    write_config(folder, config)
    return load_run(folder, device="cpu")


def eagerly(programs: list[Program]) -> Call:
    """Run the modules of the programs directly."""
    by_name = {program.name: program for program in programs}

    def call(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        inputs, outputs = by_name[name].ports
        with torch.no_grad():
            results = by_name[name].module(*(tensors[port.name] for port in inputs))
        return dict(zip([port.name for port in outputs], results, strict=True))

    return call


SHAPES = ((1, 1), (2, 7), (4, 2))
"""Rows and lengths, different from those with which programs are traced."""


def assert_same(run: Run, programs: list[Program], call: Call) -> None:
    """Check that programs match the task at all real positions, for every shape."""
    torch.manual_seed(1)
    learning = TASKS[run.config.task.name].learning
    check = {"tagged words": tags_agree, "labelled texts": classes_agree, "pairs": steps_agree}.get(
        learning.reads if learning else ""
    )
    if check is None:
        check = {
            "step": steps_agree,
            "levels": levels_agree,
            "reader": answers_agree,
            "filler": fillings_agree,
            "embedder": vectors_agree,
        }[programs[0].name]
    for rows, length in SHAPES:
        check(run.task, programs, call, rows, length)


def steps_agree(task: Any, programs: list[Program], call: Call, rows: int, length: int) -> None:
    """Compare several ragged chunks in sequence."""
    sizes = {"batch": rows, "past": 0}
    if programs[0].name == "encoder":
        source, mask = ragged(task.body.source_vocabulary, rows, length + 1)
        stepper = task.stepper(SourceBatch(source, mask))
        known = {"source_mask": mask, **call("encoder", {"source": source, "source_mask": mask})}
    else:
        stepper = task.stepper()
        ports = [port for port in programs[0].ports[0] if port.name.startswith("state.")]
        known = {
            port.name: torch.zeros([sizes.get(side, side) for side in port.shape], dtype=getattr(torch, port.dtype))  # type: ignore[call-overload]
            for port in ports
        }
    state = stepper.initial_state(rows)
    for chunk in (length, 1, 3):
        tokens, mask = ragged(task.body.vocabulary, rows, chunk)
        with torch.no_grad():
            expected, state = stepper(tokens, mask, state)
        outputs = call("step", {**known, "tokens": tokens, "mask": mask})
        close(outputs["log_probs"][mask], expected[mask])
        known |= {
            name.replace("next.", "state.", 1): tensor for name, tensor in outputs.items() if name.startswith("next.")
        }


class SourceBatch:
    def __init__(self, source: Tensor, source_mask: Tensor):
        self.source, self.source_mask = source, source_mask


def levels_agree(task: Any, programs: list[Program], call: Call, rows: int, length: int) -> None:
    tokens, mask = ragged(task.body.vocabulary, rows, length)
    letters = task.body.embedding.parts[0].spelling[tokens].long()
    outputs = call("levels", {"letters": letters, "mask": mask})
    with torch.no_grad():
        expected = task.body.levels(Words(tokens, letters), mask)
    assert len(outputs) == len(expected) == 3
    for one, other in zip(outputs.values(), expected, strict=True):
        close(one[mask], other[mask])


def answers_agree(task: Any, programs: list[Program], call: Call, rows: int, length: int) -> None:
    questions = [
        Question("what was red", " ".join(TEXT.split()[row : row + length]), (), str(row)) for row in range(rows)
    ]
    batch = task.collate(task.encode(questions))
    with torch.no_grad():
        expected = task.logits(batch)
    outputs = call("reader", tensors_of(batch.pieces))["scores"]
    allowed = batch.inside[:, None].expand_as(outputs)
    close(outputs[allowed], expected[allowed])


def fillings_agree(task: Any, programs: list[Program], call: Call, rows: int, length: int) -> None:
    tokens, mask = ragged(task.body.vocabulary, rows, length)
    inputs = Segmented(tokens, torch.randint(0, 2, tokens.shape))
    outputs = call("filler", {"tokens": tokens, "segments": inputs.segments, "mask": mask})
    with torch.no_grad():
        hidden, _ = task.body(inputs, mask)
        close(outputs["log_probs"][mask], task.logits(hidden).log_softmax(-1)[mask])
        close(outputs["follows"], task.followed(hidden).softmax(-1)[:, 0])


def vectors_agree(task: Any, programs: list[Program], call: Call, rows: int, length: int) -> None:
    texts = [" ".join(TEXT.split()[row : row + 1 + row % length]) for row in range(rows)]
    batch = task.collate(task.reader.encode_whole(texts))
    with torch.no_grad():
        close(call("embedder", tensors_of(batch))["vectors"], task(batch))


def tags_agree(task: Any, programs: list[Program], call: Call, rows: int, length: int) -> None:
    words = ["Ada", "runs", "to", "Paris", "unheard-of"]
    sentences = [[words[(row + place) % 5] for place in range(1 + (row + length) % length)] for row in range(rows)]
    batch = task.collate([TaggedLike(encoded) for encoded in task.reader.encode(sentences)])
    with torch.no_grad():
        emissions = task.emissions(batch)
    tags = emissions.argmax(-1) if task.crf is None else task.crf.viterbi(emissions, batch.mask)[0]
    real = torch.ones(emissions.shape[:2], dtype=torch.bool) if batch.mask is None else batch.mask
    outputs = call("tagger", {**tensors_of(batch.pieces), "word_mask": real})
    close(outputs["scores"][real], emissions[real])
    written = [task.tag_names(row[:size].tolist()) for row, size in zip(tags, real.sum(1).tolist(), strict=True)]
    names = plain_tags(task.tags.names).names if task.scheme else task.tags.names
    tag_rows = zip(outputs["tags"], real.sum(1).tolist(), strict=True)
    assert [[names[tag] for tag in row[:size]] for row, size in tag_rows] == written
    assert not outputs["tags"][~real].any()


class TaggedLike:
    def __init__(self, words: Any):
        self.words, self.tags = words, [0] * len(words.starts)


def classes_agree(task: Any, programs: list[Program], call: Call, rows: int, length: int) -> None:
    texts = [
        " ".join(["a", "good", "film"][(row + place) % 3] for place in range(1 + (row * 2 + 1) % length))
        for row in range(rows)
    ]
    sides = 2 if task.config.pair == "apart" else 1
    encoded = [task.encode_side(texts[:: 1 if side == 0 else -1], framed=True) for side in range(sides)]
    pieces = [task.reader.collate(side) for side in encoded]
    tensors = tensors_of(pieces[0])
    if sides == 2:
        tensors |= {f"second_{name}": tensor for name, tensor in tensors_of(pieces[1]).items()}
    answers = task.classify(list(zip(*[texts, texts[::-1]][:sides], strict=True)) if sides == 2 else texts)
    outputs = call("classifier", tensors)
    for row, answer in enumerate(answers):
        if answer.number is not None:
            close(outputs["number"][row], torch.tensor(answer.number))
        else:
            expected = torch.tensor([answer.probabilities[label] for label in task.labels.names])
            close(outputs["probabilities"][row], expected)


def tensors_of(pieces: Any) -> dict[str, Tensor]:
    """The tensors of a collated text, under the names that programs use."""
    tokens = pieces.inputs if isinstance(pieces.inputs, Tensor) else pieces.inputs.tokens
    mask = torch.ones_like(tokens, dtype=torch.bool) if pieces.mask is None else pieces.mask
    tensors = {"tokens": tokens, "mask": mask, "starts": pieces.starts, "ends": pieces.ends}
    for name in ("letters", "segments"):
        if (tensor := getattr(pieces.inputs, name, None)) is not None:
            tensors[name] = tensor.long()
    if (other := getattr(pieces.inputs, "context", None)) is not None:
        tensors |= {f"context_{name}": tensor for name, tensor in tensors_of(other).items()}
    return tensors


def ragged(vocabulary: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Random ids and their mask: the first row is complete, every row has at least one token."""
    lengths = [length, *torch.randint(1, length + 1, (rows - 1,)).tolist()]
    tokens, mask = padded([torch.randint(0, vocabulary, (count,)).tolist() for count in lengths])
    return tokens, torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
