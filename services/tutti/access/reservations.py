"""Reservations: answers that were admitted, as leases, and what they cost, by token and by day.

Promises: requests, tokens and concurrent answers are checked and charged together, under the lock of one row of their
token, and a refusal charges nothing; what is held follows from the rows of answers in progress, so it cannot leak; a
lease that is not renewed ends at its known cost; an id is charged once.

For units at READ COMMITTED or above. Rows are locked in one order: accounts by name, then reservations by id.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    MetaData,
    Select,
    Table,
    bindparam,
    delete,
    func,
    select,
    update,
)

from tutti.access.allowances import Account, Held, Left, Rates, Verdict, answers_left, judge, requests_left, tokens_left
from tutti.chassis.errors import AlreadyExists, Refused, declare
from tutti.chassis.store.statements import upsert
from tutti.chassis.store.tables import NAME, from_micros, micros
from tutti.chassis.store.tables import declare as table_of
from tutti.chassis.store.unit import Unit
from tutti.contracts.access.v1 import LIMIT_UNSPECIFIED
from tutti.records.canonical import content_digest

RESERVATION_ENDED = "RESERVATION_ENDED"
LEASE = timedelta(seconds=30)
KEPT, USAGE_KEPT = timedelta(days=1), timedelta(days=400)
"""Reservations that have ended are kept to know a retry, usage to be read."""
MOST_SWEPT = 500
declare({RESERVATION_ENDED: "the reservation of the answer was not renewed in time, or was settled"})


@dataclass(frozen=True)
class Asked:
    """Answers of one request before they begin, and the most `tokens` of their prompts and of all of them.

    `subject` is whose limits count: the digest of a token, or a user.
    """

    id: str
    subject: str
    user: str
    credential: str
    prompt: int
    tokens: int
    answers: int = 1


@dataclass(frozen=True)
class Spent:
    """Tokens of one answer: those of its prompt that were read, and released and computed ones of its completion."""

    id: str
    prompt: int = 0
    released: int = 0
    computed: int = 0


@dataclass(frozen=True)
class Outcome:
    """The verdict about an answer, and what is left of the limits after it."""

    verdict: Verdict
    requests: Left
    tokens: Left
    concurrent: Left


@dataclass(frozen=True)
class DayUsage:
    """The cost of the answers of a subject on a day, such as 2026-11-29."""

    day: str
    subject: str
    user: str
    requests: int
    prompt: int
    released: int


class Reservations:
    def __init__(self, metadata: MetaData, *, lease: timedelta = LEASE) -> None:
        self.lease = lease
        self._accounts = table_of(
            "allowances",
            metadata,
            Column("subject", NAME, primary_key=True),
            Column("at", BigInteger, nullable=False, index=True),
            Column("requests", BigInteger, nullable=False),
            Column("tokens", BigInteger, nullable=False),
        )
        self._rows = table_of(
            "reservations",
            metadata,
            Column("id", NAME, primary_key=True),
            Column("subject", NAME, nullable=False),
            Column("user", NAME, nullable=False),
            Column("credential", NAME, nullable=False),
            Column("digest", NAME, nullable=False),
            Column("held", BigInteger, nullable=False),
            Column("answers", BigInteger, nullable=False, server_default="1"),
            Column("prompt", BigInteger, nullable=False),
            Column("released", BigInteger, nullable=False),
            Column("computed", BigInteger, nullable=False),
            Column("expires_at", BigInteger, nullable=False),
            Column("ended_at", BigInteger, index=True),
            Column("settled", Boolean, nullable=False),
            Index("reservations_running", "subject", "ended_at"),
            Index("reservations_expiring", "ended_at", "expires_at"),
        )
        self._usage = table_of(
            "answer_usage",
            metadata,
            Column("subject", NAME, primary_key=True),
            Column("day", NAME, primary_key=True),
            Column("user", NAME, nullable=False, index=True),
            Column("requests", BigInteger, nullable=False),
            Column("prompt", BigInteger, nullable=False),
            Column("released", BigInteger, nullable=False),
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self._accounts, self._rows, self._usage)

    def reserve(self, unit: Unit, asked: Asked, rates: Rates) -> Outcome:
        """Admit an answer, or refuse it and charge nothing.

        Raises AlreadyExists for the id of another answer, Refused for one that has ended.
        """
        now, digest = micros(unit.now), _digest(asked)
        account = self._swept(unit, asked.subject, self._locked(unit, asked.subject), rates)
        known = unit.tx.execute(select(self._rows).where(self._rows.c.id == asked.id)).first()
        if known is not None and known.digest != digest:
            raise AlreadyExists(f"the reservation {asked.id}", ours=known.digest, theirs=digest)
        if known is not None and known.ended_at is not None:
            raise Refused(RESERVATION_ENDED, f"the reservation {asked.id} has ended: ask again with another id")
        held = self._held(unit, asked.subject)
        account = account.drained(now, rates)
        verdict = Verdict(LIMIT_UNSPECIFIED)
        if known is None:
            verdict = judge(account, held, rates, asked.tokens, asked.answers)
        if known is None and not verdict.refused_by:
            account = account.charged(requests=1)
            held = Held(held.answers + asked.answers, held.tokens + asked.tokens)
            self._begin(unit, asked, digest)
            self._put(unit, asked.subject, account)
        return Outcome(
            verdict, requests_left(account, rates), tokens_left(account, held, rates), answers_left(held, rates)
        )

    def renew(self, unit: Unit, spent: Iterable[Spent]) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
        """Extend leases, and record what their answers cost so far.

        Returns those that have ended with the reason, and user and credential of the others.
        """
        given = {each.id: each for each in spent}
        found = {row.id: row for row in self._locked_rows(unit, given)}
        running = {ident: row for ident, row in found.items() if row.ended_at is None}
        until = micros(unit.now + self.lease)
        self._write(
            unit,
            [{**_known(row, given[ident]), "key": ident, "expires_at": until} for ident, row in running.items()],
        )
        ended = {ident: RESERVATION_ENDED for ident in given if ident not in running}
        return ended, {ident: (row.user, row.credential) for ident, row in running.items()}

    def settle(self, unit: Unit, spent: Iterable[Spent], rates: Rates) -> None:
        """End reservations at the cost of their answers. One whose lease has ended is charged the difference."""
        given = {each.id: each for each in spent}
        table = self._rows
        found = unit.tx.execute(select(table.c.id, table.c.subject).where(table.c.id.in_(list(given)))).all()
        for subject in sorted({row.subject for row in found}):
            account = self._locked(unit, subject)
            rows = self._locked_rows(unit, [row.id for row in found if row.subject == subject])
            ends = [(row, given[row.id]) for row in rows if not row.settled]
            self._end(unit, subject, account, ends, rates, settled=True)

    def expire(self, unit: Unit, rates: Rates) -> int:
        """End leases that were not renewed, of at most MOST_SWEPT answers; the number of subjects."""
        table = self._rows
        over = self._expired(unit).with_only_columns(table.c.subject).limit(MOST_SWEPT)
        subjects = sorted(set(unit.tx.execute(over).scalars()))
        for subject in subjects:
            self._swept(unit, subject, self._locked(unit, subject), rates)
        return len(subjects)

    def usage(self, unit: Unit, *, user: str = "", since: str = "") -> list[DayUsage]:
        """Return the usage by day and by subject, newest first. Answers in progress count as requests alone."""
        table = self._usage
        query = select(table).where(table.c.day >= since).order_by(table.c.day.desc(), table.c.subject)
        rows = unit.tx.execute(query.where(table.c.user == user) if user else query)
        return [DayUsage(row.day, row.subject, row.user, row.requests, row.prompt, row.released) for row in rows]

    def prune(self, unit: Unit) -> None:
        """Delete what ended long ago, and accounts that limit nothing any more."""
        rows, accounts = self._rows, self._accounts
        unit.tx.execute(delete(rows).where(rows.c.ended_at < micros(unit.now - KEPT))).close()
        unit.tx.execute(delete(self._usage).where(self._usage.c.day < _day(micros(unit.now - USAGE_KEPT)))).close()
        unit.tx.execute(delete(accounts).where(accounts.c.at < micros(unit.now - KEPT))).close()

    def _locked(self, unit: Unit, subject: str) -> Account:
        """The account of a subject, locked until the unit ends; a new one is made."""
        table = self._accounts
        new = upsert(table, unit.tx.skip_locked).values(subject=subject, at=micros(unit.now), requests=0, tokens=0)
        same = new.on_conflict_do_update(index_elements=[table.c.subject], set_={"subject": subject})
        row = unit.tx.execute(same.returning(table.c.at, table.c.requests, table.c.tokens)).one()
        return Account(row.at, row.requests, row.tokens)

    def _put(self, unit: Unit, subject: str, account: Account) -> None:
        changed = update(self._accounts).where(self._accounts.c.subject == subject)
        values = {"at": account.at, "requests": account.requests, "tokens": account.tokens}
        unit.tx.execute(changed.values(**values)).close()

    def _held(self, unit: Unit, subject: str) -> Held:
        table = self._rows
        running = select(*(func.coalesce(func.sum(each), 0) for each in (table.c.answers, table.c.held)))
        count, tokens = unit.tx.execute(running.where(table.c.subject == subject, table.c.ended_at.is_(None))).one()
        return Held(int(count), int(tokens))

    def _begin(self, unit: Unit, asked: Asked, digest: str) -> None:
        row = {
            "id": asked.id,
            "subject": asked.subject,
            "user": asked.user,
            "credential": asked.credential,
            "digest": digest,
            "held": asked.tokens,
            "answers": asked.answers,
            "prompt": 0,
            "released": 0,
            "computed": 0,
            "expires_at": micros(unit.now + self.lease),
            "ended_at": None,
            "settled": False,
        }
        unit.insert_new(self._rows, [row])
        self._count(unit, asked.subject, asked.user, requests=1)

    def _swept(self, unit: Unit, subject: str, account: Account, rates: Rates) -> Account:
        """End the leases of a subject that were not renewed."""
        over = self._expired(unit).where(self._rows.c.subject == subject)
        rows = unit.tx.execute(over.order_by(self._rows.c.id).with_for_update()).all()
        ends = [(row, Spent(row.id, row.prompt, row.released, row.computed)) for row in rows]
        return self._end(unit, subject, account, ends, rates, settled=False)

    def _expired(self, unit: Unit) -> Select[Any]:
        table = self._rows
        return select(table).where(table.c.ended_at.is_(None), table.c.expires_at <= micros(unit.now))

    def _end(
        self,
        unit: Unit,
        subject: str,
        account: Account,
        ends: Sequence[tuple[Any, Spent]],
        rates: Rates,
        *,
        settled: bool,
    ) -> Account:
        """End reservations of a subject: charge to its account what they cost, and count it as used today."""
        if not ends:
            return account
        now, tokens, rows = micros(unit.now), 0, list[dict[str, Any]]()
        for row, spent in ends:
            known = _known(row, spent)
            before = row if row.ended_at is not None else _NOTHING  # an ended one was charged what was known
            prompt, released = known["prompt"] - before.prompt, known["released"] - before.released
            tokens += prompt + known["computed"] - before.computed
            self._count(unit, subject, row.user, prompt=prompt, released=released)
            rows.append({**known, "key": row.id, "ended_at": row.ended_at or now, "settled": settled})
        self._write(unit, rows)
        account = account.drained(now, rates).charged(tokens=tokens)
        self._put(unit, subject, account)
        return account

    def _locked_rows(self, unit: Unit, ids: Collection[str]) -> Sequence[Any]:
        table = self._rows
        return unit.tx.execute(
            select(table).where(table.c.id.in_(list(ids))).order_by(table.c.id).with_for_update()
        ).all()

    def _write(self, unit: Unit, rows: Sequence[Mapping[str, Any]]) -> None:
        """Change rows that have these keys; all of `rows` have the same columns."""
        if not rows:
            return
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in rows[0] if name != "key"}
        changed = update(self._rows).where(self._rows.c.id == bindparam("key")).values(**values)
        unit.tx.execute(
            changed, [{name if name == "key" else f"new_{name}": each[name] for name in each} for each in rows]
        ).close()

    def _count(
        self, unit: Unit, subject: str, user: str, *, requests: int = 0, prompt: int = 0, released: int = 0
    ) -> None:
        """Add to the usage of today. Under the lock of the account of the subject."""
        table, day = self._usage, _day(micros(unit.now))
        added = {"requests": requests, "prompt": prompt, "released": released}
        new = upsert(table, unit.tx.skip_locked).values(subject=subject, day=day, user=user, **added)
        sums = {name: table.c[name] + value for name, value in added.items()}
        unit.tx.execute(new.on_conflict_do_update(index_elements=[table.c.subject, table.c.day], set_=sums)).close()


_NOTHING = Spent("")


def _known(row: Any, spent: Spent) -> dict[str, Any]:
    """The cost of an answer as far as it is known: reports that arrive late or twice take nothing back."""
    return {name: max(getattr(row, name), getattr(spent, name)) for name in ("prompt", "released", "computed")}


def _digest(asked: Asked) -> str:
    value = {"subject": asked.subject, "tokens": asked.tokens, "prompt": asked.prompt, "answers": asked.answers}
    return content_digest(value, kind="reservation")


def _day(time: int) -> str:
    return from_micros(time).date().isoformat()
