"""The names that transformers gives to the tensors of a model: which of them make each of our fields.

A field is its tensors one behind the other: query, key and value are rows of one matrix of ours, as are gate and up.
Pure.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tutti.model.chunks import Layout, Use
from tutti.model.spec import ModelSpec

EMBEDDING, NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"


@dataclass(frozen=True)
class Part:
    """A tensor of transformers: `start` is the position of its first element in our state vector."""

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def parts(layout: Layout) -> Iterator[Part]:
    """The tensors that give the logits, in the order of computation; a tied head has none of its own."""
    model = layout.model
    embed, *blocks, norm, output = layout.decoder
    yield from _of_use(embed, {"weight": [(EMBEDDING, (model.vocabulary, model.width))]})
    for number, use in enumerate(blocks):
        prefix, fields = f"model.layers.{number}.", _block(model)
        yield from _of_use(
            use, {field: [(prefix + name, shape) for name, shape in made] for field, made in fields.items()}
        )
    yield from _of_use(norm, {"weight": [(NORM, (model.width,))]})
    if not model.tied:
        yield from _of_use(output, {"weight": [(HEAD, (model.vocabulary, model.width))]})


def _block(model: ModelSpec) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """The tensors of each field of a block, with their shapes."""
    width, hidden, head = model.width, model.hidden, model.head_width
    rows = [("q", model.heads * head), ("k", model.kv_heads * head), ("v", model.kv_heads * head)]
    found: dict[str, list[tuple[str, tuple[int, ...]]]] = {
        "attention_norm": [("input_layernorm.weight", (width,))],
        "query_key_value": [(f"self_attn.{name}_proj.weight", (count, width)) for name, count in rows],
        "attention_output": [("self_attn.o_proj.weight", (width, model.attention_width))],
        "hidden_norm": [("post_attention_layernorm.weight", (width,))],
        "gate_up": [(f"mlp.{name}_proj.weight", (hidden, width)) for name in ("gate", "up")],
        "down": [("mlp.down_proj.weight", (width, hidden))],
    }
    if model.qkv_bias:
        found["query_key_value_bias"] = [(f"self_attn.{name}_proj.bias", (count,)) for name, count in rows]
    if model.qk_norm:
        found |= {f"{name}_norm": [(f"self_attn.{name[0]}_norm.weight", (head,))] for name in ("query", "key")}
    return found


def _of_use(use: Use, fields: dict[str, list[tuple[str, tuple[int, ...]]]]) -> Iterator[Part]:
    starts = {field.name: use.state_start + field.start for field in use.unit.fields}
    for field, made in fields.items():
        start = starts[field]
        for name, shape in made:
            part = Part(name, shape, start)
            yield part
            start += part.elements
