"""RoBERTa, XLM-R and CamemBERT in `transformers`: BERT with positions that count from 2, and its own output
layers."""

from typing import Any

from clew.interop.huggingface.architecture import Architecture, Outgoing
from clew.interop.huggingface.bert import LAYER, body_settings, embedding_entries, written_body
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.huggingface.heads import answerer, classifier, embedder, filler, tagger
from clew.interop.weight_maps import Entry, entry, prefixed, repeated, rows_from, with_bias
from clew.models.bert import BERTConfig

SKIPPED = 2
"""Positions start after the id of the padding token, which is 1."""
MASKED = [
    *with_bias("lm_head.dense", "transform"),
    *with_bias("lm_head.layer_norm", "norm"),
    entry("lm_head.bias", "output_bias"),
]
UNTIED = [entry("lm_head.decoder.weight", "output_weight"), entry("lm_head.decoder.bias", "output_bias", optional=True)]
LABELS = [*with_bias("classifier.dense", "pooling.dense"), *with_bias("classifier.out_proj", "output")]


def entries(model: BERTConfig) -> list[Entry]:
    return prefixed("roberta.", [*embedding_entries(model, rows_from(SKIPPED)), *repeated(LAYER, model.num_layers)])


def read(checkpoint: Checkpoint) -> dict[str, Any]:
    checkpoint.config.expect("pad_token_id", 1)
    return body_settings(checkpoint.config, skipped=SKIPPED)


def architecture(kind: str, model_type: str) -> Architecture:
    def write(model: BERTConfig, out: Outgoing) -> dict[str, Any]:
        ids = {"bos_token_id": out.tokenizer.id("<s>"), "eos_token_id": out.tokenizer.end, "pad_token_id": 1}
        return {"model_type": model_type, **ids, **written_body(model, skipped=SKIPPED)}

    return Architecture(
        heads={
            "masked_language_model": filler(
                f"{kind}ForMaskedLM", tied=MASKED, untied=UNTIED, activation="gelu", next_sentence=False
            ),
            "classification": classifier(f"{kind}ForSequenceClassification", LABELS, pooling="pooler"),
            "tagging": tagger(f"{kind}ForTokenClassification"),
            "question_answering": answerer(f"{kind}ForQuestionAnswering"),
            "representation": embedder(f"{kind}Model", "mean", "roberta.pooler.dense"),
        },
        prefix="roberta.",
        read=read,
        entries=entries,
        write=write,
        outputs=r"lm_head\.|classifier\.|qa_outputs\.",
        added=(r"answer\..*", r"threshold"),
        leftovers=(r"roberta\.embeddings\.position_ids", r"lm_head\.decoder\.(weight|bias)"),
        spare=(r"roberta\.pooler\.dense\.(weight|bias)",),
        copies={
            "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
    )


ROBERTA = architecture("Roberta", "roberta")
XLM_ROBERTA = architecture("XLMRoberta", "xlm-roberta")
CAMEMBERT = architecture("Camembert", "camembert")
