"""A checkpoint as the folder that Hugging Face's transformers reads: configuration, weights, tokenizer, chat template.

A model is a `LlamaForCausalLM`, with norms of query and key a `Qwen3ForCausalLM`, with biases of query, key and value a
`Qwen2ForCausalLM`; they compute what ours does. Weights are float32, as they were trained, or rounded to bfloat16. A
reward model is refused: its head reads the mean of an answer's states, which no class of transformers does. A value
model is left out, since it has no part in what the model writes. Does not import torch.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, TensorSpec, serialize_file

from tutti.backbone.files import RealFiles
from tutti.backbone.folders import new_folder
from tutti.corpus.conversations.chattemplate import ChatTemplate
from tutti.corpus.conversations.conversations import Role
from tutti.corpus.conversations.template import Template
from tutti.corpus.tokens.tokenizer import EOS, BytePairTokenizer
from tutti.inference.names import parts
from tutti.model.chunks import Layout
from tutti.model.spec import LLAMA3, ModelSpec, RopeScaling
from tutti.records.canonical import canonical_json

Array = npt.NDArray[np.float32]

WEIGHTS = "model.safetensors"
OWN = ("config.json", "model.safetensors.index.json")
"""Files that describe the weights as they are written here."""


def _as_bfloat16(values: Array) -> npt.NDArray[np.uint16]:
    """The upper halves of the nearest numbers, halfway the even one."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


TYPES: dict[str, Callable[[Array], npt.NDArray[Any]]] = {
    "float32": lambda values: values.astype("<f4", copy=False),
    "bfloat16": _as_bfloat16,
}
"""The types of stored weights, each with the conversion to it."""


@dataclass(frozen=True)
class Exported:
    """The contents of an export: a model's layout and parameters float32 [layout.elements], its tokenizer, and its chat
    template, if it has one.
    """

    layout: Layout
    vector: Array
    tokenizer: BytePairTokenizer
    template: Template | ChatTemplate | None = None
    dtype: str = "float32"
    """The type of the weights, one of TYPES."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files that came in with an imported model, by name: they go out as they came, but config.json."""


class NotExportable(Exception):
    """The format has nothing that computes what the model does."""


def write(what: Exported, folder: Path) -> None:
    """Make `folder`, whole or not at all.

    Raises FileExistsError when it is there and not empty, NotExportable for a model that no class computes.
    """
    model, tokenizer = what.layout.model, what.tokenizer
    if model.scalar_head:
        raise NotExportable(
            "it is a reward model, whose head reads the mean of an answer's states: no class of transformers computes "
            "that; export the checkpoint that it began with, or a policy that learned from it"
        )
    if model.qk_norm and model.qkv_bias:
        raise NotExportable(
            "it has norms of query and key (qk_norm), and biases (qkv_bias): no class of transformers has both"
        )
    with new_folder(RealFiles(), folder) as made:
        texts = {name: data for name, data in what.files.items() if name not in OWN}
        for name, value in (
            ("config.json", configuration(model, tokenizer.eos) | special_ids(tokenizer) | {"dtype": what.dtype}),
            ("generation_config.json", generation(model, tokenizer)),
            ("tokenizer_config.json", tokenization(model, tokenizer, what.template)),
        ):
            texts.setdefault(name, canonical_json(value) + b"\n")
        texts.setdefault("tokenizer.json", tokenizer.file)
        for name, data in texts.items():
            (made / name).write_bytes(data)
        stored(what.layout, what.vector, made / WEIGHTS, dtype=what.dtype)


def stored(layout: Layout, vector: Array, path: Path, *, dtype: str) -> None:
    """Write the weights as safetensors, as numbers of a type of TYPES. Raises OSError."""
    convert = TYPES[dtype]
    arrays = {name: convert(values) for name, values in tensors(layout, vector).items()}
    # The library reads the arrays by their addresses: they have to stay until it is done.
    specs = {
        name: TensorSpec(dtype=dtype, shape=list(array.shape), data_ptr=array.ctypes.data, data_len=array.nbytes)
        for name, array in arrays.items()
    }
    try:
        serialize_file(specs, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise refused(error) from error


def refused(error: SafetensorError) -> Exception:
    """The error of the operating system that safetensors tells in words; itself where that is none."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else error


def configuration(model: ModelSpec, eos: int) -> dict[str, Any]:
    """config.json."""
    kind, architecture = "llama", "LlamaForCausalLM"
    if model.qk_norm:
        kind, architecture = "qwen3", "Qwen3ForCausalLM"
    elif model.qkv_bias:
        kind, architecture = "qwen2", "Qwen2ForCausalLM"
    scaled = {} if model.rope_scaling is None else {"rope_scaling": scaling(model.rope_scaling)}
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
        **scaled,
    }


def scaling(rope: RopeScaling) -> dict[str, Any]:
    """The key rope_scaling of config.json."""
    shared = {"rope_type": rope.kind, "factor": rope.factor, "original_max_position_embeddings": rope.original_context}
    if rope.kind == LLAMA3:
        return shared | {"low_freq_factor": rope.slow, "high_freq_factor": rope.fast}
    return shared | {"beta_fast": rope.fast, "beta_slow": rope.slow, "attention_factor": rope.attention}


def generation(model: ModelSpec, tokenizer: BytePairTokenizer) -> dict[str, Any]:
    """generation_config.json: greedy; ids that the tokenizer does not have are never chosen."""
    config: dict[str, Any] = special_ids(tokenizer) | {"do_sample": False}
    if model.vocabulary > tokenizer.vocabulary:
        config["suppress_tokens"] = list(range(tokenizer.vocabulary, model.vocabulary))
    return config


def special_ids(tokenizer: BytePairTokenizer) -> dict[str, Any]:
    """The ids that begin, end and pad a text, as config.json and generation_config.json have them."""
    marks, ends = tokenizer.marks, tokenizer.ends
    found = {
        "bos_token_id": tokenizer.eos if marks is None else marks.begin,
        "eos_token_id": ends[0] if len(ends) == 1 else list(ends),
        "pad_token_id": tokenizer.eos if marks is None or marks.padding is None else marks.padding,
    }
    return {name: value for name, value in found.items() if value is not None}


def tokenization(
    model: ModelSpec, tokenizer: BytePairTokenizer, template: Template | ChatTemplate | None = None
) -> dict[str, Any]:
    """tokenizer_config.json: nothing is put around a text, and a text that spells a special token is text.

    With a chat template special tokens are read in texts, since transformers renders conversations as text; there the
    template refuses messages that spell one.
    """
    end = tokenizer.spelling_of(tokenizer.eos)
    begin, padding = end, end
    if tokenizer.marks is not None:
        begin, padding = (
            end if each is None else tokenizer.spelling_of(each)
            for each in (tokenizer.marks.begin, tokenizer.marks.padding)
        )
    chat: dict[str, Any] = {}
    if isinstance(template, ChatTemplate):
        chat = {**template.words, "chat_template": template.text}
    elif template is not None:
        chat = {"chat_template": jinja(template, end)}
    return {
        "add_bos_token": False,
        "add_eos_token": False,
        "bos_token": begin,
        "clean_up_tokenization_spaces": False,
        "eos_token": end,
        "model_max_length": model.context,
        "pad_token": padding,
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


def jinja(template: Template, end: str = EOS) -> str:
    """The chat template as transformers applies it: the tokens are those of our rendering of the same messages."""
    checks = [SPELLS.replace("TOKEN", token) for token in (*template.tokens, end)]
    turns = [
        TURN.replace("WHERE", "elif" if number else "if")
        .replace("ROLE", str(role))
        .replace("TOKEN", token)
        .replace("END", end if role is Role.ASSISTANT else "")
        for number, (role, token) in enumerate(template.roles.items())
    ]
    other = OTHER.replace("ROLES", ", ".join(map(str, template.roles)))
    body = "".join([*checks, *turns, other])
    opened = OPEN.replace("TOKEN", template.roles[Role.ASSISTANT])
    return f"{{%- for message in messages -%}}{body}{{%- endfor -%}}{opened}"


def tensors(layout: Layout, vector: Array) -> dict[str, Array]:
    """The weights by the names that transformers gives them: views of `vector`, in the order of computation."""
    return {part.name: vector[part.start :][: part.elements].reshape(part.shape) for part in parts(layout)}
