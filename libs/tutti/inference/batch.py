"""The requests that an engine works on: those that wait, and those that hold a slot. Does not import torch.

Promises: a request's draws follow from its seed, its number and the positions of its tokens; so they do not depend on
its slot, on the other requests, or on how many of its tokens were given.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tutti.inference.engine import Chosen, Completion, Join, RequestRefused
from tutti.inference.errors import PromptTooLong
from tutti.inference.limits import Stop
from tutti.inference.sampling import Draws, choose_each

Integers = npt.NDArray[np.int64]
Logprobs = npt.NDArray[np.float32]


@dataclass(eq=False)
class Growing:
    """A request in progress; `most` is the number of tokens that its completion can have."""

    request: Join
    most: int
    stop: Stop | None = None

    @property
    def text(self) -> tuple[int, ...]:
        """The tokens that are read before the next one is chosen for the first time."""
        return self.request.prompt + self.request.given


@dataclass(frozen=True, eq=False)
class Choices:
    """The tokens that some requests were given in a step: `targets` [n, 1 + k] are theirs, then the likeliest ones.

    `at` [n] are their places in the completions, `scores` [n, 1 + k] the log-probabilities of `targets`.
    """

    requests: list[Join]
    at: Integers
    targets: Integers
    scores: Logprobs

    @property
    def tokens(self) -> Integers:
        return self.targets[:, 0]

    @property
    def logprobs(self) -> Logprobs:
        return self.scores[:, 0]

    def each(self) -> Iterator[Chosen]:
        rows = zip(self.requests, self.at.tolist(), self.targets.tolist(), self.scores.tolist(), strict=True)
        for request, at, (token, *ids), (logprob, *others) in rows:
            likeliest = tuple(zip(ids, others, strict=True))[: request.alternatives]
            yield Chosen(request.id, at, token, logprob, likeliest)


class Batch:
    """The requests in progress, and a row of each table per slot; `room` is the longest text in tokens."""

    def __init__(self, slots: int, room: int, *, room_name: str) -> None:
        self.waiting, self.placed = deque[Growing](), dict[int, Growing]()
        self.lasts = np.zeros(slots, np.int64)
        self._room, self._room_name, self._source = room, room_name, Draws()
        self._known: dict[Hashable, Growing] = {}
        self._tokens, self._logprobs = np.zeros((slots, room), np.int64), np.zeros((slots, room), np.float32)
        self._draws, self._counts = np.zeros((slots, room)), np.zeros(slots, np.int64)

    def __len__(self) -> int:
        return len(self._known)

    def admit(self, request: Join) -> None:
        """Let a request wait for a slot. Raises PromptTooLong, RequestRefused."""
        length = len(request.prompt)
        if length >= self._room:
            raise PromptTooLong(
                f"prompt {request.id} has {length} tokens, the {self._room_name} is {self._room}; shorten it by at "
                f"least {length - self._room + 1}"
            )
        if not length:
            raise RequestRefused(f"request {request.id} has no prompt; expected at least one token")
        if request.id in self._known:
            raise RequestRefused(f"two requests have the number {request.id}; give each its own")
        growing = Growing(request, min(self._room - length, request.limits.tokens))
        if len(request.forced) > growing.most:
            raise RequestRefused(
                f"request {request.id} begins with {len(request.forced)} tokens that are forced; expected at most "
                f"{growing.most}"
            )
        if len(request.given) >= growing.most or any(map(request.limits.is_end, request.given[len(request.forced) :])):
            raise RequestRefused(
                f"request {request.id} has ended with the {len(request.given)} tokens that are given; expected fewer "
                f"than {growing.most}, without the end of the text"
            )
        self._known[request.id] = growing
        self.waiting.append(growing)

    def cancel(self, id: Hashable) -> None:
        """End a request at once; its completion has the tokens so far. An unknown id changes nothing."""
        if id in self._known:
            self._known[id].stop = Stop.CANCELLED

    def begin(self, most_read: int, is_read: Callable[[Growing], bool]) -> dict[int, Growing]:
        """Place requests in free slots, in their order; of texts that have to be read at most `most_read` different."""
        begun, reading = dict[int, Growing](), set[tuple[object, ...]]()
        for slot in range(len(self._counts)):
            if not self.waiting:
                break
            if slot in self.placed:
                continue
            first = self.waiting[0]
            key = (first.request.salt, first.text)
            if key not in reading and not is_read(first):
                if len(reading) == most_read:
                    break
                reading.add(key)
            begun[slot] = self.waiting.popleft()
        for slot, growing in begun.items():
            self._place(slot, growing)
        return begun

    def _place(self, slot: int, growing: Growing) -> None:
        request, count = growing.request, len(growing.request.given)
        self.placed[slot] = growing
        self._counts[slot], self._tokens[slot, :count] = count, request.given
        self._logprobs[slot, :count] = np.nan  # those of tokens that are given are not known here
        position, seed = len(request.prompt), request.sampling.seed
        self._draws[slot, : growing.most] = self._source.draws(seed, request.number, position, growing.most)

    def choose(self, slots: Integers, logits: Logprobs) -> Integers:
        """Return the next token of each of some slots, int64 [slots]; logits [slots, vocabulary]. Raises NotFinite."""
        groups = dict[object, list[int]]()
        for row, slot in enumerate(slots.tolist()):
            groups.setdefault(self.placed[slot].request.kind, []).append(row)
        found = np.zeros(len(slots), np.int64)
        for rows in groups.values():
            request = self.placed[int(slots[rows[0]])].request
            table = request.limits.eligible(logits if len(groups) == 1 else logits[rows])
            if request.shaping:
                table = np.array(table)
                for row, slot in zip(table, slots[rows].tolist(), strict=True):
                    request.shaping.shape(row, self._tokens[slot, len(request.forced) : self._counts[slot]])
            at = slots[rows]
            found[rows] = choose_each(table, request.sampling, self._draws[at, self._counts[at]])
        for row, slot in enumerate(slots.tolist()):
            forced, count = self.placed[slot].request.forced, self._counts[slot]
            found[row] = forced[count] if count < len(forced) else found[row]
        return found

    def likeliest(self, slots: Integers, logits: Logprobs) -> Integers:
        """Return the ids that can be chosen with the greatest logits, the greatest first, int64 [slots, n].

        n is the most alternatives that one of the requests asks for; of equal logits the smaller id comes first.
        """
        requests = [self.placed[slot].request for slot in slots.tolist()]
        most = max(each.alternatives for each in requests)
        found = np.zeros((len(slots), most), np.int64)
        for row, request in enumerate(requests):
            if request.alternatives:
                table = request.limits.eligible(logits[row])
                best = np.argsort(-table, kind="stable")[: request.alternatives]
                found[row, : len(best)] = best
        return found

    def take(self, slots: Integers, targets: Integers, logprobs: Logprobs) -> Choices:
        """Add a token to the text in each of some slots.

        `targets` [slots, 1 + n] are the tokens, then the likeliest ones; `logprobs` theirs.
        """
        at, tokens = self._counts[slots], targets[:, 0]
        self._tokens[slots, at], self._logprobs[slots, at] = tokens, logprobs[:, 0]
        self._counts[slots], self.lasts[slots] = at + 1, tokens
        every = [self.placed[slot] for slot in slots.tolist()]
        for growing, count, token in zip(every, (at + 1).tolist(), tokens.tolist(), strict=True):
            if growing.stop is not None:
                continue
            if count > len(growing.request.forced) and growing.request.limits.is_end(token):
                growing.stop = Stop.END
            elif count == growing.most:
                growing.stop = Stop.TOKENS if growing.most == growing.request.limits.tokens else Stop.CONTEXT
        return Choices([each.request for each in every], at, targets, logprobs)

    def ended(self) -> Iterator[tuple[int | None, Hashable, Completion]]:
        """Take out the requests that have ended, with the slots that they held; those that waited held none."""
        for slot, growing in sorted(self.placed.items()):
            if growing.stop is not None:
                del self.placed[slot]
                count = self._counts[slot]
                whole = self._completion(growing, self._tokens[slot, :count], self._logprobs[slot, :count])
                yield slot, growing.request.id, whole
        for growing in [each for each in self.waiting if each.stop is not None]:
            self.waiting.remove(growing)
            given = np.array(growing.request.given, np.int64)
            whole = self._completion(growing, given, np.full(len(given), np.nan, np.float32))
            yield None, growing.request.id, whole

    def _completion(self, growing: Growing, tokens: Integers, logprobs: Logprobs) -> Completion:
        assert growing.stop is not None
        del self._known[growing.request.id]
        return Completion(growing.request.number, tuple(tokens.tolist()), logprobs.copy(), growing.stop)
