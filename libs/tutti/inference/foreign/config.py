"""The model that a `config.json` of Hugging Face describes: Llama, Mistral, Qwen2 or Qwen3.

Promises: the model computes what transformers computes with the same file, or the key that it would ignore is refused.
Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutti.inference.foreign.errors import NotImportable
from tutti.model.spec import LLAMA3, YARN, FieldError, ModelSpec, RopeScaling

CONFIG = "config.json"


@dataclass(frozen=True)
class Family:
    """A `model_type`: its class, and the values of keys that a file leaves out.

    None for as many as heads, width / heads, and no window.
    """

    architecture: str
    kv_heads: int | None = None
    head_dim: int | None = None
    window: int | None = None
    qk_norm: bool = False
    qkv_bias: bool = False


FAMILIES = {
    "llama": Family("LlamaForCausalLM"),
    "mistral": Family("MistralForCausalLM", kv_heads=8, window=4096),
    "qwen2": Family("Qwen2ForCausalLM", kv_heads=32, qkv_bias=True),
    "qwen3": Family("Qwen3ForCausalLM", kv_heads=32, head_dim=128, qk_norm=True),
}
ABSENT = {
    "attention_bias": "false: biases of the output of attention cannot be kept",
    "mlp_bias": "false: biases of the MLP cannot be kept",
    "auto_map": "none: code of a folder is not run",
    "quantization_config": "none: weights as they were trained, not quantized",
    "num_experts": "none: a model without experts",
    "num_local_experts": "none: a model without experts",
    "per_layer_config": "none: blocks that are all alike",
}
"""Keys that change what is computed, and what they may be."""
SCALING_KEYS = {
    "default": (),
    LLAMA3: ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    YARN: ("factor", "original_max_position_embeddings"),
}
"""Kinds of rotary positions, with the keys that each needs."""
OPTIONAL_KEYS = {YARN: ("beta_fast", "beta_slow", "attention_factor")}


def model_of(config: Mapping[str, Any]) -> ModelSpec:
    """The model of the contents of `config.json`. Raises NotImportable."""
    family = _family(config)
    config = {
        "num_key_value_heads": family.kv_heads,
        "head_dim": family.head_dim,
        "sliding_window": family.window,
        **config,
    }
    for key, expected in ABSENT.items():
        if config.get(key):
            raise _refused(key, config[key], expected)
    if (activation := config.get("hidden_act", "silu")) != "silu":
        raise _refused("hidden_act", activation, "silu")
    heads, width = _count(config, "num_attention_heads"), _count(config, "hidden_size")
    context = _count(config, "max_position_embeddings")
    _check_windows(config, context)
    if config.get("head_dim") is None and width % heads:
        raise _refused("hidden_size", width, f"a multiple of num_attention_heads ({heads}), or head_dim")
    head_dim = _count(config, "head_dim", width // heads)
    base, scaling = _rotary(config)
    try:
        return ModelSpec(
            vocabulary=_count(config, "vocab_size"),
            context=context,
            width=width,
            layers=_count(config, "num_hidden_layers"),
            heads=heads,
            kv_heads=_count(config, "num_key_value_heads", heads),
            hidden=_count(config, "intermediate_size"),
            tied=_flag(config, "tie_word_embeddings"),
            qk_norm=family.qk_norm,
            qkv_bias=family.qkv_bias,
            rope_base=base,
            rope_scaling=scaling,
            norm_epsilon=_number(config, "rms_norm_eps", 1e-6),
            init_std=_number(config, "initializer_range", 0.02),
            head_dim=0 if head_dim * heads == width else head_dim,
        )
    except FieldError as error:
        raise _refused(NAMES.get(error.field, error.field), error.seen, error.expected) from error


NAMES = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "rope_base": "rope_theta",
    "norm_epsilon": "rms_norm_eps",
    "init_std": "initializer_range",
}
"""Keys of `config.json` by the fields of a model."""


def _family(config: Mapping[str, Any]) -> Family:
    kind = config.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise _refused("model_type", kind, f"one of {', '.join(FAMILIES)}")
    architectures = config.get("architectures") or [family.architecture]
    if architectures != [family.architecture]:
        raise _refused("architectures", architectures, f"[{family.architecture!r}]")
    return family


def _check_windows(config: Mapping[str, Any], context: int) -> None:
    """Refuse attention to fewer tokens than the context has."""
    window, used = config.get("sliding_window"), config.get("use_sliding_window", config["model_type"] == "mistral")
    kinds = config.get("layer_types") or ["full_attention"]
    whole = f"none, or one of at least {context} tokens (max_position_embeddings)"
    if used and window is not None and _count(config, "sliding_window") < context:
        raise _refused("sliding_window", window, whole)
    for kind in kinds:
        if kind != "full_attention" and not (kind == "sliding_attention" and isinstance(window, int)):
            raise _refused("layer_types", kind, "full_attention")
        if kind == "sliding_attention" and _count(config, "sliding_window") < context:
            raise _refused("sliding_window", window, whole)


def _rotary(config: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """The base and the scaling, in the keys of transformers 5 (rope_parameters) or of earlier versions."""
    where = "rope_parameters" if config.get("rope_parameters") else "rope_scaling"
    found = config.get(where) or {}
    if not isinstance(found, Mapping):
        raise _refused(where, found, "a mapping")
    rope = dict(found)
    base = _number(rope, "rope_theta", _number(config, "rope_theta", 10_000.0), where)
    for holder, prefix in ((rope, f"{where}."), (config, "")):
        if (partial := holder.get("partial_rotary_factor", 1.0)) not in (None, 1.0):
            raise _refused(f"{prefix}partial_rotary_factor", partial, "1: positions that turn whole heads")
    for key in ("rope_theta", "partial_rotary_factor"):
        rope.pop(key, None)
    kinds = [rope.pop(key, None) for key in ("rope_type", "type")]
    kind = kinds[0] or kinds[1] or "default"
    if kind not in SCALING_KEYS:
        raise _refused(f"{where}.rope_type", kind, f"one of {', '.join(SCALING_KEYS)}")
    if kind == "default":
        return base, None
    if kind == YARN and rope.pop("truncate", True) is not True:
        raise _refused(f"{where}.truncate", False, "true")
    known = {*SCALING_KEYS[kind], *OPTIONAL_KEYS.get(kind, ())}
    if unknown := sorted(set(rope) - known):
        raise _refused(f"{where}.{unknown[0]}", rope[unknown[0]], f"none; {kind} has {', '.join(sorted(known))}")
    numbers = {key: _number(rope, key, None, where) for key in SCALING_KEYS[kind]}
    optional = {
        key: _number(rope, key, None, where) for key in OPTIONAL_KEYS.get(kind, ()) if rope.get(key) is not None
    }
    try:
        return base, RopeScaling.of(
            kind,
            numbers["factor"],
            int(numbers["original_max_position_embeddings"]),
            slow=numbers.get("low_freq_factor", optional.get("beta_slow", 1.0)),
            fast=numbers.get("high_freq_factor", optional.get("beta_fast")),
            attention=optional.get("attention_factor"),
        )
    except FieldError as error:
        raise _refused(f"{where}.{error.field}", error.seen, error.expected) from error


def _count(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = default if config.get(key) is None else config[key]
    if type(value) is not int or not 0 < value < 2**31:
        raise _refused(key, value, "a whole number above 0")
    return value


def _number(config: Mapping[str, Any], key: str, default: float | None, where: str = "") -> float:
    value = default if config.get(key) is None else config[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise _refused(f"{where}.{key}" if where else key, value, "a number above 0")
    return float(value)


def _flag(config: Mapping[str, Any], key: str) -> bool:
    value = config.get(key)
    if value not in (None, True, False):
        raise _refused(key, value, "true or false")
    return bool(value)


def _refused(key: str, seen: object, expected: str) -> NotImportable:
    return NotImportable(CONFIG, key, seen=seen, expected=expected)
