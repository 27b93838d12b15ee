"""A decoder with fixed slots: each step computes all slots over the whole room, whether or not they hold a text.

Promises: the logits of a text follow, bit for bit, from its tokens alone, whatever the other slots hold. In exact mode
they have the bits of a leaf's forward: matrix products have a multiple of ROWS_AT_ONCE rows (MKL computes a rest in
another order on some processors), attention has QUERY_ROWS or MOST_QUERY_ROWS query rows, all keys of the room and a
mask, and prompts are read as `tutti.model.answers` does. Those rows are the queries of as many slots, whose keys lie
one behind the other; where the keys of several slots cannot be summed in the order of one, queries are repeated.
`parity` checks.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tutti.model.blocks import feed_forward, projected, rotary_tables
from tutti.model.chunks import Layout
from tutti.model.spec import REGISTER, whole_registers
from tutti.model.transformer import decoder_parameters

ROWS_AT_ONCE = 16
QUERY_ROWS = 4
"""Enough for most kernels; some, such as those of MKL with MKL_CBWR=COMPATIBLE, need MOST_QUERY_ROWS."""
MOST_QUERY_ROWS = 8
KEYS_AT_ONCE = 512
"""Attention on CPUs sums over blocks of so many keys."""
Integers = npt.NDArray[np.int64]


class Prefix:
    """A prompt that was read: its keys and values, each [layers, kv_heads, tokens, head_width].

    `hidden` [width] is what the output matrix is multiplied with for its next token.
    """

    def __init__(self, keys: Tensor, values: Tensor, hidden: Tensor) -> None:
        self.keys, self.values, self.hidden = keys, values, hidden

    @property
    def length(self) -> int:
        return self.keys.shape[2]


class Slots:
    """The model bound to the vector of its parameters, with `slots` places for texts of at most `length` tokens."""

    def __init__(
        self,
        layout: Layout,
        vector: Tensor,
        *,
        slots: int,
        rows: int,
        exact: bool,
        length: int = 0,
        query_rows: int = QUERY_ROWS,
        shared: bool = True,
    ) -> None:
        """`rows` and `length` are those of a leaf, a length of 0 that of the model's context; `vector` is
        [layout.elements], and may be overwritten between texts. `shared`: slots may share products of attention.
        """
        model = layout.model
        self.model, self.rows, self.exact, self._vector = model, rows, exact, vector
        self.length = length or model.context
        self.together = slots_together(self.length, query_rows) if exact and shared else 1
        self.slots = slots_of(slots)
        self._embed, *self._blocks, self._norm, self._output = decoder_parameters(layout, vector)
        self._rotary = rotary_tables(model, vector.device, vector.dtype)
        groups = self.slots // self.together
        shape = (model.layers, groups, model.kv_heads, self.together, self.length, model.head_width)
        self._keys, self._values = vector.new_zeros(shape), vector.new_zeros(shape)
        self._lengths = torch.zeros(self.slots, dtype=torch.long, device=vector.device)
        self._places = torch.arange(self.length, device=vector.device)
        self._seen, self._unseen = vector.new_zeros(()), vector.new_full((), float("-inf"))
        repeated = query_rows // self.together if exact else 1
        self._mask = vector.new_full((groups, self.together, repeated, self.together, self.length), float("-inf"))
        begins = torch.arange(groups * model.kv_heads * self.together, device=vector.device) * self.length
        self._begins = begins.view(groups, model.kv_heads, self.together).transpose(1, 2).reshape(self.slots, -1)

    @property
    def output(self) -> Tensor:
        """The output matrix, [vocabulary, width]."""
        return self._output["weight"]

    @torch.inference_mode()
    def read(self, prompts: Sequence[Sequence[int]]) -> list[Prefix]:
        """Return the prefixes of prompts of 1 … length tokens; in exact mode of all of them together."""
        if self.exact:
            return self._read(prompts, length=whole_registers(max(map(len, prompts)), self.length))
        return [self._read([prompt], length=len(prompt))[0] for prompt in prompts]

    def _read(self, prompts: Sequence[Sequence[int]], *, length: int) -> list[Prefix]:
        model, count, device = self.model, len(prompts), self._vector.device
        shape = (model.layers, count, model.kv_heads, length, model.head_width)
        keys, values = self._vector.new_empty(shape), self._vector.new_empty(shape)
        tokens = torch.zeros(count, length, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            tokens[row, : len(prompt)] = torch.tensor(prompt)
        ends = torch.tensor([row * length + len(prompt) - 1 for row, prompt in enumerate(prompts)], device=device)
        ends = F.pad(ends, (0, -count % ROWS_AT_ONCE))
        x = F.embedding(tokens.to(device), self._embed["weight"])
        here = (self._rotary[0][:length], self._rotary[1][:length])
        for layer, p in enumerate(self._blocks):
            y = F.rms_norm(x, (model.width,), p["attention_norm"], model.norm_epsilon)
            query, keys[layer], values[layer] = projected(model, p, y, here)
            mixed = F.scaled_dot_product_attention(
                query, keys[layer], values[layer], is_causal=True, enable_gqa=model.heads != model.kv_heads
            )
            mixed = mixed.transpose(1, 2).flatten(2)
            if layer + 1 == model.layers:  # nobody reads more than the last position of each prompt
                x, mixed = (each.flatten(0, 1)[ends, None] for each in (x, mixed))
            x = feed_forward(model, p, x + F.linear(mixed, p["attention_output"]))
        hidden = self._normed(x)
        return [
            Prefix(keys[:, row, :, : len(prompt)].clone(), values[:, row, :, : len(prompt)].clone(), hidden[row])
            for row, prompt in enumerate(prompts)
        ]

    def place(self, slot: int, prefix: Prefix) -> None:
        """Let a text begin in a slot."""
        group, place = divmod(slot, self.together)
        self._keys[:, group, :, place, : prefix.length] = prefix.keys
        self._values[:, group, :, place, : prefix.length] = prefix.values
        self._lengths[slot] = prefix.length

    def clear(self, slot: int) -> None:
        """Empty a slot: it then costs what it cost before, and overwrites nothing of another text."""
        self._lengths[slot] = 0

    def reset(self) -> None:
        """Empty all slots, and forget what is not finite: a masked key or value of NaN would still be multiplied."""
        for tensor in (self._keys, self._values, self._lengths):
            tensor.zero_()

    @torch.inference_mode()
    def step(self, tokens: Integers, alive: Integers) -> Tensor:
        """Read one more token in every slot that is alive, which has room for it.

        Both arguments are int64 [slots]; `alive` is 1 or 0. Returns what the output matrix is multiplied with, [slots,
        width].
        """
        model, at, device = self.model, self._lengths, self._lengths.device
        rotary = (self._rotary[0][at, None], self._rotary[1][at, None])
        places = (self._begins + at[:, None]).flatten()
        own = torch.where(self._places <= at[:, None], self._seen, self._unseen).view(-1, self.together, self.length)
        self._mask.diagonal(dim1=1, dim2=3).copy_(own.transpose(1, 2)[:, None])
        x = F.embedding(torch.from_numpy(tokens).to(device)[:, None], self._embed["weight"])
        for layer, p in enumerate(self._blocks):
            y = F.rms_norm(x, (model.width,), p["attention_norm"], model.norm_epsilon)
            query, key, value = projected(model, p, y, rotary)
            for kept, new in ((self._keys[layer], key), (self._values[layer], value)):
                kept.view(-1, model.head_width).index_copy_(0, places, new.reshape(-1, model.head_width))
            mixed = self._attended(layer, query)
            x = feed_forward(model, p, x + F.linear(mixed, p["attention_output"]))
        at += torch.from_numpy(alive).to(device)
        return self._normed(x)

    def _normed(self, x: Tensor) -> Tensor:
        """[rows, 1, width] to [rows, width]."""
        return F.rms_norm(x[:, 0], (self.model.width,), self._norm["weight"], self.model.norm_epsilon)

    def _attended(self, layer: int, query: Tensor) -> Tensor:
        """Attention of one query row a slot, [slots, 1, attention_width]."""
        model, together = self.model, self.together
        groups, repeated = self.slots // together, self._mask.shape[2]
        keys, values = self._keys[layer].flatten(2, 3), self._values[layer].flatten(2, 3)
        mask = self._mask.view(groups, 1, together * repeated, -1)
        if self.exact:
            asked = query.view(groups, together, model.heads, 1, model.head_width).transpose(1, 2)
            many = asked.expand(-1, -1, -1, repeated, -1).flatten(2, 3).contiguous()
            mixed = F.scaled_dot_product_attention(
                many, keys, values, attn_mask=mask, enable_gqa=model.heads != model.kv_heads
            )
            return mixed[:, :, ::repeated].transpose(1, 2).reshape(self.slots, 1, model.attention_width)
        shares = query.reshape(self.slots, model.kv_heads, model.heads // model.kv_heads, model.head_width)
        scores = torch.matmul(shares, keys.transpose(-1, -2)) * model.head_width**-0.5 + mask
        return torch.matmul(scores.softmax(-1), values).reshape(self.slots, 1, model.attention_width)


def slots_of(count: int) -> int:
    """Return how many slots there are where `count` are asked for: a multiple of ROWS_AT_ONCE, at least that."""
    return max(1, -(-count // ROWS_AT_ONCE)) * ROWS_AT_ONCE


def slots_together(length: int, query_rows: int = QUERY_ROWS) -> int:
    """Return how many slots of `length` tokens share a product, such that each sums over its keys in the same order.

    Of the keys of the others only zeros are added; a vector register takes the same of its own where each slot begins
    at a multiple of its width.
    """
    if length % REGISTER:
        return 1
    return max(each for each in (1, 2, 4) if each <= query_rows and (each == 1 or each * length <= KEYS_AT_ONCE))
