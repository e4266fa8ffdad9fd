"""Speech recognition by attention: a sound in, its transcript out, letter by letter (Chan et al. 2016, Listen, attend
and spell). Any body that encodes; the paper's is a pyramid of BiLSTMs (`model.pyramid`), which encodes a long sound as
a short memory."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from clew.core.config import Part, build_part, one_of
from clew.data.examples import Transcribed
from clew.data.kinds.transcribed import TRANSCRIBED
from clew.sources.readers import SPELLED, AnyReader
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, TrainTokenizer
from clew.tasks.offers import ModelInput
from clew.tasks.shared.from_inputs import WritesFromInput
from clew.tasks.shared.input_lengths import file_in, places_read
from clew.tasks.shared.sequence import Measures, SequenceConfig
from clew.tasks.shared.source_to_target import GREEDY
from clew.tasks.shared.transcripts import (
    Looked,
    MeasuredTranscripts,
    SoundRow,
    Transcription,
    as_lines,
    transcription_objects,
)
from clew.tasks.use import Use, WritingOptions
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer


class ListeningConfig(SequenceConfig):
    """The transcript of a sound, written letter by letter."""

    name: Literal["listening"] = "listening"  # type: ignore[assignment]
    input: Annotated[Part, one_of("reader of sounds or lines", SPELLED)] = Field(
        "log_mel", description="the reader of sounds or lines of handwriting: log_mel, columns"
    )
    measures: Measures = Field(["wer", "cer"], description="metrics that compare transcripts with the reference texts")
    longest: int = Field(2000, ge=1, description="training sounds with more frames than this are left out, and counted")
    best: str = Field("wer", description="what selects the best checkpoint: the lowest wer, cer or loss")

    @property
    def values(self) -> list[str]:
        return self.measures


class Listener(MeasuredTranscripts, WritesFromInput):
    """An encoder-decoder that transcribes sounds.

        P(text | x) = product over t of softmax(V d_t + b)[y_t],  d_t = decoder(y_<t, encoder(x))

    x are the frames of a sound.
    """

    config: ListeningConfig
    text_name = "sound"

    def transcribe(
        self, sounds: Sequence[Any], options: "ListenOptions", numbers: Sequence[int]
    ) -> list[list[Transcription]]:
        """Return the best transcripts of each sound, in the order given."""
        transcripts = self.write_for(sounds, options.decoding, options.seed, numbers)
        return [
            [
                Transcription(
                    str(sound),
                    each.text,
                    each.log_prob,
                    self.looked(sound, each.text) if options.with_attention else None,
                )
                for each in written
            ]
            or [Transcription(str(sound), "", 0.0)]
            for sound, written in zip(sounds, transcripts, strict=True)
        ]

    def looked(self, sound: Any, text: str) -> Looked:
        """Return the attention of each letter, and of the end token."""
        alignment = self.aligns(ModelInput(sound, target=text))
        return Looked(tuple(alignment.target.texts), alignment.weights, self.reader.canvas(sound))

    def without(self, capability: str) -> str | None:
        """Letters are located by attention, so a decoder without attention does not spell."""
        return super().without("aligns" if capability == "spells" else capability)

    def spells(self, model_input: ModelInput, config: DecodingConfig | None = None) -> Transcription:
        sound = file_in(model_input, self.text_name)
        (written,) = self.write_for([sound], config or GREEDY)
        text, log_prob = (written[0].text, written[0].log_prob) if written else ("", 0.0)
        return Transcription(str(sound), text, log_prob, self.looked(sound, text))


def train_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Transcribed], config: ListeningConfig
) -> dict[str, Any]:
    """Build the reader of sounds, and a tokenizer of the transcripts."""
    reader = build_part("reader of sounds or lines", config.input, SPELLED).fitted(examples[0].input)
    return {"source": reader, "target": train([example.text for example in examples], [])}


def build(body: Any, vocabularies: dict[str, Any], config: ListeningConfig) -> Listener:
    return Listener(body, vocabularies["source"], vocabularies["target"], config)


class ListenOptions(WritingOptions):
    """How transcripts are generated."""

    with_attention: bool = Field(False, description="add the attention of each letter over its sound")


def listen_rows(
    tasks: Sequence[Listener], rows: Sequence[SoundRow], options: ListenOptions, numbers: Sequence[int]
) -> list[list[Transcription]]:
    return tasks[0].transcribe([row.sound for row in rows], options, numbers)


LISTENING = TaskEntry(
    config=ListeningConfig,
    build=build,
    needs=Listener.needs,
    vocabularies={"source": AnyReader, "target": Tokenizer},
    learning=Examples(TRANSCRIBED, train_vocabularies),
    uses={
        "transcribe": Use(
            about="transcribe sound files",
            row=SoundRow,
            options=ListenOptions,
            answer=listen_rows,
            objects=transcription_objects,
            formats={"lines": as_lines},
            places=places_read,
            try_it=lambda example: (["speech.wav"], None),
        )
    },
    pipeline="automatic-speech-recognition",
)
