"""Leases of answers: the service `access` admits an answer before it begins, and hears once a second that it continues.

Promises: no answer begins without a reservation; all that run here are renewed in one call; the end of an answer is
settled before it is shown, unless access does not answer; an answer whose token was revoked, or whose lease could not
be renewed before it ran out, ends with an error and never as if it were whole.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tutti.chassis.errors import DeadlineExceeded, InvalidField, Problem, Refused, Unauthenticated, Unavailable
from tutti.chassis.identity.cause import caused_by, current_cause
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import eventloop
from tutti.chat.recording import Show
from tutti.chat.saying import Piece
from tutti.contracts.access.v1 import (
    LIMIT_CONCURRENT,
    LIMIT_REQUESTS,
    LIMIT_TOKENS,
    Limit,
    RenewRequest,
    ReserveRequest,
    ReserveResponse,
    SettleRequest,
    Spent,
)
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.web.calls import TooMany

RENEW_SECONDS = 1.0
RESERVE_SECONDS, CALL_SECONDS = 5.0, 2.0
"""Deadlines: of a request that waits for its reservation, and of a call to renew or settle."""
LIMITS: Mapping[Limit.ValueType, str] = {
    LIMIT_REQUESTS: "{requests.limit} requests a minute",
    LIMIT_TOKENS: "{tokens.limit} tokens a minute, of prompts and answers; a request counts with its `max_tokens`",
    LIMIT_CONCURRENT: "{concurrent.limit} answers at the same time",
}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cost:
    """Tokens of an answer so far: of the prompt that was read, and released and computed ones of the completion."""

    prompt: int = 0
    released: int = 0
    computed: int = 0


@dataclass(frozen=True)
class Lease:
    """An answer that may begin. `headers` say what is left of the limits; `seconds` is the time without a renewal."""

    id: str
    headers: Mapping[str, str]
    seconds: float


Work: TypeAlias = Callable[[Show], Coroutine[Any, Any, None]]
Costs: TypeAlias = Callable[[], Cost]


@dataclass
class Running:
    """An answer in progress. `lasts_until` is in seconds of the loop; `error` is the reason why it was ended here."""

    lease: Lease
    deployment: str
    cost: Costs
    task: "asyncio.Task[None]"
    lasts_until: float
    error: Problem | None = None

    def end(self, error: Problem) -> None:
        """End it here, once."""
        if self.error is None:
            self.error = error
            self.task.cancel()


@dataclass
class Ending:
    """An answer to settle, until its lease has run out. `tried` is done after a first attempt."""

    lease: Lease
    cost: Cost
    lasts_until: float
    tried: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Leases:
    """All but `reserve` is for the event loop of gRPC (`tutti.chassis.rpc.eventloop`)."""

    def __init__(self, access: AccessServiceStub) -> None:
        self._access = access
        self._running: dict[str, Running] = {}
        self._stopped: dict[str, Problem] = {}
        self._endings: list[Ending] = []
        self._keeping: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    async def reserve(
        self, principal: Principal, id: str, prompt_tokens: int, most_tokens: int, choices: int = 1
    ) -> Lease:
        """Reserve an answer of at most `most_tokens`, in all of its `choices`, from any loop.

        Raises TooMany, Unauthenticated, Unavailable, and InvalidField for more tokens than a minute has, or for more
        choices than can be made at the same time.
        """
        request = ReserveRequest(
            id=id,
            user=principal.user,
            credential=principal.credential,
            prompt_tokens=prompt_tokens,
            most_tokens=most_tokens,
            completions=choices,
        )
        with caused_by(replace(current_cause(), principal=None)):  # for its user the answer does not exist yet
            calling = asyncio.ensure_future(asyncio.to_thread(self._access.Reserve, request, timeout=RESERVE_SECONDS))
        try:
            answer = await asyncio.wait_for(asyncio.shield(calling), RESERVE_SECONDS)
        except (TimeoutError, DeadlineExceeded, asyncio.CancelledError) as error:
            calling.add_done_callback(lambda done: self._undo(id, done))
            if isinstance(error, asyncio.CancelledError):
                raise
            raise Unavailable("the service that counts requests does not answer: try again later") from None
        except InvalidField as error:
            expected = str(error.metadata.get("expected", error.message))
            if error.field == "completions":
                raise InvalidField("n", seen=choices, expected=expected) from None
            raise InvalidField("max_tokens", seen=most_tokens, expected=expected) from None
        except Refused as error:
            raise Unauthenticated(error.message) from None
        headers = headers_of(answer)
        if answer.refused_by:
            wait = {"retry-after": f"{-(-answer.retry_ms // 1000)}", "retry-after-ms": f"{answer.retry_ms}"}
            words = LIMITS[answer.refused_by].format(
                requests=answer.requests, tokens=answer.tokens, concurrent=answer.concurrent
            )
            message = f"the limit of this token is reached: {words}. Try again in {duration(answer.retry_ms)}"
            raise TooMany(message, {**headers, **wait})
        return Lease(id, headers, answer.lease_seconds)

    async def run(self, lease: Lease, deployment: str, work: Work, cost: Costs, show: Show) -> None:
        """Run the work of an answer that was reserved just now. Its end is shown after it was settled.

        To end it, cancel the task that this runs in, which does nothing else.
        """
        loop = asyncio.get_running_loop()
        ending: asyncio.Future[Ending] = loop.create_future()

        def pass_on(said: Piece | Exception) -> None:
            if isinstance(said, Piece) and not said.finished:
                show(said)
            else:
                ending.add_done_callback(lambda done: done.result().tried.add_done_callback(lambda _: show(said)))

        task = asyncio.current_task()
        assert task is not None
        running = Running(lease, deployment, cost, task, loop.time() + lease.seconds)
        self._running[lease.id] = running
        if (stopped := self._stopped.get(deployment)) is not None:  # since it was reserved
            running.end(stopped)
        self._wake()
        try:
            await work(pass_on)
        except asyncio.CancelledError:
            if running.error is None or task.uncancel():  # its reader left, too
                raise
            pass_on(running.error)
        finally:
            del self._running[lease.id]
            ending.set_result(self._end(lease, cost(), running.lasts_until))

    def stop(self, deployment: str, error: Problem) -> None:
        """End the answers of a deployment with an error, also those that begin later, until it is allowed again."""
        self._stopped[deployment] = error
        for each in self._running.values():
            if each.deployment == deployment:
                each.end(error)

    def allow(self, deployment: str) -> None:
        """Let answers of a deployment begin that was stopped."""
        self._stopped.pop(deployment, None)

    def release(self, lease: Lease) -> None:
        """Settle an answer that did not begin."""
        self._end(lease, Cost(), asyncio.get_running_loop().time() + lease.seconds)

    def _undo(self, id: str, done: "asyncio.Future[ReserveResponse]") -> None:
        """Give back a reservation whose request does not wait any more."""
        if not done.cancelled() and done.exception() is None and not done.result().refused_by:
            lease = Lease(id, {}, done.result().lease_seconds)
            eventloop.event_loop().call_soon_threadsafe(self.release, lease)

    def _end(self, lease: Lease, cost: Cost, lasts_until: float) -> Ending:
        ending = Ending(lease, cost, lasts_until)
        self._endings.append(ending)
        self._wake()
        return ending

    def _wake(self) -> None:
        self._woken.set()
        if self._keeping is None:
            with caused_by(replace(current_cause(), principal=None)):  # it is for the answers of all users
                self._keeping = asyncio.ensure_future(self._keep())

    async def _keep(self) -> None:
        """Settle and renew, while there is anything to do."""
        loop = asyncio.get_running_loop()
        renewed_at = loop.time()
        try:
            while self._running or self._endings:
                self._woken.clear()
                settled = not self._endings or await self._settle()
                if loop.time() >= renewed_at + RENEW_SECONDS:
                    renewed_at = loop.time()
                    await self._renew()
                pause = max(renewed_at + RENEW_SECONDS - loop.time(), 0)
                if settled and self._endings:
                    continue  # more have ended meanwhile
                if settled and self._running:
                    await _waited(self._woken, pause)
                elif not settled:
                    await asyncio.sleep(pause)
        finally:
            self._keeping = None

    async def _settle(self) -> bool:
        """Settle what has ended; False if access does not answer; those worth another attempt are kept."""
        loop = asyncio.get_running_loop()
        endings, self._endings = self._endings, []
        request = SettleRequest(ended=[_spent(each.lease, each.cost) for each in endings])
        try:
            await asyncio.to_thread(self._access.Settle, request, timeout=CALL_SECONDS)
        except Problem as error:
            log.warning("%d answers could not be settled: %s", len(endings), error)
            self._endings = [each for each in endings if loop.time() < each.lasts_until] + self._endings
            return False
        finally:
            for each in endings:
                if not each.tried.done():
                    each.tried.set_result(None)
        return True

    async def _renew(self) -> None:
        """Renew all leases in one call, and end the answers whose lease has ended."""
        loop = asyncio.get_running_loop()
        renewed, now = dict(self._running), loop.time()
        if not renewed:
            return
        request = RenewRequest(running=[_spent(each.lease, each.cost()) for each in renewed.values()])
        ended: Mapping[str, str] = {}
        try:
            answer = await asyncio.to_thread(self._access.Renew, request, timeout=CALL_SECONDS)
        except Problem as error:
            log.warning("the leases of %d answers could not be renewed: %s", len(renewed), error)
            for each in renewed.values():
                if loop.time() >= each.lasts_until:
                    each.end(Unavailable(f"the limits could not be checked for {each.lease.seconds:g} s: {error}"))
        else:
            ended = answer.ended
            for ident, each in renewed.items():
                if ident in ended:
                    each.end(_refusal(ended[ident]))
                else:
                    each.lasts_until = now + answer.lease_seconds


def headers_of(answer: ReserveResponse) -> dict[str, str]:
    """The headers by which OpenAI's API says what is left of the limits."""
    found = {}
    for name, left in (("requests", answer.requests), ("tokens", answer.tokens)):
        found[f"x-ratelimit-limit-{name}"] = f"{left.limit}"
        found[f"x-ratelimit-remaining-{name}"] = f"{left.remaining}"
        found[f"x-ratelimit-reset-{name}"] = duration(left.reset_ms)
    return found


def duration(milliseconds: int) -> str:
    """A duration as OpenAI's API writes it: 17ms, 1.25s, 6m0s."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"


def _refusal(reason: str) -> Problem:
    if reason == "RESERVATION_ENDED":
        return Unavailable("the reservation of this answer was not renewed in time: ask again")
    return Unauthenticated("the token was revoked or has expired, or its user was disabled")


def _spent(lease: Lease, cost: Cost) -> Spent:
    return Spent(id=lease.id, prompt_tokens=cost.prompt, released_tokens=cost.released, computed_tokens=cost.computed)


async def _waited(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
