"""Sessions as values: when one is valid, when its token is replaced, when it was stolen.

A token is replaced while it is used ("rotated"). The old one remains valid until the browser has shown the new one,
since an answer can be lost, and for a grace period after that, since requests overlap. Whoever presents it later has a
copy of a cookie that its browser no longer has: the session ends for both (compare RFC 9700, section 4.14.2).

Pure: times are arguments.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

GRACE = timedelta(seconds=60)
SEEN_EVERY = timedelta(seconds=60)  # a use is written down at most this often


class Reason(Enum):
    """The reason why a request without a valid session is refused; recorded in the audit trail."""

    UNKNOWN = "SESSION_UNKNOWN"
    EXPIRED = "SESSION_EXPIRED"
    CLOSED = "SESSION_CLOSED"
    STOLEN = "SESSION_STOLEN"
    DISABLED = "USER_DISABLED"
    REVOKED = "TOKEN_REVOKED"


@dataclass(frozen=True)
class Terms:
    idle: timedelta
    longest: timedelta
    rotation: timedelta


@dataclass(frozen=True)
class Session:
    """`current` and `previous` are digests of tokens; `confirmed_at` is when the current one was first presented.

    `issuer` is the API token by which its user got the login link, and `until` when that token expires.
    """

    id: str
    user: str
    agent: str
    current: str
    previous: str
    opened_at: datetime
    seen_at: datetime
    rotated_at: datetime
    confirmed_at: datetime | None
    ended: str = ""
    issuer: str = ""
    until: datetime | None = None

    def expires_at(self, terms: Terms) -> datetime:
        longest = min(self.seen_at + terms.idle, self.opened_at + terms.longest)
        return longest if self.until is None else min(longest, self.until)


@dataclass(frozen=True)
class Verdict:
    """`session` as it has to be stored; `refused`: why the request is refused; `replaced`: the new token is valid."""

    session: Session
    refused: Reason | None = None
    replaced: bool = False


def opened(
    id: str, user: str, agent: str, digest: str, now: datetime, *, issuer: str = "", until: datetime | None = None
) -> Session:
    return Session(id, user, agent, digest, "", now, now, now, now, issuer=issuer, until=until)


def presented(session: Session, digest: str, next_digest: str, agent: str, now: datetime, terms: Terms) -> Verdict:
    """The session after a browser with this `agent` presented the token behind `digest`."""
    if session.ended:
        return Verdict(session, Reason(session.ended))
    if now >= session.expires_at(terms):
        return Verdict(replace(session, ended=Reason.EXPIRED.value), Reason.EXPIRED)
    if agent != session.agent or (digest != session.current and _retired(session, now)):
        return Verdict(replace(session, ended=Reason.STOLEN.value), Reason.STOLEN)
    after = session
    if now - session.seen_at >= SEEN_EVERY:
        after = replace(after, seen_at=now)
    if digest == session.current:
        if session.confirmed_at is None:
            after = replace(after, confirmed_at=now)
        if next_digest and now - session.rotated_at >= terms.rotation:
            after = replace(after, current=next_digest, previous=digest, rotated_at=now, confirmed_at=None, seen_at=now)
            return Verdict(after, replaced=True)
    elif next_digest and session.confirmed_at is None and now - session.rotated_at >= GRACE:
        # The answer with the new token never arrived: no browser has it.
        return Verdict(replace(after, current=next_digest, rotated_at=now, seen_at=now), replaced=True)
    return Verdict(after)


def closed(session: Session, reason: Reason = Reason.CLOSED) -> Session:
    return session if session.ended else replace(session, ended=reason.value)


def _retired(session: Session, now: datetime) -> bool:
    """True if the previous token may no longer be used."""
    return session.confirmed_at is not None and now - session.confirmed_at >= GRACE
