"""A Llama-shaped decoder as functions over views of one flat parameter vector.

RMSNorm, rotary positions, SwiGLU, grouped-query attention, optional QK-norm; attention stays inside a document when the
model says so. It returns one loss a token, in nats, and never a mean: the step divides once, by the global count.
"""

from collections.abc import Callable, Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from tutti.model.answers import Placed, answers_block
from tutti.model.blocks import Parameters, block, document_mask, rotary_tables
from tutti.model.chunks import Layout
from tutti.model.head import Head, Weigh


class Transformer:
    """The model as a function of the parameters of its units.

    It does not know where they are kept: `parameters` of a rank, or views of one vector.
    """

    def __init__(self, layout: Layout, vector: Tensor, *, compiled: bool) -> None:
        """`vector` is [layout.elements], float32 or bfloat16. Its values may be replaced in place between steps.

        Each field is a leaf of autograd.
        """
        self._bind(layout, leaves_in(layout, vector), vector.device, vector.dtype, compiled)

    @classmethod
    def of_units(
        cls, layout: Layout, units: Sequence[Parameters], *, device: torch.device, dtype: torch.dtype, compiled: bool
    ) -> Self:
        """Bind the model to the parameters of each unit, in the order of `layout.uses`."""
        made = cls.__new__(cls)
        made._bind(layout, units, device, dtype, compiled)
        return made

    def _bind(
        self, layout: Layout, units: Sequence[Parameters], device: torch.device, dtype: torch.dtype, compiled: bool
    ) -> None:
        self.model, self.units, self.device, self.dtype = layout.model, units, device, dtype
        self._decoder = self.units[: len(layout.decoder)]
        self._valuer = self.units[-len(layout.decoder) :] if self.model.value_model else []
        self._scalar = self.units[len(layout.decoder)] if self.model.scalar_head else {}
        self._head = Head(self.model.vocabulary, device)
        self._rotary = rotary_tables(self.model, device, dtype)
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

    def answer_losses(self, placed: Placed, weigh: Weigh) -> tuple[Tensor, Tensor]:
        """As `weighted_losses`, float32[rows · tokens], of answers that share their prompts.

        The log-probabilities have the bits of those of whole rows.
        """
        *states, output = self._decoder
        return self._head.weighted_losses(self._answered(states, placed), output["weight"], placed.targets, weigh)

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

    def answer_values(self, placed: Placed) -> Tensor:
        """As `values`, float32[rows · tokens], of answers that share their prompts."""
        *states, scalar = self._valuer
        return (self._answered(states, placed).float() * scalar["weight"].float()).sum(1)

    @torch.no_grad()
    def answer_log_probabilities(self, placed: Placed) -> Tensor:
        """As `log_probabilities`, float32[rows · tokens], of answers that share their prompts."""
        return self.answer_losses(placed, lambda chances: (chances, chances))[1]

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

    def _answered(self, units: Sequence[Parameters], placed: Placed) -> Tensor:
        """The normalised states at the positions of answers, [rows · tokens, width]."""
        embed, *blocks, norm = units
        x = F.embedding(placed.tokens, embed["weight"])[None]
        rotary = (self._rotary[0][placed.positions], self._rotary[1][placed.positions])
        for number, parameters in enumerate(blocks, 1):
            x = answers_block(self.model, parameters, x, rotary, placed, last=number == len(blocks))
        return F.rms_norm(x, (self.model.width,), norm["weight"], self.model.norm_epsilon)[0]

    def _states(self, units: Sequence[Parameters], tokens: Tensor, documents: Tensor) -> Tensor:
        """The normalised states of all positions, [rows · context, width], by units from an embedding to a norm."""
        model, inputs = self.model, tokens[:, :-1]
        mask = document_mask(documents[:, :-1], self.dtype) if model.document_mask else None
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


def leaves_in(layout: Layout, vector: Tensor) -> list[Parameters]:
    """Return `parameters_in`, where each field is a leaf of autograd."""
    return [
        {name: view.detach().requires_grad_() for name, view in unit.items()} for unit in parameters_in(layout, vector)
    ]


def decoder_parameters(layout: Layout, vector: Tensor) -> list[Parameters]:
    """Return `parameters_in` for the units from embed to output, which give the logits: without a scalar head."""
    return parameters_in(layout, vector)[: len(layout.decoder)]
