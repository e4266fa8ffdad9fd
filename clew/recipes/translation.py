"""Translation: embedded Tatoeba pairs for two CPU cores, and Multi30k for a GPU."""

from typing import Any

from clew.recipes.recipe import Recipe

BEAM = {"method": "beam", "beams": 5, "max_new": 100}
SHORT_BEAM = {**BEAM, "max_new": 50}
TATOEBA = {"corpus": "tatoeba-sample", "source": "de", "target": "en"}
MULTI30K = {"corpus": "multi30k", "source": "de", "target": "en"}
SUBWORDS = {"tokenizer": "bpe", "size": 4000, "joint": True}
LOWER_CASED = {"tokenizer": "bpe", "size": 6000, "joint": True, "lowercase": True}


def transformer(**changes: Any) -> dict[str, Any]:
    return {
        "family": "transformer",
        "dim": 256,
        "num_layers": 3,
        "num_heads": 4,
        "hidden_dim": 1024,
        "wiring": "pre_norm",
        "shared_embeddings": True,
        "dropout": 0.3,
    } | changes


def luong(**changes: Any) -> dict[str, Any]:
    """A model with attention after the cell, fed to the next step (input feeding)."""
    return {
        "family": "seq2seq",
        "cell": "lstm",
        "dim": 512,
        "attention": "after",
        "score": "general",
        "dropout": 0.5,
    } | changes


SMALL_TRANSFORMER = transformer()


def training(steps: int, **changes: Any) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_tokens": 8192,
        "learning_rate": 1e-3,
        "schedule": {"name": "cosine", "warmup": 0.1, "floor": 0.02},
        "precision": "tf32",
        "evaluate_every": steps // 20,
        "log_every": 50,
    } | changes


def multi30k(
    about: str, model: dict[str, Any], training: dict[str, Any], published: str = "", data: dict[str, Any] = MULTI30K
) -> Recipe:
    return Recipe(
        about,
        {
            "data": data,
            "text": LOWER_CASED,
            "model": model,
            "task": {"name": "translation", "label_smoothing": 0.1, "lowercase": True},
            "training": {"bucket": True, **training},
            "decoding": BEAM,
        },
        published=published,
    )


MULTI30K_TRANSFORMER = multi30k(
    "A small Transformer from German to English, on Multi30k. For a GPU.",
    transformer(dim=512, hidden_dim=1024, num_heads=8),
    training(5000, average={"name": "ema", "decay": 0.999}),
    published="BLEU 36.5 by a Transformer, greedy, by torchtext's BLEU on its own words (bentrevett's notebooks)",
)
MULTI30K_LSTM = multi30k(
    "An LSTM with Luong's attention from German to English, on Multi30k. For a GPU.",
    luong(embedding_dim=512),
    training(5000, average={"name": "ema", "decay": 0.999}),
    published=(
        "BLEU 28.1 by a GRU with attention, greedy, by torchtext's BLEU on its own words (bentrevett's notebooks)"
    ),
)
MULTI30K_PLAIN = multi30k(
    "Two LSTMs joined only by a state, from German to English, on Multi30k. For a GPU.",
    luong(attention="none", num_layers=2),
    training(5000, average={"name": "ema", "decay": 0.999}),
)
MULTI30K_MANY = multi30k(
    "One Transformer between English and German, French and Czech, on Multi30k. For a GPU.",
    transformer(dim=512, hidden_dim=1024, num_heads=8, dropout=0.2),
    training(12000, average={"name": "ema", "decay": 0.999}),
    data={"corpus": "multi30k", "directions": ["en-de", "de-en", "en-fr", "fr-en", "en-cs", "cs-en"]},
)
TATOEBA_TRANSFORMER = Recipe(
    "A small Transformer from German to English, on the embedded Tatoeba pairs.",
    {
        "data": TATOEBA,
        "text": SUBWORDS,
        "model": transformer(dim=128, hidden_dim=512),
        "task": {"name": "translation", "label_smoothing": 0.1},
        "training": training(2500, batch_tokens=2048, learning_rate=2e-3, precision="float32", evaluate_every=500),
        "decoding": SHORT_BEAM,
    },
)
TATOEBA_LSTM = Recipe(
    "An LSTM with Luong's attention from German to English, on the embedded Tatoeba pairs.",
    {
        "data": TATOEBA,
        "text": SUBWORDS,
        "model": luong(dim=256, dropout=0.3),
        "task": {"name": "translation", "label_smoothing": 0.1},
        "training": training(1500, batch_tokens=2048, learning_rate=2e-3, precision="float32", evaluate_every=300),
        "decoding": SHORT_BEAM,
    },
)


def vaswani(name: str, *, steps: int, warmup: float, **model: Any) -> Recipe:
    """The Transformer of Vaswani et al. 2017, sections 5 and 6.1. The learning rate rises to dim^-0.5 * warmup^-0.5;
    their 25,000 tokens per side are 50,000 here. Their beam of 4 divides by GNMT's length penalty with alpha 0.6."""
    return Recipe(
        f"The Transformer as published, {name}, on your own pairs: data.train=FILE. For GPUs.",
        {
            "text": {"tokenizer": "bpe", "size": 37_000, "joint": True},
            "model": {"family": "transformer", "shared_embeddings": True, **model},
            "task": {"name": "translation", "label_smoothing": 0.1},
            "training": {
                "steps": steps,
                "batch_tokens": 50_000,
                "optimiser": {"name": "adam", "beta2": 0.98, "eps": 1e-9},
                "learning_rate": (model.get("dim", 512) * 4000) ** -0.5,
                "schedule": {"name": "inverse_sqrt", "warmup": warmup},
                "bucket": True,
                "precision": "bfloat16",
                "evaluate_every": 2000,
                "keep": 5,
                "log_every": 100,
            },
            "decoding": {"method": "beam", "beams": 4, "length_penalty": 0.6, "length_form": "gnmt", "max_new": 200},
        },
    )


BASE = vaswani("base", steps=100_000, warmup=0.04)
BIG = vaswani("big", steps=300_000, warmup=0.013334, dim=1024, num_heads=16, hidden_dim=4096, dropout=0.3)
