"""The blocks of a Llama-shaped decoder, as functions over the views of a unit's parameters.

RMSNorm, rotary positions, SwiGLU, grouped-query attention, optional QK-norm.
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from tutti.model.spec import LLAMA3, ModelSpec, RopeScaling

Parameters = Mapping[str, Tensor]
"""The fields of one unit by name, as chunks.units_of names them."""

Rotary = tuple[Tensor, Tensor]


def rotary_tables(model: ModelSpec, device: torch.device, dtype: torch.dtype) -> Rotary:
    """Cosines and signed sines of the rotary angles, each [context, 1, head_width] (Su et al. 2021, half-split)."""
    half = model.head_width // 2
    frequencies = model.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
    scaling = model.rope_scaling
    if scaling is not None:
        frequencies = _scaled(scaling, model.rope_base, frequencies)
    angles = torch.arange(model.context, dtype=torch.float64)[:, None] * frequencies
    cosines, sines = angles.cos(), angles.sin()
    if scaling is not None:
        cosines, sines = cosines * scaling.attention, sines * scaling.attention
    tables = torch.cat([cosines, cosines], -1), torch.cat([-sines, sines], -1)
    first, second = (table[:, None, :].to(device=device, dtype=dtype) for table in tables)
    return first, second


def _scaled(scaling: RopeScaling, base: float, frequencies: Tensor) -> Tensor:
    """The frequencies in radians a token, float64 [head_width / 2], stretched as `RopeScaling` says."""
    half, context = len(frequencies), scaling.original_context
    if scaling.kind == LLAMA3:
        turns = context * frequencies / math.tau
        kept = ((turns - scaling.slow) / (scaling.fast - scaling.slow)).clamp(0, 1)
    else:

        def index(turns: float) -> float:
            """The index of the frequency that turns so often in the original context, between two of them as a part."""
            return half * math.log(context / (turns * math.tau)) / math.log(base)

        first, last = max(math.floor(index(scaling.fast)), 0), min(math.ceil(index(scaling.slow)), 2 * half - 1)
        places = torch.arange(half, dtype=torch.float64)
        kept = 1 - ((places - first) / max(last - first, 1e-3)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / scaling.factor)


def document_mask(documents: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask to add to attention scores: 0 for earlier positions of the same document, else -inf. [rows, 1, T, T]."""
    length = documents.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=documents.device).tril()
    allowed = (documents[:, :, None] == documents[:, None, :]) & causal
    scores = torch.zeros(allowed.shape, dtype=dtype, device=documents.device)
    return scores.masked_fill_(~allowed, float("-inf"))[:, None]


def block(model: ModelSpec, p: Parameters, x: Tensor, rotary: Rotary, mask: Tensor | None) -> Tensor:
    """One pre-norm decoder block; x is [rows, T, width]."""
    y = F.rms_norm(x, (model.width,), p["attention_norm"], model.norm_epsilon)
    x = x + F.linear(attention(model, p, y, rotary, mask), p["attention_output"])
    return feed_forward(model, p, x)


def feed_forward(model: ModelSpec, p: Parameters, x: Tensor) -> Tensor:
    """The second half of a block; x is [rows, T, width]."""
    y = F.rms_norm(x, (model.width,), p["hidden_norm"], model.norm_epsilon)
    gate, up = F.linear(y, p["gate_up"]).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, p["down"])


def attention(model: ModelSpec, p: Parameters, y: Tensor, rotary: Rotary, mask: Tensor | None) -> Tensor:
    """Grouped-query attention before its output projection; [rows, T, width] to [rows, T, attention_width]."""
    cosines, sines = rotary
    length = y.shape[1]
    query, key, value = projected(model, p, y, (cosines[:length], sines[:length]))
    mixed = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=model.heads != model.kv_heads
    )
    return mixed.transpose(1, 2).flatten(2)


def projected(model: ModelSpec, p: Parameters, y: Tensor, rotary: Rotary) -> tuple[Tensor, Tensor, Tensor]:
    """Query [rows, heads, T, head_width], key and value [rows, kv_heads, T, head_width]; query and key are turned.

    y is [rows, T, width]; `rotary` holds the tables at its positions, each [T, 1, head_width] or one more for rows.
    """
    heads, kv_heads, head_width = model.heads, model.kv_heads, model.head_width
    bias = p["query_key_value_bias"] if model.qkv_bias else None
    mixed = F.linear(y, p["query_key_value"], bias).view(*y.shape[:2], heads + 2 * kv_heads, head_width)
    turned, value = torch.split(mixed, [heads + kv_heads, kv_heads], dim=-2)
    if model.qk_norm:
        query, key = torch.split(turned, [heads, kv_heads], dim=-2)
        query = F.rms_norm(query, (head_width,), p["query_norm"], model.norm_epsilon)
        key = F.rms_norm(key, (head_width,), p["key_norm"], model.norm_epsilon)
        turned = torch.cat([query, key], dim=-2)
    cosines, sines = rotary
    first, second = turned.chunk(2, dim=-1)
    turned = turned * cosines + torch.cat([second, first], dim=-1) * sines
    query, key = torch.split(turned.transpose(1, 2), [heads, kv_heads], dim=1)
    return query, key, value.transpose(1, 2)
