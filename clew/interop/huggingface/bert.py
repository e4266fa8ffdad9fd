"""BERT in `transformers`."""

from typing import Any

from clew.interop.huggingface.architecture import Architecture, Head, Outgoing, TaskRead, check_supported
from clew.interop.huggingface.fields import ACTIVATIONS, THEIR_ACTIVATIONS, Fields
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.huggingface.heads import answerer, classifier, embedder, filler, tagger
from clew.interop.weight_maps import Entry, Transform, entry, prefixed, repeated, with_bias
from clew.models.bert import BERTConfig

ATTENTION, NETWORK = "body.layers.layers.{2n}", "body.layers.layers.{2n+1}"
LAYER = [
    *with_bias("encoder.layer.{n}.attention.self.query", f"{ATTENTION}.layer.query"),
    *with_bias("encoder.layer.{n}.attention.self.key", f"{ATTENTION}.layer.key"),
    *with_bias("encoder.layer.{n}.attention.self.value", f"{ATTENTION}.layer.value"),
    *with_bias("encoder.layer.{n}.attention.output.dense", f"{ATTENTION}.layer.output"),
    *with_bias("encoder.layer.{n}.attention.output.LayerNorm", f"{ATTENTION}.norm"),
    *with_bias("encoder.layer.{n}.intermediate.dense", f"{NETWORK}.layer.inner"),
    *with_bias("encoder.layer.{n}.output.dense", f"{NETWORK}.layer.outer"),
    *with_bias("encoder.layer.{n}.output.LayerNorm", f"{NETWORK}.norm"),
]
MASKED = filler(
    "BertForPreTraining",
    "BertForMaskedLM",
    tied=[
        *with_bias("cls.predictions.transform.dense", "transform"),
        *with_bias("cls.predictions.transform.LayerNorm", "norm"),
        entry("cls.predictions.bias", "output_bias"),
    ],
    untied=[
        entry("cls.predictions.decoder.weight", "output_weight"),
        entry("cls.predictions.decoder.bias", "output_bias", optional=True),
    ],
)
NEXT_SENTENCE = with_bias("cls.seq_relationship", "next_sentence")
POOLER = with_bias("bert.pooler.dense", "pooling.dense")
POOLER_FIELDS = ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
"""Unused fields in the configs of the first release."""


def embedding_entries(model: BERTConfig, positions: Transform | None = None) -> list[Entry]:
    segments = (
        [entry("embeddings.token_type_embeddings.weight", "body.embedding.segments.weight")]
        if model.num_segments
        else []
    )
    return [
        entry("embeddings.word_embeddings.weight", "body.embedding.tokens.weight"),
        entry("embeddings.position_embeddings.weight", "body.embedding.position.weight", transform=positions),
        *segments,
        *with_bias("embeddings.LayerNorm", "body.embedding.norm"),
    ]


def entries(model: BERTConfig) -> list[Entry]:
    return prefixed("bert.", [*embedding_entries(model), *repeated(LAYER, model.num_layers)])


def read_masked(checkpoint: Checkpoint, model: dict[str, Any]) -> TaskRead:
    head = MASKED.read(checkpoint, model)
    return TaskRead({**head.task, "next_sentence": "cls.seq_relationship.weight" in checkpoint})


def masked_entries(task: Any) -> list[Entry]:
    return [*MASKED.entries(task), *([*POOLER, *NEXT_SENTENCE] if task.next_sentence else [])]


def write_masked(model: BERTConfig, task: Any, out: Outgoing) -> dict[str, Any]:
    name = "BertForPreTraining" if task.next_sentence else "BertForMaskedLM"
    return {**MASKED.write(model, task, out), "architectures": [name]}


def body_settings(fields: Fields, *, segments: int = 2, skipped: int = 0) -> dict[str, Any]:
    """Return the section model of BERT and its successors; the first `skipped` positions are never used."""
    fields.expect("is_decoder", False)
    fields.expect("add_cross_attention", False)
    fields.expect("position_embedding_type", "absolute")
    fields.expect("pruned_heads", {})
    fields.expect("chunk_size_feed_forward", 0)
    fields.skip("directionality", *(f"pooler_{part}" for part in POOLER_FIELDS))
    dim, heads, longest = (
        fields.get(name, int) for name in ("hidden_size", "num_attention_heads", "max_position_embeddings")
    )
    fields.check(dim % heads == 0, f"hidden_size ({dim}) must be divisible by num_attention_heads ({heads})")
    fields.check(longest > skipped, f"max_position_embeddings ({longest}) must be larger than {skipped}")
    fields.expect("embedding_size", dim, default=dim)
    return {
        "family": "bert",
        "dim": dim,
        "num_layers": fields.get("num_hidden_layers", int),
        "num_heads": heads,
        "hidden_dim": fields.get("intermediate_size", int),
        "activation": fields.choose("hidden_act", ACTIVATIONS, "gelu"),
        "max_length": longest - skipped,
        "num_segments": fields.get("type_vocab_size", int, segments),
        "norm_eps": fields.get("layer_norm_eps", float, 1e-12),
        "dropout": fields.get("hidden_dropout_prob", float, 0.1),
        "attention_dropout": fields.get("attention_probs_dropout_prob", float, 0.1),
    }


def written_body(model: BERTConfig, *, skipped: int = 0) -> dict[str, Any]:
    check_supported(model, "BERT", position="learned", activation=tuple(THEIR_ACTIVATIONS))
    return {
        "hidden_size": model.dim,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "intermediate_size": model.hidden_dim or 4 * model.dim,
        "hidden_act": THEIR_ACTIVATIONS[model.activation],
        "max_position_embeddings": model.max_length + skipped,
        "type_vocab_size": model.num_segments,
        "layer_norm_eps": model.norm_eps,
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
        "is_decoder": False,
    }


def write(model: BERTConfig, out: Outgoing) -> dict[str, Any]:
    assert model.num_segments, "a run without segments is written as DistilBERT"
    return {"model_type": "bert", "pad_token_id": out.tokenizer.pad or 0, **written_body(model)}


BERT = Architecture(
    heads={
        "masked_language_model": Head(MASKED.names, read_masked, masked_entries, write_masked),
        "classification": classifier(
            "BertForSequenceClassification", [*POOLER, *with_bias("classifier", "output")], pooling="pooler"
        ),
        "tagging": tagger("BertForTokenClassification"),
        "question_answering": answerer("BertForQuestionAnswering"),
        "representation": embedder("BertModel", "mean", "bert.pooler.dense"),
    },
    prefix="bert.",
    read=lambda checkpoint: body_settings(checkpoint.config),
    entries=entries,
    write=write,
    outputs=r"cls\.|classifier\.|qa_outputs\.",
    added=(r"answer\..*", r"threshold"),
    leftovers=(r"bert\.embeddings\.position_ids", r"cls\.predictions\.decoder\.(weight|bias)"),
    spare=(r"bert\.pooler\.dense\.(weight|bias)",),
    copies={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)
