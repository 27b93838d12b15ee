"""Allowances: how much the answers of one token may use, and what is left. Pure.

A leaky bucket as a meter (ITU-T I.371) of one minute for requests, and one for tokens: the used amount drains at the
rate of the limit, and a request is admitted if it fits on top. Tokens of answers in progress are *held*: they do not
drain before their number is known. Levels are units times MINUTE, so nothing is ever rounded.

Promises: in any `seconds`, no more than `limit x (1 + seconds / 60)` are admitted; held tokens and those that were
computed are never more than the limit together.
"""

from dataclasses import dataclass, replace

from tutti.contracts.access.v1 import LIMIT_CONCURRENT, LIMIT_REQUESTS, LIMIT_TOKENS, LIMIT_UNSPECIFIED, Limit

MINUTE = 60_000_000
"""Microseconds."""
SOON = 1_000_000
"""Microseconds until another try is worth it, where another answer has to end first."""


@dataclass(frozen=True)
class Rates:
    """`requests` and `tokens` a minute, and `concurrent` answers, of one token."""

    requests: int
    tokens: int
    concurrent: int


@dataclass(frozen=True)
class Account:
    """The levels at the time `at` (microseconds)."""

    at: int
    requests: int = 0
    tokens: int = 0

    def drained(self, now: int, rates: Rates) -> "Account":
        """The account at a later time; a clock that went back changes nothing."""
        passed = max(now - self.at, 0)
        return Account(
            self.at + passed,
            max(self.requests - passed * rates.requests, 0),
            max(self.tokens - passed * rates.tokens, 0),
        )

    def charged(self, *, requests: int = 0, tokens: int = 0) -> "Account":
        return replace(self, requests=self.requests + requests * MINUTE, tokens=self.tokens + tokens * MINUTE)


@dataclass(frozen=True)
class Held:
    """The answers in progress, and the tokens that they were admitted for."""

    answers: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Left:
    """`reset` is in microseconds until all of the limit is left, if nothing more is used."""

    limit: int
    remaining: int
    reset: int


@dataclass(frozen=True)
class Verdict:
    """`wait` is in microseconds until the same request fits, if no other comes and no answer ends."""

    refused_by: Limit.ValueType
    wait: int = 0


def judge(account: Account, held: Held, rates: Rates, tokens: int, answers: int = 1) -> Verdict:
    """Return whether a request for `answers` of `tokens` together fits, for an account that is drained until now."""
    waits = {
        LIMIT_REQUESTS: _wait(account.requests, 1, rates.requests),
        LIMIT_TOKENS: _wait(account.tokens, held.tokens + tokens, rates.tokens),
        LIMIT_CONCURRENT: SOON if held.answers + answers > rates.concurrent else 0,
    }
    limit = max(waits, key=lambda each: waits[each])
    return Verdict(limit, waits[limit]) if waits[limit] else Verdict(LIMIT_UNSPECIFIED)


def requests_left(account: Account, rates: Rates) -> Left:
    return _left(account.requests, 0, rates.requests)


def tokens_left(account: Account, held: Held, rates: Rates) -> Left:
    return _left(account.tokens, held.tokens, rates.tokens)


def answers_left(held: Held, rates: Rates) -> Left:
    return Left(rates.concurrent, max(rates.concurrent - held.answers, 0), 0)


def _wait(level: int, units: int, limit: int) -> int:
    """Microseconds until `units` fit on top of a level."""
    excess = level + (units - limit) * MINUTE
    if excess <= 0:
        return 0
    return max(-(-excess // limit), SOON if units > limit else 0)


def _left(level: int, held: int, limit: int) -> Left:
    return Left(limit, max((limit - held) * MINUTE - level, 0) // MINUTE, -(-(level + held * MINUTE) // limit))
