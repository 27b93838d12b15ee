"""The engine of this project: fixed slots, continuous batching, prefixes kept by model and prompt.

Promises: those of the port; draws are keyed by (seed, number, position), so a completion does not depend on its slot.
Events come in the order of the slots, step after step, so equal calls give equal streams.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from tutti.inference.slots import LEAST_SLOTS, QUERY_ROWS, Prefix, Slots
from tutti.model.chunks import Layout
from tutti.model.head import Head
from tutti.model.transformer import Transformer

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


class _Sheet:
    """What the text of each slot has so far: a row of each table, [slots, tokens]."""

    def __init__(self, slots: int, tokens: int) -> None:
        self.tokens, self.logprobs = np.zeros((slots, tokens), np.int64), np.zeros((slots, tokens), np.float32)
        self.draws = np.zeros((slots, tokens))
        self.counts, self.lasts = np.zeros(slots, np.int64), np.zeros(slots, np.int64)

    def place(self, slot: int, draws: npt.NDArray[np.float64]) -> None:
        """Let a text begin, which has so many tokens at most."""
        self.draws[slot, : len(draws)], self.counts[slot] = draws, 0

    def take(self, slots: npt.NDArray[np.int64], tokens: npt.NDArray[np.int64], logprobs: Logprobs) -> None:
        """Add a token to each of some texts."""
        at = self.counts[slots]
        self.tokens[slots, at], self.logprobs[slots, at] = tokens, logprobs
        self.counts[slots], self.lasts[slots] = at + 1, tokens

    def whole(self, slot: int, growing: _Growing) -> Completion:
        """The text of a slot."""
        assert growing.stop is not None
        count = self.counts[slot]
        tokens = tuple(self.tokens[slot, :count].tolist())
        return Completion(growing.number, tokens, self.logprobs[slot, :count].copy(), growing.stop)


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
        query_rows: int = QUERY_ROWS,
    ) -> None:
        self.mode, self._layout, self._rows, self._count, self._query_rows = mode, layout, rows, slots, query_rows
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
        self._load(weights)
        if self.mode is not Mode.EXACT:
            return
        words = self._inexact()
        if words and self._shared:
            self._shared = False
            self._load(weights)
            words = self._inexact()
        if words:
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
        waiting, placed = deque(every), dict[int, _Growing]()
        sheet = _Sheet(now.slots.slots, min(limits.tokens, self._length))
        try:
            while waiting or placed:
                if begun := self._fill(now, waiting, placed, sheet, sampling.seed):
                    yield self._begun_with(now, begun, sheet, sampling, limits)
                for slot, growing in sorted(placed.items()):
                    if growing.stop is not None:
                        now.slots.clear(slot)
                        del placed[slot], self._progress[growing.number]
                        yield sheet.whole(slot, growing)
                if placed:
                    yield self._stepped(now, placed, sheet, sampling, limits)
        finally:
            self._progress = {}
            for slot in range(now.slots.slots):
                now.slots.clear(slot)

    def _fill(
        self, now: _Loaded, waiting: deque[_Growing], placed: dict[int, _Growing], sheet: _Sheet, seed: int
    ) -> dict[int, _Growing]:
        """Let waiting texts begin in free slots: which ones in which."""
        if not waiting:
            return {}
        free = [slot for slot in range(now.slots.slots) if slot not in placed][: len(waiting)]
        begun = {slot: waiting.popleft() for slot in free}
        missing = [each.prompt for each in begun.values() if (now.digest, each.prompt) not in self._prefixes]
        read = list(dict.fromkeys(missing))
        for start in range(0, len(read), self._rows):
            part = read[start : start + self._rows]
            for prompt, prefix in zip(part, now.slots.read(part), strict=True):
                self._prefixes[now.digest, prompt] = prefix
        for slot, growing in begun.items():
            self._prefixes.move_to_end((now.digest, growing.prompt))
            now.slots.place(slot, self._prefixes[now.digest, growing.prompt])
            sheet.place(slot, self._source.draws(seed, growing.number, len(growing.prompt), growing.most))
        placed.update(begun)
        return begun

    def _begun_with(
        self, now: _Loaded, begun: dict[int, _Growing], sheet: _Sheet, sampling: Sampling, limits: Limits
    ) -> Tokens:
        """The first token of texts that begin: their prompts were read once for all of them."""
        prompts = dict.fromkeys(each.prompt for each in begun.values())
        places = {prompt: place for place, prompt in enumerate(prompts)}
        hidden = torch.stack([self._prefixes[now.digest, prompt].hidden for prompt in places])
        while len(self._prefixes) > PREFIXES:
            self._prefixes.popitem(last=False)
        padded = F.pad(hidden, (0, 0, 0, max(0, LEAST_SLOTS - len(hidden))))
        rows = np.array([places[each.prompt] for each in begun.values()])
        return self._chosen(now, begun, rows, padded, sheet, sampling, limits)

    def _stepped(
        self, now: _Loaded, placed: dict[int, _Growing], sheet: _Sheet, sampling: Sampling, limits: Limits
    ) -> Tokens:
        """One step of all slots, and a token of each text."""
        alive = np.zeros(now.slots.slots, np.int64)
        alive[[*placed]] = 1
        hidden = now.slots.step(np.where(alive, sheet.lasts, 0), alive)
        ordered = dict(sorted(placed.items()))
        return self._chosen(now, ordered, np.array([*ordered]), hidden, sheet, sampling, limits)

    def _chosen(
        self,
        now: _Loaded,
        texts: dict[int, _Growing],
        rows: npt.NDArray[np.int64],
        hidden: torch.Tensor,
        sheet: _Sheet,
        sampling: Sampling,
        limits: Limits,
    ) -> Tokens:
        """A token of each text, by its slot; `rows` are theirs in `hidden` [rows, width]."""
        assert self._head is not None
        slots = np.array([*texts])
        logits = head_logits(self._head, hidden, now.slots.output)
        table = logits[:, : limits.vocabulary].float().cpu().numpy()
        drawn = sheet.draws[slots, sheet.counts[slots]]
        chosen = choose_each(table if len(rows) == len(table) else table[rows], sampling, drawn)
        device = logits.device
        said = logprobs(logits[torch.from_numpy(rows).to(device)], torch.from_numpy(chosen).to(device))
        sheet.take(slots, chosen, found := said.float().cpu().numpy())
        for slot, each, token in zip(texts, texts.values(), chosen.tolist(), strict=True):
            if token == limits.end:
                each.stop = Stop.END
            elif sheet.counts[slot] == each.most:
                each.stop = Stop.TOKENS if each.most == limits.tokens else Stop.CONTEXT
        return Tokens(tuple(each.number for each in texts.values()), chosen, found)

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
