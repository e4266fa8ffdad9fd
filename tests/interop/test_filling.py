"""Imported checkpoints fill masks like `transformers`."""

from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Tokenizer

from clew.interop.checkpoints import import_checkpoint
from clew.runs.loaded import load_run
from tests.interop.checkpoints import make, transformers


@torch.no_grad()
@pytest.mark.parametrize(("name", "mask"), [("BertForPreTraining", "[MASK]"), ("RobertaForMaskedLM", "<mask>")])
def test_masks_and_pairs_give_the_probabilities_of_transformers(name: str, mask: str, tmp_path: Path) -> None:
    model = make(name, tmp_path / "theirs", **({"type_vocab_size": 1} if mask == "<mask>" else {}))
    file = str(tmp_path / "theirs" / "tokenizer.json")
    inner = Tokenizer.from_file(file)
    if mask == "<mask>":
        inner.add_special_tokens([AddedToken(mask, lstrip=True, special=True)])  # as in RoBERTa
        inner.save(file)
    import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    run = load_run(tmp_path / "run", device="cpu")
    assert run.config.training.length == run.task.body.max_length  # documents are scored in rows that fit the model
    reference_tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=file, mask_token=mask)
    for text in (f"the cat {mask} on the {mask} .", f"{mask}it rains", f"a dog{mask}, ran"):
        ids = reference_tokenizer(text)["input_ids"]
        out = model(torch.tensor([ids]))
        scores = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
        places = [place for place, id in enumerate(ids) if id == reference_tokenizer.mask_token_id]
        masks = run.fill(text, top=4).masks
        assert len(masks) == len(places)
        for guesses, place in zip(masks, places, strict=True):
            best = scores[0, place].softmax(-1).topk(4)
            assert [guess.id for guess in guesses] == best.indices.tolist()
            assert [guess.probability for guess in guesses] == pytest.approx(best.values.tolist(), abs=1e-5)
    if name == "BertForPreTraining":
        both = reference_tokenizer("it rains", "the dog ran", return_tensors="pt", return_token_type_ids=True)
        follows = model(**both).seq_relationship_logits.softmax(-1)[0, 0].item()
        assert run.fill([("it rains", "the dog ran")])[0].follows == pytest.approx(follows, abs=1e-5)
