"""A transcriber built from parts: frames, a bidirectional LSTM, CTC and error rates, on sound and on handwriting."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from clew.baselines.kneser_ney import fit_kneser_ney
from clew.core.batches import padded
from clew.core.types import Source
from clew.data.corpora import read_corpus
from clew.data.sounds.spoken_digits import WORDS, digit_strings
from clew.data.synthetic.handwriting import columns, render_line
from clew.decoding.ctc import best_path, prefix_beam_search
from clew.layers.losses.ctc import CTC, fits
from clew.metrics.error_rates import Errors, character_errors, word_errors
from clew.models import MODELS
from clew.sources.frames import Frames
from clew.sources.log_mel import LogMel
from clew.training.fitting import fit


class Batch(NamedTuple):
    inputs: Any
    mask: Tensor
    targets: Tensor
    target_mask: Tensor


class Transcriber(nn.Module):
    """Scores of symbols at every position of a body; symbol 0 is the blank."""

    def __init__(self, source: Source, symbols: int, **options: Any):
        super().__init__()
        family = MODELS["recurrent"]
        self.source = source
        self.body = family.build(family.config(bidirectional=True, **options), source)
        self.output = nn.Linear(self.body.dim, symbols)
        self.ctc = CTC()

    def collate(self, rows: Sequence[tuple[Tensor, Sequence[int]]]) -> Batch:
        inputs, mask = self.source.collate([frames for frames, _ in rows])
        targets, target_mask = padded([labels for _, labels in rows])
        everything = torch.ones(inputs.tokens.shape[:2], dtype=torch.bool)
        return Batch(
            inputs,
            everything if mask is None else mask,
            targets,
            torch.ones(targets.shape, dtype=torch.bool) if target_mask is None else target_mask,
        )

    def logits(self, inputs: Any, mask: Tensor) -> Tensor:
        return self.output(self.body(inputs, mask)[0])

    def forward(self, batch: Batch) -> Tensor:
        possible = fits(batch.mask.sum(1), batch.targets, batch.target_mask).sum()
        loss = self.ctc(self.logits(batch.inputs, batch.mask), batch.targets, batch.mask, batch.target_mask)
        return loss / possible.clamp(min=1)

    @torch.no_grad()
    def log_probs(self, examples: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        batch = self.eval().collate([(example, ()) for example in examples])
        return self.logits(batch.inputs, batch.mask).log_softmax(-1), batch.mask


def loader(module: Transcriber, rows: list[tuple[Tensor, list[int]]]) -> "DataLoader[Any]":
    return DataLoader(rows, batch_size=8, shuffle=True, collate_fn=module.collate)  # type: ignore[arg-type]


def rate(errors: list[Errors]) -> float:
    return 100 * sum(errors, Errors()).rate


@pytest.mark.slow
def test_a_transcriber_learns_spoken_digits_in_a_minute(tmp_path: Path) -> None:
    """Trained on strings of 1 to 3 digits; tested on strings of 3 to 5 in other recordings of the same speakers."""
    torch.manual_seed(1)
    parts, bands = read_corpus("digits-sample"), LogMel(8000, num_mels=40)
    symbols = ("", *WORDS)
    strings = digit_strings(parts["train"], 1200, 1, 3, seed=1)
    rows = [
        (bands(string.sound().samples), [symbols.index(word) for word in string.text.split()]) for string in strings
    ]
    module = Transcriber(Frames(bands, stack=4), len(symbols), cell="lstm", dim=96, dropout=0.2)
    settings = {"name": "linear", "warmup": 0.02}
    fit(
        module,
        loader(module, rows),
        tmp_path / "run",
        steps=2000,
        learning_rate=5e-3,
        schedule=settings,
        clip_norm=1.0,
        device="cpu",
    )
    strings = digit_strings(parts["valid"], 100, 3, 5, seed=9)
    references = [string.text for string in strings]
    log_probs, mask = module.log_probs([string.sound().samples for string in strings])
    greedy = [" ".join(symbols[token] for token in path.tokens) for path in best_path(log_probs, mask)]
    searched = [
        " ".join(symbols[token] for token in path[0].tokens) for path in prefix_beam_search(log_probs, mask, beams=8)
    ]
    print(
        f"WER {rate(word_errors(greedy, references)):.1f} by the best path,"
        f" {rate(word_errors(searched, references)):.1f} by prefix beam search"
    )
    assert rate(word_errors(greedy, references)) < 25 and rate(word_errors(searched, references)) < 25
    first = module.ctc.align(
        log_probs[:1], torch.tensor([[symbols.index(word) for word in references[0].split()]]), mask[:1]
    )
    seconds = first.starts[0] * 4 * 0.01
    spoken = torch.tensor([sum(strings[0].silences[: n + 1]) + sum(r.sound().seconds for r in strings[0].recordings[:n])
                           for n in range(len(strings[0].recordings))])  # fmt: skip
    assert (seconds > spoken - 0.15).all() and (seconds[:-1] < spoken[1:] + 0.15).all(), (
        "every digit is found where it was spoken"
    )


@pytest.mark.slow
def test_a_transcriber_learns_handwriting_in_a_minute(tmp_path: Path) -> None:
    """Trained on random strings, it reads unseen words; a language model of these words corrects some errors."""
    torch.manual_seed(1)
    draw = random.Random(1)
    letters = ["", *" acdehilnorstu"]
    words = [
        "the",
        "and",
        "on",
        "in",
        "red",
        "house",
        "tree",
        "cat",
        "stone",
        "near",
        "old",
        "sun",
        "rain",
        "read",
        "coat",
        "road",
    ]

    def ids(text: str) -> list[int]:
        return [letters.index(letter) for letter in text]

    strings = ["".join(draw.choices(letters[2:], k=draw.randint(1, 5))) for _ in range(1600)]
    lines = [f"{first} {second}" for first, second in zip(strings[::2], strings[1::2], strict=True)]
    rows = [(columns(render_line(text, seed=seed)), ids(text)) for seed, text in enumerate(lines)]
    module = Transcriber(Frames(32, normalisation="none", stack=3), len(letters), cell="lstm", dim=96)
    fit(module, loader(module, rows), tmp_path / "run", steps=1200, learning_rate=5e-3, clip_norm=1.0, device="cpu")
    sentences = [" ".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(300)]
    references = sentences[:60]
    log_probs, mask = module.log_probs(
        [columns(render_line(text, seed=seed)) for seed, text in enumerate(references, start=10_000)]
    )
    model = fit_kneser_ney([[*ids(text), 0] for text in sentences[60:]], len(letters), order=5)

    def texts(token_rows: Any) -> list[str]:
        return ["".join(letters[token] for token in each) for each in token_rows]

    greedy = texts(hypothesis.tokens for hypothesis in best_path(log_probs, mask))
    searched = texts(
        hypothesis[0].tokens for hypothesis in prefix_beam_search(log_probs, mask, beams=8, language_model=model, end=0)
    )
    print(
        f"CER {rate(character_errors(greedy, references)):.1f}, with a language model"
        f" {rate(character_errors(searched, references)):.1f}"
    )
    assert rate(character_errors(searched, references)) < rate(character_errors(greedy, references)) < 20
