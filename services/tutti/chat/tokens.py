"""Requests and tokens as messages between a router and its replicas.

Promises: log-probabilities keep every bit; a request that an engine could not compute is refused by its field, so that
it cannot fail the requests beside it. Does not import torch.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tutti.chassis.errors import InvalidField
from tutti.contracts.chat.v1 import (
    STOP_REASON_FAILED,
    AdmitRequest,
    Alternative,
    Bias,
    End,
    FollowResponse,
    StopReason,
    Token,
)
from tutti.contracts.chat.v1 import Limits as WireLimits
from tutti.contracts.chat.v1 import Sampling as WireSampling
from tutti.contracts.chat.v1 import Shaping as WireShaping
from tutti.inference.engine import Chosen, Ended, Join, Shaping
from tutti.inference.errors import InvalidSampling
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling

NO_END = -1
"""The end of a text that nothing ends."""
MOST_SHAPE = 1000.0
"""Biases and penalties are at most so large: greater ones leave numbers that are not finite."""
MOST_NAME = 200
_PREFIX = "STOP_REASON_"


@dataclass(frozen=True)
class Failed:
    """A request that no replica can continue, because the model computed something that is not a number."""

    id: str
    detail: str


Event: TypeAlias = Chosen | Ended | Failed


def admission(session: str, request: Join) -> AdmitRequest:
    """The message that admits a request, whose id is a string."""
    sampling, limits, shaping = request.sampling, request.limits, request.shaping
    return AdmitRequest(
        session=session,
        request=str(request.id),
        number=request.number,
        prompt=request.prompt,
        given=request.given,
        sampling=WireSampling(
            temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k, seed=sampling.seed
        ),
        limits=WireLimits(
            tokens=limits.tokens,
            end=None if limits.end == NO_END else limits.end,
            vocabulary=limits.vocabulary,
            never=limits.never,
            ends=limits.ends,
        ),
        shaping=WireShaping(
            bias=[Bias(token=token, value=value) for token, value in shaping.bias],
            presence=shaping.presence,
            frequency=shaping.frequency,
        ),
        alternatives=request.alternatives,
        salt=request.salt,
        forced=request.forced,
    )


def join_of(message: AdmitRequest, vocabulary: int) -> Join:
    """The request in a message, for a model with `vocabulary` ids. Raises InvalidField."""
    limits, shaping, sampling = message.limits, message.shaping, message.sampling
    for field, name in (("request", message.request), ("salt", message.salt)):
        if len(name) > MOST_NAME or (field == "request" and not name):
            raise InvalidField(field, seen=name, expected=f"a name of 1 to {MOST_NAME} characters")
    _require_ids("prompt", message.prompt, vocabulary)
    _require_ids("given", message.given, vocabulary)
    _require_ids("forced", message.forced, vocabulary)
    if not 0 < limits.vocabulary <= vocabulary:
        raise InvalidField(
            "limits.vocabulary", seen=limits.vocabulary, expected=f"1 to {vocabulary}, those of the model"
        )
    _require_ids("limits.never", limits.never, limits.vocabulary)
    _require_ids("limits.ends", limits.ends, vocabulary)
    if len(set(limits.never)) == limits.vocabulary:
        raise InvalidField(
            "limits.never", seen=f"all {limits.vocabulary} ids", expected="at least one that is left out"
        )
    if message.alternatives > limits.vocabulary:
        raise InvalidField("alternatives", seen=message.alternatives, expected=f"at most {limits.vocabulary}")
    for field, value in (
        ("shaping.presence", shaping.presence),
        ("shaping.frequency", shaping.frequency),
        *(("shaping.bias", each.value) for each in shaping.bias),
    ):
        if not math.fabs(value) <= MOST_SHAPE:
            raise InvalidField(field, seen=value, expected=f"a number from {-MOST_SHAPE:g} to {MOST_SHAPE:g}")
    try:
        return Join(
            message.request,
            number=message.number,
            prompt=tuple(message.prompt),
            sampling=Sampling(sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed),
            limits=Limits(
                limits.tokens,
                limits.end if limits.HasField("end") else NO_END,
                limits.vocabulary,
                tuple(limits.never),
                tuple(limits.ends),
            ),
            shaping=Shaping(
                tuple((each.token, each.value) for each in shaping.bias), shaping.presence, shaping.frequency
            ),
            given=tuple(message.given),
            salt=message.salt,
            alternatives=message.alternatives,
            forced=tuple(message.forced),
        )
    except InvalidSampling as error:
        raise InvalidField(error.field, seen=error.seen, expected=error.expected) from None


def message_of(events: Iterable[Event]) -> FollowResponse:
    """The message with these events, whose ids are strings."""
    message = FollowResponse()
    for event in events:
        if isinstance(event, Chosen):
            message.tokens.append(
                Token(
                    request=str(event.id),
                    at=event.at,
                    id=event.token,
                    logprob=event.logprob,
                    alternatives=[Alternative(token=token, logprob=value) for token, value in event.alternatives],
                )
            )
        elif isinstance(event, Failed):
            message.ends.append(End(request=event.id, stop=STOP_REASON_FAILED, detail=event.detail))
        else:
            message.ends.append(End(request=str(event.id), stop=StopReason.Value(_PREFIX + event.stop.name)))
    return message


def events_of(message: FollowResponse) -> Iterator[Event]:
    """The events of a message: ends come after tokens. Raises ValueError for a stop that is not known."""
    for token in message.tokens:
        alternatives = tuple((each.token, each.logprob) for each in token.alternatives)
        yield Chosen(token.request, token.at, token.id, token.logprob, alternatives)
    for end in message.ends:
        if end.stop == STOP_REASON_FAILED:
            yield Failed(end.request, end.detail)
        else:
            yield Ended(end.request, Stop(StopReason.Name(end.stop).removeprefix(_PREFIX).lower()))


def _require_ids(field: str, ids: Iterable[int], vocabulary: int) -> None:
    for each in ids:
        if each >= vocabulary:
            raise InvalidField(field, seen=each, expected=f"ids below {vocabulary}")
