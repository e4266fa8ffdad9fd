"""Language models for a transcriber: n-grams of its own tokens, and a run that generates letters."""

from pathlib import Path

import numpy as np
import pytest
import torch

import clew
from clew.core.errors import UserError
from clew.recipes.running import run_recipe
from clew.tasks.uses.spelling import UNKNOWN, SteppedModel, letter_ngrams
from clew.text.train import train_character, train_word
from tests.runs.small import LSTM, write_text

TOKENIZER = train_character("abcz \n", specials=["<eos>"])


def ids(text: str) -> tuple[int, ...]:
    return tuple(id for id in TOKENIZER.encode(text) if id != TOKENIZER.end)


def test_n_grams_score_the_end_of_a_text_at_the_index_of_the_blank() -> None:
    model = letter_ngrams(["cab", "cab", "", "ca"], TOKENIZER, 3)
    blank = TOKENIZER.vocabulary
    for prefix in ((), ids("c"), ids("ca"), ids("cab")):
        scores = model.score(prefix)
        assert scores.shape == (blank + 1,) and np.exp(scores).sum() == pytest.approx(1)
    assert model.score(ids("cab")).argmax() == blank and model.score(ids("c")).argmax() == ids("a")[0]
    assert model.score(ids("ca"))[blank] > model.score(ids("c"))[blank]


def test_a_text_without_letters_has_no_n_grams() -> None:
    with pytest.raises(UserError, match="there is no text to count n-grams in; give a file with one text per line"):
        letter_ngrams([" ", ""], TOKENIZER)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    write_text(folder, "cab\nabc\nba\n" * 40, "letters.txt")
    run_recipe("text-lstm", [f"data.train={folder}/letters.txt", *LSTM, "training.steps=5"], out=folder / "run")
    return folder / "run"


def test_a_run_scores_each_prefix_like_the_whole_text(run: Path) -> None:
    """Prefixes that continue from a cached state, against the model run over the whole text."""
    task = clew.load(run).task
    model = SteppedModel(task, TOKENIZER)
    for text in ("", "c", "ca", "b", "cab", "ba"):
        tokens = torch.tensor([task.tokenizer.encode("\n" + text)])
        with torch.no_grad():
            expected = task.log_probs(task.body(tokens)[0][0, -1])
        scores = model.score(ids(text))
        assert scores[ids("a")[0]] == pytest.approx(float(expected[task.tokenizer.id("a")]), abs=1e-5)
        assert scores[TOKENIZER.vocabulary] == pytest.approx(float(expected[task.tokenizer.id("\n")]), abs=1e-5)
        assert scores[ids("z")[0]] == UNKNOWN


def test_a_model_of_other_tokens_than_letters_is_rejected(run: Path) -> None:
    words = train_word(["a cab"], specials=["<eos>"])
    with pytest.raises(
        UserError,
        match="the language model and the transcriber must both use characters, but they use characters and words"
        "; train both with text.tokenizer=character, or give a text file to count n-grams in",
    ):
        SteppedModel(clew.load(run).task, words)
