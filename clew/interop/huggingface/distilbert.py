"""DistilBERT in `transformers`: BERT without segments and pooler, with other names of tensors."""

from typing import Any

from clew.interop.huggingface.architecture import Architecture, Outgoing, check_supported
from clew.interop.huggingface.bert import ATTENTION, NETWORK, embedding_entries
from clew.interop.huggingface.fields import ACTIVATIONS, THEIR_ACTIVATIONS
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.huggingface.heads import answerer, classifier, embedder, filler, tagger
from clew.interop.weight_maps import Entry, entry, prefixed, repeated, with_bias
from clew.models.bert import BERTConfig

LAYER = [
    *with_bias("transformer.layer.{n}.attention.q_lin", f"{ATTENTION}.layer.query"),
    *with_bias("transformer.layer.{n}.attention.k_lin", f"{ATTENTION}.layer.key"),
    *with_bias("transformer.layer.{n}.attention.v_lin", f"{ATTENTION}.layer.value"),
    *with_bias("transformer.layer.{n}.attention.out_lin", f"{ATTENTION}.layer.output"),
    *with_bias("transformer.layer.{n}.sa_layer_norm", f"{ATTENTION}.norm"),
    *with_bias("transformer.layer.{n}.ffn.lin1", f"{NETWORK}.layer.inner"),
    *with_bias("transformer.layer.{n}.ffn.lin2", f"{NETWORK}.layer.outer"),
    *with_bias("transformer.layer.{n}.output_layer_norm", f"{NETWORK}.norm"),
]


def entries(model: BERTConfig) -> list[Entry]:
    return prefixed("distilbert.", [*embedding_entries(model), *repeated(LAYER, model.num_layers)])


def read(checkpoint: Checkpoint) -> dict[str, Any]:
    fields = checkpoint.config
    fields.skip("qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_")
    dim, heads = fields.get("dim", int), fields.get("n_heads", int)
    fields.check(dim % heads == 0, f"dim ({dim}) must be divisible by n_heads ({heads})")
    return {
        "family": "bert",
        "dim": dim,
        "num_layers": fields.get("n_layers", int),
        "num_heads": heads,
        "hidden_dim": fields.get("hidden_dim", int),
        "activation": fields.choose("activation", ACTIVATIONS, "gelu"),
        "max_length": fields.get("max_position_embeddings", int),
        "num_segments": 0,
        "norm_eps": 1e-12,
        "dropout": fields.get("dropout", float, 0.1),
        "attention_dropout": fields.get("attention_dropout", float, 0.1),
    }


def write(model: BERTConfig, out: Outgoing) -> dict[str, Any]:
    check_supported(
        model, "DistilBERT", position="learned", norm_eps=1e-12, num_segments=0, activation=("gelu", "relu")
    )
    return {
        "model_type": "distilbert",
        "dim": model.dim,
        "n_layers": model.num_layers,
        "n_heads": model.num_heads,
        "hidden_dim": model.hidden_dim or 4 * model.dim,
        "activation": THEIR_ACTIVATIONS[model.activation],
        "max_position_embeddings": model.max_length,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "pad_token_id": 0 if out.tokenizer.pad is None else out.tokenizer.pad,
    }


HIDDEN = [*with_bias("pre_classifier", "hidden.0"), *with_bias("classifier", "output")]
DISTILBERT = Architecture(
    heads={
        "masked_language_model": filler(
            "DistilBertForMaskedLM",
            tied=[
                *with_bias("vocab_transform", "transform"),
                *with_bias("vocab_layer_norm", "norm"),
                entry("vocab_projector.bias", "output_bias"),
            ],
            untied=[entry("vocab_projector.weight", "output_weight")],
            next_sentence=False,
        ),
        "classification": classifier(
            "DistilBertForSequenceClassification",
            HIDDEN,
            pooling="first",
            num_hidden=1,
            dropout="seq_classif_dropout",
            rate=0.2,
        ),
        "tagging": tagger("DistilBertForTokenClassification", dropout=None),
        "question_answering": answerer("DistilBertForQuestionAnswering"),
        "representation": embedder("DistilBertModel", "mean"),
    },
    prefix="distilbert.",
    read=read,
    entries=entries,
    write=write,
    outputs=r"vocab_|pre_classifier\.|classifier\.|qa_outputs\.",
    added=(r"answer\..*", r"threshold"),
    leftovers=(r"distilbert\.embeddings\.position_ids", r"vocab_projector\.weight"),
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)
