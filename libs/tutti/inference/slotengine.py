"""The engine of this project: fixed slots, continuous batching, prefixes kept by model and prompt.

Promises: those of the port; draws are keyed by (seed, number, position), so a completion does not depend on its slot.
Events come in the order of the slots, step after step, so equal calls give equal streams.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from tutti.inference.engine import (
    Completion,
    EngineBusy,
    EngineStopped,
    Mode,
    NotExact,
    Request,
    RequestRefused,
    Tokens,
    Weights,
)
from tutti.inference.errors import PromptTooLong
from tutti.inference.limits import Limits, Stop
from tutti.inference.parity import deviation, head_logits, logprobs, score
from tutti.inference.sampling import Draws, Sampling, choose_each
from tutti.inference.slots import MOST_QUERY_ROWS, QUERY_ROWS, ROWS_AT_ONCE, Prefix, Slots
from tutti.model.chunks import Layout
from tutti.model.head import Head
from tutti.model.transformer import Transformer

Integers = npt.NDArray[np.int64]
Logprobs = npt.NDArray[np.float32]
SLOTS = 32
PREFIXES = 64


@dataclass(eq=False)
class _Growing:
    """A completion in progress."""

    number: int
    prompt: tuple[int, ...]
    most: int
    stop: Stop | None = None


class _Generation:
    """The completions of a call: those that wait, those `placed` in slots, and a row of each table per slot."""

    def __init__(self, every: Sequence[_Growing], sampling: Sampling, limits: Limits, *, slots: int, most: int) -> None:
        """`most` tokens are the longest that a completion can have."""
        self.sampling, self.limits = sampling, limits
        self.waiting, self.placed = deque(every), dict[int, _Growing]()
        self.tokens, self.logprobs = np.zeros((slots, most), np.int64), np.zeros((slots, most), np.float32)
        self.draws = np.zeros((slots, most))
        self.counts, self.lasts = np.zeros(slots, np.int64), np.zeros(slots, np.int64)

    def begin(self) -> dict[int, _Growing]:
        """Let completions that wait begin in free slots: which ones in which."""
        free = [slot for slot in range(len(self.counts)) if slot not in self.placed][: len(self.waiting)]
        begun = {slot: self.waiting.popleft() for slot in free}
        self.placed.update(begun)
        return begun

    def end(self, slot: int) -> Completion:
        """Free a slot: the completion that it held."""
        growing, count = self.placed.pop(slot), self.counts[slot]
        assert growing.stop is not None
        tokens = tuple(self.tokens[slot, :count].tolist())
        return Completion(growing.number, tokens, self.logprobs[slot, :count].copy(), growing.stop)

    def take(self, texts: dict[int, _Growing], tokens: Integers, logprobs: Logprobs) -> Tokens:
        """Add a token to each of some texts, which are named by their slots."""
        slots = np.array([*texts])
        at = self.counts[slots]
        self.tokens[slots, at], self.logprobs[slots, at] = tokens, logprobs
        self.counts[slots], self.lasts[slots] = at + 1, tokens
        for count, each, token in zip((at + 1).tolist(), texts.values(), tokens.tolist(), strict=True):
            if token == self.limits.end:
                each.stop = Stop.END
            elif count == each.most:
                each.stop = Stop.TOKENS if each.most == self.limits.tokens else Stop.CONTEXT
        return Tokens(tuple(each.number for each in texts.values()), tokens, logprobs)


@dataclass(eq=False)
class _Loaded:
    """State that depends on the weights."""

    digest: str
    vector: torch.Tensor
    slots: Slots
    transformer: Transformer


class SlotEngine:
    """One model of a layout; `rows` and `length` are those of a leaf in its training, a length of 0 is its context."""

    def __init__(
        self,
        layout: Layout,
        *,
        rows: int,
        mode: Mode,
        slots: int = SLOTS,
        length: int = 0,
        query_rows: Sequence[int] = (QUERY_ROWS, MOST_QUERY_ROWS),
    ) -> None:
        """`query_rows` are tried in this order until decoding is exact; more of them cost time."""
        self.mode, self._layout, self._rows, self._count, self._tried = mode, layout, rows, slots, query_rows
        self._query_rows = query_rows[0]
        self._length, self._shared = length or layout.model.context, True
        self._loaded: _Loaded | None = None
        self._head: Head | None = None
        self._prefixes: OrderedDict[tuple[str, tuple[int, ...]], Prefix] = OrderedDict()
        self._progress: dict[int, _Growing] = {}
        self._source = Draws()

    @property
    def digest(self) -> str:
        return self._now().digest

    def start(self, weights: Weights) -> None:
        if self.mode is not Mode.EXACT:
            self._load(weights)
            return
        words = ""
        for query_rows, shared in product(self._tried, (True, False)):
            if not shared and self._now().slots.together == 1:
                continue
            self._query_rows, self._shared = query_rows, shared
            self._load(weights)
            words = self._inexact()
            if not words:
                return
        self.stop()
        raise NotExact(words)

    def swap(self, weights: Weights) -> None:
        now = self._now()
        self._require_idle()
        if weights.digest == now.digest:
            return
        if weights.vector is now.vector:
            now.digest = weights.digest
            now.slots.reset()
        else:
            self._load(weights)

    def cancel(self, number: int) -> None:
        self._now()
        if number in self._progress:
            self._progress[number].stop = Stop.CANCELLED

    def stop(self) -> None:
        self._loaded = None
        self._prefixes.clear()
        self._progress.clear()

    def score(self, texts: Sequence[Sequence[int]]) -> list[npt.NDArray[np.float32]]:
        return score(self._now().transformer, texts, rows=self._rows, length=self._length)

    def stream(self, requests: Sequence[Request], sampling: Sampling, limits: Limits) -> Iterator[Tokens | Completion]:
        now = self._now()
        self._require_idle()
        every = self._begun(requests, limits)
        return self._streamed(now, every, sampling, limits)

    def _begun(self, requests: Sequence[Request], limits: Limits) -> list[_Growing]:
        room, every = self._length, dict[int, _Growing]()
        what = "model's context" if room == self._layout.model.context else "length of a row"
        for request in requests:
            prompt = request.prompt or (limits.end,)
            if len(prompt) >= room:
                raise PromptTooLong(
                    f"prompt {request.number} has {len(prompt)} tokens, the {what} is {room}; shorten it by at least "
                    f"{len(prompt) - room + 1}"
                )
            if request.number in every:
                raise RequestRefused(f"two requests have the number {request.number}; give each its own")
            every[request.number] = _Growing(request.number, prompt, min(room - len(prompt), limits.tokens))
        return list(every.values())

    def _streamed(
        self, now: _Loaded, every: list[_Growing], sampling: Sampling, limits: Limits
    ) -> Iterator[Tokens | Completion]:
        self._require_idle()
        self._progress = {growing.number: growing for growing in every}
        most = min(limits.tokens, self._length)
        texts = _Generation(every, sampling, limits, slots=now.slots.slots, most=most)
        try:
            while texts.waiting or texts.placed:
                if begun := texts.begin():
                    yield self._begun_with(now, texts, begun)
                for slot, growing in sorted(texts.placed.items()):
                    if growing.stop is not None:
                        now.slots.clear(slot)
                        del self._progress[growing.number]
                        yield texts.end(slot)
                if texts.placed:
                    yield self._stepped(now, texts)
        finally:
            self._progress = {}
            for slot in range(now.slots.slots):
                now.slots.clear(slot)

    def _begun_with(self, now: _Loaded, texts: _Generation, begun: dict[int, _Growing]) -> Tokens:
        """The first token of texts that begin: a prompt is read once for all of them."""
        prompts = list(dict.fromkeys(each.prompt for each in begun.values()))
        missing = [prompt for prompt in prompts if (now.digest, prompt) not in self._prefixes]
        for start in range(0, len(missing), self._rows):
            part = missing[start : start + self._rows]
            for prompt, prefix in zip(part, now.slots.read(part), strict=True):
                self._prefixes[now.digest, prompt] = prefix
        for slot, each in begun.items():
            self._prefixes.move_to_end((now.digest, each.prompt))
            now.slots.place(slot, self._prefixes[now.digest, each.prompt])
            draws = self._source.draws(texts.sampling.seed, each.number, len(each.prompt), each.most)
            texts.draws[slot, : each.most], texts.counts[slot] = draws, 0
        rows = {prompt: row for row, prompt in enumerate(prompts)}
        hidden = torch.stack([self._prefixes[now.digest, prompt].hidden for prompt in rows])
        while len(self._prefixes) > PREFIXES:
            self._prefixes.popitem(last=False)
        padded = F.pad(hidden, (0, 0, 0, -len(hidden) % ROWS_AT_ONCE))
        return self._chosen(now, texts, begun, padded, np.array([rows[each.prompt] for each in begun.values()]))

    def _stepped(self, now: _Loaded, texts: _Generation) -> Tokens:
        """One step of all slots, and a token of each text."""
        placed = dict(sorted(texts.placed.items()))
        slots, alive = np.array([*placed]), np.zeros(now.slots.slots, np.int64)
        alive[slots] = 1
        return self._chosen(now, texts, placed, now.slots.step(texts.lasts * alive, alive), slots)

    def _chosen(
        self, now: _Loaded, texts: _Generation, growing: dict[int, _Growing], hidden: torch.Tensor, rows: Integers
    ) -> Tokens:
        """A token of each text, by its slot; `rows` are theirs in `hidden` [rows, width]."""
        assert self._head is not None
        slots = np.array([*growing])
        logits = head_logits(self._head, hidden, now.slots.output)
        own = logits[torch.from_numpy(rows).to(logits.device)]
        table = texts.limits.eligible(own.float().cpu().numpy())
        chosen = choose_each(table, texts.sampling, texts.draws[slots, texts.counts[slots]])
        said = logprobs(own, torch.from_numpy(chosen).to(own.device))
        return texts.take(growing, chosen, said.float().cpu().numpy())

    def _load(self, weights: Weights) -> None:
        vector = weights.vector
        slots = Slots(
            self._layout,
            vector,
            slots=self._count,
            rows=self._rows,
            exact=self.mode is Mode.EXACT,
            length=self._length,
            query_rows=self._query_rows,
            shared=self._shared,
        )
        self._head = self._head or Head(self._layout.model.vocabulary, vector.device)
        transformer = Transformer(self._layout, vector, compiled=False)
        self._loaded = _Loaded(weights.digest, vector, slots, transformer)

    def _inexact(self) -> str:
        """The reason why the bits differ from those of training's forward; empty if they are equal."""
        now = self._now()
        assert self._head is not None
        worst = deviation(now.slots, self._head, now.transformer)
        if worst == 0.0:
            return ""
        if math.isnan(worst):
            return "the model's log-probabilities are not finite; its parameters have diverged: take an earlier one"
        return (
            f"decoding differs from a leaf's forward by up to {worst:.1e} nats on this machine; expected equal bits: "
            "use fast mode, another model shape, or a length that is a multiple of 16"
        )

    def _require_idle(self) -> None:
        if self._progress:
            raise EngineBusy(f"{len(self._progress)} sequences are in progress; consume or close their stream first")

    def _now(self) -> _Loaded:
        if self._loaded is None:
            raise EngineStopped("the engine has no weights; start it first")
        return self._loaded
