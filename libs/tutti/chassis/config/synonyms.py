"""Names that other tools give to keys of recipes, for the errors about unknown keys. Pure."""

from collections.abc import Collection, Mapping

NAMES: Mapping[tuple[str, ...], str] = {
    ("learning_rate",): "lr peak_lr max_lr lr_max",
    ("min_learning_rate",): "min_lr lr_min",
    ("batch",): "batch_size global_batch_size train_batch_size total_batch_size",
    ("rows",): "micro_batch_size microbatch_size device_batch_size per_device_train_batch_size",
    ("microbatches",): "gradient_accumulation_steps grad_accum grad_accum_steps accumulate_grad_batches",
    ("steps",): "max_steps num_steps n_steps max_iters num_iterations iterations iters total_steps train_steps",
    ("epochs", "steps"): "epochs num_epochs n_epochs max_epochs num_train_epochs",
    ("warmup",): "warmup_steps warmup_iters num_warmup_steps lr_warmup_steps",
    ("schedule",): "lr_scheduler lr_scheduler_type scheduler lr_schedule",
    ("weight_decay",): "wd l2",
    ("clip_norm",): "grad_clip gradient_clip gradient_clip_val max_grad_norm clip_grad_norm",
    ("beta1",): "adam_beta1",
    ("beta2",): "adam_beta2",
    ("seed",): "random_seed rng_seed",
    ("checkpoint_every",): "save_steps save_every save_interval checkpoint_interval ckpt_every save_freq",
    ("validate_every",): "eval_steps eval_every eval_interval val_every",
    ("ranks",): "gpus num_gpus n_gpus nproc_per_node num_processes world_size dp data_parallel workers num_workers",
    (
        "context",
        "length",
    ): "context_length block_size seq_len sequence_length max_seq_len max_length n_ctx",
    ("vocabulary",): "vocab_size n_vocab num_tokens",
    ("layers",): "n_layer n_layers num_layers num_hidden_layers",
    ("heads",): "n_head n_heads num_heads num_attention_heads",
    ("kv_heads",): "n_kv_head n_kv_heads num_key_value_heads",
    ("width",): "d_model n_embd hidden_size dim embed_dim",
    ("hidden",): "intermediate_size ffn_dim d_ff mlp_dim",
    ("tokens",): "max_tokens max_new_tokens",
    ("group",): "num_generations group_size rollouts_per_prompt",
    ("kl",): "kl_coef kl_coeff kl_penalty",
    ("size",): "model_size",
    ("input.path", "path"): "data_dir data_path train_data dataset_path folder",
    ("input.crawl.seeds", "seeds"): "url urls site",
}
"""For each key, or the keys of which a recipe has the first: other names of it."""
OTHERS = {other: keys for keys, names in NAMES.items() for other in names.split()}
DECIDED = {
    "the devices of their nodes": "device devices cuda gpu accelerator",
    "the type that suits the device": "dtype precision bf16 fp16 amp",
}
NONE = {name: what for what, names in DECIDED.items() for name in names.split()}
"""Names of settings that no key of a recipe has, and what decides instead."""


def meant(key: str, known: Collection[str]) -> str:
    """Return the known key that `key` is another name of, "" if there is none.

    Keys are dotted; one without its part, such as `steps`, is another name, too. A known key beside `key` comes before
    others: `train.max_steps` means `train.steps`.
    """
    above, _, last = key.lower().replace("-", "_").rpartition(".")
    for name in OTHERS.get(last, (last,)):
        found = [each for each in known if each == name or each.endswith(f".{name}")]
        beside = [each for each in found if each == f"{above}.{name}".lstrip(".")]
        trained = [each for each in found if each.startswith("train.")]
        if best := beside or trained or found:
            return best[0]
    return ""


def instead(key: str) -> str:
    """Return what decides in place of a key that there is not, "" if unknown."""
    return NONE.get(key.lower().rpartition(".")[2], "")
