"""Trees of beam search, on a transition matrix by hand, and on runs."""

import math

import pytest
import torch

from clew.core.errors import UserError
from clew.inspection.decoding_tree import search_tree
from clew.instruments.looking import look
from tests.decoding.steppers import Transition
from tests.instruments.small_runs import small_run

START, YES, OK, END = range(4)
NAMES = ["start", "yes", "ok", "end"]
ANSWERS = Transition(
    [
        [[0, 0.5, 0.4, 0.1]] * 4,
        [[0, 0, 0, 1], [0, 0.4, 0.3, 0.3], [0, 0.2, 0.7, 0.1], [0, 0, 0, 1]],
        [[0, 0, 0, 1]] * 4,
    ]
)


def tree_of(beams, **options):
    prompt = torch.tensor([[START]])
    return search_tree(
        ANSWERS, prompt, beams=beams, max_new=3, ends=[END], length_penalty=0.0, name=NAMES.__getitem__, **options
    )


def test_the_tree_of_two_beams_equals_the_one_by_hand():
    """Step 1 considers yes .5, ok .4, end .1; yes and ok are kept. Step 2 considers the four best of yes yes .2,
    yes ok .15, yes end .15, ok yes .08, ok ok .28, ok end .04; ok ok and yes yes are kept. Then both end."""
    tree = tree_of(2)
    nodes = {}
    for node in tree.nodes[1:]:
        parent, path = node, []
        while parent.parent is not None:
            path.insert(0, parent.text)
            parent = tree.nodes[parent.parent]
        nodes[" ".join(path)] = (round(math.exp(node.score), 4), node.kept, node.best)
    assert nodes == {
        "yes": (0.5, True, False),
        "ok": (0.4, True, True),
        "end": (0.1, True, False),
        "ok ok": (0.28, True, True),
        "yes yes": (0.2, True, False),
        "yes ok": (0.15, False, False),
        "yes end": (0.15, True, False),
        "ok ok end": (0.28, True, True),
        "yes yes end": (0.2, True, False),
    }
    assert [hypothesis.tokens for hypothesis in tree.hypotheses] == [(OK, OK, END), (YES, YES, END)]
    assert tree.hypotheses[0].score == pytest.approx(math.log(0.28))
    assert (
        "ends with score" in next(node.note for node in tree.nodes if node.text == "end")
        and "p 0.5" in tree.nodes[1].note
    )


def test_one_beam_takes_the_most_probable_token_and_loses():
    """Greedy search ends with yes yes end, although ok ok end is more probable."""
    tree = tree_of(1)
    assert tree.hypotheses[0].tokens == (YES, YES, END)
    assert [node.text for node in tree.nodes if node.best] == ["", "yes", "yes", "end"]


def test_a_beam_cut_at_the_length_limit_competes_unfinished():
    tree = search_tree(ANSWERS, torch.tensor([[START]]), beams=2, max_new=1, ends=[END], name=NAMES.__getitem__)
    assert [hypothesis.tokens for hypothesis in tree.hypotheses] == [(YES,), (OK,)] and tree.nodes[1].best


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_a_language_models_tree_ends_in_its_generated_texts(name):
    run = small_run(name)
    facts = look(run, "beam", {"text": "the wall", "beams": 3, "max_new": 5}).facts
    continuations = run.generate("the wall", method="beam", beams=3, n_best=3, max_new=5, temperature=1.0, top_p=None)
    assert [one["text"] for one in facts["found"]] == [one.text for one in continuations]
    assert "".join(node["token"] for node in facts["nodes"] if node["best"]) == continuations[0].text
    num_kept = sum(node["kept"] for node in facts["nodes"][1:])
    # nothing ends, but an equal number is dropped
    assert num_kept == 3 * 5 and len(facts["nodes"]) - 1 - num_kept == 3 * 5


@pytest.mark.parametrize("name", ["attentive", "transformer"])
def test_a_tree_is_ranked_by_length_and_coverage_like_a_translation(name):
    run = small_run(name)
    ranking = {"length_form": "gnmt", "length_penalty": 0.6, "coverage_penalty": 0.4}
    view = look(run, "beam", {"text": "the walls were tall", "beams": 3, "max_new": 6, **ranking})
    translations = run.translate("the walls were tall", method="beam", beams=3, n_best=3, max_new=6, **ranking)
    assert [one["score"] for one in view.facts["found"]] == pytest.approx([one.score for one in translations], abs=1e-4)
    assert view.parts[1].header[-1] == "score (nats / ((5 + tokens) / 6)^length_penalty + coverage)"


@pytest.mark.parametrize("name", ["attentive", "transformer"])
def test_a_translators_tree_ends_in_its_translation(name):
    run = small_run(name)
    facts = look(run, "beam", {"text": "the walls were tall", "beams": 2, "max_new": 6}).facts
    translations = run.translate("the walls were tall", beams=2, n_best=2, max_new=6)
    assert [one["text"].strip() for one in facts["found"]] == [one.text for one in translations]
    assert [one["log_prob"] for one in facts["found"]] == pytest.approx(
        [one.log_prob for one in translations], abs=1e-3
    )


def test_only_generating_models_can_be_searched():
    for instrument in ("beam", "sampling"):
        with pytest.raises(
            UserError, match="runs/classifier does not generate text token by token; instruments that can: tokens"
        ):
            look(small_run("classifier"), instrument, {"text": "a"})
    with pytest.raises(UserError, match="there is no text to read"):
        look(small_run("transformer"), "beam", {"text": " "})
