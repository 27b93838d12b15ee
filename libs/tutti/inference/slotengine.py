"""The engine of this project: fixed slots, continuous batching, prefixes kept by model and prompt.

Promises: those of the port; draws are keyed by (seed, number, position), so a completion does not depend on its slot.
Events come in the order of the slots, step after step, so equal calls give equal streams. Beside whole streams,
requests join and leave between steps (`admit`, `cancel`, `step`). In exact mode one that begins with tokens that were
given continues with the tokens and the bits that it would have had.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from tutti.inference.batch import Batch, Choices, Growing
from tutti.inference.engine import (
    Chosen,
    Completion,
    Ended,
    EngineBusy,
    EngineStopped,
    Join,
    Mode,
    NotExact,
    Request,
    Tokens,
    Weights,
)
from tutti.inference.limits import Limits
from tutti.inference.memory import STREAMS
from tutti.inference.parity import deviation, head_logits, logprobs, score
from tutti.inference.sampling import Sampling
from tutti.inference.signature import EngineSignature
from tutti.inference.slots import MOST_QUERY_ROWS, QUERY_ROWS, ROWS_AT_ONCE, Prefix, Slots, slots_of
from tutti.model.chunks import Layout
from tutti.model.head import Head
from tutti.model.transformer import Transformer

Integers = npt.NDArray[np.int64]
_Key: TypeAlias = tuple[str, str, tuple[int, ...]]
PREFIXES = 64


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
        slots: int = STREAMS,
        length: int = 0,
        query_rows: Sequence[int] = (QUERY_ROWS, MOST_QUERY_ROWS),
    ) -> None:
        """`query_rows` are tried in this order until decoding is exact; more of them cost time."""
        self.mode, self._layout, self._rows, self._count, self._tried = mode, layout, rows, slots, query_rows
        self._query_rows = query_rows[0]
        self._length, self._shared = length or layout.model.context, True
        self._loaded: _Loaded | None = None
        self._head: Head | None = None
        self._prefixes: OrderedDict[_Key, Prefix] = OrderedDict()
        self._batch, self._streaming = self._empty(), False

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

    def cancel(self, id: Hashable, /) -> None:
        self._now()
        self._batch.cancel(id)

    def stop(self) -> None:
        self._loaded = None
        self._prefixes.clear()
        self._drop()

    def score(self, texts: Sequence[Sequence[int]]) -> list[npt.NDArray[np.float32]]:
        return score(self._now().transformer, texts, rows=self._rows, length=self._length)

    def stream(self, requests: Sequence[Request], sampling: Sampling, limits: Limits) -> Iterator[Tokens | Completion]:
        self._now()
        self._require_idle()
        batch = self._empty()
        for each in requests:
            batch.admit(Join(each.number, each.number, each.prompt or (limits.end,), sampling, limits))
        return self._streamed(batch)

    def admit(self, request: Join) -> None:
        """Let a request wait for a slot. Raises PromptTooLong, RequestRefused, EngineBusy, EngineStopped."""
        self._now()
        self._require_no_stream()
        self._batch.admit(request)

    def step(self) -> list[Chosen | Ended]:
        """Choose a token of each request that has a slot, and say which requests have ended.

        Requests that wait begin as far as slots are free and their prompts fill no more than the rows of one read.
        Nothing follows where nothing is in progress. Raises NotFinite, and then nothing is in progress; EngineBusy,
        EngineStopped.
        """
        now, found = self._now(), list[Chosen | Ended]()
        self._require_no_stream()
        try:
            found += [Ended(id, each.stop) for id, each in self._ended(now)]
            for choices in self._advanced(now, most_read=self._rows):
                found += choices.each()
            found += [Ended(id, each.stop) for id, each in self._ended(now)]
        except BaseException:
            self._drop()
            raise
        return found

    @property
    def in_progress(self) -> int:
        """The number of requests that wait or hold a slot."""
        return len(self._batch)

    def signature(self, kernel: str) -> EngineSignature:
        """Return the signature of a started engine in a process with this kernel signature. Raises EngineStopped."""
        now = self._now()
        alone = self.mode is Mode.EXACT and now.vector.device.type == "cpu"
        return EngineSignature(
            kernel,
            now.digest,
            self.mode.value,
            self._length,
            self._rows,
            self._query_rows,
            self._shared,
            0 if alone else now.slots.slots,
        )

    def _ended(self, now: _Loaded) -> Iterator[tuple[Hashable, Completion]]:
        for slot, id, completion in self._batch.ended():
            if slot is not None:
                now.slots.clear(slot)
            yield id, completion

    def _streamed(self, batch: Batch) -> Iterator[Tokens | Completion]:
        now = self._now()
        self._require_idle()
        self._batch, self._streaming = batch, True
        try:
            while len(batch):
                for each in self._advanced(now, most_read=len(batch)):
                    yield Tokens(tuple(join.number for join in each.requests), each.tokens, each.logprobs)
                    self._require_in_progress(batch)
                for _, completion in self._ended(now):
                    yield completion
                    self._require_in_progress(batch)
        finally:
            if self._batch is batch:
                self._drop()

    def _drop(self) -> None:
        """Forget what is in progress."""
        self._batch, self._streaming = self._empty(), False
        if self._loaded is not None:
            for slot in range(self._loaded.slots.slots):
                self._loaded.slots.clear(slot)

    def _empty(self) -> Batch:
        name = "model's context" if self._length == self._layout.model.context else "length of a row"
        return Batch(slots_of(self._count), self._length, room_name=name)

    def _advanced(self, now: _Loaded, *, most_read: int) -> Iterator[Choices]:
        """Let requests begin, then step all that have a slot."""
        batch = self._batch
        begun = batch.begin(most_read, lambda growing: self._key(now, growing) in self._prefixes)
        if begun:
            yield self._chosen(now, [*begun], *self._read(now, begun))
        placed = [slot for slot, growing in sorted(batch.placed.items()) if growing.stop is None]
        if placed:
            rows, alive = np.array(placed), np.zeros(now.slots.slots, np.int64)
            alive[rows] = 1
            yield self._chosen(now, placed, now.slots.step(batch.lasts * alive, alive), rows)

    def _key(self, now: _Loaded, growing: Growing) -> _Key:
        return now.digest, growing.request.salt, growing.text

    def _read(self, now: _Loaded, begun: dict[int, Growing]) -> tuple[torch.Tensor, Integers]:
        """Read the texts that begin, each once, and place them: what is multiplied for their next tokens, and rows."""
        keys = [self._key(now, growing) for growing in begun.values()]
        texts = list(dict.fromkeys(keys))
        slots = {key: [slot for slot, own in zip(begun, keys, strict=True) if own == key] for key in texts}
        missing = [key for key in texts if key not in self._prefixes]
        found = dict[_Key, torch.Tensor]()

        def place(key: _Key) -> None:
            self._prefixes.move_to_end(key)
            for slot in slots[key]:
                now.slots.place(slot, self._prefixes[key])
            found[key] = self._prefixes[key].hidden

        for key in texts:
            if key in self._prefixes:
                place(key)
        for start in range(0, len(missing), self._rows):
            part = missing[start : start + self._rows]
            for key, prefix in zip(part, now.slots.read([text for *_, text in part]), strict=True):
                self._prefixes[key] = prefix
                place(key)
            self._forget(self._rows * self._length)
        hidden = torch.stack([found[key] for key in texts])
        rows = {key: row for row, key in enumerate(texts)}
        padded = F.pad(hidden, (0, 0, 0, -len(hidden) % ROWS_AT_ONCE))
        return padded, np.array([rows[key] for key in keys])

    def _forget(self, tokens: int) -> None:
        """Forget the prefixes that were used longest ago, until PREFIXES are left, of at most `tokens` in all."""
        kept = sum(each.length for each in self._prefixes.values())
        while len(self._prefixes) > PREFIXES or kept > tokens:
            kept -= self._prefixes.popitem(last=False)[1].length

    def _chosen(self, now: _Loaded, placed: list[int], hidden: torch.Tensor, rows: Integers) -> Choices:
        """Choose a token of each text, by its slot; `rows` are theirs in `hidden` [rows, width]."""
        assert self._head is not None
        batch, slots = self._batch, np.array(placed)
        logits = head_logits(self._head, hidden, now.slots.output)
        own = logits[torch.from_numpy(rows).to(logits.device)]
        table = own.float().cpu().numpy()
        chosen = batch.choose(slots, table)
        targets = np.concatenate([chosen[:, None], batch.likeliest(slots, table)], 1)
        said = logprobs(own, torch.from_numpy(targets).to(own.device)).float().cpu().numpy()
        return batch.take(slots, targets, said)

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
        if len(self._batch):
            raise EngineBusy(f"{len(self._batch)} sequences are in progress; consume or close their stream first")

    def _require_in_progress(self, batch: Batch) -> None:
        if self._batch is not batch:
            raise EngineStopped("the engine was stopped while this stream was in progress; ask again")

    def _require_no_stream(self) -> None:
        if self._streaming:
            raise EngineBusy("a stream is in progress; consume or close it first")

    def _now(self) -> _Loaded:
        if self._loaded is None:
            raise EngineStopped("the engine has no weights; start it first")
        return self._loaded
