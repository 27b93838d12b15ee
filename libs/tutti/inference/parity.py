"""The parity of decoding and training: log-probabilities of both, compared bit for bit.

The bits of a float depend on processor, libraries and shapes, so exactness is measured where it is promised.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tutti.inference.errors import PromptTooLong
from tutti.inference.scoring import positions
from tutti.inference.slots import Slots
from tutti.model.head import Head
from tutti.model.transformer import Transformer

Rows = npt.NDArray[np.float32]
STEPS = 8


def score(transformer: Transformer, texts: Sequence[Sequence[int]], *, rows: int, length: int = 0) -> list[Rows]:
    """Return the log-probability of every token but the first of each text, by the forward of a leaf.

    The leaf has `rows` rows of `length` tokens, 0 for the model's context. A text begins its row and is its only
    document, as in a row of training. Raises PromptTooLong.
    """
    most = (length or transformer.model.context) + 1
    for number, text in enumerate(texts):
        if not 0 < len(text) <= most:
            raise PromptTooLong(f"text {number} has {len(text)} tokens; expected 1 to {most}, those of a row")
    return positions(transformer, texts, transformer.log_probabilities, rows=rows, length=length)


def logprobs(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the log-probabilities of int64 targets [rows, any number] with the arithmetic of the head.

    The logits [rows, vocabulary] are overwritten.
    """
    logits.sub_(logits.amax(-1, keepdim=True))
    chosen = logits.gather(-1, targets)
    return chosen - logits.exp_().sum(-1, keepdim=True).log()


def deviation(slots: Slots, head: Head, transformer: Transformer, *, seed: int = 0) -> float:
    """Return the largest absolute difference of log-probabilities between decoding and a leaf's forward, in nats.

    It fills all slots with random tokens of random lengths, the longest as long as a slot. NaN where one of the two is
    not finite.
    """
    model, source = slots.model, np.random.default_rng(seed)
    steps = min(STEPS, slots.length)
    begins = source.integers(1, slots.length - steps + 2, slots.slots)
    begins[0] = slots.length - steps + 1
    texts = [source.integers(0, model.vocabulary, begin + steps).tolist() for begin in begins]
    expected = score(transformer, texts, rows=slots.rows, length=slots.length)
    first = list[Tensor]()
    for start in range(0, len(texts), slots.rows):
        ends = zip(texts[start : start + slots.rows], begins[start : start + slots.rows], strict=True)
        for prefix in slots.read([text[:begin] for text, begin in ends]):
            slots.place(len(first), prefix)
            first.append(prefix.hidden)
    worst = 0.0
    for step in range(steps):
        at = [begin - 1 + step for begin in begins]
        read = np.array([text[place] for text, place in zip(texts, at, strict=True)], np.int64)
        hidden = slots.step(read, np.ones(slots.slots, np.int64)) if step else torch.stack(first)
        targets = torch.tensor([text[place + 1] for text, place in zip(texts, at, strict=True)], device=hidden.device)
        seen = logprobs(head_logits(head, hidden, slots.output), targets[:, None])[:, 0].float().cpu().numpy()
        truth = np.array([row[place] for row, place in zip(expected, at, strict=True)], np.float32)
        difference = float(np.abs(seen - truth).max())
        if not difference <= worst:
            worst = difference
    for each in range(slots.slots):
        slots.clear(each)
    return worst


def head_logits(head: Head, hidden: Tensor, weight: Tensor) -> Tensor:
    """Return the logits of some rows, float32 [rows, vocabulary], at most `head.rows` of them a product."""
    if len(hidden) <= head.rows:
        return head.slice_of(hidden, weight)
    return torch.cat([head.slice_of(part, weight).clone() for part in torch.split(hidden, head.rows)])
