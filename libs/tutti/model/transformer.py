"""A Llama-shaped decoder as functions over views of one flat parameter vector.

RMSNorm, rotary positions, SwiGLU, grouped-query attention, optional QK-norm; attention stays inside a document when the
model says so. It returns one loss a token, in nats, and never a mean: the step divides once, by the global count.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tutti.model.chunks import Field, Layout
from tutti.model.head import Head, Weigh
from tutti.model.spec import ModelSpec

Parameters = Mapping[str, Tensor]
"""The fields of one unit by name, as chunks.units_of names them."""


class Transformer:
    """The model bound to one flat vector of parameters: `fields` are its leaves for autograd."""

    def __init__(self, layout: Layout, vector: Tensor, *, compiled: bool) -> None:
        """`vector` is [layout.elements], float32 or bfloat16. Its values may be replaced in place between steps."""
        self.model, self.vector = layout.model, vector
        self.units: list[dict[str, Tensor]] = []
        self.fields: list[Tensor] = []
        self.gradient_slots: list[tuple[int, Field]] = []
        for use, views in zip(layout.uses, parameters_in(layout, vector), strict=True):
            unit = {name: view.detach().requires_grad_() for name, view in views.items()}
            for field in use.unit.fields:
                self.fields.append(unit[field.name])
                self.gradient_slots.append((use.gradient_start + field.start, field))
            self.units.append(unit)
        self._decoder = self.units[: len(layout.decoder)]
        self._valuer = self.units[-len(layout.decoder) :] if self.model.value_model else []
        self._scalar = self.units[len(layout.decoder)] if self.model.scalar_head else {}
        self._head = Head(self.model.vocabulary, vector.device)
        self._rotary = rotary_tables(self.model, vector.device, vector.dtype)
        self._block: Callable[..., Tensor] = torch.compile(block, dynamic=False) if compiled else block

    def token_losses(self, tokens: Tensor, documents: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tensor to call backward() on, and the cross-entropy of each next token in nats, float32[rows ·
        context].

        tokens, documents: int64[rows, context + 1]; valid: bool[rows, context], of the position that is predicted from.
        A loss that is not valid is 0, and has no gradient.
        """
        hidden, weight = self._hidden(tokens, documents)
        return self._head.losses(hidden, weight, tokens[:, 1:].flatten(), valid.flatten())

    def weighted_losses(self, tokens: Tensor, documents: Tensor, weigh: Weigh) -> tuple[Tensor, Tensor]:
        """Return the tensor to call backward() on, and the losses float32[rows · context], weighted by `weigh`.

        The shapes are those of `token_losses`. `weigh` is given the log-probability of each next token.
        """
        hidden, weight = self._hidden(tokens, documents)
        return self._head.weighted_losses(hidden, weight, tokens[:, 1:].flatten(), weigh)

    @torch.no_grad()
    def log_probabilities(self, tokens: Tensor, documents: Tensor) -> Tensor:
        """Return the log-probability of each next token in nats, float32[rows · context], without a gradient.

        The bits are those of `weighted_losses` in a leaf of the same shape.
        """
        return self.weighted_losses(tokens, documents, lambda chances: (chances, chances))[1]

    def scores(self, tokens: Tensor, documents: Tensor, pooled: Tensor) -> Tensor:
        """Return the scalar head's value for each row, float32[rows]: of the mean of its hidden states where `pooled`.

        tokens, documents: int64[rows, context + 1]; pooled: bool[rows, context], of the position whose token is read.
        A row without such a position has the score 0. The result can be differentiated.
        """
        hidden, _ = self._hidden(tokens, documents)
        counted = pooled.to(torch.float32)
        states = hidden.view(*pooled.shape, -1).float() * counted[:, :, None]
        means = states.sum(1) / counted.sum(1).clamp(min=1.0)[:, None]
        return (means * self._scalar["weight"].float()).sum(1)

    def values(self, tokens: Tensor, documents: Tensor) -> Tensor:
        """Return the value model's scalar at each position, float32[rows · context]: of what is read up to there.

        tokens, documents: int64[rows, context + 1]. The result can be differentiated.
        """
        *states, scalar = self._valuer
        return (self._states(states, tokens, documents).float() * scalar["weight"].float()).sum(1)

    @torch.no_grad()
    def divergences(self, other: "Transformer", tokens: Tensor, documents: Tensor) -> Tensor:
        """Return the KL divergence of each next token's distribution from that of `other`, float32[rows · context], in
        nats.

        tokens, documents: int64[rows, context + 1]. Both models have the same vocabulary.
        """
        hidden, weight = self._hidden(tokens, documents)
        against, against_weight = other._hidden(tokens, documents)
        found = torch.empty(len(hidden), device=hidden.device)
        for start in range(0, len(hidden), self._head.rows):
            rows = slice(start, start + self._head.rows)
            own = F.log_softmax(self._head.slice_of(hidden[rows], weight), -1)
            theirs = F.log_softmax(other._head.slice_of(against[rows], against_weight), -1)
            found[rows] = (own.exp() * (own - theirs)).sum(-1)
        return found

    def _hidden(self, tokens: Tensor, documents: Tensor) -> tuple[Tensor, Tensor]:
        """Return the hidden states [rows · context, width], and the output matrix to multiply them with."""
        *states, output = self._decoder
        return self._states(states, tokens, documents), output["weight"]

    def _states(self, units: Sequence[Parameters], tokens: Tensor, documents: Tensor) -> Tensor:
        """The normalised states of all positions, [rows · context, width], by units from an embedding to a norm."""
        model, inputs = self.model, tokens[:, :-1]
        mask = document_mask(documents[:, :-1], self.vector.dtype) if model.document_mask else None
        embed, *blocks, norm = units
        x = F.embedding(inputs, embed["weight"])
        for parameters in blocks:
            x = self._block(model, parameters, x, self._rotary, mask)
        x = F.rms_norm(x, (model.width,), norm["weight"], model.norm_epsilon)
        return x.flatten(0, 1)


def parameters_in(layout: Layout, vector: Tensor) -> list[Parameters]:
    """The parameters of each unit, in the order of computation: its fields as views of the state's parameters
    [layout.elements].
    """
    return [
        {
            field.name: vector[use.state_start + field.start :][: field.length].view(field.shape)
            for field in use.unit.fields
        }
        for use in layout.uses
    ]


def decoder_parameters(layout: Layout, vector: Tensor) -> list[Parameters]:
    """Return `parameters_in` for the units from embed to output, which give the logits: without a scalar head."""
    return parameters_in(layout, vector)[: len(layout.decoder)]


def rotary_tables(model: ModelSpec, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines of the rotary angles, each [context, 1, head_width] (Su et al. 2021, half-split)."""
    half = model.head_width // 2
    frequencies = model.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(model.context, dtype=torch.float64)[:, None] * frequencies
    cosines, sines = angles.cos(), angles.sin()
    tables = torch.cat([cosines, cosines], -1), torch.cat([-sines, sines], -1)
    first, second = (table[:, None, :].to(device=device, dtype=dtype) for table in tables)
    return first, second


def document_mask(documents: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask to add to attention scores: 0 for earlier positions of the same document, else -inf. [rows, 1, T, T]."""
    length = documents.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=documents.device).tril()
    allowed = (documents[:, :, None] == documents[:, None, :]) & causal
    scores = torch.zeros(allowed.shape, dtype=dtype, device=documents.device)
    return scores.masked_fill_(~allowed, float("-inf"))[:, None]


def block(model: ModelSpec, p: Parameters, x: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
    """One pre-norm decoder block; x is [rows, T, width]."""
    y = F.rms_norm(x, (model.width,), p["attention_norm"], model.norm_epsilon)
    x = x + F.linear(attention(model, p, y, rotary, mask), p["attention_output"])
    return feed_forward(model, p, x)


def feed_forward(model: ModelSpec, p: Parameters, x: Tensor) -> Tensor:
    """The second half of a block; x is [rows, T, width]."""
    y = F.rms_norm(x, (model.width,), p["hidden_norm"], model.norm_epsilon)
    gate, up = F.linear(y, p["gate_up"]).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, p["down"])


def attention(model: ModelSpec, p: Parameters, y: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
    """Grouped-query attention before its output projection; [rows, T, width] to the same."""
    cosines, sines = rotary
    length = y.shape[1]
    query, key, value = projected(model, p, y, (cosines[:length], sines[:length]))
    mixed = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=model.heads != model.kv_heads
    )
    return mixed.transpose(1, 2).flatten(2)


def projected(
    model: ModelSpec, p: Parameters, y: Tensor, rotary: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Query [rows, heads, T, head_width], key and value [rows, kv_heads, T, head_width]; query and key are turned.

    y is [rows, T, width]; `rotary` holds the tables at its positions, each [T, 1, head_width] or one more for rows.
    """
    heads, kv_heads, head_width = model.heads, model.kv_heads, model.head_width
    mixed = F.linear(y, p["query_key_value"]).view(*y.shape[:2], heads + 2 * kv_heads, head_width)
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
