"""Speech recognition by connectionist temporal classification: a sound in, its transcript out, with a symbol or a blank
for every frame (Graves et al. 2006). Any body that reads one sequence. The same task reads lines of handwriting column
by column (`task.input=columns`)."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from clew.core.batches import padded, to_device
from clew.core.config import Part, TaskSection, build_part, one_of
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.core.types import State, Term
from clew.data.examples import Transcribed
from clew.data.kinds.transcribed import TRANSCRIBED
from clew.data.plans import batches_by_length
from clew.decoding.ctc import Transcript, best_path, prefix_beam_search
from clew.layers.losses.ctc import CTC, least_frames
from clew.sources.inputs import Decoded, Input, InputReader
from clew.sources.readers import SPELLED, AnyReader
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.offers import ModelInput
from clew.tasks.shared.input_lengths import file_in, places_read
from clew.tasks.shared.input_reading import ReadsInput
from clew.tasks.shared.transcription_scores import explain_transcription
from clew.tasks.shared.transcripts import (
    Looked,
    MeasuredTranscripts,
    SoundRow,
    Transcription,
    as_lines,
    transcription_objects,
)
from clew.tasks.use import Options, Use
from clew.tasks.uses.explaining import Explained
from clew.tasks.uses.spelling import Spelling
from clew.text.tokenizer import Tokenizer

BATCH_FRAMES = 65_536
"""Frames per batch when transcribing, including padding."""


class TranscriptionConfig(TaskSection):
    """A symbol or a blank for every frame of a sound."""

    name: Literal["transcription"] = "transcription"
    input: Annotated[Part, one_of("reader of sounds or lines", SPELLED)] = Field(
        "log_mel", description="the reader of sounds or lines of handwriting: log_mel, columns"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="of the output layer's input")
    beams: int = Field(1, ge=1, description="1: the best path; more: prefix beam search with this many prefixes")
    longest: int = Field(2000, ge=1, description="training sounds with more frames than this are left out, and counted")
    measures: list[str] = Field(["wer", "cer"], description="metrics that compare transcripts with the reference texts")
    best: str = Field("wer", description="what selects the best checkpoint: the lowest wer, cer or loss")


class Spoken(NamedTuple):
    """An example: its sound, and the ids of its transcript."""

    input: Input
    target: list[int]


class SpokenBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None
    targets: Tensor  # (batch, labels)
    target_mask: Tensor | None
    fresh: bool = True


class Transcriber(MeasuredTranscripts, ReadsInput, ExampleTask):
    """Symbols of frames, from the body's vectors h of a sound x.

        p(text | x) = sum over paths that collapse to the text of prod_t softmax(W h_t + b)[path_t]

    The blank is the symbol after those of the tokenizer.
    """

    config: TranscriptionConfig
    text_name = "sound"

    def __init__(self, body: Any, reader: InputReader, target: Tokenizer, config: TranscriptionConfig):
        super().__init__()
        self.body = body
        self.reader = reader
        self.target = target
        self.config = config
        self.blank = target.vocabulary
        self.output = nn.Linear(body.dim, target.vocabulary + 1)
        self.dropout = nn.Dropout(config.dropout)
        self.ctc = CTC(self.blank)
        self.spelling: Spelling | None = None
        self.decoded = Decoded()

    @property
    def best(self) -> str:
        return self.config.best

    def logits(self, batch: SpokenBatch) -> Tensor:
        """Return scores (batch, frames, symbols)."""
        hidden = self.body(batch.inputs, batch.mask)[0]
        logits: Tensor = self.output(self.dropout(hidden))
        return logits

    def forward(self, batch: SpokenBatch, state: State = None) -> tuple[dict[str, Term], State]:
        loss = self.ctc(self.logits(batch), batch.targets, batch.mask, batch.target_mask)
        return {"loss": Term(loss, self.counts(batch)["loss"])}, None

    def counts(self, batch: SpokenBatch) -> dict[str, Tensor]:
        """Return the number of symbols in the texts."""
        total = torch.full((), batch.targets.numel(), device=batch.targets.device)
        return {"loss": (total if batch.target_mask is None else batch.target_mask.sum()).clamp(min=1)}

    def row_losses(self, batch: SpokenBatch) -> list[list[float]]:
        log_probs = self.ctc.log_likelihood(self.logits(batch), batch.targets, batch.mask, batch.target_mask)
        losses = -log_probs.masked_fill(log_probs == -torch.inf, 0.0).double()
        counts = (
            torch.full_like(losses, batch.targets.shape[1])
            if batch.target_mask is None
            else batch.target_mask.sum(1).double()
        )
        rows: list[list[float]] = torch.stack([losses, counts], 1).tolist()
        return rows

    def encode(self, examples: Sequence[Transcribed]) -> list[Spoken]:
        texts = self.target.encode_batch([example.text for example in examples])
        encoded = []
        for example, ids in zip(examples, texts, strict=True):
            spoken = Spoken(self.reader.measured(example.input), [id for id in ids if id != self.target.end])
            needed = int(least_frames(torch.tensor([spoken.target])))
            if spoken.input.length < needed:
                raise UserError(
                    f"{example.id}: {len(spoken.target)} symbols need at least {needed} frames, and the sound has"
                    f" {spoken.input.length}; leave it out, or read more frames per second (task.input.hop_ms,"
                    " task.input.stack)"
                )
            encoded.append(spoken)
        return encoded

    def without_target(self, example: Any) -> Spoken:
        return Spoken(self.reader.measured(example), [])

    def collate(self, examples: Sequence[Spoken]) -> SpokenBatch:
        inputs, mask = self.reader.collate([each.input for each in examples], self.decoded)
        targets, target_mask = padded([each.target for each in examples])
        return SpokenBatch(inputs, mask, targets, target_mask)

    @torch.no_grad()
    def transcripts(self, batch: SpokenBatch, beams: int | None = None) -> list[Transcript]:
        """Return the best transcript of each row, searched with `beams` prefixes, and with a language model if there is
        one."""
        log_probs = self.logits(batch).float().log_softmax(-1)
        spelling = self.spelling
        beams = (self.config.beams if spelling is None else spelling.beams) if beams is None else beams
        if beams == 1 and spelling is None:
            return best_path(log_probs, batch.mask, blank=self.blank)
        language_model: dict[str, Any] = {}
        if spelling is not None:
            language_model = {
                "language_model": spelling.model,
                "alpha": spelling.weight,
                "beta": spelling.bonus,
                "end": self.blank,
            }
        ranked = prefix_beam_search(log_probs, batch.mask, beams=beams, blank=self.blank, **language_model)
        return [transcripts[0] for transcripts in ranked]

    def predict(self, batch: SpokenBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None) -> list[str]:
        beams = decoding.beams if decoding is not None and decoding.method == "beam" else None
        return [self.text_of(transcript) for transcript in self.transcripts(batch, beams)]

    def text_of(self, transcript: Transcript) -> str:
        return self.target.decode(list(transcript.tokens)).strip()

    def transcribe(self, sounds: Sequence[Any], options: "TranscribeOptions") -> list[Transcription]:
        """Transcribe each sound, in the order given. Errors name the sound."""
        encoded = [self.without_target(sound) for sound in sounds]
        for sound, spoken in zip(sounds, encoded, strict=True):
            self.check_length(spoken, str(sound))
        lengths = torch.tensor([spoken.input.length for spoken in encoded]).reshape(-1, 1).numpy()
        transcripts: dict[int, Transcript] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH_FRAMES):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                transcripts |= dict(zip(rows, self.transcripts(batch, options.beams), strict=True))
        return [
            Transcription(
                str(sound),
                self.text_of(transcripts[row]),
                transcripts[row].log_prob,
                self.looked(sound, encoded[row], transcripts[row]) if options.with_attention else None,
            )
            for row, sound in enumerate(sounds)
        ]

    def looked(self, sound: Any, spoken: Spoken, transcript: Transcript) -> Looked:
        """Return p(a frame belongs to a letter | all letters, the sound), over all paths."""
        batch = to_device(self.collate([spoken]), self.output.weight.device)
        with evaluating([self]):
            logits = self.logits(batch).float()
        tokens = torch.tensor([transcript.tokens], dtype=torch.long, device=logits.device)
        weights = self.ctc.posteriors(logits, tokens, batch.mask)[0].cpu()
        return Looked(
            tuple(self.target.piece(token) for token in transcript.tokens), weights, self.reader.canvas(sound)
        )

    def spells(self, model_input: ModelInput, config: Any = None) -> Transcription:
        return self.transcribe([file_in(model_input, self.text_name)], TranscribeOptions(with_attention=True))[0]

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain log p of a text, or of one of its symbols, by the sound's bands and frames."""
        return explain_transcription(self, model_input, of, place)


def train_spoken_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Transcribed], config: TranscriptionConfig
) -> dict[str, Any]:
    """Build the reader of sounds, and a tokenizer of the transcripts."""
    reader = build_part("reader of sounds or lines", config.input, SPELLED).fitted(examples[0].input)
    return {"input": reader, "target": train([example.text for example in examples], [])}


def build_transcriber(body: Any, vocabularies: dict[str, Any], config: TranscriptionConfig) -> Transcriber:
    return Transcriber(body, vocabularies["input"], vocabularies["target"], config)


class TranscribeOptions(Options):
    beams: int | None = Field(
        None, ge=1, description="prefixes of the beam search; 1 is the best path; by default the run's own number"
    )
    with_attention: bool = Field(False, description="add the position of each letter in its sound")


def transcribe_rows(
    tasks: Sequence[Transcriber], rows: Sequence[SoundRow], options: TranscribeOptions, numbers: Sequence[int]
) -> list[Transcription]:
    return tasks[0].transcribe([row.sound for row in rows], options)


TRANSCRIBE: Use[SoundRow, Transcription] = Use(
    about="transcribe sound files",
    row=SoundRow,
    options=TranscribeOptions,
    answer=transcribe_rows,
    objects=transcription_objects,
    formats={"lines": as_lines},
    places=places_read,
    try_it=lambda example: (["speech.wav"], None),
    help="""Each FILE is the path of a sound file: WAV, and with `pip install 'clew[sound]'` FLAC, Ogg and MP3. For a
run that reads lines of handwriting it is the path of a picture. Without FILE, each line of standard input or of --file
is such a path. Each transcript is one line of standard output. If there are several files, the line starts with the
file's name and a tab.

  clew transcribe runs/digits-speech three.wav
  clew transcribe runs/digits-speech *.wav
  clew transcribe runs/digits-speech three.wav --beams 20 --json
  clew transcribe runs/digits-speech three.wav --attention three.png
  clew transcribe runs/digits-speech three.wav --lm texts.txt --lm-weight 0.5

--attention draws the position of each letter in its sound: the decoder's attention while it wrote the letter, or for a
run trained with CTC the probability that a frame belongs to the letter. --lm searches with a language model (CTC
only): n-grams of the run's tokens counted in a text file, or a run that is a language model of letters.""",
)

SPOKEN = {"input": AnyReader, "target": Tokenizer}

TRANSCRIPTION = TaskEntry(
    config=TranscriptionConfig,
    build=build_transcriber,
    vocabularies=SPOKEN,
    learning=Examples(TRANSCRIBED, train_spoken_vocabularies),
    uses={"transcribe": TRANSCRIBE},
    pipeline="automatic-speech-recognition",
)
