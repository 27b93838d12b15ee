"""The model token by token: what it has read of a text is kept as keys and values.

Promises: the logits of a text follow, bit for bit, from its tokens and how many of them were its prompt, whatever else
is decoded beside it. For the bits of a matrix product depend on how many rows it has, and not on where a row lies among
them: prompts are read one at a time, and what follows is always decoded ROWS rows at once, blank ones included. That
holds from sixteen columns of the product on (with fewer it depends on the processor), and no model that is worth a name
has so few; a test looks at it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tutti.inference.errors import PromptTooLong
from tutti.inference.memory import ROWS
from tutti.model.blocks import feed_forward, projected, rotary_tables
from tutti.model.chunks import Layout
from tutti.model.transformer import decoder_parameters

ALIGNED = 16
"""Room is made for a multiple of so many tokens, that what is kept of a layer and a head begins at 64 bytes: on some
processors the bits of a product depend on where in memory its factors lie."""


@dataclass(eq=False)
class Text:
    """A text that was read: keys and values [layers, kv_heads, room, head_width], of which `length` are valid."""

    keys: Tensor
    values: Tensor
    length: int = 0


class Decoder:
    """The model bound to the vector of its parameters; single texts of one document each."""

    def __init__(self, layout: Layout, vector: Tensor) -> None:
        """`vector` is float32 [layout.elements], on the device to compute on."""
        self.model, self._device = layout.model, vector.device
        self._embed, *self._blocks, self._norm, self._output = decoder_parameters(layout, vector)
        self._rotary = rotary_tables(self.model, vector.device, vector.dtype)

    @torch.no_grad()
    def begin(self, prompt: Sequence[int], *, room: int) -> tuple[Text, Tensor]:
        """Read a prompt of at least one token: the text, for `room` tokens in all, and the logits of its next token.

        The logits are float32 [vocabulary], of the model's device. Raises PromptTooLong when the room does not hold it.
        """
        model, length = self.model, len(prompt)
        if not 0 < length <= room <= model.context:
            raise PromptTooLong(
                f"a prompt of {length} tokens in a room of {room}; expected 1 to {room}, and the model's context is "
                f"{model.context}: shorten the prompt"
            )
        shape = (model.layers, model.kv_heads, -(-room // ALIGNED) * ALIGNED, model.head_width)
        text = Text(self._norm["weight"].new_empty(shape), self._norm["weight"].new_empty(shape), length)
        cosines, sines = self._rotary
        x = F.embedding(torch.tensor([prompt], device=self._device), self._embed["weight"])
        for layer, p in enumerate(self._blocks):
            y = F.rms_norm(x, (model.width,), p["attention_norm"], model.norm_epsilon)
            query, key, value = projected(model, p, y, (cosines[:length], sines[:length]))
            text.keys[layer, :, :length], text.values[layer, :, :length] = key[0], value[0]
            mixed = F.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=model.heads != model.kv_heads
            )
            x = feed_forward(model, p, x + F.linear(mixed.transpose(1, 2).flatten(2), p["attention_output"]))
        return text, self._logits(x[:, -1])[0]

    @torch.no_grad()
    def step(self, texts: Sequence[Text], tokens: Sequence[int]) -> Tensor:
        """Read one more token of each of at most ROWS texts, which have room for it.

        The logits of each text's next token, float32 [len(texts), vocabulary], of the model's device.
        """
        model, blank = self.model, ROWS - len(texts)
        positions = torch.tensor([text.length for text in texts] + [0] * blank, device=self._device)
        rotary = (self._rotary[0][positions, None], self._rotary[1][positions, None])
        x = F.embedding(torch.tensor([*tokens, *[0] * blank], device=self._device)[:, None], self._embed["weight"])
        for layer, p in enumerate(self._blocks):
            y = F.rms_norm(x, (model.width,), p["attention_norm"], model.norm_epsilon)
            query, key, value = projected(model, p, y, rotary)
            mixed = torch.zeros_like(query)
            for row, text in enumerate(texts):
                text.keys[layer, :, text.length], text.values[layer, :, text.length] = key[row, :, 0], value[row, :, 0]
                mixed[row] = F.scaled_dot_product_attention(
                    query[row, None].clone(),
                    text.keys[layer, None, :, : text.length + 1],
                    text.values[layer, None, :, : text.length + 1],
                    enable_gqa=model.heads != model.kv_heads,
                )[0]
            x = feed_forward(model, p, x + F.linear(mixed.transpose(1, 2).flatten(2), p["attention_output"]))
        for text in texts:
            text.length += 1
        return self._logits(x[:, 0])[: len(texts)]

    def _logits(self, x: Tensor) -> Tensor:
        x = F.rms_norm(x, (self.model.width,), self._norm["weight"], self.model.norm_epsilon)
        return F.linear(x, self._output["weight"])
