"""Transcription by connectionist temporal classification: a sound in, what is said out, a symbol or a blank for every
frame (Graves et al. 2006). Any body that reads one sequence; the same task reads lines of writing column by column
(`task.input=columns`)."""

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
from clew.tasks.offers import Given
from clew.tasks.shared.heard_scores import explain_heard
from clew.tasks.shared.input_lengths import file_in, places_read
from clew.tasks.shared.input_reading import ReadsInput
from clew.tasks.shared.transcripts import Heard, Looked, MeasuredTranscripts, SoundRow, as_lines, heard_objects
from clew.tasks.use import Options, Use
from clew.tasks.uses.explaining import Explained
from clew.tasks.uses.spelling import Spelling
from clew.text.tokenizer import Tokenizer

BATCH_FRAMES = 65_536
"""Frames that are transcribed at a time, padding counted."""


class TranscriptionConfig(TaskSection):
    """A symbol or a blank for every frame of a sound."""

    name: Literal["transcription"] = "transcription"
    input: Annotated[Part, one_of("reader of sounds or lines", SPELLED)] = Field(
        "log_mel", description="how a sound is read, or a line of writing: log_mel, columns"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="of what the output layer reads")
    beams: int = Field(1, ge=1, description="1: the best path; more: prefix beam search with so many prefixes")
    longest: int = Field(2000, ge=1, description="training sounds with more frames than this are left out, and counted")
    measures: list[str] = Field(["wer", "cer"], description="what is transcribed is held against its text by these")
    best: str = Field("wer", description="the best evaluation: the lowest wer, cer or loss")


class Spoken(NamedTuple):
    """An example: its sound, and the ids of what is said."""

    input: Input
    target: list[int]


class SpokenBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None
    targets: Tensor  # (batch, labels)
    target_mask: Tensor | None
    fresh: bool = True


class Transcriber(MeasuredTranscripts, ReadsInput, ExampleTask):
    """p(text | x) = sum over paths that collapse to the text of prod_t softmax(W h_t + b)[path_t], h being the body's
    vectors.

    The blank is the symbol behind those of the tokenizer.
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
        """(batch, frames, symbols)."""
        hidden = self.body(batch.inputs, batch.mask)[0]
        found: Tensor = self.output(self.dropout(hidden))
        return found

    def forward(self, batch: SpokenBatch, state: State = None) -> tuple[dict[str, Term], State]:
        loss = self.ctc(self.logits(batch), batch.targets, batch.mask, batch.target_mask)
        return {"loss": Term(loss, self.counts(batch)["loss"])}, None

    def counts(self, batch: SpokenBatch) -> dict[str, Tensor]:
        """Symbols of the texts."""
        every = torch.full((), batch.targets.numel(), device=batch.targets.device)
        return {"loss": (every if batch.target_mask is None else batch.target_mask.sum()).clamp(min=1)}

    def row_losses(self, batch: SpokenBatch) -> list[list[float]]:
        log_probs = self.ctc.log_likelihood(self.logits(batch), batch.targets, batch.mask, batch.target_mask)
        lost = -log_probs.masked_fill(log_probs == -torch.inf, 0.0).double()
        counts = (
            torch.full_like(lost, batch.targets.shape[1])
            if batch.target_mask is None
            else batch.target_mask.sum(1).double()
        )
        found: list[list[float]] = torch.stack([lost, counts], 1).tolist()
        return found

    def encode(self, examples: Sequence[Transcribed]) -> list[Spoken]:
        texts = self.target.encode_batch([example.text for example in examples])
        found = []
        for example, ids in zip(examples, texts, strict=True):
            spoken = Spoken(self.reader.measured(example.input), [id for id in ids if id != self.target.end])
            needed = int(least_frames(torch.tensor([spoken.target])))
            if spoken.input.length < needed:
                raise UserError(
                    f"{example.id}: {len(spoken.target)} symbols need at least {needed} frames, and the sound has"
                    f" {spoken.input.length}; leave it out, or read more frames a second (task.input.hop_ms,"
                    " task.input.stack)"
                )
            found.append(spoken)
        return found

    def without_target(self, given: Any) -> Spoken:
        return Spoken(self.reader.measured(given), [])

    def collate(self, examples: Sequence[Spoken]) -> SpokenBatch:
        inputs, mask = self.reader.collate([each.input for each in examples], self.decoded)
        targets, target_mask = padded([each.target for each in examples])
        return SpokenBatch(inputs, mask, targets, target_mask)

    @torch.no_grad()
    def transcripts(self, batch: SpokenBatch, beams: int | None = None) -> list[Transcript]:
        """The best of each row, searched with so many prefixes, with a language model where there is one."""
        log_probs = self.logits(batch).float().log_softmax(-1)
        spelling = self.spelling
        beams = (self.config.beams if spelling is None else spelling.beams) if beams is None else beams
        if beams == 1 and spelling is None:
            return best_path(log_probs, batch.mask, blank=self.blank)
        more: dict[str, Any] = {}
        if spelling is not None:
            more = {
                "language_model": spelling.model,
                "alpha": spelling.weight,
                "beta": spelling.bonus,
                "end": self.blank,
            }
        return [found[0] for found in prefix_beam_search(log_probs, batch.mask, beams=beams, blank=self.blank, **more)]

    def predict(self, batch: SpokenBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None) -> list[str]:
        asked = decoding.beams if decoding is not None and decoding.method == "beam" else None
        return [self.text_of(found) for found in self.transcripts(batch, asked)]

    def text_of(self, transcript: Transcript) -> str:
        return self.target.decode(list(transcript.tokens)).strip()

    def transcribe(self, sounds: Sequence[Any], options: "TranscribeOptions") -> list[Heard]:
        """What is said in each sound, in the order given; one that is refused is named."""
        encoded = [self.without_target(sound) for sound in sounds]
        for sound, spoken in zip(sounds, encoded, strict=True):
            self.check_length(spoken, str(sound))
        lengths = torch.tensor([spoken.input.length for spoken in encoded]).reshape(-1, 1).numpy()
        found: dict[int, Transcript] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH_FRAMES):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                found |= dict(zip(rows, self.transcripts(batch, options.beams), strict=True))
        return [
            Heard(
                str(sound),
                self.text_of(found[row]),
                found[row].log_prob,
                self.looked(sound, encoded[row], found[row]) if options.with_attention else None,
            )
            for row, sound in enumerate(sounds)
        ]

    def looked(self, sound: Any, spoken: Spoken, transcript: Transcript) -> Looked:
        """p(a frame belongs to a letter | all letters, the sound), over all paths."""
        batch = to_device(self.collate([spoken]), self.output.weight.device)
        with evaluating([self]):
            logits = self.logits(batch).float()
        tokens = torch.tensor([transcript.tokens], dtype=torch.long, device=logits.device)
        weights = self.ctc.posteriors(logits, tokens, batch.mask)[0].cpu()
        return Looked(
            tuple(self.target.piece(token) for token in transcript.tokens), weights, self.reader.canvas(sound)
        )

    def spells(self, given: Given, config: Any = None) -> Heard:
        return self.transcribe([file_in(given, self.text_name)], TranscribeOptions(with_attention=True))[0]

    def explains(self, given: Given, of: str | None = None, place: int | None = None) -> Explained:
        """log p of a text, or of one of its symbols, by the sound's bands and frames."""
        return explain_heard(self, given, of, place)


def train_spoken_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Transcribed], config: TranscriptionConfig
) -> dict[str, Any]:
    """How sounds are read, and a tokenizer of the texts."""
    reader = build_part("reader of sounds or lines", config.input, SPELLED).fitted(examples[0].input)
    return {"input": reader, "target": train([example.text for example in examples], [])}


def build_transcriber(body: Any, vocabularies: dict[str, Any], config: TranscriptionConfig) -> Transcriber:
    return Transcriber(body, vocabularies["input"], vocabularies["target"], config)


class TranscribeOptions(Options):
    beams: int | None = Field(
        None, ge=1, description="prefixes of the search; 1 is the best path; as trained where not given"
    )
    with_attention: bool = Field(False, description="with where in its sound each letter lies")


def transcribe_rows(
    tasks: Sequence[Transcriber], rows: Sequence[SoundRow], options: TranscribeOptions, numbers: Sequence[int]
) -> list[Heard]:
    return tasks[0].transcribe([row.sound for row in rows], options)


TRANSCRIBE: Use[SoundRow, Heard] = Use(
    about="write down what is said in sound files",
    row=SoundRow,
    options=TranscribeOptions,
    answer=transcribe_rows,
    objects=heard_objects,
    formats={"lines": as_lines},
    places=places_read,
    try_it=lambda example: (["speech.wav"], None),
    help="""Every FILE, or else every line of standard input or of --file, is the path of a sound file: WAV, and with
`pip install 'clew[sound]'` FLAC, Ogg and MP3; or of a run that reads lines of writing, that of a picture. What is
said in it is one line of standard output; where there are several files, behind the file's name and a tab.

  clew transcribe runs/digits-speech three.wav
  clew transcribe runs/digits-speech *.wav
  clew transcribe runs/digits-speech three.wav --beams 20 --json
  clew transcribe runs/digits-speech three.wav --attention three.png
  clew transcribe runs/digits-speech three.wav --lm texts.txt --lm-weight 0.5

--attention draws where in its sound each letter lies: what the decoder looked at while it wrote it, or of a run
trained by CTC how probably each frame belongs to it. --lm searches with a language model, which is for CTC: in a text
file n-grams of the tokens are counted that the run writes, and a run is to be a language model of letters.""",
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
