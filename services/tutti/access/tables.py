"""Tables of access: users, their personal data, links, sessions, rate limits.

Promises: no secret is stored, only SHA-256 digests of random tokens; personal data is in the table `people` alone.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, delete, func, insert, or_, select, update

from tutti.access.sessions import Reason, Session
from tutti.chassis.store.limits import Limits
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import NAME, declare, from_micros, micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.access.v1 import TokenKind, User
from tutti.web.tokens import ID_DIGITS

VALID, USED, REVOKED, EXPIRED = "valid", "used", "revoked", "expired"
TIMES = ("opened_at", "seen_at", "rotated_at", "confirmed_at", "until")


@dataclass(frozen=True)
class Link:
    """`used_by` is the digest of the first token of the session that it opened; empty while unused.

    `issuer` is the digest of the token with which it was issued, if it was one.
    """

    digest: str
    user: str
    expires_at: datetime
    used_by: str
    issuer: str = ""


@dataclass(frozen=True)
class Token:
    """The API token of a user or an agent, identified by the digest of the secret.

    `user` is the owner: a user, or the node of an agent. `used_by` is the digest of the
    credential for which an invitation was exchanged, `issuer` that of the token with which this one was issued.
    """

    digest: str
    user: str
    expires_at: datetime
    kind: TokenKind.ValueType
    created_by: str
    created_at: datetime
    revoked_at: datetime | None = None
    used_by: str = ""
    issuer: str = ""

    @property
    def id(self) -> str:
        return self.digest[:ID_DIGITS]

    def state(self, now: datetime) -> str:
        """Return valid, used, revoked or expired."""
        if self.revoked_at is not None:
            return REVOKED
        if self.used_by:
            return USED
        return EXPIRED if now >= self.expires_at else VALID


@dataclass(frozen=True)
class Personal:
    """The personal data of a user: the name, empty if there is none, and counts of what belongs to the person."""

    display_name: str = ""
    sessions: int = 0
    links: int = 0
    tokens: int = 0


class Tables:
    def __init__(self, metadata: MetaData) -> None:
        self.users: Resource[User] = Resource(
            metadata, "users", User, {"state": lambda user: int(user.state), "tenant": lambda user: user.tenant}
        )
        self.limits = Limits(metadata)
        self._people = declare(
            "people", metadata, Column("user", NAME, primary_key=True), Column("display_name", Text, nullable=False)
        )
        self._links = declare(
            "links",
            metadata,
            Column("digest", NAME, primary_key=True),
            Column("user", NAME, nullable=False, index=True),
            Column("expires_at", BigInteger, nullable=False, index=True),
            Column("used_by", NAME, nullable=False),
            Column("issuer", NAME, nullable=False, server_default="", index=True),
        )
        self._tokens = declare(
            "tokens",
            metadata,
            Column("digest", NAME, primary_key=True),
            Column("user", NAME, nullable=False, index=True),
            Column("expires_at", BigInteger, nullable=False, index=True),
            Column("kind", BigInteger, nullable=False, server_default="1"),
            Column("created_by", NAME, nullable=False, server_default=""),
            Column("created_at", BigInteger, nullable=False, server_default="0"),
            Column("revoked_at", BigInteger),
            Column("used_by", NAME, nullable=False, server_default=""),
            Column("issuer", NAME, nullable=False, server_default="", index=True),
        )
        self._sessions = declare(
            "sessions",
            metadata,
            Column("id", NAME, primary_key=True),
            Column("user", NAME, nullable=False, index=True),
            Column("agent", NAME, nullable=False),
            Column("current", NAME, nullable=False, unique=True),
            Column("previous", NAME, nullable=False, index=True),
            Column("opened_at", BigInteger, nullable=False),
            Column("seen_at", BigInteger, nullable=False, index=True),
            Column("rotated_at", BigInteger, nullable=False),
            Column("confirmed_at", BigInteger),
            Column("ended", NAME, nullable=False),
            Column("issuer", NAME, nullable=False, server_default="", index=True),
            Column("until", BigInteger),
        )

    @property
    def rows(self) -> tuple[Table, ...]:
        return (self._people, self._links, self._tokens, self._sessions, self.limits.table)

    def name_person(self, unit: Unit, user: str, display_name: str) -> None:
        if unit.tx.execute(select(self._people).where(self._people.c.user == user)).first() is None:
            unit.tx.execute(insert(self._people).values(user=user, display_name=display_name))

    def display_names(self, unit: Unit, users: Iterable[str]) -> dict[str, str]:
        rows = unit.tx.execute(select(self._people).where(self._people.c.user.in_(list(users)))).all()
        return {row.user: row.display_name for row in rows}

    def link(self, unit: Unit, digest: str) -> Link | None:
        """The link, locked until the unit ends."""
        row = unit.tx.execute(select(self._links).where(self._links.c.digest == digest).with_for_update()).first()
        return _link(row) if row else None

    def keep_link(self, unit: Unit, link: Link) -> None:
        row = asdict(link) | {"expires_at": micros(link.expires_at)}
        unit.tx.execute(insert(self._links), row)

    def spend_link(self, unit: Unit, digest: str, by: str) -> None:
        unit.tx.execute(update(self._links).where(self._links.c.digest == digest).values(used_by=by))

    def token(self, unit: Unit, digest: str, *, lock: bool = False) -> Token | None:
        query = select(self._tokens).where(self._tokens.c.digest == digest)
        row = unit.tx.execute(query.with_for_update() if lock else query).first()
        return _token(row) if row else None

    def tokens(self, unit: Unit, user: str = "") -> list[Token]:
        """The tokens of a user, or of all, newest first."""
        table = self._tokens
        query = select(table).order_by(table.c.created_at.desc(), table.c.digest)
        return [_token(row) for row in unit.tx.execute(query.where(table.c.user == user) if user else query).all()]

    def token_by_id(self, unit: Unit, token: str) -> Token | None:
        """The token whose digest begins with this id, locked until the unit ends."""
        found = self._tokens.c.digest.startswith(token, autoescape=True)
        row = unit.tx.execute(select(self._tokens).where(found).with_for_update()).first()
        return _token(row) if row else None

    def keep_token(self, unit: Unit, token: Token) -> None:
        row = asdict(token) | {"expires_at": micros(token.expires_at), "created_at": micros(token.created_at)}
        unit.tx.execute(insert(self._tokens), row)

    def use_invitation(self, unit: Unit, digest: str, by: str) -> None:
        unit.tx.execute(update(self._tokens).where(self._tokens.c.digest == digest).values(used_by=by))

    def revoke(self, unit: Unit, digest: str) -> None:
        unit.tx.execute(update(self._tokens).where(self._tokens.c.digest == digest).values(revoked_at=micros(unit.now)))

    def issued(self, unit: Unit, digest: str) -> tuple[list[Token], list[Link]]:
        """The tokens and login links that were issued with a token."""
        tokens, links = self._tokens, self._links
        own = unit.tx.execute(select(tokens).where(tokens.c.issuer == digest).order_by(tokens.c.digest)).all()
        unused = select(links).where(links.c.issuer == digest, links.c.used_by == "").order_by(links.c.digest)
        return [_token(row) for row in own], [_link(row) for row in unit.tx.execute(unused).all()]

    def revoke_own(self, unit: Unit, token: Token) -> None:
        """Revoke a token, with the tokens, links and sessions that its user got by it, at whatever remove."""
        self.revoke(unit, token.digest)
        mine = (self._links.c.issuer == token.digest) & (self._links.c.user == token.user)
        unit.tx.execute(delete(self._links).where(mine))
        open_ = (self._sessions.c.issuer == token.digest) & (self._sessions.c.ended == "")
        unit.tx.execute(
            update(self._sessions).where(open_, self._sessions.c.user == token.user).values(ended=Reason.REVOKED.value)
        )
        for each in self.issued(unit, token.digest)[0]:
            if each.user == token.user and each.revoked_at is None:
                self.revoke_own(unit, each)

    def session(self, unit: Unit, digest: str) -> Session | None:
        """The session whose current or previous token has this digest, locked until the unit ends."""
        table = self._sessions
        matches = or_(table.c.current == digest, table.c.previous == digest)
        row = unit.tx.execute(select(table).where(matches).with_for_update()).first()
        return _session(row) if row else None

    def keep_session(self, unit: Unit, session: Session) -> None:
        unit.tx.execute(insert(self._sessions), _row(session))

    def put_session(self, unit: Unit, session: Session) -> None:
        unit.tx.execute(update(self._sessions).where(self._sessions.c.id == session.id).values(_row(session)))

    def expel(self, unit: Unit, user: str) -> None:
        """End all sessions and delete all links and tokens of a user."""
        table = self._sessions
        open_ = (table.c.user == user) & (table.c.ended == "")
        unit.tx.execute(update(table).where(open_).values(ended=Reason.DISABLED.value))
        unit.tx.execute(delete(self._links).where(self._links.c.user == user))
        unit.tx.execute(delete(self._tokens).where(self._tokens.c.user == user))

    def personal(self, unit: Unit, user: str) -> Personal:
        """Return what `erase` deletes."""

        def count(table: Table) -> int:
            found = select(func.count()).select_from(table).where(table.c.user == user)
            return int(unit.tx.execute(found).scalar_one())

        name = self.display_names(unit, [user]).get(user, "")
        return Personal(name, count(self._sessions), count(self._links), count(self._tokens))

    def erase(self, unit: Unit, user: str) -> None:
        """Delete the name of a user, and all sessions, links and tokens."""
        for table in (self._people, self._sessions, self._links, self._tokens):
            unit.tx.execute(delete(table).where(table.c.user == user))

    def prune(self, unit: Unit, links_before: datetime, sessions_before: datetime) -> None:
        """Delete links that expired and sessions that were last used before these times."""
        unit.tx.execute(delete(self._links).where(self._links.c.expires_at < micros(links_before)))
        unit.tx.execute(delete(self._tokens).where(self._tokens.c.expires_at < micros(links_before)))
        unit.tx.execute(delete(self._sessions).where(self._sessions.c.seen_at < micros(sessions_before)))
        self.limits.prune(unit)


def _link(row: Any) -> Link:
    return Link(row.digest, row.user, from_micros(row.expires_at), row.used_by, row.issuer)


def _token(row: Any) -> Token:
    values = dict(row._mapping)
    times = {
        name: from_micros(values[name])
        for name in ("expires_at", "created_at", "revoked_at")
        if values[name] is not None
    }
    kind: TokenKind.ValueType = values["kind"]
    return Token(**values | times | {"kind": kind})


def _row(session: Session) -> dict[str, Any]:
    values = asdict(session)
    return values | {name: None if values[name] is None else micros(values[name]) for name in TIMES}


def _session(row: Any) -> Session:
    values = dict(row._mapping)
    return Session(**values | {name: None if values[name] is None else from_micros(values[name]) for name in TIMES})
