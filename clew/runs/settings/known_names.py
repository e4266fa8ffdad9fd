"""Which field is meant by a name that people know from PyTorch, Hugging Face, fairseq, Keras or nanoGPT, or by a field's own name without
its section. It knows names alone; whether a config has the field is for the caller to see."""

from collections.abc import Iterable

KNOWN_NAMES: dict[str, tuple[str, ...]] = {
    "seed": ("random_seed", "manual_seed", "rng_seed"),
    "device": ("gpu", "gpus", "cuda", "use_cuda", "no_cuda", "accelerator", "cpu"),
    "data.train": ("train_file", "train_data", "trainpref", "dataset", "dataset_name", "input_file"),
    "data.valid": ("validation_file", "valid_file", "dev", "dev_file", "validpref", "val", "validation", "valid_data"),
    "data.test": ("test_file", "testpref", "test_data"),
    "text.size": ("vocab_size", "vocabulary_size", "vocab", "bpe_size", "num_merges", "vocabulary"),
    "text.min_count": ("min_freq", "min_frequency", "thresholdsrc", "thresholdtgt"),
    "text.lowercase": ("do_lower_case", "lower", "uncased"),
    "text.joint": ("joined_dictionary", "share_vocabulary", "share_vocab"),
    "text.tokenizer": ("tokenizer_name", "tokeniser", "bpe"),
    "embedding.vectors": ("pretrained_vectors", "glove", "word_vectors"),
    "transfer.from": (
        "pretrained",
        "model_name_or_path",
        "base_model",
        "checkpoint",
        "restore_file",
        "init_from",
        "load_from",
        "finetune_from",
    ),
    "transfer.freeze": ("freeze_layers", "frozen"),
    "transfer.adapter": ("lora", "peft", "use_lora"),
    "model.family": ("arch", "architecture", "model_type"),
    "model.cell": ("rnn_type", "rnn", "cell_type"),
    "model.dim": ("d_model", "n_embd", "dim", "hidden_size", "dim_model", "model_dim", "embed_dim", "nhid", "encoder_embed_dim"),
    "model.embedding_dim": ("emsize", "embedding_size", "emb_dim", "word_dim"),
    "model.hidden_dim": ("ffn_dim", "d_ff", "dim_feedforward", "intermediate_size", "n_inner", "encoder_ffn_embed_dim"),
    "model.num_layers": ("n_layer", "n_layers", "nlayers", "num_hidden_layers", "num_layers", "layers", "depth", "encoder_layers"),
    "model.num_heads": ("n_head", "n_heads", "nhead", "heads", "num_attention_heads", "encoder_attention_heads"),
    "model.dropout": ("dropout", "dropout_rate", "drop_rate", "hidden_dropout_prob", "resid_pdrop", "dropout_prob"),
    "model.max_length": ("max_position_embeddings", "n_positions", "n_ctx", "max_len"),
    "task.tied": ("tie_weights", "tie_word_embeddings", "tie_embeddings"),
    "task.label_smoothing": ("label_smoothing_factor", "smoothing"),
    "training.steps": ("max_steps", "max_iters", "num_steps", "n_steps", "iterations", "iters", "max_update", "train_steps", "total_steps"),
    "training.epochs": ("num_epochs", "max_epochs", "n_epochs", "num_train_epochs", "max_epoch", "epoch", "passes"),
    "training.batch_size": ("bs", "batch", "bsz", "batchsize", "per_device_train_batch_size", "train_batch_size", "micro_batch_size"),
    "training.batch_tokens": ("max_tokens", "tokens_per_batch", "batch_type"),
    "training.length": (
        "bptt",
        "block_size",
        "seq_len",
        "seq_length",
        "max_seq_length",
        "sequence_length",
        "context_length",
        "tokens_per_sample",
    ),
    "training.optimiser": ("optimizer", "optim", "opt"),
    "training.optimiser.weight_decay": ("weight_decay", "wd", "wdecay"),
    "training.optimiser.momentum": ("momentum",),
    "training.optimiser.beta1": ("beta1", "adam_beta1", "betas", "adam_betas"),
    "training.optimiser.beta2": ("beta2", "adam_beta2"),
    "training.learning_rate": ("lr", "learningrate", "max_lr", "peak_lr", "base_lr", "alpha", "eta", "step_size"),
    "training.schedule": ("scheduler", "lr_scheduler", "lr_schedule", "lr_scheduler_type", "lr_decay", "decay_lr"),
    "training.schedule.warmup": (
        *("warmup", "warmup_steps", "num_warmup_steps", "warmup_iters", "warmup_updates", "warmup_ratio", "warmup_proportion"),
        *("warm_up", "n_warmup_steps", "warmup_epochs"),
    ),
    "training.clip_norm": ("clip", "grad_clip", "max_grad_norm", "gradient_clip", "gradient_clip_val", "max_norm", "clip_grad", "clipnorm"),
    "training.clip_value": ("clipvalue", "grad_clip_value"),
    "training.accumulate": (
        *("gradient_accumulation_steps", "grad_accum", "accumulation_steps", "accumulate_grad_batches", "update_freq"),
        *("gradient_accumulation", "grad_accumulation"),
    ),
    "training.average": ("ema", "ema_decay", "swa"),
    "training.parallel": ("ddp", "fsdp", "strategy", "ddp_backend"),
    "training.recompute": ("gradient_checkpointing", "activation_checkpointing", "checkpoint_activations"),
    "training.workers": ("num_workers", "dataloader_num_workers", "n_workers"),
    "training.precision": ("fp16", "bf16", "amp", "dtype", "half", "mixed_precision", "use_amp", "float16", "torch_dtype"),
    "training.compile": ("torch_compile", "jit"),
    "training.evaluate_every": (
        *("eval_every", "eval_steps", "eval_interval", "eval_freq", "val_check_interval", "validate_interval", "evaluation_steps"),
        *("validate_interval_updates", "eval_strategy", "evaluate_interval"),
    ),
    "training.evaluate_tokens": ("eval_iters", "limit_val_batches", "max_eval_samples", "eval_tokens"),
    "training.evaluate_batch": ("eval_batch_size", "per_device_eval_batch_size", "valid_batch_size", "test_batch_size"),
    "training.save_every": ("save_steps", "save_interval", "save_freq", "checkpoint_every", "save_interval_updates", "save_strategy"),
    "training.keep": ("save_total_limit", "keep_last_epochs", "keep_checkpoints", "save_top_k"),
    "training.log": ("report_to", "logger", "loggers", "wandb", "tensorboard", "mlflow", "use_wandb", "wandb_log", "logdir"),
    "training.log_every": ("logging_steps", "log_interval", "log_freq", "log_every_n_steps", "print_every"),
    "training.patience": ("early_stopping", "early_stopping_patience", "early_stop", "early_stopping_rounds"),
    "decoding.max_new": ("max_new_tokens", "max_length_generation", "max_tokens_generated"),
    "decoding.beams": ("num_beams", "beam", "beam_size", "beam_width"),
    "decoding.length_penalty": ("lenpen",),
    "decoding.method": ("do_sample", "sampling"),
    "decoding.temperature": ("temp",),
}
"""By the whole name of a field, what others call it."""


def field_meant(name: str, fields: Iterable[str]) -> str | None:
    """The field that a name stands for: that which others call so, or the only one of these that ends so; None where there is none, or
    several. Letters may be large and hyphens small: `--Batch-Size`."""
    plain = name.lower().replace("-", "_")
    if plain in OF_NAME:
        return OF_NAME[plain]
    ends = {field for field in fields if plain in (field, field.rpartition(".")[2])}
    return ends.pop() if len(ends) == 1 else None


OF_NAME = {name: field for field, names in KNOWN_NAMES.items() for name in names}
