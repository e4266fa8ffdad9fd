"""Tiny random checkpoints made by `transformers`, with matching tokenizers."""

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

transformers = pytest.importorskip("transformers")

TEXTS = [
    "the cat sat on the mat",
    "a dog ran away",
    "it rains !",
    "the dog and the cat sat on a mat , and it rains on the dog",
]
ENCODER = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "layer_norm_eps": 1e-6,
    "max_position_embeddings": 40,
}


def wordpiece() -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner.train_from_iterator(
        TEXTS, trainers.WordPieceTrainer(vocab_size=60, special_tokens=specials, show_progress=False)
    )
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    inner.decoder = decoders.WordPiece()
    return inner


def byte_pairs(specials: list[str]) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(TEXTS, trainer)
    return inner


def roberta_tokenizer() -> tokenizers.Tokenizer:
    inner = byte_pairs(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return inner


def llama_tokenizer() -> tokenizers.Tokenizer:
    inner = byte_pairs(["<unk>", "<s>", "</s>"])
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return inner


TOKENIZERS = {
    "Bert": wordpiece,
    "DistilBert": wordpiece,
    "Roberta": roberta_tokenizer,
    "XLMRoberta": roberta_tokenizer,
    "Camembert": roberta_tokenizer,
    "GPT2": lambda: byte_pairs(["<|endoftext|>"]),
    "Llama": llama_tokenizer,
    "Mistral": llama_tokenizer,
}


def config_of(kind: str, size: int, **more: Any) -> Any:
    config = getattr(transformers, f"{kind}Config")
    if kind == "DistilBert":
        return config(vocab_size=size, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=40, **more)
    if kind == "GPT2":
        return config(
            vocab_size=size, n_embd=16, n_layer=2, n_head=2, n_positions=40, bos_token_id=0, eos_token_id=0, **more
        )
    if kind in ("Llama", "Mistral"):
        rotary = {"num_key_value_heads": 1, "rms_norm_eps": 1e-4, **({"head_dim": None} if kind == "Mistral" else {})}
        fields = {name: value for name, value in ENCODER.items() if name != "layer_norm_eps"}
        return config(vocab_size=size, **{**fields, "num_attention_heads": 2, **rotary, **more})
    return config(vocab_size=size, **{**ENCODER, **more})


def randomised(model: Any, seed: int = 5) -> Any:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def kind_of(name: str) -> str:
    return next(kind for kind in sorted(TOKENIZERS, key=len, reverse=True) if name.startswith(kind))


def make(name: str, folder: Path, **more: Any) -> Any:
    """Save a random checkpoint of a `transformers` class with its tokenizer in a folder; return the model."""
    kind = kind_of(name)
    tokenizer = TOKENIZERS[kind]()
    model = randomised(getattr(transformers, name)(config_of(kind, tokenizer.get_vocab_size(), **more)))
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model
