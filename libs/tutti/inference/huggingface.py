"""A checkpoint as the folder that Hugging Face's transformers reads: configuration, weights, tokenizer, chat template.

A model is a `LlamaForCausalLM`, with norms of query and key a `Qwen3ForCausalLM`; both compute what ours does. Weights
are float32, as they were trained. A reward model is refused: its head reads the mean of an answer's states, which no
class of transformers does. A value model is left out, since it has no part in what the model writes. Does not import
torch.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import save_file

from tutti.backbone.files import RealFiles
from tutti.backbone.folders import new_folder
from tutti.corpus.conversations.conversations import Role
from tutti.corpus.conversations.template import Template
from tutti.corpus.tokens.tokenizer import EOS, BytePairTokenizer
from tutti.model.chunks import Layout, Use
from tutti.model.spec import ModelSpec
from tutti.records.canonical import canonical_json

Array = npt.NDArray[np.float32]

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Exported:
    """The contents of an export: a model's layout and parameters float32 [layout.elements], its tokenizer, and its chat
    template, if it has one.
    """

    layout: Layout
    vector: Array
    tokenizer: BytePairTokenizer
    template: Template | None = None


class NotExportable(Exception):
    """The format has nothing that computes what the model does."""


def write(what: Exported, folder: Path) -> None:
    """Make `folder`, whole or not at all.

    Raises FileExistsError when it is there and not empty, NotExportable for a reward model.
    """
    model, tokenizer = what.layout.model, what.tokenizer
    if model.scalar_head:
        raise NotExportable(
            "it is a reward model, whose head reads the mean of an answer's states: no class of transformers computes "
            "that; export the checkpoint that it began with, or a policy that learned from it"
        )
    with new_folder(RealFiles(), folder) as made:
        for name, value in (
            ("config.json", configuration(model, tokenizer.eos)),
            ("generation_config.json", generation(model, tokenizer)),
            ("tokenizer_config.json", tokenization(model, what.template)),
        ):
            (made / name).write_bytes(canonical_json(value) + b"\n")
        (made / "tokenizer.json").write_bytes(tokenizer.artefact)
        try:
            save_file(tensors(what.layout, what.vector), made / WEIGHTS, metadata={"format": "pt"})
        except SafetensorError as error:
            raise refused(error) from error


def refused(error: SafetensorError) -> Exception:
    """The error of the operating system that safetensors tells in words; itself where that is none."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else error


def configuration(model: ModelSpec, eos: int) -> dict[str, Any]:
    """config.json."""
    kind, architecture = ("qwen3", "Qwen3ForCausalLM") if model.qk_norm else ("llama", "LlamaForCausalLM")
    return {
        "architectures": [architecture],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": eos,
        "dtype": "float32",
        "eos_token_id": eos,
        "head_dim": model.head_width,
        "hidden_act": "silu",
        "hidden_size": model.width,
        "initializer_range": model.init_std,
        "intermediate_size": model.hidden,
        "max_position_embeddings": model.context,
        "mlp_bias": False,
        "model_type": kind,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "num_key_value_heads": model.kv_heads,
        "pad_token_id": eos,
        "rms_norm_eps": model.norm_epsilon,
        "rope_theta": model.rope_base,
        "tie_word_embeddings": model.tied,
        "use_cache": True,
        "vocab_size": model.vocabulary,
    }


def generation(model: ModelSpec, tokenizer: BytePairTokenizer) -> dict[str, Any]:
    """generation_config.json: greedy; ids that the tokenizer does not have are never chosen."""
    eos = tokenizer.eos
    config: dict[str, Any] = {"bos_token_id": eos, "do_sample": False, "eos_token_id": eos, "pad_token_id": eos}
    if model.vocabulary > tokenizer.vocabulary:
        config["suppress_tokens"] = list(range(tokenizer.vocabulary, model.vocabulary))
    return config


def tokenization(model: ModelSpec, template: Template | None = None) -> dict[str, Any]:
    """tokenizer_config.json: nothing is put around a text, and a text that spells a special token is text.

    With a chat template special tokens are read in texts, since transformers renders conversations as text; there the
    template refuses messages that spell one.
    """
    chat = {} if template is None else {"chat_template": jinja(template)}
    return {
        "add_bos_token": False,
        "add_eos_token": False,
        "bos_token": EOS,
        "clean_up_tokenization_spaces": False,
        "eos_token": EOS,
        "model_max_length": model.context,
        "pad_token": EOS,
        "split_special_tokens": template is None,
        "tokenizer_class": "PreTrainedTokenizerFast",
        **chat,
    }


SPELLS = (
    "{%- if 'TOKEN' in message['content'] -%}"
    "{{- raise_exception('a message spells TOKEN, which no message may') -}}{%- endif -%}"
)
TURN = "{%- WHERE message['role'] == 'ROLE' -%}{{- 'TOKEN' + message['content'] + 'END' -}}"
OTHER = "{%- else -%}{{- raise_exception('roles are ROLES') -}}{%- endif -%}"
OPEN = "{%- if add_generation_prompt -%}{{- 'TOKEN' -}}{%- endif -%}"


def jinja(template: Template) -> str:
    """The chat template as transformers applies it: the tokens are those of our rendering of the same messages."""
    checks = [SPELLS.replace("TOKEN", token) for token in (*template.tokens, EOS)]
    turns = [
        TURN.replace("WHERE", "elif" if number else "if")
        .replace("ROLE", str(role))
        .replace("TOKEN", token)
        .replace("END", EOS if role is Role.ASSISTANT else "")
        for number, (role, token) in enumerate(template.roles.items())
    ]
    other = OTHER.replace("ROLES", ", ".join(map(str, template.roles)))
    body = "".join([*checks, *turns, other])
    end = OPEN.replace("TOKEN", template.roles[Role.ASSISTANT])
    return f"{{%- for message in messages -%}}{body}{{%- endfor -%}}{end}"


def tensors(layout: Layout, vector: Array) -> dict[str, Array]:
    """The weights by the names that transformers gives them: views of `vector`, in the order of computation."""
    model, found = layout.model, dict[str, Array]()
    embed, *blocks, norm, output = layout.decoder
    found["model.embed_tokens.weight"] = _fields(embed, vector)["weight"]
    for number, use in enumerate(blocks):
        prefix = f"model.layers.{number}."
        found |= {prefix + name: value for name, value in _block(model, _fields(use, vector)).items()}
    found["model.norm.weight"] = _fields(norm, vector)["weight"]
    if not model.tied:
        found["lm_head.weight"] = _fields(output, vector)["weight"]
    return found


def _block(model: ModelSpec, fields: Mapping[str, Array]) -> dict[str, Array]:
    """Query, key and value are rows of one matrix of ours, as are gate and up."""
    queries, keys = model.heads * model.head_width, model.kv_heads * model.head_width
    query, key, value = np.split(fields["query_key_value"], [queries, queries + keys])
    gate, up = np.split(fields["gate_up"], 2)
    named = {
        "input_layernorm": fields["attention_norm"],
        "self_attn.q_proj": query,
        "self_attn.k_proj": key,
        "self_attn.v_proj": value,
        "self_attn.o_proj": fields["attention_output"],
        "post_attention_layernorm": fields["hidden_norm"],
        "mlp.gate_proj": gate,
        "mlp.up_proj": up,
        "mlp.down_proj": fields["down"],
    }
    if model.qk_norm:
        named |= {"self_attn.q_norm": fields["query_norm"], "self_attn.k_norm": fields["key_norm"]}
    return {f"{name}.weight": value for name, value in named.items()}


def _fields(use: Use, vector: Array) -> dict[str, Array]:
    return {
        field.name: vector[use.state_start + field.start :][: field.length].reshape(field.shape)
        for field in use.unit.fields
    }
