"""RoBERTa and XLM-R as `transformers` has them: BERT whose positions count from 2, with output layers of its own."""

from collections.abc import Callable
from typing import Any

from clew.interop.huggingface.architecture import Architecture, Outgoing, Understood, only
from clew.interop.huggingface.bert import LAYER, body_settings, embedding_entries, written_body, written_task
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.huggingface.heads import classification, tagging
from clew.interop.weight_maps import Entry, entry, prefixed, repeated, rows_from, with_bias
from clew.models.bert import BERTConfig

SKIPPED = 2
"""Positions begin after the number of the padding token, which is 1."""
MASKED = [*with_bias("lm_head.dense", "transform"), *with_bias("lm_head.layer_norm", "norm"), entry("lm_head.bias", "output_bias")]
UNTIED = [entry("lm_head.decoder.weight", "output_weight"), entry("lm_head.decoder.bias", "output_bias", optional=True)]
LABELS = [*with_bias("classifier.dense", "pooling.dense"), *with_bias("classifier.out_proj", "output")]


def entries(model: BERTConfig, task: Any) -> list[Entry]:
    found = prefixed("roberta.", [*embedding_entries(model, rows_from(SKIPPED)), *repeated(LAYER, model.num_layers)])
    if task.name == "masked_language_model":
        found += [*MASKED, *([] if task.tied else UNTIED)]
    elif task.name == "classification":
        found += LABELS
    elif task.name == "tagging":
        found += with_bias("classifier", "output")
    elif task.name == "question_answering":
        found += with_bias("qa_outputs", "output")
    elif task.pooling == "pooler":
        found += with_bias("roberta.pooler.dense", "pooling.dense")
    return found


def reader(names: dict[str, str]) -> Callable[[Checkpoint, str], Understood]:
    def read(checkpoint: Checkpoint, name: str) -> Understood:
        fields = checkpoint.config
        fields.expect("pad_token_id", 1)
        model = body_settings(fields, skipped=SKIPPED)
        kind, labels, dropout = names[name], None, fields.get("classifier_dropout", float, model["dropout"])
        task: dict[str, Any] = {"name": kind}
        if kind == "masked_language_model":
            tied = fields.get("tie_word_embeddings", bool, True)
            task |= {"tied": tied, "next_sentence": False, "activation": "gelu", "norm_eps": model["norm_eps"]}
        elif kind == "classification":
            task, labels = classification(fields, model["max_length"], dropout, pooling="pooler")
        elif kind == "tagging":
            task, labels = tagging(fields, dropout)
        elif kind == "representation":
            task["pooling"] = "pooler" if "roberta.pooler.dense.weight" in checkpoint else "mean"
        fields.skip("tie_word_embeddings")
        return Understood(model, task, fields.get("vocab_size", int), labels)

    return read


def writer(model_type: str) -> Callable[[BERTConfig, Any, Outgoing], dict[str, Any]]:
    def write(model: BERTConfig, task: Any, out: Outgoing) -> dict[str, Any]:
        if task.name == "classification":
            only(task, out.name, pooling="pooler", num_hidden=0)
        if task.name == "masked_language_model":
            only(task, out.name, activation="gelu", next_sentence=False)
        ids = {"bos_token_id": out.tokenizer.id("<s>"), "eos_token_id": out.tokenizer.end, "pad_token_id": 1}
        return {"model_type": model_type, **ids, **written_body(model, skipped=SKIPPED), **written_task(model, task, out)}

    return write


def architecture(kind: str, model_type: str) -> Architecture:
    names = {
        f"{kind}ForMaskedLM": "masked_language_model",
        f"{kind}ForSequenceClassification": "classification",
        f"{kind}ForTokenClassification": "tagging",
        f"{kind}ForQuestionAnswering": "question_answering",
        f"{kind}Model": "representation",
    }
    return Architecture(
        names=names,
        prefix="roberta.",
        read=reader(names),
        entries=entries,
        write=writer(model_type),
        heads=r"lm_head\.|classifier\.|qa_outputs\.",
        made=(r"answer\..*", r"threshold"),
        leftovers=(r"roberta\.embeddings\.position_ids", r"lm_head\.decoder\.(weight|bias)"),
        spare=(r"roberta\.pooler\.dense\.(weight|bias)",),
        copies={"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
    )


ROBERTA = architecture("Roberta", "roberta")
XLM_ROBERTA = architecture("XLMRoberta", "xlm-roberta")
