"""Answers to prompts, as rows of a leaf that share the prompts they answer.

A prompt is computed once for all rows that answer it, and the last block and the head see answers alone. The keys of a
row lie where its tokens do, so an answer's states have the bits of the forward of whole rows, and those of decoding.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tutti.model.batch import BatchError
from tutti.model.blocks import Parameters, Rotary, feed_forward, projected
from tutti.model.spec import ModelSpec, whole_registers

Integers = npt.NDArray[np.int64]
LEAST_POSITIONS = 16
"""A product of fewer rows has other bits on some processors."""
QUERIES_AT_ONCE = 8
"""Attention on CPUs computes blocks of 32 queries; a last block of another size than a multiple of this has other bits
on some processors."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The positions that a leaf computes.

    `prefixes` int64 [prompts, width]: the different prompts without their last tokens, padded; `ends` int64 [rows]: how
    many positions of its prefix a row reads; `owners` int64 [rows]: its prefix. `inputs` and `targets` int64 [rows,
    tokens]: the prompt's last token and the answer, and what each of them predicts. `length` is that of a row.
    """

    prefixes: Integers
    owners: Integers
    ends: Integers
    inputs: Integers
    targets: Integers
    length: int

    @property
    def places(self) -> Integers:
        """The position of each input in its row, int64 [rows, tokens]; of `length` or more where the row has ended."""
        return np.asarray(self.ends[:, None] + np.arange(self.inputs.shape[1]))

    @property
    def reads(self) -> Integers:
        """The index of each position of a row in the prefixes followed by the inputs, int64 [rows, length].

        Behind a row's tokens that is its first input: attention hides it.
        """
        (rows, tokens), width = self.inputs.shape, self.prefixes.shape[1]
        here, first = np.arange(self.length), self.prefixes.size + tokens * np.arange(rows)[:, None]
        after = here - self.ends[:, None]
        before = self.owners[:, None] * width + here
        return np.asarray(np.where(after < 0, before, first + np.where(after < tokens, after, 0)))

    def window(self, table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return what `table` [rows, length] says at the positions of the inputs, [rows, tokens]; zero after a row."""
        places = self.places
        found = np.take_along_axis(table, places.clip(max=self.length - 1), 1)
        found[places >= self.length] = 0
        return found


def answers_of(tokens: Integers, ends: Integers, *, prompt: int, answer: int) -> Answers:
    """Return the answers in rows, int64 [rows, length + 1], whose prompts have one token more than `ends`.

    `prompt` is the length of the longest prompt, `answer` that of the longest answer. Raises BatchError.
    """
    rows, length = len(tokens), tokens.shape[1] - 1
    if (longest := int(ends.max(initial=0)) + 1) > prompt:
        raise BatchError(f"a prompt has {longest} tokens; expected at most {prompt}")
    width = whole_registers(prompt - 1, length)
    count = max(answer, -(-LEAST_POSITIONS // rows))
    count = -(-count // QUERIES_AT_ONCE) * QUERIES_AT_ONCE
    owners, found = np.zeros(rows, np.int64), dict[bytes, int]()
    prefixes = np.zeros((rows, width), np.int64)
    for row, end in enumerate(ends.tolist()):
        own = tokens[row, :end]
        owners[row] = found.setdefault(own.tobytes(), len(found))
        prefixes[owners[row], :end] = own
    places = ends[:, None] + np.arange(count + 1)
    window = np.take_along_axis(tokens, places.clip(max=length), 1)
    return Answers(prefixes[: len(found)], owners, ends, window[:, :-1], window[:, 1:], length)


class Placed:
    """Answers on a device: `tokens` and `positions` are int64 [prompts · width + rows · tokens], prefixes first."""

    def __init__(self, answers: Answers, device: torch.device, dtype: torch.dtype) -> None:
        """On the device of the parameters, of their type."""
        places = answers.places
        self.prefixes, self.rows, self.length = answers.prefixes.shape, answers.inputs.shape, answers.length
        tokens = np.concatenate([answers.prefixes.ravel(), answers.inputs.ravel()])
        here = np.concatenate([np.tile(np.arange(self.prefixes[1]), self.prefixes[0]), places.ravel()])
        unseen = np.arange(answers.length) > places[:, :, None]
        scores = np.where(unseen, -np.inf, 0.0)[:, None]

        def on(array: npt.NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(array).to(device)

        self.tokens, self.positions = on(tokens), on(here.clip(max=answers.length - 1))
        self.targets, self.reads = on(answers.targets.ravel()), on(answers.reads.ravel())
        self.mask = on(scores).to(dtype)

    @property
    def shared(self) -> int:
        """Positions of all prefixes."""
        return int(self.prefixes[0] * self.prefixes[1])


def answers_block(model: ModelSpec, p: Parameters, x: Tensor, rotary: Rotary, placed: Placed, *, last: bool) -> Tensor:
    """One block; x is [1, positions, width]. The `last` one returns the states of the answers alone."""
    y = F.rms_norm(x, (model.width,), p["attention_norm"], model.norm_epsilon)
    mixed = answers_attention(model, p, y, rotary, placed, last=last)
    if last:
        x = x[:, placed.shared :]
    return feed_forward(model, p, x + F.linear(mixed, p["attention_output"]))


def answers_attention(
    model: ModelSpec, p: Parameters, y: Tensor, rotary: Rotary, placed: Placed, *, last: bool
) -> Tensor:
    """Attention before its output projection, [1, positions, width] to [1, positions, attention_width], or that of the
    answers alone.
    """
    grouped = model.heads != model.kv_heads
    query, key, value = projected(model, p, y, rotary)
    before, after = torch.split(query[0], [placed.shared, query.shape[2] - placed.shared], 1)
    keys, values = _rows(key, placed), _rows(value, placed)
    asked = after.view(model.heads, *placed.rows, model.head_width).transpose(0, 1)
    mixed = F.scaled_dot_product_attention(asked, keys, values, attn_mask=placed.mask, enable_gqa=grouped)
    found = mixed.transpose(1, 2).reshape(1, -1, model.attention_width)
    if last or not placed.shared:
        return found
    asked, keys, values = (_prefixes(each[:, : placed.shared], placed) for each in (before, key[0], value[0]))
    mixed = F.scaled_dot_product_attention(asked, keys, values, is_causal=True, enable_gqa=grouped)
    return torch.cat([mixed.transpose(1, 2).reshape(1, -1, model.attention_width), found], 1)


def _prefixes(part: Tensor, placed: Placed) -> Tensor:
    """Queries, keys or values of prefixes, [heads, shared, head_width] to [prompts, heads, width, head_width]."""
    return part.view(len(part), *placed.prefixes, -1).transpose(0, 1)


def _rows(part: Tensor, placed: Placed) -> Tensor:
    """Keys or values of whole rows, [1, heads, positions, head_width] to [rows, heads, length, head_width]."""
    found = part[0].transpose(0, 1).index_select(0, placed.reads)
    return found.view(placed.rows[0], placed.length, *found.shape[1:]).transpose(1, 2)
