"""The calls about answers: routers reserve, renew and settle them; users read what theirs cost.

Promises: an answer is admitted for a token that is valid now, whatever was known of it before, and within its limits; a
token that was revoked ends its answers at their next renewal.
"""

import math
import re
from collections.abc import Sequence
from datetime import datetime

from tutti.access.allowances import Left, Rates
from tutti.access.reservations import Asked, DayUsage, Reservations, Spent
from tutti.access.sessions import Reason
from tutti.access.tables import VALID, Tables
from tutti.access.tokens import DIGEST, ID, TOKEN_REFUSED, check_digest
from tutti.backbone import Isolation
from tutti.chassis.errors import InvalidField, PermissionDenied, Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit, Units
from tutti.contracts.access.v1 import (
    USER_STATE_DISABLED,
    Allowance,
    ListUsageRequest,
    ListUsageResponse,
    RenewRequest,
    RenewResponse,
    ReserveRequest,
    ReserveResponse,
    SettleRequest,
    SettleResponse,
    Usage,
)
from tutti.contracts.access.v1 import Spent as WireSpent
from tutti.web.tokens import ID_DIGITS

MOST_ID = 200
MOST_RENEWED = 4096
"""Answers of one call of Renew or Settle."""
MOST_TOKENS = 10**9
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
MILLISECOND = 1000


class ReservationCalls:
    """`rates` are the limits of every token."""

    def __init__(self, units: Units, tables: Tables, reservations: Reservations, rates: Rates) -> None:
        self._units, self._tables = units, tables
        self._reservations, self._rates = reservations, rates

    def Reserve(self, request: ReserveRequest, call: Call) -> ReserveResponse:
        required(request, "id", "user", "most_tokens")
        if len(request.id) > MOST_ID:
            raise InvalidField("id", seen=f"{len(request.id)} characters", expected=f"at most {MOST_ID}")
        user = check_name("users", request.user)
        if request.credential:
            check_digest(request, "credential")
        answers = max(request.completions, 1)
        if answers > self._rates.concurrent:
            expected = f"at most {self._rates.concurrent} answers, which one token may have at the same time"
            raise InvalidField("completions", seen=answers, expected=expected)
        tokens = request.prompt_tokens + request.most_tokens
        if tokens > self._rates.tokens:
            expected = f"at most {self._rates.tokens} tokens with the prompt, which is the limit of a minute"
            raise InvalidField("most_tokens", seen=tokens, expected=expected)
        asked = Asked(
            request.id, request.credential or user, user, request.credential, request.prompt_tokens, tokens, answers
        )

        def reserve(unit: Unit) -> ReserveResponse:
            if reason := self._refusal(unit, user, request.credential):
                raise Refused(reason, "the token is unknown, expired or revoked, or its user is disabled")
            outcome = self._reservations.reserve(unit, asked, self._rates)
            return ReserveResponse(
                refused_by=outcome.verdict.refused_by,
                retry_ms=math.ceil(outcome.verdict.wait / MILLISECOND),
                lease_seconds=self._reservations.lease.total_seconds(),
                requests=_allowance(outcome.requests),
                tokens=_allowance(outcome.tokens),
                concurrent=_allowance(outcome.concurrent),
            )

        return self._units.run(reserve, isolation=Isolation.READ_COMMITTED)

    def Renew(self, request: RenewRequest, call: Call) -> RenewResponse:
        spent = _spent("running", request.running)

        def renew(unit: Unit) -> RenewResponse:
            ended, others = self._reservations.renew(unit, spent)
            reasons = {owner: self._refusal(unit, *owner) for owner in sorted(set(others.values()))}
            ended |= {ident: reasons[owner] for ident, owner in others.items() if reasons[owner]}
            return RenewResponse(ended=ended, lease_seconds=self._reservations.lease.total_seconds())

        return self._units.run(renew, isolation=Isolation.READ_COMMITTED)

    def Settle(self, request: SettleRequest, call: Call) -> SettleResponse:
        spent = _spent("ended", request.ended)
        settle = self._reservations.settle
        self._units.run(lambda unit: settle(unit, spent, self._rates), isolation=Isolation.READ_COMMITTED)
        return SettleResponse()

    def ListUsage(self, request: ListUsageRequest, call: Call) -> ListUsageResponse:
        operates, own = Role.OPERATOR in call.principal.roles, call.principal.user
        user = check_name("users", request.user) if request.user else "" if operates else own
        if user != own and not operates:
            raise PermissionDenied(f"the usage of {user} is for operator and for that user")
        if request.token and not ID.fullmatch(request.token):
            expected = f"{ID_DIGITS} hexadecimal digits, as `tutti token ls` lists"
            raise InvalidField("token", seen=request.token, expected=expected)
        _check_day(request.since)
        found = self._units.run(lambda unit: self._reservations.usage(unit, user=user, since=request.since))
        usage = [_usage(each) for each in found]
        return ListUsageResponse(usage=[each for each in usage if request.token in ("", each.token)])

    def _refusal(self, unit: Unit, user: str, credential: str) -> str:
        """The reason why answers for a user with a token are refused; empty if they are not."""
        if credential:
            token = self._tables.token(unit, credential)
            if token is None or token.user != user or token.state(unit.now) != VALID:
                return TOKEN_REFUSED
        found = self._tables.users.find(unit, user)
        if found is None:
            return TOKEN_REFUSED
        return Reason.DISABLED.value if found.state == USER_STATE_DISABLED else ""


def _spent(field: str, wire: Sequence[WireSpent]) -> list[Spent]:
    """Raises InvalidField."""
    if len(wire) > MOST_RENEWED:
        raise InvalidField(field, seen=f"{len(wire)} answers", expected=f"at most {MOST_RENEWED}")
    for each in wire:
        if (most := max(each.prompt_tokens, each.released_tokens, each.computed_tokens)) > MOST_TOKENS:
            raise InvalidField(field, seen=f"{most} tokens of {each.id}", expected=f"at most {MOST_TOKENS}")
    return [Spent(each.id, each.prompt_tokens, each.released_tokens, each.computed_tokens) for each in wire]


def _allowance(left: Left) -> Allowance:
    return Allowance(limit=left.limit, remaining=left.remaining, reset_ms=math.ceil(left.reset / MILLISECOND))


def _usage(each: DayUsage) -> Usage:
    token = each.subject[:ID_DIGITS] if DIGEST.fullmatch(each.subject) else ""
    return Usage(
        day=each.day,
        token=token,
        user=each.user,
        requests=each.requests,
        prompt_tokens=each.prompt,
        completion_tokens=each.released,
    )


def _check_day(text: str) -> None:
    try:
        if text and not DAY.fullmatch(text):
            raise ValueError
        if text:
            datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise InvalidField("since", seen=text, expected="a day such as 2026-11-29") from None
