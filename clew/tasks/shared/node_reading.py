"""The `Reads`, `Judges` and `Explains` capabilities of a word labeller that reads one sentence with its graph.

A sentence is given as CoNLL-U, whose heads form the graph; or as plain words, if the body reads no graph.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from clew.core.batches import map_batch, to_device
from clew.core.errors import UserError, named
from clew.core.graph_batches import GraphInputs
from clew.core.layouts import Layout
from clew.data.examples import Sentence
from clew.data.formats.conllu_files import parse_conllu
from clew.layers.embeddings import tokens_of
from clew.sources.words import WordReader
from clew.tasks.offers import Carried, Judged, JudgedWord, Levels, ModelInput, Reading
from clew.tasks.shared.reading import levels_of
from clew.tasks.uses.explaining import Explained, check_not_empty, chosen_label
from clew.text.labels import Labels
from clew.text.words import spaced_words


class ReadsGraph:
    """A task with a `body` over words and a label for each word; `reads_graphs` says whether the body reads graphs."""

    body: Any
    reader: WordReader
    labels: Labels
    output: nn.Linear
    reads_graphs: bool
    text_name = "sentence"

    def encode_graphs(self, examples: Sequence[Sentence]) -> Any:
        raise NotImplementedError

    def collate(self, examples: Any) -> Any:
        raise NotImplementedError

    def label(self, sentences: Sequence[Sentence]) -> list[list[tuple[str, float]]]:
        raise NotImplementedError

    def check_length(self, encoded: Any, place: str) -> None:
        raise NotImplementedError

    def sentence_of(self, model_input: ModelInput) -> Sentence:
        """Return the first sentence of CoNLL-U, or the words of a text in no such format."""
        check_not_empty(model_input.text)
        sentences = parse_conllu(model_input.text, "the text")
        return (
            sentences[0]
            if sentences
            else Sentence(tuple(word.text for word in spaced_words(model_input.text)), id="the text")
        )

    def one_row(self, model_input: ModelInput) -> tuple[Sentence, Any, Any]:
        sentence = self.sentence_of(model_input)
        (encoded,) = self.encode_graphs([sentence])
        self.check_length(encoded, sentence.id)
        return sentence, encoded, to_device(self.collate([encoded]), self.output.weight.device)

    def body_inputs(self, batch: Any) -> tuple[Any, ...]:
        """Return the arguments for the body."""
        return (GraphInputs(batch.words, batch.mask, batch.graphs),) if self.reads_graphs else (batch.words, batch.mask)

    def reads(self, model_input: ModelInput, *, any_length: bool = False) -> Reading:
        sentence, encoded, batch = self.one_row(model_input)
        ids, tokenizer = tuple(encoded.words.tokens), self.reader.tokenizer
        layout = Layout(tuple(sentence.words), "word")
        return Reading(
            self,
            model_input.text,
            layout.names,
            ids,
            batch,
            tokenizer=tokenizer,
            limit=self.body.max_length,
            layout=layout,
        )

    def runs(self, reading: Reading) -> Tensor:
        hidden: Tensor = self.body(*self.body_inputs(reading.batch))[0]
        return hidden

    def levels(self, reading: Reading) -> list[Levels]:
        return [levels_of(self.body, self.body.levels(*self.body_inputs(reading.batch)), reading.tokens)]

    def carries(self, reading: Reading) -> Carried | None:
        words = reading.batch.words
        if not self.body.causal or not isinstance(words, Tensor):
            return None
        return Carried(lambda t, state: self.body(words[:, t : t + 1], None, state), self.body.initial_state(1))

    def entrance(self, reading: Reading) -> str:
        return "body.embedding"

    def judges(self, model_input: ModelInput) -> Judged:
        sentence = self.sentence_of(model_input)
        (labels,) = self.label([sentence])
        words = zip(sentence.words, labels, strict=True)
        return Judged(words=tuple(JudgedWord(word, label, share) for word, (label, share) in words))

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain the score of a label at a word by all words; the graph is kept."""
        place = place or 1
        sentence, _, batch = self.one_row(model_input)
        if place > len(sentence.words):
            raise UserError(f"there is no word {place}; the sentence has {len(sentence.words)}")

        def logits(words: Any) -> Tensor:
            rows = len(tokens_of(words))
            graphs = map_batch(lambda part: part.expand(rows, *part.shape[1:]), batch.graphs)
            hidden = self.body(*self.body_inputs(batch._replace(words=words, mask=None, graphs=graphs)))[0]
            scores: Tensor = self.output(hidden)[:, place - 1]
            return scores

        label = chosen_label(self.labels.names, logits, batch.words, of)
        what = f"the score of {named(self.labels.names[label])} at {named(sentence.words[place - 1])}"
        own = (True,) * len(sentence.words)
        layout = Layout(tuple(sentence.words), "word")
        return Explained(
            self,  # type: ignore[arg-type]
            batch.words,
            lambda words: logits(words)[:, label],
            layout.names,
            own,
            what,
            self.reader.tokenizer,
            movable=False,
            layout=layout,
        )
