"""Captioners built from parts: an encoder-decoder over pictures memorises the captions of a few scenes."""

import pytest
import torch
from torch import Tensor, nn

from clew.data.kinds.captioned import CAPTIONED, CaptionedData
from clew.data.pictures.picture_files import read_picture
from clew.data.synthetic.scene_texts import is_true
from clew.metrics.captioning import measure_captions
from clew.models import MODELS
from clew.sources.pictures import Convolved, Patches, Pictures
from clew.sources.tokens import Tokens
from clew.text.train import TOKENIZERS

OPTIONS = {
    "seq2seq": {"dim": 64, "attention": "before"},
    "transformer": {"dim": 64, "num_heads": 2, "num_layers": 1, "dropout": 0.0, "position": "sinusoidal"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "source"),
    [("seq2seq", Convolved(widths=(16, 32), blocks=1, stem_stride=2)), ("transformer", Patches(size=8))],
    ids=["seq2seq", "transformer"],
)
def test_a_captioner_memorises_eight_scenes(family: str, source: Pictures) -> None:
    torch.manual_seed(0)
    rows = CAPTIONED.read(CaptionedData(corpus="scenes", size=10, side=32), 1)["train"][:8]
    texts = [row.captions[0] for row in rows]
    tokenizer = TOKENIZERS["word"](texts)
    end = tokenizer.end
    assert end is not None
    target_ids = [[*tokenizer.encode(text), end] for text in texts]
    body = MODELS[family].build(MODELS[family].config(**OPTIONS[family]), Tokens(tokenizer.vocabulary), source)
    output = nn.Linear(body.dim, tokenizer.vocabulary)
    optimiser = torch.optim.AdamW([*body.parameters(), *output.parameters()], lr=3e-3)
    pictures, mask = source.collate([read_picture(row.picture) for row in rows])
    targets, real = Tokens(tokenizer.vocabulary).collate(target_ids)
    inputs = torch.cat([torch.full_like(targets[:, :1], end), targets[:, :-1]], 1)

    def logits(tokens: Tensor) -> Tensor:
        hidden, _ = body(tokens, None, body.initial_state(len(rows), body.encode(pictures, mask)))
        return output(hidden)

    for _ in range(150):
        losses = nn.functional.cross_entropy(logits(inputs).mT, targets, reduction="none")
        optimiser.zero_grad()
        (losses if real is None else losses[real]).mean().backward()
        optimiser.step()
    body.eval()
    tokens = torch.full((len(rows), 1), end)
    with torch.no_grad():
        for _ in range(targets.shape[1]):
            tokens = torch.cat([tokens, logits(tokens)[:, -1:].argmax(-1)], 1)
    captions = [tokenizer.decode(row[: row.index(end)] if end in row else row) for row in tokens[:, 1:].tolist()]
    assert captions == texts and all(is_true(text, row.picture) for text, row in zip(captions, rows, strict=True))
    assert measure_captions(captions, [row.captions for row in rows]).measured.values["bleu_4"] == pytest.approx(100)
