"""Several steppers as one: their probabilities are averaged, and each keeps its own state in any search."""

import pytest
import torch

from clew.core.errors import UserError
from clew.decoding.beam import beam_search
from clew.decoding.ensemble import Ensemble
from clew.decoding.sampling import greedy_sequences
from clew.decoding.stepper import prefill
from tests.decoding.steppers import Attending, Recurrent, Transition, Translator, padded

VOCABULARY, END = 6, 0
PROMPTS = torch.tensor([[1], [2], [3], [4]])


def members() -> list:
    return [Recurrent(VOCABULARY, 1), Attending(VOCABULARY, 2), Recurrent(VOCABULARY, 3)]


def test_log_probabilities_are_the_means_of_the_members() -> None:
    tokens, mask = padded([[1, 2, 3], [4], [5, 1]])
    together, state = prefill(Ensemble(members()), tokens, mask, Ensemble(members()).initial_state(3, 8))
    apart = [prefill(one, tokens, mask, one.initial_state(3, 8)) for one in members()]
    torch.testing.assert_close(together, torch.stack([log_probs for log_probs, _ in apart]).mean(0))
    assert len(state) == 3


def test_log_probabilities_are_at_most_zero_and_a_token_refused_by_one_is_refused() -> None:
    sure = Transition([[1.0, 0.0], [1.0, 0.0]])
    log_probs, _ = Ensemble([sure, Transition([[0.5, 0.5], [0.5, 0.5]])])(
        torch.tensor([[0]]), None, (torch.zeros(1).long(), torch.zeros(1).long())
    )
    assert log_probs[0, 0].tolist() == [pytest.approx(0.5 * torch.tensor(0.5).log().item()), -torch.inf]


@pytest.mark.parametrize("copies", [1, 3])
def test_copies_of_one_model_generate_the_same_as_the_model(copies: int) -> None:
    for kind in (Recurrent, Attending):
        alone = beam_search(kind(VOCABULARY, 5), PROMPTS, beams=3, max_new=7, end=END, n_best=2)
        together = beam_search(
            Ensemble([kind(VOCABULARY, 5) for _ in range(copies)]), PROMPTS, beams=3, max_new=7, end=END, n_best=2
        )
        assert torch.equal(alone.tokens, together.tokens)
        torch.testing.assert_close(alone.scores, together.scores, rtol=1e-10, atol=1e-12)


def test_sentences_are_generated_equally_in_a_batch_and_alone_in_any_search() -> None:
    ensemble = Ensemble(members())
    together = beam_search(ensemble, PROMPTS, beams=3, max_new=7, end=END)
    greedy = greedy_sequences(ensemble, PROMPTS, max_new=7, end=END)
    for row in range(len(PROMPTS)):
        alone = beam_search(Ensemble(members()), PROMPTS[row : row + 1], beams=3, max_new=7, end=END)
        assert alone.tokens[0, 0].tolist() == together.tokens[row, 0, : alone.tokens.shape[-1]].tolist()
        one = greedy_sequences(Ensemble(members()), PROMPTS[row : row + 1], max_new=7, end=END)
        assert one.tokens[0].tolist() == greedy.tokens[row, : one.tokens.shape[1]].tolist()


def test_members_share_no_memory_and_each_keeps_one_row_per_sentence() -> None:
    sources = [torch.randn(4, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in (1, 2)]
    translators = [Translator(VOCABULARY, seed, source) for seed, source in enumerate(sources)]
    together = beam_search(Ensemble(translators), PROMPTS, beams=3, max_new=6, end=END)
    assert all(translator.rows_of_memory == {4} for translator in translators)
    for row in range(4):
        each = Ensemble([Translator(VOCABULARY, seed, source[row : row + 1]) for seed, source in enumerate(sources)])
        alone = beam_search(each, PROMPTS[row : row + 1], beams=3, max_new=6, end=END)
        assert alone.tokens[0, 0].tolist() == together.tokens[row, 0, : alone.tokens.shape[-1]].tolist()


def test_models_of_different_vocabularies_are_rejected() -> None:
    with pytest.raises(UserError, match="an ensemble needs models with one vocabulary; these have 6, 7 tokens"):
        Ensemble([Recurrent(6, 1), Recurrent(7, 1)])
    with pytest.raises(UserError, match="these have no tokens"):
        Ensemble([])
