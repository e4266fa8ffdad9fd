"""The files of a tokenizer as `transformers` reads them: tokenizer.json as it is, and which tokens have which part."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.runs.directory import write_json
from clew.text.tokenizer import FILE, Tokenizer

ENDLESS = 10**30
"""What `transformers` writes for a length without bound."""


def write_tokenizer(folder: Path, vocabularies: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """The tokenizer, and where there are two that of the sources as well."""
    tokenizer: Tokenizer = vocabularies.get("tokenizer") or vocabularies["source"]
    tokenizer.save(folder / FILE)
    specials = specials_of(tokenizer, config)
    longest = config.get("n_positions") or config.get("max_position_embeddings") or ENDLESS
    reads_segments = config.get("type_vocab_size", 0) > 1
    names = ["input_ids", *(["token_type_ids"] if reads_segments else []), "attention_mask"]
    options = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": names,
        "clean_up_tokenization_spaces": False,
        **specials,
    }
    write_json(folder / "tokenizer_config.json", options)
    write_json(folder / "special_tokens_map.json", specials)


def specials_of(tokenizer: Tokenizer, config: Mapping[str, Any]) -> dict[str, str]:
    """The tokens that have a part: unknown, beginning and end, padding, and what stands around a text that is read whole."""
    frame = tokenizer.frame
    whole = tokenizer.mask is not None and frame is not None
    around = frame.around([]).tokens if frame is not None else []
    ids = {
        "unk_token": tokenizer.unknown,
        "bos_token": config.get("bos_token_id"),
        "eos_token": config.get("eos_token_id", tokenizer.end),
        "pad_token": config.get("pad_token_id") if config.get("pad_token_id") is not None else tokenizer.pad,
        "cls_token": around[0] if whole and around else None,
        "sep_token": around[-1] if whole and around else None,
        "mask_token": tokenizer.mask,
    }
    return {name: tokenizer.token(id) for name, id in ids.items() if id is not None}
