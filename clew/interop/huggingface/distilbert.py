"""DistilBERT as `transformers` has it: BERT without segments and pooler, with names of its own."""

from typing import Any

from clew.interop.huggingface.architecture import Architecture, Outgoing, Understood, only
from clew.interop.huggingface.bert import ATTENTION, NETWORK, embedding_entries, written_task
from clew.interop.huggingface.fields import ACTIVATIONS, THEIR_ACTIVATIONS
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.huggingface.heads import classification, tagging
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
MASKED = [*with_bias("vocab_transform", "transform"), *with_bias("vocab_layer_norm", "norm"), entry("vocab_projector.bias", "output_bias")]


def entries(model: BERTConfig, task: Any) -> list[Entry]:
    found = prefixed("distilbert.", [*embedding_entries(model), *repeated(LAYER, model.num_layers)])
    if task.name == "masked_language_model":
        found += [*MASKED, *([] if task.tied else [entry("vocab_projector.weight", "output_weight")])]
    elif task.name == "classification":
        found += [*with_bias("pre_classifier", "hidden.0"), *with_bias("classifier", "output")]
    elif task.name == "tagging":
        found += with_bias("classifier", "output")
    elif task.name == "question_answering":
        found += with_bias("qa_outputs", "output")
    return found


def read(checkpoint: Checkpoint, name: str) -> Understood:
    fields = checkpoint.config
    fields.skip("qa_dropout", "sinusoidal_pos_embds", "tie_weights_")
    dim, heads = fields.get("dim", int), fields.get("n_heads", int)
    fields.check(dim % heads == 0, f"dim ({dim}) is no multiple of n_heads ({heads})")
    dropout = fields.get("dropout", float, 0.1)
    model = {
        "family": "bert",
        "dim": dim,
        "num_layers": fields.get("n_layers", int),
        "num_heads": heads,
        "hidden_dim": fields.get("hidden_dim", int),
        "activation": fields.choose("activation", ACTIVATIONS, "gelu"),
        "max_length": fields.get("max_position_embeddings", int),
        "num_segments": 0,
        "norm_eps": 1e-12,
        "dropout": dropout,
        "attention_dropout": fields.get("attention_dropout", float, 0.1),
    }
    kind, labels = NAMES[name], None
    task: dict[str, Any] = {"name": kind}
    classifying = fields.get("seq_classif_dropout", float, 0.2)
    if kind == "masked_language_model":
        tied = fields.get("tie_word_embeddings", bool, True)
        task |= {"tied": tied, "next_sentence": False, "activation": model["activation"], "norm_eps": 1e-12}
    elif kind == "classification":
        task, labels = classification(fields, model["max_length"], classifying, pooling="first", num_hidden=1)
    elif kind == "tagging":
        task, labels = tagging(fields, dropout)
    fields.skip("tie_word_embeddings")
    return Understood(model, task, fields.get("vocab_size", int), labels)


def write(model: BERTConfig, task: Any, out: Outgoing) -> dict[str, Any]:
    only(model, "DistilBERT", position="learned", norm_eps=1e-12, num_segments=0, activation=("gelu", "relu"))
    if task.name == "classification":
        only(task, out.name, pooling="first", num_hidden=1, hidden_dim=(None, model.dim))
    if task.name == "masked_language_model":
        only(task, out.name, next_sentence=False)
    more = written_task(model, task, out)
    more.pop("classifier_dropout", None)
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
        **({"seq_classif_dropout": task.dropout} if task.name == "classification" else {}),
        **more,
    }


NAMES = {
    "DistilBertForMaskedLM": "masked_language_model",
    "DistilBertForSequenceClassification": "classification",
    "DistilBertForTokenClassification": "tagging",
    "DistilBertForQuestionAnswering": "question_answering",
    "DistilBertModel": "representation",
}
DISTILBERT = Architecture(
    names=NAMES,
    prefix="distilbert.",
    read=read,
    entries=entries,
    write=write,
    heads=r"vocab_|pre_classifier\.|classifier\.|qa_outputs\.",
    made=(r"answer\..*", r"threshold"),
    leftovers=(r"distilbert\.embeddings\.position_ids", r"vocab_projector\.weight"),
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)
