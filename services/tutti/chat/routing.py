"""The router: sends requests to replicas, and moves them to others when a replica is lost.

Promises: a completion continues only at replicas of one engine signature, so in exact mode no bit depends on where it
is made; tokens come in their order, each once; a request without a replica ends with an error after a deadline, never
with an invented end; a reader that leaves frees the place of its request. Keeps nothing on disk. For the event loop of
gRPC (`tutti.chassis.rpc.eventloop`).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from tutti.chassis.errors import Refused, Unavailable
from tutti.chat.links import Connect, Link, LinkLost, Session
from tutti.chat.progress import Gap, Move, Progress
from tutti.chat.tokens import Failed
from tutti.contracts.chat.v1 import Opened
from tutti.inference.engine import Chosen, Ended, Join

SILENCE_SECONDS = 2.0
SPARE_SECONDS = 10.0
MOST_IDLE_MOVES = 8
"""A request that moved so often without a new token is given up: it may be what ends the replicas."""


@dataclass(frozen=True)
class Standing:
    """A replica as the router sees it: `opened` is None while it is not followed, and `reason` says why."""

    address: str
    opened: Opened | None
    reason: str
    in_hand: int


class Router:
    """`connect` returns a new channel to an address, `token` is that of a service.

    A replica that says nothing for `silence_seconds` is lost; a request waits `spare_seconds` for a replica, at its
    beginning and at each move.
    """

    def __init__(
        self,
        connect: Connect,
        token: str,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        spare_seconds: float = SPARE_SECONDS,
    ) -> None:
        self._connect, self._token = connect, token
        self._silence, self._spare = silence_seconds, spare_seconds
        self._links: dict[str, Link] = {}
        self._change = asyncio.Event()

    @property
    def replicas(self) -> list[Standing]:
        """The replicas in use, by address."""
        return [
            Standing(
                link.address,
                link.session.opened if link.session else None,
                link.reason,
                link.session.in_hand if link.session else 0,
            )
            for _, link in sorted(self._links.items())
        ]

    async def use(self, addresses: Iterable[str]) -> None:
        """Follow the replicas at these addresses and no others; requests of others move."""
        chosen = set(addresses)
        for gone in self._links.keys() - chosen:
            await self._links.pop(gone).close()
        for address in sorted(chosen - self._links.keys()):
            link = Link(address, self._connect, self._token, self._changed, silence_seconds=self._silence)
            self._links[address] = link
            link.start()

    async def close(self) -> None:
        await self.use(())

    def answer(self, request: Join, *, model: str = "") -> "Answer":
        """Return a completion to iterate over; the id of the request is a string that no other in progress has.

        `model` is the digest of the parameters; without it, any replica may serve it.
        """
        return Answer(self, request, model)

    async def place(self, model: str, signature: str) -> Session:
        """Return the session of the replica with the least to do; an empty digest is any. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._spare
        while not (found := [each for each in self._sessions() if _serves(each.opened, model, signature)]):
            change = self._change
            try:
                await asyncio.wait_for(change.wait(), deadline - loop.time())
            except TimeoutError:
                raise Unavailable(self._missing(model, signature), reason="NO_REPLICA") from None
        return min(found, key=lambda session: (session.in_hand, session.link.address))

    def _sessions(self) -> list[Session]:
        return [link.session for link in self._links.values() if link.session is not None]

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _missing(self, model: str, signature: str) -> str:
        found = [_standing(each) for each in self.replicas]
        needed = f" with the engine signature {signature}" if signature else f" of the model {model}" if model else ""
        return (
            f"no replica{needed} within {self._spare:g} s; "
            f"{'; '.join(found) or 'none is in use'}: start one, or try again later"
        )


class Answer:
    """A completion in progress: iterate over `events` once, and close that iterator to leave.

    `opened` describes the engine, as soon as a replica has taken the request; `moves` are those so far.
    """

    def __init__(self, router: Router, request: Join, model: str) -> None:
        self.opened: Opened | None = None
        self.moves: list[Move] = []
        self._router, self._model, self._progress = router, model, Progress(request)
        self._name = str(request.id)

    async def events(self) -> AsyncGenerator[Chosen | Ended, None]:
        """Yield each token and then the end. Raises Unavailable without a replica, and the problem of a refusal."""
        while not self._progress.ended:
            signature = self.opened.signature if self.opened else ""
            session = await self._router.place(self._model, signature)
            self.opened = session.opened
            inbox = session.admit(self._progress.onward())
            try:
                while not self._progress.ended:
                    events = await inbox.get()
                    if isinstance(events, Exception):
                        raise events
                    for event in self._progress.take(events):
                        if isinstance(event, Failed):
                            raise Refused("NOT_FINITE", event.detail)
                        yield event
            except LinkLost as lost:
                self._moved(session, str(lost))
            except Gap as gap:
                session.link.drop(session, f"left tokens out: {gap}")
                self._moved(session, f"left tokens out: {gap}")
            finally:
                session.leave(self._name, ended=self._progress.ended)

    def _moved(self, session: Session, reason: str) -> None:
        """Record a move. Raises Refused after too many without a new token."""
        self.moves.append(Move(self._progress.count, session.link.address, reason))
        last = self.moves[-MOST_IDLE_MOVES:]
        if len(last) == MOST_IDLE_MOVES and last[0].at == last[-1].at:
            raise Refused("KEPT_MOVING", f"{len(last)} replicas were lost after token {last[-1].at}: {reason}")


def _serves(opened: Opened, model: str, signature: str) -> bool:
    return (not signature or opened.signature == signature) and (not model or opened.model == model)


def _standing(each: Standing) -> str:
    if each.opened is None:
        return f"{each.address} {each.reason}"
    return f"{each.address} serves the model {each.opened.model} with the engine signature {each.opened.signature}"
